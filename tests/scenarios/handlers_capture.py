"""What workers run while somebody records all processes."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.scenarios.handlers import note

BURN = "import os, sys\nwhile not os.path.exists(sys.argv[1]): sum(range(10_000))\n"


def compute(path: str, gate: str) -> None:
    """Pure Python until the gate is open."""
    note(path, "computes")
    while not os.path.exists(gate):
        sum(range(10_000))


def start_child(path: str, gate: str) -> int:
    """A program of its own that computes until the gate is open."""
    note(path, "started")
    return subprocess.call([sys.executable, "-c", BURN, gate])
