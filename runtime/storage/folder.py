"""The state folder: what makes a folder ours, who owns it, and what is in it.

    STATE/
      mainspring.json   identity: magic, format version, uuid, time of creation; where its log lies, if that is not
                        all in `log/`. Written aside and renamed, once and when the log is moved (see `reshard`).
      lock              held by flock(2) while an engine owns the folder; its text is the pid of the holder
      spawner           by which mark an owner's processes are known, see `runtime.host.leftovers`
      commands          socket of a running engine, see `runtime.host.command_socket`
      log/              the write-ahead log (see `segment`); in shards, `log/0/`, `log/1/`, ... (see `merge`)
      blobs/            large payloads
      checkpoint.db     the state as of some record, where there was one; see `checkpoint`
      archive.db        finished runs that memory let go of, where there are checkpoints; see `archive`
      archive/          large payloads of those runs
      profile/          what processes answer to who looks inside, while that waits; see `runtime.profile.presence`

An owner holds the lock, so at most one process writes. The kernel drops it when the holder dies, however it dies.
Reading (status, verify) takes no lock and changes nothing.

A crash while a folder is being made leaves one without identity, holding nothing but our own empty parts: it counts
as new.
Concurrency: the lock belongs to the open file, so a child that is forked while it is held, and does not exec, holds
it too.
Known limits: flock on network file systems is only as good as the server.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, Self
from uuid import UUID, uuid4

from actors.protocol import limits
from actors.protocol.errors import (
    DiskFull,
    EnvironmentFault,
    NewerFormat,
    NotAStateFolder,
    OtherShards,
    StateFolderError,
    StateFolderInUse,
)
from actors.protocol.words import counted
from runtime.storage.files import ASIDE, DiskFiles, Files, write_whole
from runtime.storage.new_folder import TO_READ, TO_RESTORE, check_place
from runtime.storage.segment import LogPlace
from runtime.storage.wal import NO_SPACE

MAGIC: Final = "mainspring state folder"
FORMAT_VERSION: Final = 2
"""2: the identity says where the log lies. What has its log in `log/`, in one piece, stays of format 1."""
IDENTITY_NAME: Final = "mainspring.json"
LOCK_NAME: Final = "lock"
LOG_NAME: Final = "log"
BLOBS_NAME: Final = "blobs"
_LOG_NAME: Final = re.compile(r"log(-[1-9][0-9]*)?")
"""Names of log folders: that of a new folder, and those that a `reshard` makes."""
ARCHIVED_BLOBS_NAME: Final = "archive"
ARCHIVE_NAME: Final = "archive.db"
_OWN_NAMES: Final = frozenset({IDENTITY_NAME + ASIDE, LOCK_NAME, LOG_NAME, BLOBS_NAME})
_HARMLESS_NAMES: Final = frozenset({"lost+found", ".DS_Store"})
"""What a fresh file system or the desktop puts into a new folder."""
_LOOK_S: Final = 0.002
"""Between two tries for the lock."""
_MOMENT_S: Final = 0.05
"""What passes between a kill and the death. A holder that lives longer is named."""
_OPENING_S: Final = 2.0
"""A holder without a name is about to open, or only looks whether it could; that is over soon, one way or the other."""
_GONE_S: Final = 3.0
"""The engine of a program that was killed ends within a second (rule R4); the rest is for a busy machine. Whoever
restarts the program at once is not refused for its sake."""
UNNAMED: Final = 0
"""Holder's pid of those who only look: nobody is refused in their name."""

_TEXTS: Final = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOTDIR: "a part of the path is a file",
    errno.ELOOP: "too many symbolic links",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOENT: "it does not exist",
}


