"""HTTP for who reads profiles from outside: `go tool pprof`, Pyroscope, Parca, Alloy, a browser. Off unless asked for.

    with ProfileServer("state/", "127.0.0.1:6060") as server:
        print(server.url, server.token)

It listens on loopback only, or on a Unix socket that its owner alone can open, and wants a token, as
`Authorization: Bearer TOKEN` or `?token=TOKEN` (which `go tool pprof` keeps). The name that a caller used for it must
be one of this machine's own, so that no web page gets here by a name of its own (DNS rebinding). It reads and never
changes, and shows no local variables.

One capture runs at a time; another one is told 429 and when to come again, as is who wants a proof or all stacks one by
one more often than once a minute. A caller who goes away ends the capture.

Who has not shown a token takes no place of those who have, see `callers`.

Concurrency: a thread that accepts, one for each request; all are daemons, and `close` ends them.
Known limits: HTTP without encryption; for other machines there are tunnels.
"""

from __future__ import annotations

import errno
import hmac
import os
import secrets
import select
import socket
import stat
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from socketserver import ThreadingMixIn
from typing import Any, Final, Self
from urllib.parse import urlsplit

from actors.protocol.errors import CallerError, EnvironmentFault, MainspringError
from runtime.host import kernel
from runtime.profile.presence.find import state_dir_of
from runtime.profile.web.callers import Callers
from runtime.profile.web.request import Reply, WebRefusal, WebRequest

