"""From an address to a stream: which server, which client library, which names, checked before anything is opened.

    nats://host:4222    tls://host    nats://a,nats://b    several servers of one cluster, tried in turn
    redis://host:6379/0    rediss://host    unix:///run/redis.sock

Client libraries are optional: `mainspring[nats]`, `mainspring[redis]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from actors.protocol.errors import ConfigurationError
from runtime.bridges.outlet import Outlet
from runtime.bridges.wire import BridgeSource
from runtime.checks import is_whole

STREAM: Final = "mainspring"
"""The stream, when no other is named."""
KEEP_MAX: Final = 1 << 62
_SERVICES: Final = {
    "nats": "nats", "tls": "nats", "ws": "nats", "wss": "nats",
    "redis": "redis", "rediss": "redis", "unix": "redis",
}  # fmt: skip
_TOKEN: Final = r"[^\s.*>/\\\x00-\x1f]{1,200}"
_NATS_STREAM: Final = re.compile(rf"{_TOKEN}\Z")
_NATS_SUBJECT: Final = re.compile(rf"{_TOKEN}(\.{_TOKEN})*\Z")
_REDIS_KEY_CHARS_MAX: Final = 1000
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_USER: Final = re.compile(r"//[^@/]*@")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a bridge leads. Made by `target_of`."""

    service: str
    servers: tuple[str, ...]
    stream: str
    subject: str
    keep: int | None
    credentials: str | None

    @property
    def name(self) -> str:
        """What the bridge is called, if nobody says otherwise."""
        return f"{self.service}-{_UNNAMEABLE.sub('-', self.stream)}"[:100]

    def shown(self, turn: int = 0) -> str:
        """The server whose turn it is, without passwords."""
        return _USER.sub("//", self.servers[turn % len(self.servers)])

    def check_library(self) -> None:
        """Raise ConfigurationError if the client library is missing: before anything is kept for the bridge."""
        try:
            if find_spec(_LIBRARIES[self.service]) is not None:
                return
        except ValueError:  # it is set to None in `sys.modules`
            pass
        raise _no_library(self.service, ModuleNotFoundError(name=_LIBRARIES[self.service]))

    def outlet(self, source: BridgeSource, turn: int) -> Outlet:
        """A connection to be opened, to the server whose turn it is. Raises ConfigurationError: no client library."""
        server = self.servers[turn % len(self.servers)]
        return _MAKERS[self.service](self, source, server)


def target_of(
    to: str, stream: str = STREAM, subject: str | None = None, keep: int | None = None, credentials: str | None = None
) -> Target:
    """Check where a bridge shall lead.

    Args:
        to: The server's address; of NATS several, with commas between them.
        stream: The stream.
        subject: NATS: what subjects begin with; the stream's name, if None.
        keep: How many events the stream keeps, as far as that is the bridge's to say; None: all.
        credentials: NATS: a file with the user's credentials.

    Raises:
        ConfigurationError: All that is wrong.
    """
    problems: list[str] = []
    servers = tuple(part.strip() for part in str(to).split(",") if part.strip())
    services = {_service_of(server, problems) for server in servers}
    if not servers:
        problems.append("no address")
    if len(services) > 1:
        problems.append("all servers must be of one kind")
    service = next(iter(services), "")
    if service == "redis" and len(servers) > 1:
        problems.append("redis: name one server")
    _check_names(service, stream, subject, problems)
    if keep is not None and not is_whole(keep, 1, KEEP_MAX):
        problems.append(f"keep must be a whole number above 0, not {keep!r:.60}")
    if credentials is not None and service == "redis":
        problems.append("credentials are for NATS; those of Redis are in the address")
    if problems:
        raise ConfigurationError("bridge: " + "; ".join(problems))
    return Target(service, servers, stream, subject or stream, keep, credentials)


def _service_of(server: str, problems: list[str]) -> str:
    try:
        parts = urlsplit(server)
        service = _SERVICES.get(parts.scheme, "")
        lacks = not parts.path if parts.scheme == "unix" else not parts.hostname
        _ = parts.port
    except ValueError as wrong:
        problems.append(f"{_USER.sub('//', server)!r:.120} is no address: {wrong}")
        return ""
    if not service:
        known = ", ".join(f"{scheme}://" for scheme in _SERVICES)
        problems.append(f"{_USER.sub('//', server)!r:.120} begins with none of {known}")
    elif lacks:
        problems.append(f"{_USER.sub('//', server)!r:.120} names no server")
    return service


def _check_names(service: str, stream: object, subject: object, problems: list[str]) -> None:
    if service == "nats":
        if not isinstance(stream, str) or not _NATS_STREAM.match(stream):
            problems.append(f"a stream of NATS has a name without spaces and any of . * > / \\, not {stream!r:.60}")
        if subject is not None and not _NATS_SUBJECT.match(str(subject)):
            problems.append(f"a subject is words with dots between them, not {subject!r:.60}")
        return
    if not isinstance(stream, str) or not 1 <= len(stream) <= _REDIS_KEY_CHARS_MAX:
        problems.append(f"a stream has a name of 1 to {_REDIS_KEY_CHARS_MAX:,} characters, not {stream!r:.60}")
    if subject is not None and service == "redis":
        problems.append("subjects are for NATS")


def _nats(target: Target, source: BridgeSource, server: str) -> Outlet:
    try:
        from runtime.bridges.nats import NatsOutlet  # lazy: needs a library that is optional
    except ModuleNotFoundError as missing:
        raise _no_library("nats", missing) from missing
    return NatsOutlet(server, target.stream, target.subject, source, keep=target.keep, credentials=target.credentials)


def _redis(target: Target, source: BridgeSource, server: str) -> Outlet:
    try:
        from runtime.bridges.redis import RedisOutlet  # lazy: needs a library that is optional
    except ModuleNotFoundError as missing:
        raise _no_library("redis", missing) from missing
    return RedisOutlet(server, target.stream, source, keep=target.keep)


def _no_library(service: str, missing: ModuleNotFoundError) -> ConfigurationError:
    cure = f"pip install 'mainspring[{service}]'"
    return ConfigurationError(f"bridge: {service}:// needs the package {missing.name}, which is not installed: {cure}")


_LIBRARIES: Final = {"nats": "nats", "redis": "redis"}
_MAKERS: Final[dict[str, Callable[[Target, BridgeSource, str], Outlet]]] = {"nats": _nats, "redis": _redis}
