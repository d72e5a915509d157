"""A host program that reads a durable subscription and acknowledges half of what it prints.

Arguments: state folder, how many tasks to submit first. Prints "LSN place run" for each event, acknowledges every line
that it is told to ("ack"), and goes on until it is killed.
"""

from __future__ import annotations

import sys

from runtime import NodeType, Runtime


def main() -> None:
    """See the head of the file."""
    with (
        Runtime(sys.argv[1], node_types=[NodeType("default", workers=1)]) as rt,
        rt.subscribe("billing", "run.succeeded") as events,
    ):
        for number in range(int(sys.argv[2])):
            rt.submit(abs, -number).result(timeout=60)
        print("submitted", flush=True)
        for event in events:
            print(event.lsn, event.place, event.run, flush=True)
            if sys.stdin.readline().strip() == "ack":
                events.ack(event)
                events._kept.save()


if __name__ == "__main__":
    main()
