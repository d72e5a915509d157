"""A program that submits one task under a key, as soon as the state folder is free.

Arguments: state folder, file for the notes, gate. Prints the run, then the result; ends when told to.
"""

from __future__ import annotations

import sys

from runtime import NodeType, Runtime
from runtime.errors import StateFolderInUse
from tests.scenarios import handlers
from tests.scenarios.waiting import pause


def opened(state_dir: str) -> Runtime:
    """The runtime, when whoever has the folder is gone."""
    while True:
        try:
            return Runtime(state_dir, node_types=[NodeType("default", workers=1)])
        except StateFolderInUse:
            pause(0.02)


def main() -> None:
    """See the head of the file."""
    state_dir, runs, gate = sys.argv[1:]
    with opened(state_dir) as rt:
        handle = rt.submit(handlers.hold, runs, "charged", gate, idempotency_key="invoice-17")
        print(handle.run_id, flush=True)
        print(handle.result(timeout=60), flush=True)
        rt.close(drain=True)


if __name__ == "__main__":
    main()
