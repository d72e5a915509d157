"""Memory and processor time that the control group of this process leaves it: in a container less than the machine has.

Reads both layouts of Linux: one tree (v2) with `memory.max`, `memory.current`, `cpu.max` and `cpu.stat`, and one tree
for each controller (v1) with `memory.limit_in_bytes` and others. A group is bound by what is above it, too, so each
group up to the root of the tree is read, and the tightest counts. Memory that holds files nobody has used lately counts
as free, because the kernel gives it back first. Elsewhere than on Linux, and where there is no bound, there is nothing.

Prior art: what the Java virtual machine reads for its heap (`os::Linux::container`), and `cgroups(7)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path("/sys/fs/cgroup")
MEMBERSHIP: Final = Path("/proc/self/cgroup")
_NO_LIMIT: Final = 1 << 60
"""As large as no machine is: v1 says so where there is no limit."""
_NS_PER_US: Final = 1_000


class Memory(NamedTuple):
    """Bytes that are left, and all that the group may have."""

    available: int
    limit: int


class Processors(NamedTuple):
    """Processor time used so far, and how many processors the group may keep busy."""

    used_ns: int
    cores: float


class ControlGroup:
    """See the module; both arguments are for tests."""

    def __init__(self, root: Path = ROOT, membership: Path = MEMBERSHIP) -> None:
        self._paths: dict[str, list[Path]] = {}
        for line in _text(membership).splitlines():
            _, controllers, path = line.split(":", 2)
            for name in controllers.split(",") if controllers else ("",):
                self._paths[name] = list(_upwards(root / name, path))

    def memory(self) -> Memory | None:
        """What is left, in the tightest group; None without a limit."""
        found = [
            *(_memory(path, "memory.max", "memory.current", "inactive_file") for path in self._paths.get("", ())),
            *(
                _memory(path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                for path in self._paths.get("memory", ())
            ),
        ]
        return min((memory for memory in found if memory is not None), default=None)

    def processors(self) -> Processors | None:
        """What the tightest group has used and may use; None without a limit."""
        found: list[Processors] = []
        for path in self._paths.get("", ()):
            quota, _, period = _text(path / "cpu.max").partition(" ")
            used_us = _row(path / "cpu.stat", "usage_usec")
            if quota.isdigit() and period.strip().isdigit() and used_us is not None:
                found.append(Processors(used_us * _NS_PER_US, int(quota) / int(period)))
        for path, used in zip(self._paths.get("cpu", ()), self._paths.get("cpuacct", ()), strict=False):
            quota_us, period_us = _number(path / "cpu.cfs_quota_us"), _number(path / "cpu.cfs_period_us")
            used_ns = _number(used / "cpuacct.usage")
            if quota_us and period_us and used_ns is not None:
                found.append(Processors(used_ns, quota_us / period_us))
        return min(found, key=lambda processors: processors.cores, default=None)


def _upwards(tree: Path, path: str) -> Iterator[Path]:
    """The group and those above it, as far as this process sees them."""
    inner = Path(path.lstrip("/"))
    for part in (inner, *inner.parents):
        if (tree / part).is_dir():
            yield tree / part


def _memory(path: Path, limit_name: str, used_name: str, files_name: str) -> Memory | None:
    limit, used = _number(path / limit_name), _number(path / used_name)
    if limit is None or used is None or limit >= _NO_LIMIT:
        return None
    files = _row(path / "memory.stat", files_name) or 0
    return Memory(max(0, limit - max(0, used - files)), limit)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """What a file says, if it is a number from 0."""
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _row(path: Path, name: str) -> int | None:
    """A line "name number" of a file."""
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return None
