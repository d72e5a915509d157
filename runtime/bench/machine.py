"""Facts about the machine and the software that figures depend on; part of every report."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

PACKAGES = ("orjson", "psutil", "uvloop", "xxhash", "sortedcontainers", "numpy")
LOAD_PER_CORE_MAX = 0.25
"""Above this the machine was busy when the benchmark started, and its figures say little."""
MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs"})


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def version() -> str:
    """Version of Mainspring: of the installed distribution, or "unknown" when it runs from a plain folder."""
    try:
        return metadata.version("mainspring")
    except metadata.PackageNotFoundError:
        return "unknown"


def facts(folder: Path) -> dict[str, Any]:
    """What a report says about the machine.

    Args:
        folder: Where state folders will be made; its file system decides what a sync costs.
    """
    return {
        "cpu": _cpu_model(),
        "cores": cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": _package_versions(),
        "file_system": file_system(folder),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "optimised": not __debug__,
        "development_mode": sys.flags.dev_mode,
    }


def warnings(found: dict[str, Any], durability_matters: bool = True) -> list[str]:
    """What makes the figures of this machine doubtful, as sentences."""
    problems: list[str] = []
    load, count = found["load_average"][0], found["cores"]
    if load > LOAD_PER_CORE_MAX * count:
        problems.append(
            f"the load average is {load} on {count} cores: figures will be worse and noisier than they should be"
        )
    if durability_matters and found["file_system"] in MEMORY_FILE_SYSTEMS:
        problems.append(
            f"state folders are on {found['file_system']}, where fsync costs nothing: choose a disk with --folder"
        )
    if found["development_mode"]:
        problems.append("Python runs in development mode, which is slower")
    return problems


def state_folder() -> Path:
    """The first usual place for temporary files that is on a disk; the usual one when none is."""
    usual = Path(tempfile.gettempdir())
    for folder in (usual, Path("/var/tmp"), Path.cwd()):
        if folder.is_dir() and os.access(folder, os.W_OK) and file_system(folder) not in MEMORY_FILE_SYSTEMS:
            return folder
    return usual


def file_system(folder: Path) -> str:
    """Type of the file system that holds a folder; "unknown" where the system does not tell."""
    resolved = folder.resolve()
    best, found = -1, "unknown"
    for partition in psutil.disk_partitions(all=True):
        mount = Path(partition.mountpoint)
        if len(mount.parts) > best and resolved.is_relative_to(mount):
            best, found = len(mount.parts), partition.fstype or "unknown"
    return found


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _package_versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
