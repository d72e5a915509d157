"""A host program whose threads hold locks while processes are made: those of logging, of a stream, of the allocator's.

Argument: state folder. Prints `done`, or hangs.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from runtime import NodeType, Runtime
from tests.scenarios import handlers_hygiene as hygiene
from tests.scenarios.processes import OwnFamily
from tests.scenarios.waiting import until

THREADS = 1


def hold(handler: logging.Handler, held: threading.Event, over: threading.Event) -> None:
    """Hold the locks of logging until it is over."""
    with logging._lock:  # type: ignore[attr-defined]
        handler.acquire()
        held.set()
        over.wait()
        handler.release()


def churn(over: threading.Event) -> None:
    """Allocate and free, so that some lock of the process is always held by somebody."""
    while not over.is_set():
        dict.fromkeys(map(str, range(1000)))


def replace_workers(family: OwnFamily) -> None:
    """Kill all workers and wait for others."""
    before = set(family.workers)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(set(family.workers) - before) == len(before), "new workers")


def main() -> None:
    """See the head of the file."""
    handler = logging.StreamHandler()
    logging.getLogger().addHandler(handler)
    held, over = threading.Event(), threading.Event()
    threads = [threading.Thread(target=hold, args=(handler, held, over))]
    threads += [threading.Thread(target=churn, args=(over,)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    held.wait()
    pools = [NodeType("cpu", workers=2), NodeType("io", workers=1, mode="asyncio")]
    with Runtime(sys.argv[1], node_types=pools, durability="os") as rt:
        family = OwnFamily(rt)
        for _ in range(2):
            for pool in pools:
                on = rt.options(node_type=pool.name)
                assert all(on.submit(hygiene.log_and_lock, "text").result(timeout=60) for _ in range(4))
            replace_workers(family)
        over.set()
        for thread in threads:
            thread.join()
    print("done", flush=True)


if __name__ == "__main__":
    main()
