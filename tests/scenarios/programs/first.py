"""A host program that is process 1 of a container: it adopts whatever loses its parent.

Argument: state folder. Its tasks leave children and grandchildren, workers crash; prints how many zombies are left once
nothing runs any more, and which processes there are after the end.
"""

from __future__ import annotations

import os
import signal
import sys

import psutil

from runtime import NodeType, Runtime
from tests.scenarios import handlers_hygiene as hygiene
from tests.scenarios.waiting import pause

WAYS = ("fork", "spawn", "popen", "multiprocessing", "daemon")
QUIET_S = 5.0


def zombies() -> list[str]:
    """All zombies of this namespace; what ends while it is looked at is none."""
    found = [process.info for process in psutil.process_iter(["name", "status"])]
    return [info["name"] for info in found if info["status"] == psutil.STATUS_ZOMBIE]


def settled(processes: int) -> list[str]:
    """Zombies that stay, once no more processes are left than there shall be. Those that were killed a moment ago may
    be zombies for another moment, so looking once would tell of them."""
    left = QUIET_S
    while True:
        found = zombies()
        if left <= 0 or not (found or len(psutil.pids()) > processes):
            return found
        pause(0.05)
        left -= 0.05


def main() -> None:
    """See the head of the file."""
    assert os.getpid() == 1, "run me with unshare --pid --fork --mount-proc"
    pools = [NodeType("cpu", workers=2), NodeType("io", workers=1, mode="asyncio")]
    with Runtime(sys.argv[1], node_types=pools, durability="os") as rt:
        handles = [rt.submit_nowait(hygiene.leave_child, way) for _ in range(100) for way in WAYS]
        handles += [rt.options(node_type="io").submit_nowait(hygiene.leave_child, way) for way in WAYS[:3]]
        for handle in handles:
            assert handle.result(timeout=60)
        dying = [rt.options(poison=1).submit_nowait(hygiene.die_with_children, 3) for _ in range(20)]
        for death in dying:
            failed = death.exception(timeout=60)
            assert failed is not None
            assert failed.kind == "crash"
        print("zombies", settled(1 + 2 + 3), flush=True)  # itself, spawner and engine, workers
    print("left", sorted(p.pid for p in psutil.process_iter()), flush=True)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


if __name__ == "__main__":
    main()
