"""Gauges: what the kernel and the engine count already."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest

from runtime.host import kernel
from runtime.mail.blocks import create_block
from runtime.profile.ledger import gauges
from runtime.profile.ledger.books import LEDGER
from tests.scenarios.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.fresh,  # threads of other tests may end while it counts
]
by_proc = pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")


@by_proc
def test_descriptors_and_blocks_are_counted() -> None:
    before = gauges.descriptors()[0], gauges.segments()[0]
    fd = create_block(1)
    try:
        assert (gauges.descriptors()[0], gauges.segments()[0]) == (before[0] + 1, before[1] + 1)
    finally:
        os.close(fd)
    assert (gauges.descriptors()[0], gauges.segments()[0]) == before


def threads_that_stay() -> int:
    """How many there are, without those that are joined and that the kernel still ends: Python does not wait for it."""
    known = {thread.native_id for thread in threading.enumerate()}

    def gone() -> bool:
        return all(int(tid) in known for tid in os.listdir("/proc/self/task"))

    with suppress(AssertionError):  # a native library has threads of its own: they stay
        until(gone, "ended threads to be gone", 0.2)
    return gauges.threads()[0]


@by_proc
def test_threads_and_children_are_counted() -> None:
    gate, before = threading.Event(), (threads_that_stay(), gauges.children()[0])
    thread = threading.Thread(target=gate.wait)
    thread.start()
    pid = os.fork()
    if not pid:
        os._exit(0)
    try:
        assert (gauges.threads()[0], gauges.children()[0]) == (before[0] + 1, before[1] + 1)  # a zombie, too
    finally:
        os.waitpid(pid, 0)
        gate.set()
        thread.join()


def test_a_program_is_counted_for_as_long_as_it_lives() -> None:
    class Client:
        intake = SimpleNamespace(queries={1: None, 2: None}, open={1: None}, _pins=None)

    before = LEDGER.counts()["ask"].live, LEDGER.counts()["run"].live
    client = Client()
    gauges.gauge_client(client)
    assert (LEDGER.counts()["ask"].live, LEDGER.counts()["run"].live) == (before[0] + 2, before[1] + 1)
    del client
    assert (LEDGER.counts()["ask"].live, LEDGER.counts()["run"].live) == before
