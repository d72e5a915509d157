"""Cursors of durable subscriptions: how far each has been acknowledged, in a small file of its own.

    subscriptions/NAME.json          the cursor, put in place whole (see `files.write_whole`)
    subscriptions/NAME.lock          held by who reads the subscription
    subscriptions/NAME.dead.jsonl    events that its callback failed on for good; NAME.dead.1.jsonl: older ones

The reader writes it, in the program's process; the engine reads it when it is about to remove segments, and keeps what
a subscription has not acknowledged, up to `keep_bytes` of it. A crash leaves the cursor before or after an
acknowledgement, so events are delivered at least once.

Cursors and letters carry a check of themselves (`checked`): a digit that changed on the disk would have events left
out, or a letter say what never was. What an older version wrote has none.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, DiskFull, EnvironmentFault, NewerFormat, StateFolderError
from actors.protocol.event_errors import SubscriptionInUse
from runtime.storage.checked import checked, has_check, read_checked
from runtime.storage.files import DiskFiles, write_whole
from runtime.storage.segment import SegmentInfo
from runtime.storage.wal import NO_SPACE

FOLDER: Final = "subscriptions"
NAME_RULE: Final = "a name is 1 to 100 letters, digits, dots, dashes and underscores, and does not begin with a dot"
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}\Z")
_VERSION: Final = 2
_UNCHECKED_VERSION: Final = 1
_UNCHECKED: Final = (b'{"version": ', b'{"lsn": ')
"""How cursors and letters of older versions begin."""
_LOG: Final = logging.getLogger("mainspring")


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a subscription goes on.

    Args:
        lsn: The record that is read next.
        place: Events of that record up to this place are acknowledged; -1: none.
        keep_bytes: So much of the log is kept for it, beyond what is kept anyway.
        dead: Events that were given up.
        note: What its reader wants to find again; of a bridge, the last event that the stream has.
    """

    lsn: int
    place: int = -1
    keep_bytes: int = limits.SUBSCRIPTION_KEEP_BYTES
    dead: int = 0
    note: str = ""


