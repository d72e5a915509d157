"""A web server's master that forks workers, each of which starts the engine on the same folder.

Arguments: state folder, number of workers, "each" (every worker opens a runtime) or "before" (the master has opened
one, and forks then). Workers print one line each; the master prints theirs and waits for them.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from runtime import NodeType, Runtime, errors
from tests.scenarios import handlers_hygiene as hygiene
from tests.scenarios.handlers import wait_for

POOL = [NodeType("cpu", workers=1)]


def fork(work: Callable[[], None]) -> int:
    """Start a worker."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as broken:
            traceback.print_exc()
            say("failed", os.getpid(), type(broken).__name__)  # whoever reads a line of each must not wait for ever
            os._exit(1)
    return pid


def say(*words: object) -> None:
    """One write, because several processes share the stream."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def open_one(state: str) -> None:
    """A worker: owner, or told who is."""
    try:
        with Runtime(state, node_types=POOL, durability="os") as rt:
            assert rt.submit(hygiene.same, 1).result(timeout=60) == 1
            say("owner", os.getpid())
            wait_for(state + ".gate")
    except errors.StateFolderInUse as used:
        say("refused", os.getpid(), used.pid, str(used.pid) in str(used), used.retryable)


def use_inherited(rt: Runtime) -> None:
    """A worker that finds its master's runtime: it is told so, at once, and harms nobody."""
    for call in (
        lambda: rt.submit(hygiene.same, 1),
        lambda: rt.submit_nowait(hygiene.same, 1),
        lambda: next(rt.map(hygiene.same, [1])),
        lambda: rt.handle("x"),
        rt.statistics,
    ):
        try:
            answer = call()
        except errors.RuntimeClosed as refused:
            answer = str(refused)
        assert "another process" in str(answer), answer
    rt.close()
    say("refused", os.getpid(), 0, True, True)


def main() -> None:
    """See the head of the file."""
    state, count, when = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    say("master", os.getpid())
    if when == "each":
        pids = [fork(lambda: open_one(state)) for _ in range(count)]
        say("ended", [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])
        return
    with Runtime(state, node_types=POOL, durability="os") as rt:
        assert rt.submit(hygiene.same, 1).result(timeout=60) == 1
        pids = [fork(lambda: use_inherited(rt)) for _ in range(count)]
        say("ended", [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])
        say("result", rt.submit(hygiene.same, 2).result(timeout=60))
        if count > 1:
            fork(lambda: wait_for(state + ".gate"))  # holds copies of all that the master has open
            say("survivor")
            os.kill(os.getpid(), 9)


if __name__ == "__main__":
    main()
