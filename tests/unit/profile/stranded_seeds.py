"""Leaks of the engine and of programs, with real processes that are killed: see `leak_seeds`."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from actors.state_column import PENDING
from runtime.host import kernel
from runtime.host.client import EngineClient
from runtime.host.intake import Intake
from runtime.host.outbox import Outbox
from runtime.mail.blocks import create_block
from runtime.mail.lease_table import LeaseTable
from runtime.profile.leak_check.stranded import EngineLook, stranded_blocks
from runtime.profile.ledger.gauges import gauge_client
from runtime.profile.ledger.pins import EVIDENCE
from runtime.profile.model import Process
from runtime.profile.presence.page import Page, create_page
from tests.unit.actors.rig import Rig, S
from tests.unit.profile.garden import Garden
from tests.unit.runtime.fake_engine import FakeEngine

HANDLER = f"{__name__}:handle_order"


def handle_order(number: int) -> int:  # made: handler
    """Known to engines by its name."""
    return number


def forked(does: Callable[[], Any]) -> int:
    """A child that does something and waits to be killed; returns its pid when it has done it."""
    near, far = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            does()
            os.write(far, b"1")
            while True:
                signal.pause()
        finally:
            os._exit(1)
    os.close(far)
    try:
        assert os.read(near, 1), "the child failed"
    finally:
        os.close(near)
    return pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


# --- the engine -------------------------------------------------------------------------------------------------------


def watched(garden: Garden, rig: Rig, posts: dict[int, Any] | None = None) -> None:
    """The engine of this core says what is left there, as it does from its start."""
    EVIDENCE.append(EngineLook(rig.core, SimpleNamespace(_workers=posts or {})))


async def leak_run(garden: Garden) -> None:
    rig = Rig(boot=False)
    rig.submit_graph([[], [0]], handler=HANDLER)
    (run,) = rig.core.scheduler.book.live.values()
    run.state[0] = PENDING
    run.key = f"order-{len(EVIDENCE)}"
    watched(garden, rig)


async def leak_timer(garden: Garden) -> None:
    rig = Rig()
    rig.submit(1, handler=HANDLER)
    ((worker, serial, node),) = rig.leases()
    (run,) = rig.core.scheduler.book.live.values()
    rig.succeed(worker, serial, node)
    assert not rig.core.scheduler.book.live
    run.key = f"order-{len(EVIDENCE)}"
    rig.core.scheduler.timers.set((run.no, node), rig.now_ns + 3600 * S)
    watched(garden, rig)


def worker_of(garden: Garden, claims: bool) -> None:
    """A worker with one lease, killed after it claimed it, or before it took it."""
    rig = Rig()
    rig.submit(1, handler=HANDLER)
    ((worker, serial, _),) = rig.leases()
    (run,) = rig.core.scheduler.book.live.values()
    run.key = f"order-{len(EVIDENCE)}"
    table = LeaseTable(LeaseTable.create())
    table.grant(serial, 1)
    pid = forked(lambda: table.claim(serial, 1) if claims else None)
    (pool,) = rig.core.pools.values()
    pool.workers[worker].pid = pid
    watched(garden, rig, {worker: SimpleNamespace(table=table)})
    garden.ends.append(table.close)
    kill(pid)


async def leak_message(garden: Garden) -> None:
    worker_of(garden, claims=False)


async def leak_lease(garden: Garden) -> None:
    worker_of(garden, claims=True)


# --- programs ---------------------------------------------------------------------------------------------------------


def page_with(garden: Garden, role: str, *more: Any) -> tuple[Page, int]:
    """A page, in which a child stands."""
    page = Page(create_page("none", "/nowhere"))
    garden.ends.append(page.close)
    return page, forked(lambda: stand(page, role, *more))


def stand(page: Page, role: str, *more: Any) -> None:
    pid = os.getpid()
    assert page.take_slot(Process(pid, kernel.start_time(pid), role, *more)) is not None


async def leak_ask(garden: Garden) -> None:
    """The first one has an engine, which is killed when its face has seen it."""
    if not garden.kept:
        engine: Any = FakeEngine()
        client = EngineClient(engine, "s", None)
        client.start()
        page, pid = page_with(garden, "engine")
        garden.ends.append(lambda: engine.end(client))
        engine._page = page
        gauge_client(client)
        list(EVIDENCE[-1]())  # the face looks, as whoever watches has it look
        kill(pid)
        garden.kept.append(client)
    garden.kept[0].ask("engine", {})  # made: ask


class Face:
    """A program that asked nothing."""

    def __init__(self, page: Page) -> None:
        self.intake = Intake(Outbox())
        self._starter = SimpleNamespace(_page=page)


async def leak_actor(garden: Garden) -> None:
    """A spawner with a worker, which goes on when the spawner is killed. One page and one face for all of them."""
    if not garden.kept:
        page = Page(create_page("none", "/nowhere"))
        garden.ends.append(page.close)
        face = Face(page)
        gauge_client(face)
        garden.kept += [face, page, EVIDENCE[-1]]
    _, page, looks = garden.kept
    there = {row.process.pid for row in page.processes()}
    pid = forked(lambda: forked(lambda: stand(page, "worker", 1, "http")))
    list(looks())  # the face looks, as whoever watches has it look
    kill(pid)
    (worker,) = {row.process.pid for row in page.processes()} - there
    garden.ends.append(lambda: os.kill(worker, signal.SIGKILL))


async def leak_segment(garden: Garden) -> None:
    near, far = socket.socketpair()

    def makes() -> None:
        fd = create_block(64)  # made: segment
        socket.send_fds(far, [b"1"], [fd])

    with near, far:
        pid = forked(makes)
        _, fds, _, _ = socket.recv_fds(near, 1, 1)
    kill(pid)
    if stranded_blocks not in EVIDENCE:
        EVIDENCE.append(stranded_blocks)
    garden.ends += [partial(os.close, fd) for fd in fds]
