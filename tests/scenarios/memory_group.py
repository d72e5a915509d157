"""A memory group of the kernel with a small limit, so that a task can be killed for real by the OOM killer and nobody
else suffers. Needs root and a writable cgroup file system; elsewhere the test says why it is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.scenarios.waiting import until

_V1: Final = Path("/sys/fs/cgroup/memory")
_V2: Final = Path("/sys/fs/cgroup")


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[str]:
    """Make a group; gives the file that a process writes its pid into to join it."""
    v1 = (_V1 / "memory.limit_in_bytes").exists()
    group = (_V1 if v1 else _V2) / f"mainspring-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as refused:
        pytest.skip(f"no memory group can be made here: {refused}")
    try:
        _limit(group, limit_bytes, v1=v1)
        yield str(group / "cgroup.procs")
    finally:
        until(lambda: _removed(group), "an empty memory group")


def _limit(group: Path, limit_bytes: int, *, v1: bool) -> None:
    name, swap = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if v1 else ("memory.max", "memory.swap.max")
    try:
        (group / name).write_text(str(limit_bytes))
    except OSError as refused:
        pytest.skip(f"memory groups have no limit here: {refused}")
    with suppress(OSError):  # a kernel that does not account for swap
        (group / swap).write_text(str(limit_bytes if v1 else 0))


def _removed(group: Path) -> bool:
    with suppress(OSError):
        group.rmdir()
    return not group.exists()
