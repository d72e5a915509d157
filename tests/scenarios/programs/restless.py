"""A host program that submits without end: chains of three nodes, single tasks, and now and then a burst.

Arguments: state folder, file of effects, file of acknowledgements, a number that makes its words unique. A word is
noted in the second file only after the submission that holds it was acknowledged. Ends with code 3 when the engine is
gone for good, which it may be after too many kills in a short time.
"""

from __future__ import annotations

import sys

from runtime import Flow, NodeType, Runtime
from runtime.errors import EngineUnavailable
from tests.scenarios.handlers import mark, note

GONE = 3
POISON = 1_000
"""Nobody here is poison: what kills workers is the test."""


def main() -> int:
    """See the head of the file."""
    state_dir, effects, acknowledged, start = sys.argv[1:]
    try:
        with Runtime(
            state_dir, node_types=[NodeType("default", workers=2)], checkpoint_bytes=None
        ) as rt:  # whose whole log is read
            print("open", flush=True)
            number = 0
            while True:
                number += 1
                _submit_some(rt, effects, acknowledged, f"{start}-{number}")
    except EngineUnavailable:
        return GONE


def _submit_some(rt: Runtime, effects: str, acknowledged: str, name: str) -> None:
    patient = rt.options(poison=POISON)
    flow = Flow(name, poison=POISON)
    first = flow.add(mark, effects, f"{name}-a")
    second = flow.add(mark, effects, f"{name}-b", after=[first])
    flow.add(mark, effects, f"{name}-c", after=[second])
    rt.submit(flow, run_id=name)
    for letter in "abc":
        note(acknowledged, f"{name}-{letter}")
    for i in range(3):
        patient.submit(mark, effects, f"{name}-{i}")
        note(acknowledged, f"{name}-{i}")
    burst = [patient.submit_nowait(mark, effects, f"{name}-x{i}") for i in range(20)]
    for i, handle in enumerate(burst):
        handle.result()
        note(acknowledged, f"{name}-x{i}")


if __name__ == "__main__":
    sys.exit(main())
