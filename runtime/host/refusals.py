"""What the machine refuses, in words that say whose limit it is: files, memory, processes, shared memory, permissions.

A start asks the kernel for more than a folder: descriptors, memory that processes share, processes. In a container or
under `ulimit` any of it may be refused. That is nobody's bug, so it does not reach the program as one.
"""

from __future__ import annotations

import errno
import os
from typing import Any, Final

from actors.protocol.errors import EngineUnavailable

_FILES: Final = "too many open files; raise the limit of this process, see `ulimit -n`"
_MEMORY: Final = "no memory; see `ulimit -v` and the memory limit of the container, if this runs in one"
_PROCESSES: Final = "no more processes; see `ulimit -u` and the limit on pids of the container, if this runs in one"
_SPACE: Final = "no space for shared memory; see `df /dev/shm` and, in a container, its option --shm-size"
_FORBIDDEN: Final = "forbidden here, perhaps by the security profile (seccomp) of a container"
_WORDS: Final = {
    errno.EMFILE: _FILES,
    errno.ENFILE: "too many open files on this machine",
    errno.ENOMEM: _MEMORY,
    errno.EAGAIN: _PROCESSES,
    errno.EFBIG: "larger than a file may be here, shared memory included, see `ulimit -f`",
}
_WORDS_WITHOUT_PATH: Final = {
    errno.ENOSPC: _SPACE,
    errno.EPERM: _FORBIDDEN,
    errno.EACCES: _FORBIDDEN,
    errno.ENOSYS: _FORBIDDEN,
}
"""Of calls that name no file: with one, the disk or the permissions of that file are meant."""


def is_refusal(error: BaseException) -> bool:
    """Whether the kernel refused something for a reason that is known here."""
    return isinstance(error, OSError) and _words_of(error) is not None


def unavailable(what: str, refusal: Exception) -> EngineUnavailable:
    """The error for the program.

    Args:
        what: What cannot be done: "the engine cannot go on".
        refusal: What the kernel or the interpreter said.
    """
    words = _words_of(refusal) if isinstance(refusal, OSError) else None
    return EngineUnavailable(f"{what}: {refusal}" if words is None else f"{what}: {words} [{refusal}]")


def _words_of(refusal: OSError) -> str | None:
    number = refusal.errno or 0
    return _WORDS.get(number) or (_WORDS_WITHOUT_PATH.get(number) if refusal.filename is None else None)


def obituary(news: dict[str, Any]) -> str:
    """How the engine or the spawner ended, by the news of it."""
    status = news.get("status")
    if status is None:
        return f"the engine process cannot run: {news.get('text', 'no reason was given')}"
    code = os.waitstatus_to_exitcode(status) if status >= 0 else status
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"the {'spawner' if news['did'] == 'spawner_exited' else 'engine'} process {how}"
