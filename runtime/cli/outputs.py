"""Files that a command writes and folders that it uses for a while: checked before the work, whole or not there after.

What a crash leaves behind: of a file at most a hidden part beside it; of a scratch folder the folder, which the next
command of the same user sweeps.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from actors.protocol.errors import EnvironmentFault

_PREFIX: Final = "mainspring-run-"
_OURS: Final = re.compile(rf"{_PREFIX}(\d+)-\w+")


def check_writable(path: Path | None) -> None:
    """Refuse a place that cannot be written, before hours of work and not after.

    Raises:
        EnvironmentFault: The folder is missing, or it may not be written.
    """
    if path is None:
        return
    folder = path.absolute().parent
    if path.is_dir():
        raise EnvironmentFault(f"{path} is a folder, not a file to write")
    if not folder.is_dir():
        raise EnvironmentFault(f"{path} cannot be written: the folder {folder} does not exist")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise EnvironmentFault(f"{path} cannot be written: permission denied")


def write_output(path: Path, data: bytes) -> None:
    """Write a file aside and rename it, so that a reader never sees half of it.

    Raises:
        EnvironmentFault: The operating system refused.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe or a terminal has no aside
            path.write_bytes(data)
            return
        target = path.resolve()
        handle, aside = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(aside, stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
            os.replace(aside, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(aside)
            raise
    except OSError as refused:
        raise EnvironmentFault(f"{path} cannot be written: {refused.strerror or refused}") from refused


def _umask() -> int:
    """The mask for new files; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def state_folder(path: Path | None) -> Iterator[Path]:
    """The state folder that was asked for, or a new one that is removed in the end."""
    if path is not None:
        yield path
        return
    sweep_scratch()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    try:
        yield folder / "state"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep_scratch() -> None:
    """Remove scratch folders of this user whose process is gone. A number that was given again keeps its folder."""
    base = Path(tempfile.gettempdir())
    with suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            ours = _OURS.fullmatch(entry.name)
            if ours and _own_folder(entry) and not _alive(int(ours[1])):
                shutil.rmtree(entry.path, ignore_errors=True)


def _own_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
