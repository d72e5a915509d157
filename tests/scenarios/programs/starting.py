"""A host program whose task starts a program of its own, and waits to be killed.

Arguments: state folder, file of runs.
"""

from __future__ import annotations

import signal
import sys

from runtime import NodeType, Runtime
from tests.scenarios.handlers import start_others


def main() -> None:
    """See the head of the file."""
    with Runtime(sys.argv[1], node_types=[NodeType("default", workers=1)]) as rt:
        rt.submit(start_others, sys.argv[2], "session")
        print("submitted", flush=True)
        signal.sigwait({signal.SIGINT})


if __name__ == "__main__":
    main()
