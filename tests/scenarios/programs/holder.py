"""A host program: opens a state folder, says so, and keeps it until it is ended.

Argument: state folder. Says `open`, or the code and pid of the error.
"""

from __future__ import annotations

import signal
import sys

from runtime import NodeType, Runtime
from runtime.errors import StateFolderInUse


def main() -> None:
    """See the head of the file."""
    try:
        with Runtime(sys.argv[1], node_types=[NodeType("default", workers=1)]):
            print("open", flush=True)
            signal.sigwait({signal.SIGINT})
    except StateFolderInUse as used:
        print(used.code, used.pid, flush=True)


if __name__ == "__main__":
    main()
