"""A host program that is killed again and again: tasks, checkpoints, and a subscription with a function.

Arguments: state folder, file of ids whose results were had, file of events that were dealt with. Goes on until it is
killed.
"""

from __future__ import annotations

import os
import sys
import threading

from runtime import Event, NodeType, Runtime


def main() -> None:
    """See the head of the file."""
    state, acknowledged, seen = sys.argv[1:]
    with (
        Runtime(state, node_types=[NodeType("default", workers=1)], checkpoint_bytes=8_000) as rt,
        rt.subscribe("audit", "run.succeeded", since="begin") as events,
        open(acknowledged, "a") as done,
        open(seen, "a") as told,
    ):

        def callback(event: Event) -> None:
            told.write(f"{event.lsn} {event.place} {event.run}\n")
            told.flush()

        threading.Thread(target=events.run, args=(callback,), daemon=True).start()
        print("open", flush=True)
        while os.getppid() != 1:
            handles = [rt.submit(abs, -number) for number in range(20)]
            for handle in handles:
                handle.result(timeout=60)
                done.write(f"{handle.run_id}\n")
            done.flush()


if __name__ == "__main__":
    main()