class CursorFile:
    """The cursor of one subscription, for as long as it is read.

    Raises:
        ConfigurationError: The name cannot be, or there are too many. SubscriptionInUse: somebody else reads it.
        StateFolderError: Its files cannot be used.
    """

    def __init__(self, state_dir: str, name: str) -> None:
        if not _NAME.match(str(name)):
            raise ConfigurationError(f"subscription {name!r:.120}: {NAME_RULE}")
        self.name = name
        self._folder = os.path.join(state_dir, FOLDER)
        self._lock_fd = -1
        try:
            os.makedirs(self._folder, exist_ok=True)
            known = names_of(state_dir)
            if name not in known and len(known) >= limits.SUBSCRIPTIONS_MAX:
                raise ConfigurationError(f"there are {len(known)} subscriptions already; remove one with unsubscribe")
            if name not in known:
                DiskFiles().sync_folder(state_dir)  # a cursor is as durable as its folder is
            self._lock_fd = os.open(self._path("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            self.close()
            raise SubscriptionInUse(f"subscription {name!r} is read by somebody else") from taken
        except OSError as error:
            self.close()
            raise self._fault(f"it cannot be kept in {self._folder}", error) from error

    def load(self) -> Cursor | None:
        """The cursor; None: there is none yet."""
        return load(self._folder, self.name)

    def save(self, cursor: Cursor) -> None:
        """Put it in place, durable. Raises DiskFull, StateFolderError: it is as it was."""
        content = checked({"version": _VERSION, **asdict(cursor)})
        try:
            write_whole(DiskFiles(), self._folder, f"{self.name}.json", content)
        except OSError as error:
            raise self._fault("its cursor cannot be written", error) from error

    def bury(self, letter: dict[str, Any]) -> None:
        """Add to the dead letters, which are kept up to twice `limits.SUBSCRIPTION_DEAD_BYTES`."""
        path = self._path("dead.jsonl")
        line = checked(letter) + b"\n"
        try:
            size = os.stat(path).st_size if os.path.exists(path) else 0
            if size and size + len(line) > limits.SUBSCRIPTION_DEAD_BYTES:
                os.replace(path, self._path("dead.1.jsonl"))
                size = 0
            with open(path, "ab") as file:
                file.write(line if not size or _ends_a_line(path) else b"\n" + line)
                file.flush()
                os.fsync(file.fileno())
            if not size:
                DiskFiles().sync_folder(self._folder)
        except OSError as error:
            raise self._fault("a dead letter is not written", error) from error

    def dead(self) -> Iterator[dict[str, Any]]:
        """The dead letters, oldest first. A line that a crash cut off, or that is damaged, is left out, and logged."""
        for path, number, letter in _letters(self._folder, self.name):
            if isinstance(letter, ValueError):
                _LOG.warning("%s: line %d is no dead letter any more: %s", path, number, letter)
            else:
                yield letter

    def remove(self) -> None:
        """Forget the subscription."""
        for suffix in ("json", "dead.jsonl", "dead.1.jsonl", "lock"):
            if os.path.exists(self._path(suffix)):
                os.unlink(self._path(suffix))
        DiskFiles().sync_folder(self._folder)

    def close(self) -> None:
        """Let others read it. Again is harmless."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _fault(self, what: str, error: OSError) -> EnvironmentFault:
        kind = DiskFull if error.errno in NO_SPACE else StateFolderError
        return kind(f"subscription {self.name!r}: {what}: {error.strerror}")

    def _path(self, suffix: str) -> str:
        return os.path.join(self._folder, f"{self.name}.{suffix}")


def names_of(state_dir: str) -> list[str]:
    """The durable subscriptions of a state folder."""
    try:
        names = os.listdir(os.path.join(state_dir, FOLDER))
    except FileNotFoundError:
        return []
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


def load(folder: str, name: str) -> Cursor | None:
    """A cursor, as it is in the folder of the subscriptions; None: there is none."""
    path = os.path.join(folder, f"{name}.json")
    try:
        with open(path, "rb") as file:
            content = file.read()
        found = read_checked(content, _UNCHECKED)
        version = found.pop("version")
        if type(version) is int and version > _VERSION:
            raise NewerFormat(f"{path} has format {version}; this version reads up to {_VERSION}")
        if version != _UNCHECKED_VERSION and not has_check(content):
            raise ValueError("its check is missing")
        return _cursor(found)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StateFolderError(f"{path} cannot be read: {error}; unsubscribe, or remove it") from error


def kept_for_readers(state_dir: str, segments: Sequence[SegmentInfo], below: int) -> int:
    """The number of the oldest segment that has to stay, of those below a number that may go.

    Each subscription keeps the segments from its cursor on, as long as they have no more than its `keep_bytes`. Files
    that cannot be read keep nothing.
    """
    lowest = below
    for name in names_of(state_dir):
        try:
            cursor = load(os.path.join(state_dir, FOLDER), name)
        except StateFolderError:
            continue
        if cursor is None:
            continue
        left = cursor.keep_bytes
        for info in reversed([info for info in segments if info.no < below]):
            left -= info.bytes
            if info.last_lsn < cursor.lsn or left < 0:
                break
            lowest = min(lowest, info.no)
    return lowest


def damaged_letters(folder: str, name: str) -> int:
    """How many lines of dead letters cannot be read."""
    return sum(isinstance(letter, ValueError) for _, _, letter in _letters(folder, name))


def _letters(folder: str, name: str) -> Iterator[tuple[str, int, dict[str, Any] | ValueError]]:
    """File, line and letter, oldest first; or why it is none."""
    for suffix in ("dead.1.jsonl", "dead.jsonl"):
        path = os.path.join(folder, f"{name}.{suffix}")
        try:
            with open(path, "rb") as file:
                for number, line in enumerate(file, 1):
                    try:
                        yield path, number, read_checked(line, _UNCHECKED)
                    except ValueError as damaged:
                        yield path, number, damaged
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StateFolderError(f"{path} cannot be read: {error}") from error


def _cursor(found: dict[str, Any]) -> Cursor:
    cursor = Cursor(**found)
    numbers = asdict(cursor)
    is_text = isinstance(numbers.pop("note"), str)
    if not is_text or {type(number) for number in numbers.values()} != {int} or cursor.lsn < 1 or cursor.keep_bytes < 0:
        raise ValueError("it holds what no cursor holds")
    return cursor


def _ends_a_line(path: str) -> bool:
    """Whether the last write was not cut short."""
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
