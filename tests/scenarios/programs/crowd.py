"""A host program: submits a flow of many short tasks, says when they are acknowledged, and waits for the end.

Arguments: state folder, file of runs, number of tasks, workers. A second start with the same folder goes on.
"""

from __future__ import annotations

import sys

from runtime import Flow, NodeType, Runtime
from runtime.errors import DuplicateRun
from tests.scenarios.handlers import mark_slowly

RUN_ID = "crowd"
TASK_S = 0.001


def main() -> None:
    """See the head of the file."""
    state_dir, runs, count, workers = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    flow = Flow(RUN_ID)
    for i in range(count):
        flow.add(mark_slowly, runs, str(i), TASK_S)
    with Runtime(state_dir, node_types=[NodeType("default", workers=workers)]) as rt:
        try:
            rt.submit(flow, run_id=RUN_ID)
        except DuplicateRun:
            pass
        print("acknowledged", flush=True)
        print(rt.handle(RUN_ID).wait(), flush=True)


if __name__ == "__main__":
    main()
