"""A host program: submits until the disk is full, says how much was acknowledged, and waits to be killed.

Arguments: state folder, file of runs. Says `open`, waits for a line, says a number.
"""

from __future__ import annotations

import signal
import sys

from runtime import NodeType, Runtime
from runtime.errors import DiskFull
from tests.scenarios.handlers import mark

PAD = "x" * 20_000


def main() -> None:
    """See the head of the file."""
    with Runtime(sys.argv[1], node_types=[NodeType("default", workers=1)]) as rt:
        print("open", flush=True)
        sys.stdin.readline()
        acknowledged = 0
        try:
            while True:
                rt.submit(mark_padded, sys.argv[2], str(acknowledged), PAD)
                acknowledged += 1
        except DiskFull:
            print(acknowledged, flush=True)
        signal.sigwait({signal.SIGINT})


def mark_padded(path: str, word: str, pad: str) -> None:
    """As `mark`, with an argument that takes room in the log."""
    mark(path, word)


if __name__ == "__main__":
    main()
