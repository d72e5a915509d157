"""Fork hooks: they run in the child, and keep nothing alive."""

from __future__ import annotations

import gc
import os
import weakref

from runtime.host.forks import call_in_forks


class Told:
    """Counts how often it was told."""

    def __init__(self) -> None:
        self.times = 0

    def tell(self) -> None:
        self.times += 1


def times_in_a_fork(told: Told) -> int:
    pid = os.fork()
    if not pid:
        os._exit(told.times)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_method_is_called_in_each_fork_and_not_here() -> None:
    told = Told()
    call_in_forks(told.tell)
    assert times_in_a_fork(told) == 1
    assert times_in_a_fork(told) == 1
    assert told.times == 0


def test_the_hook_does_not_keep_its_object_alive() -> None:
    told = Told()
    call_in_forks(told.tell)
    known = weakref.ref(told)
    del told
    gc.collect()
    assert known() is None
