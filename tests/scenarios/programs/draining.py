"""A host program with one worker that holds tasks ahead, and that drains on SIGTERM or Ctrl-C.

Arguments: state folder, file of runs, gate, number of tasks, more than one. Says `held` when the first task runs and
others are leased behind it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from runtime import NodeType, Runtime
from tests.scenarios.handlers import hold
from tests.scenarios.waiting import await_lines, until


def main() -> None:
    """See the head of the file."""
    state_dir, runs, gate, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    pools = [NodeType("default", workers=1, prefetch=count)]
    with Runtime(state_dir, node_types=pools, handle_sigterm=True) as rt:
        handles = [rt.submit(hold, runs, f"task-{i}", gate) for i in range(count)]
        await_lines(Path(runs), 1)
        until(lambda: held(rt) > 1, "tasks to be leased behind it")
        try:
            print("held", flush=True)
            for handle in handles:
                handle.result()
        except (SystemExit, KeyboardInterrupt):
            print("draining", flush=True)
            raise


def held(rt: Runtime) -> int:
    """Leases at the workers."""
    return sum(worker["held"] for pool in rt.statistics()["pools"] for worker in pool["workers"])


if __name__ == "__main__":
    main()