UNIX: Final = "unix:"
IDLE_S: Final = 30.0
"""A caller that takes nothing of his answer for so long is let go."""
_REST_S: Final = 0.05
"""After a caller could not be let in, as without a descriptor to spare."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class ProfileServer:
    """See the module.

    Args:
        where: A runtime, a state folder, or None for the only one that is open here.
        listen: "HOST:PORT" on loopback, port 0 for any, or "unix:/path".
        token: What callers must know; None makes one.

    Attributes:
        url: Where it is.
        token: What callers must know.

    Raises:
        CallerError: The address is not of this machine alone. EnvironmentFault: it cannot be listened on.
        ProfileUnavailable: No folder was given, and there is not exactly one.
    """

    def __init__(self, where: Any = None, listen: str = "127.0.0.1:0", token: str | None = None) -> None:
        self.state_dir = state_dir_of(where)
        self.token = secrets.token_urlsafe(24) if token is None else token
        if not self.token:
            raise CallerError("the token must not be empty")
        self.capturing, self.rating = threading.Lock(), threading.Lock()
        self.callers = Callers()
        self.until_s = 0.0
        self.done_s: dict[str, float] = {}
        self.closing = False
        self._path = listen.removeprefix(UNIX) if listen.startswith(UNIX) else ""
        try:
            self._http = _UnixServer(self, self._path) if self._path else _TcpServer(self, *_address(listen))
        except OSError as refused:
            raise EnvironmentFault(f"{listen} cannot be listened on: {refused.strerror or refused}") from refused
        host, port = ("", 0) if self._path else self._http.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        self.url = listen if self._path else f"http://{shown}:{port}"
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="mainspring-profile-http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more, and end what runs. Again is harmless."""
        if self.closing:
            return
        self.closing = True
        self._wake.close()
        self._thread.join()
        self._http.server_close()
        self.callers.end()
        self._woken.close()
        if self._path:
            with suppress(OSError):
                os.unlink(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ProfileServer {self.url} {'closed' if self.closing else 'open'}>"

    def _serve(self) -> None:
        poller = select.poll()
        poller.register(self._http.fileno(), select.POLLIN)
        poller.register(self._woken.fileno(), select.POLLIN)
        while not self.closing:
            left_s = self.callers.expire()
            found = poller.poll(None if left_s is None else left_s * 1000 + 1)
            if any(fd == self._http.fileno() for fd, _ in found):
                self._http.handle_request()


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise CallerError(f"{listen!r} is no address: HOST:PORT, or unix:/path")
    if host not in _LOOPBACK:
        raise CallerError(f"{listen!r} is not on loopback; reach this machine by a tunnel, or a Unix socket")
    return host, int(port)


class _Server(ThreadingMixIn, HTTPServer):
    """HTTP as the standard library has it, with threads that have a name and with no wait for them."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    timeout = 0

    def __init__(self, owner: ProfileServer, address: Any) -> None:
        self.owner = owner
        super().__init__(address, _Handler)

    def get_request(self) -> Any:
        """Let a caller in. Raises OSError."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(_REST_S)  # he is still there, so who looks again at once finds him again
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Have a thread answer him."""
        if not self.owner.callers.come(request):
            self.shutdown_request(request)
            return
        try:
            self._answer(request, client_address)
        except BaseException:
            self.owner.callers.leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer him."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.owner.callers.leave(request)

    def shutdown_request(self, request: Any) -> None:
        """Close his connection."""
        self.owner.callers.close(request)
        super().shutdown_request(request)

    def _answer(self, request: Any, client_address: Any) -> None:
        threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="mainspring-profile-request",
            daemon=True,
        ).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that goes away is no news."""


class _TcpServer(_Server):
    def __init__(self, owner: ProfileServer, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__(owner, (host, port))


class _UnixServer(_Server):
    address_family = getattr(socket, "AF_UNIX", socket.AF_INET)

    def __init__(self, owner: ProfileServer, path: str) -> None:
        super().__init__(owner, path)

    def server_bind(self) -> None:
        """Only its owner may open it, from the first moment on."""
        try:
            self._bind()
        except OSError as taken:
            if taken.errno != errno.EADDRINUSE or not self._is_left():
                raise
            os.unlink(str(self.server_address))
            self._bind()
        self.server_name, self.server_port = "localhost", 0

    def _bind(self) -> None:
        if kernel.LINUX:  # what is bound has the mode of the socket; a mask would be of all threads of the program
            os.fchmod(self.socket.fileno(), 0o600)
            self.socket.bind(self.server_address)
            return
        before = os.umask(0o177)
        try:
            self.socket.bind(self.server_address)
        finally:
            os.umask(before)

    def _is_left(self) -> bool:
        """Whether there is a socket that nobody listens on, as after a server that was killed."""
        path = str(self.server_address)
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
        with socket.socket(self.address_family) as tried:
            tried.settimeout(1.0)
            return tried.connect_ex(path) == errno.ECONNREFUSED


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Server
    server_version = "mainspring"
    sys_version = ""
    timeout = IDLE_S

    def do_GET(self) -> None:
        """Answer."""
        try:
            try:
                parts = urlsplit(self.path)
            except ValueError:
                raise WebRefusal(400, "this is no address") from None
            asked = WebRequest(self.server.owner, parts.path, parts.query, self._gone)
            self._check(asked)
            views = import_module("runtime.profile.web.views")  # what a server needs that nobody asks is little
            self._send(200, views.view(asked))
        except WebRefusal as refused:
            retry = {"Retry-After": str(max(1, round(refused.retry_s + 0.5)))} if refused.retry_s else {}
            wants = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else {}
            self._send(refused.status, Reply(f"{refused.text}\n".encode()), **retry, **wants)
        except MainspringError as error:
            status = 400 if error.family == "caller" else 503
            self._send(status, Reply(f"[{error.code}] {error.message}\n{error.hint}\n".encode()))
        except OSError:
            raise
        except Exception as broken:  # said to the caller; the program that is looked at goes on
            self._send(500, Reply(f"{type(broken).__name__}: {broken}\n".encode()))

    def do_HEAD(self) -> None:
        """The same without its content."""
        self.do_GET()

    def _check(self, asked: WebRequest) -> None:
        owner = self.server.owner
        given = self.headers.get("Authorization", "")
        token = given.removeprefix("Bearer ") if given.startswith("Bearer ") else asked.text("token")
        if isinstance(self.server, _TcpServer):
            name = ""
            with suppress(ValueError):
                name = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
            if name not in _LOOPBACK:
                raise WebRefusal(403, "ask for this by 127.0.0.1 or localhost")
        if not hmac.compare_digest(token.encode(), owner.token.encode()):
            raise WebRefusal(401, "a token is needed: Authorization: Bearer TOKEN, or ?token=TOKEN")
        if not owner.callers.let_in(self.connection):
            raise WebRefusal(503, "as many callers as may be are being answered", 1.0)

    def _send(self, status: int, reply: Reply, **more: str) -> None:
        self.send_response(status)
        headers = {"Content-Type": reply.kind, "Content-Length": str(len(reply.content))}
        headers |= {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
        if reply.file:
            headers["Content-Disposition"] = f'attachment; filename="{reply.file}"'
        if status != 200:
            headers["X-Go-Pprof"] = "1"
        for name, value in {**headers, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.content)

    def _gone(self) -> bool:
        """Whether nobody waits for the answer any more."""
        if self.server.owner.closing:
            return True
        with suppress(OSError, ValueError):
            if select.select([self.connection], [], [], 0)[0]:
                return not self.connection.recv(1, socket.MSG_PEEK)
            return False
        return True

    def log_message(self, *_: Any) -> None:
        """Nothing: the output of the program that is looked at is its own."""

    def address_string(self) -> str:
        """Of a Unix socket there is none."""
        return ""
