"""A program that submits a unique task and some debounced calls, then lives until it is killed or told to end.

Arguments: state folder, file for the notes, gate. Prints the runs of the unique task and of the debounced calls.
"""

from __future__ import annotations

import sys

from runtime import NodeType, Runtime
from tests.scenarios import handlers


def main() -> None:
    """See the head of the file."""
    state_dir, runs, gate = sys.argv[1:]
    with Runtime(state_dir, node_types=[NodeType("default", workers=1, prefetch=1)]) as rt:
        unique = rt.submit(handlers.hold, runs, "unique", gate, unique="report")
        calls = [rt.submit(handlers.mark, runs, f"call-{i}", debounce=5.0, debounce_max=60.0) for i in range(3)]
        print(unique.run_id, flush=True)
        print(*{call.run_id for call in calls}, flush=True)
        sys.stdin.readline()
        rt.close(drain=False)


if __name__ == "__main__":
    main()
