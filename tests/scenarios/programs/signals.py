"""Host programs about signals, one for each name.

Arguments: name, state folder. What they print is in the scenario.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

from runtime import NodeType, Runtime
from tests.scenarios import handlers_hygiene as hygiene
from tests.scenarios.handlers import hold
from tests.scenarios.waiting import await_lines

POOL = [NodeType("cpu", workers=1)]
CAUGHT = tuple(s for s in signal.valid_signals() if s not in (signal.SIGKILL, signal.SIGSTOP))


def handlers_now() -> list[Any]:
    """All signal handlers of this process, and where the wake-up bytes go."""
    fd = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(fd)
    return [*map(signal.getsignal, CAUGHT), fd]


def untouched(state: str) -> None:
    """No handler is installed, neither by opening, nor by working, nor by closing."""
    before = handlers_now()
    with Runtime(state, node_types=POOL, durability="os") as rt:
        opened = handlers_now()
        assert sum(rt.map(hygiene.same, [1] * 100)) == 100
        worked = handlers_now()
    print(before == opened == worked == handlers_now(), flush=True)


def in_thread(state: str) -> None:
    """Everything in a thread that is not the main one; then Ctrl-C in the main one, which works as ever."""
    before, found = handlers_now(), []

    def work() -> None:
        with Runtime(state, node_types=POOL, durability="os") as rt:
            found.append(rt.submit(hygiene.same, 1).result(timeout=60))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    print(found, before == handlers_now(), flush=True)
    interrupt()


def interrupt() -> None:
    """Wait for SIGINT; say that it came as KeyboardInterrupt."""
    try:
        print("waiting", flush=True)
        threading.Event().wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)


def after_close(state: str) -> None:
    """Ctrl-C after a runtime was closed."""
    with Runtime(state, node_types=POOL, durability="os", handle_sigterm=True) as rt:
        rt.submit(hygiene.same, 1).result(timeout=60)
    interrupt()


def while_waiting(state: str) -> None:
    """Ctrl-C while a result is waited for."""
    with Runtime(state, node_types=POOL, durability="os") as rt:
        handle = rt.submit(hygiene.hold, state + ".never", run_id="held")
        try:
            print("waiting", flush=True)
            handle.result()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            raise


def group(state: str) -> None:
    """SIGINT to the whole group, as a terminal sends it: handled by the program; no task sees it."""
    count: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: count.append(number))
    with Runtime(state, node_types=POOL, durability="os") as rt:
        handle = rt.submit(hygiene.hold, state + ".gate")
        rt.submit(hygiene.same, 1)
        print("waiting", flush=True)
        while not count:
            handle.why()
        open(state + ".gate", "w").close()
        print(handle.result(timeout=60) > 0, handle.status().attempts, flush=True)


def chained(state: str) -> None:
    """One library was there before, one comes after: all hear of SIGTERM, and find their handlers as they were."""
    heard: list[str] = []

    def first(number: int, frame: FrameType | None) -> None:
        heard.append("first")

    signal.signal(signal.SIGTERM, first)
    rt = Runtime(state, node_types=POOL, durability="os", handle_sigterm=True)
    ours: Any = signal.getsignal(signal.SIGTERM)

    def second(number: int, frame: FrameType | None) -> None:
        heard.append("second")
        ours(number, frame)

    signal.signal(signal.SIGTERM, second)
    os.kill(os.getpid(), signal.SIGTERM)
    print(heard, flush=True)
    rt.close()
    print(signal.getsignal(signal.SIGTERM) is second, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print(heard, flush=True)
    signal.signal(signal.SIGTERM, first)
    with Runtime(state, node_types=POOL, durability="os", handle_sigterm=True):
        pass
    print(signal.getsignal(signal.SIGTERM) is first, flush=True)


def drained(state: str) -> None:
    """Asked to, it drains on SIGTERM: the running task ends, its result is durable, the exit code is the shell's."""
    with Runtime(state, node_types=POOL, durability="os", handle_sigterm=True) as rt:
        handle = rt.submit(hold, state + ".noted", "held", state + ".gate", run_id="held")
        await_lines(Path(state + ".noted"), 1)
        print("waiting", flush=True)
        handle.result()


PROGRAMS: MappingProxyType[str, Callable[[str], None]] = MappingProxyType(
    {
        "untouched": untouched,
        "in a thread": in_thread,
        "after close": after_close,
        "while waiting": while_waiting,
        "group": group,
        "chained": chained,
        "drained": drained,
    }
)


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](sys.argv[2])
