"""Both layouts of control groups, as files in a folder."""

from __future__ import annotations

from pathlib import Path

from runtime.host.control_group import ControlGroup, Memory, Processors


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def group(root: Path, membership: str) -> ControlGroup:
    (root / "membership").write_text(membership)
    return ControlGroup(root, root / "membership")


def test_one_tree_and_the_tightest_group_in_it(tmp_path: Path) -> None:
    files = {
        "a/b/memory.max": "max\n",
        "a/b/memory.current": "70\n",
        "a/memory.max": "100\n",
        "a/memory.current": "80\n",
        "a/memory.stat": "anon 5\ninactive_file 30\n",
        "a/b/cpu.max": "150000 100000\n",
        "a/b/cpu.stat": "usage_usec 7\nuser_usec 3\n",
        "a/cpu.max": "max 100000\n",
        "a/cpu.stat": "usage_usec 9\n",
    }
    write(tmp_path, files)
    found = group(tmp_path, "0::/a/b\n")
    assert found.memory() == Memory(50, 100)
    assert found.processors() == Processors(7_000, 1.5)


def test_a_tree_for_each_controller(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "memory/memory.usage_in_bytes": "70\n",
        "memory/a/memory.limit_in_bytes": "100\n",
        "memory/a/memory.usage_in_bytes": "80\n",
        "memory/a/memory.stat": "total_inactive_file 30\n",
        "cpu/a/cpu.cfs_quota_us": "200000\n",
        "cpu/a/cpu.cfs_period_us": "100000\n",
        "cpuacct/a/cpuacct.usage": "12\n",
    }
    write(tmp_path, files)
    found = group(tmp_path, "4:memory:/a\n2:cpuacct:/a\n1:cpu:/a\n0::/\n")
    assert found.memory() == Memory(50, 100)
    assert found.processors() == Processors(12, 2.0)


def test_without_bounds_or_without_groups_there_is_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"memory.max": "max\n", "memory.current": "7\n", "cpu.max": "max 100000\n"})
    unbound = group(tmp_path, "0::/\n")
    assert (unbound.memory(), unbound.processors()) == (None, None)
    none = ControlGroup(tmp_path, tmp_path / "missing")
    assert (none.memory(), none.processors()) == (None, None)