class StateFolder:
    """An opened state folder. Made by `open`; `close` gives up the lock.

    Attributes:
        path: Absolute path, symbolic links resolved.
        uuid: Identity of the folder.
        created: When it was made, ISO 8601 in UTC.
        owner: Whether this object holds the lock.
        log_name: Folder of the log in it.
        log_shards: In how many shards the log lies.
    """

    def __init__(self, path: str, identity: dict[str, Any], lock_fd: int) -> None:
        self.path = path
        self.uuid = UUID(identity["uuid"])
        self.created = str(identity.get("created", ""))
        self.log_name, self.log_shards = _log_of(identity)
        self._lock_fd = lock_fd
        self._identity = identity

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        create: bool = True,
        owner: bool = True,
        *,
        holder_pid: int | None = None,
        log_shards: int | None = None,
        files: Files | None = None,
    ) -> StateFolder:
        """Open a state folder.

        Args:
            path: The folder; symbolic links are followed.
            create: Make it, and its parents, where missing. Needs `owner`.
            owner: Take the lock. Without, the folder is only read, beside whoever owns it.
            holder_pid: Pid to name to a second opener; this process by default. The lock lives with this process.
                UNNAMED for a short look, so that openers at the same time wait for each other instead of refusing.
            log_shards: In how many shards the log of a new folder shall lie, and that of an old one must; None: in one,
                or as it is.
            files: The seam to the disk.

        Returns:
            The opened folder. A crash in here leaves nothing, an unfinished folder that counts as new, or a whole one.

        Raises:
            StateFolderError: Missing, no permission, read-only, a file in its place, or its identity is damaged.
            NotAStateFolder: It has other contents.
            StateFolderInUse: Another process owns it.
            NewerFormat: A newer version made it. OtherShards: Its log is not in as many shards as was asked for.
            DiskFull: No space to make it.
        """
        name = os.path.abspath(os.fspath(path))
        files = files or DiskFiles()
        lock_fd = -1
        try:
            if "\0" in name:
                raise StateFolderError("the name of a state folder cannot contain a NUL character")
            check_place(name, create=create and owner)
            if create and owner:
                _make_folders(name, files)
            name = os.path.realpath(name, strict=True)
            identity = _read_identity(name, files)
            if identity is None:
                try:
                    _refuse_foreign(name, files, create=create and owner)
                except StateFolderError:
                    if (identity := _read_identity(name, files)) is None:
                        raise  # else another process has made it just now, and what is there is its
            if owner:
                lock_fd = _take_lock(name, os.getpid() if holder_pid is None else holder_pid)
                identity = _read_identity(name, files) or _make_identity(name, files, log_shards or 1)
                _refuse_other(name, identity, log_shards)
                _make_parts(name, files, *_log_of(identity))
        except BaseException as error:
            if lock_fd >= 0:
                os.close(lock_fd)
            if isinstance(error, OSError) and not isinstance(error, EnvironmentFault):
                _explain(name, error)
            raise
        if identity is None:
            raise StateFolderError(f"{name} has no identity")
        return cls(name, identity, lock_fd)

    @property
    def owner(self) -> bool:
        """Whether this object holds the lock."""
        return self._lock_fd >= 0

    @property
    def log(self) -> LogPlace:
        """Place of the log, for `read_log` and `LogWriter`."""
        return LogPlace(os.path.join(self.path, self.log_name), self.uuid, self.log_shards)

    @property
    def blobs_path(self) -> str:
        """Folder of the large payloads."""
        return os.path.join(self.path, BLOBS_NAME)

    def move_log(self, name: str, shards: int, files: Files) -> None:
        """Have the log in another folder from now on. Needs ownership. A crash leaves the old one or the new one."""
        if not self.owner:
            raise StateFolderError(f"state folder {self.path} is only read")
        self._identity = write_identity(self.path, files, self._identity, name, shards)
        self.log_name, self.log_shards = _log_of(self._identity)

    @property
    def archived_blobs_path(self) -> str:
        """Folder of the large payloads of archived runs; there where one has some."""
        return os.path.join(self.path, ARCHIVED_BLOBS_NAME)

    def owner_pid(self) -> int | None:
        """Pid of the process that holds the lock now, as it named itself; None when nobody does."""
        try:
            fd = os.open(os.path.join(self.path, LOCK_NAME), os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(fd)
        finally:
            os.close(fd)
        return None

    def close(self) -> None:
        """Give up ownership. Closing twice is harmless."""
        if self._lock_fd >= 0:
            os.ftruncate(self._lock_fd, 0)
            os.close(self._lock_fd)
            self._lock_fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _explain(name: str, error: OSError) -> NoReturn:
    """Raise our own error for one of the operating system."""
    if error.errno in NO_SPACE:
        raise DiskFull(f"no space to make the state folder {name}") from error
    text = _TEXTS.get(error.errno or 0, error.strerror or str(error))
    refused = StateFolderError(f"state folder {name}: {text}")
    raise (refused.hinting(TO_READ) if error.errno == errno.ENOENT else refused) from error


def _make_folders(name: str, files: Files) -> None:
    """Make a folder and its parents, each durable in its parent."""
    if os.path.isdir(name):
        return
    parent = os.path.dirname(name)
    _make_folders(parent, files)
    files.make_folder(name)
    files.sync_folder(parent)


def _read_identity(name: str, files: Files) -> dict[str, Any] | None:
    """Read the identity file; None if there is none."""
    path = os.path.join(name, IDENTITY_NAME)
    try:
        identity = json.loads(files.read(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StateFolderError(f"{path} is damaged; the log beside it was not touched").hinting(TO_RESTORE) from error
    if not isinstance(identity, dict) or identity.get("magic") != MAGIC:
        raise NotAStateFolder(f"{path} was not written by Mainspring").hinting(TO_READ)
    version = identity.get("format")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise NewerFormat(f"state folder {name} has format {version}; this version reads up to {FORMAT_VERSION}")
    try:
        UUID(identity["uuid"])
        log_name, shards = _log_of(identity)
        if not _LOG_NAME.fullmatch(log_name) or not 1 <= shards <= limits.LOG_SHARDS_MAX:
            raise ValueError(log_name)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise StateFolderError(f"{path} is damaged; the log beside it was not touched").hinting(TO_RESTORE) from error
    return identity


def _refuse_foreign(name: str, files: Files, *, create: bool) -> None:
    """Raise unless a folder without identity is empty, or was being made by us when that was cut short."""
    names = set(files.list(name)) - _HARMLESS_NAMES
    if names - _OWN_NAMES:
        refused = NotAStateFolder(f"{name} is not empty and has no {IDENTITY_NAME}")
        raise refused if create else refused.hinting(TO_READ)
    if any(files.list(os.path.join(name, part)) for part in {LOG_NAME, BLOBS_NAME} & names):
        raise StateFolderError(f"{name} has contents, but its {IDENTITY_NAME} is missing").hinting(TO_RESTORE)
    if not create:
        raise StateFolderError(f"{name} is not a state folder yet: it has no {IDENTITY_NAME}").hinting(TO_READ)


def _make_identity(name: str, files: Files, shards: int) -> dict[str, Any]:
    """Write the identity of a new folder."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    identity = {"magic": MAGIC, "format": FORMAT_VERSION, "uuid": str(uuid4()), "created": created}
    return write_identity(name, files, identity, LOG_NAME, shards)


def write_identity(name: str, files: Files, identity: dict[str, Any], log_name: str, shards: int) -> dict[str, Any]:
    """Write the identity of a folder, with where its log lies. A crash leaves the old one or the new one.

    A log in one piece in `log/` is not named, and of format 1, which older versions read.
    """
    plain = (log_name, shards) == (LOG_NAME, 1)
    log = {} if plain else {"log": {"folder": log_name, "shards": shards}}
    kept = {key: value for key, value in identity.items() if key != "log"}
    identity = {**kept, "format": 1 if plain else FORMAT_VERSION, **log}
    write_whole(files, name, IDENTITY_NAME, json.dumps(identity, indent=1).encode() + b"\n")
    return identity


def is_log_name(name: str) -> bool:
    """Whether this is the name of a log's folder, in use or not."""
    return _LOG_NAME.fullmatch(name) is not None


def next_log_name(name: str) -> str:
    """What the folder of a log is called that takes the place of this one."""
    return f"{LOG_NAME}-{int(name.partition('-')[2] or 1) + 1}"


def _log_of(identity: dict[str, Any]) -> tuple[str, int]:
    """Folder and number of shards of the log."""
    log = identity.get("log", {"folder": LOG_NAME, "shards": 1})
    return str(log["folder"]), int(log["shards"])


def _refuse_other(name: str, identity: dict[str, Any], wanted: int | None) -> None:
    shards = _log_of(identity)[1]
    if wanted is not None and wanted != shards:
        raise OtherShards(f"the log of state folder {name} lies in {counted(shards, 'shard')}, not in {wanted}")


def _make_parts(name: str, files: Files, log_name: str, shards: int) -> None:
    """Make the folders of log and blobs where they are missing."""
    log = os.path.join(name, log_name)
    for path in (log, os.path.join(name, BLOBS_NAME)):
        files.make_folder(path)
    if shards > 1:
        for shard in range(shards):
            files.make_folder(os.path.join(log, str(shard)))
        files.sync_folder(log)
    files.sync_folder(name)


def _take_lock(name: str, holder_pid: int) -> int:
    """Take the lock and write the pid; return the descriptor that holds it."""
    fd = os.open(os.path.join(name, LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    begun = time.monotonic()
    try:
        while not _locked(fd):
            pid = _holder(fd)
            if time.monotonic() - begun >= _patience_s(pid, holder_pid):
                who = f"process {pid}" if pid else "another process"
                raise StateFolderInUse(f"state folder {name} is in use by {who}", pid)
            time.sleep(_LOOK_S)
        os.pwrite(fd, b"%-20d\n" % holder_pid, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _patience_s(pid: int, own_pid: int) -> float:
    """How long to wait for this holder before it is named to the caller."""
    if pid == UNNAMED:
        return _OPENING_S
    before = pid == own_pid and pid != os.getpid()  # the face of this engine is that of the engine that died
    if before or not _alive(pid):
        return _GONE_S
    return _MOMENT_S


def _locked(fd: int) -> bool:
    """Try once for the lock."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(fd: int) -> int:
    """The pid in the lock file, or 0 if it has none yet."""
    text = os.pread(fd, 64, 0).strip()
    return int(text) if text.isdigit() else 0


def _alive(pid: int) -> bool:
    """Whether the process lives; a zombie, which waits for its parent to read its status, does not."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user, or there is no /proc
        return True
