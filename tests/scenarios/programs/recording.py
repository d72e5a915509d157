"""A host program: makes a log worth damaging (values, failures, a retry, a cancel, open work), and waits to be killed.

Arguments: state folder, file of runs. Says `ready` when all of it is durable.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from runtime import NodeType, Retry, Runtime
from tests.scenarios.handlers import fail, first_fails, hold, mark
from tests.scenarios.waiting import await_lines


def main() -> None:
    """See the head of the file."""
    state_dir, runs = sys.argv[1:]
    with Runtime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
        for i in range(20):
            rt.submit(mark, runs, f"done-{i}").result()
        assert rt.submit(fail, runs, "failed").exception()
        rt.options(retry=Retry(max_attempts=2, base=0.0)).submit(first_fails, runs, "retried").result()
        rt.submit(hold, runs, "held", f"{runs}.gate")
        rt.submit(mark, runs, "never").cancel()
        for i in range(5):
            rt.submit(mark, runs, f"open-{i}")
        await_lines(Path(runs), 20 + 1 + 2 + 1)  # what is held has begun
        print("ready", flush=True)
        signal.sigwait({signal.SIGINT})


if __name__ == "__main__":
    main()
