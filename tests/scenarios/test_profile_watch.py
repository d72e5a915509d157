"""The watch over a real runtime: a node type that becomes slow burns an objective, and the evidence names it; a loop
that is held up is told with who does it; so is a node type whose memory grows (S47).

Acceptance tests 11 (the event of a lag carries the stack) and 13.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from runtime import AsyncRuntime, NodeType, Profiling, Retention, Runtime
from runtime.host import kernel
from runtime.profile.captures import capture
from runtime.profile.cli import doctor
from runtime.profile.model import LIVE, Profile
from runtime.profile.monitor.bundle import Evidence
from runtime.profile.monitor.burn import Slo, SloMeter
from runtime.profile.monitor.meters import RunMeter
from runtime.profile.monitor.watching import Bounds, Breach, Watch, Watching
from runtime.profile.presence.control import ask, rows_of, seen_page
from runtime.profile.presence.page import LETS_ATTACH
from tests.scenarios import handlers_hygiene, handlers_watch
from tests.scenarios.waiting import pause, until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")]
PATIENCE_S = 120.0
LATE_S = 2.0
SEEN = 110
"""Samples of what is healthy: a diff refuses less than a hundred."""


class Quick(Evidence):
    """Records for a second, and of the slow node type again, until there is enough of it on a machine that is busy."""

    def __init__(self, *, hurry: bool = False) -> None:
        super().__init__(seconds=1.0)
        self.hurry = hurry

    def flight(self, state_dir: str) -> Profile:
        return capture.cpu(state_dir, 1.0, hz=200.0)

    def cpu(self, state_dir: str) -> Profile:
        found = self.flight(state_dir)
        while seen_of(found, "bank") < SEEN and not self.hurry:
            more = self.flight(state_dir)
            found.merge(more)
            found.duration_ns += more.duration_ns
        return found


@contextmanager
def going_on(work: Callable[[], object]) -> Iterator[None]:
    """A thread does this again and again."""
    end = threading.Event()

    def run() -> None:
        while not end.is_set():
            work()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def seen_of(profile: Profile, node_type: str) -> int:
    weight = profile.by("node_type").get((node_type,))
    return 0 if weight is None else weight.seen


def seen_healthy(state_dir: Path) -> int:
    path = state_dir / "profile" / "healthy.json"
    return Profile.from_json(path.read_bytes()).total().seen if path.exists() else 0


def test_a_slow_node_type_burns_its_budget_and_is_named_first(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 13: nine in ten runs must be done in time, and those of one node type are not any more. That it
    takes no fifteen seconds is shown without a clock, in the unit tests of the watch."""
    slo = Slo("orders", RunMeter(state_dir, name="*pay", within=LATE_S), target=0.5, fast=1.0, slow=2.0, burn=1.5)
    slow, end = str(tmp_path / "slow"), str(tmp_path / "end")
    with (
        Runtime(state_dir, node_types=[NodeType("shop", workers=1), NodeType("bank", workers=1)]) as rt,
        Watching(state_dir, slos=[slo], bounds=Bounds(silence=PATIENCE_S), evidence=Quick(), healthy=0.1) as watching,
    ):

        def sell() -> None:
            shown = rt.options(node_type="shop").submit(handlers_watch.show, 20_000)
            paid = rt.options(node_type="bank").submit(handlers_watch.pay, slow, end)
            assert (shown.result(timeout=PATIENCE_S), paid.result(timeout=PATIENCE_S)) == (20_000, "paid")

        with going_on(sell):
            until(lambda: seen_healthy(state_dir) >= SEEN, "what is healthy to be recorded", PATIENCE_S)
            assert watching.breaches == []
            Path(slow).touch()
            late = [rt.options(node_type="bank").submit(handlers_watch.pay, slow, end) for _ in range(20)]
            until(lambda: watching.breaches, "the objective to be breached", PATIENCE_S)
            Path(end).touch()
            assert {handle.result(timeout=PATIENCE_S) for handle in late} == {"paid"}
        breach = watching.breaches[0]
        assert breach.trigger == "slo-orders"
        assert "burns its budget" in breach.text
        bundle = Path(breach.bundle)
        assert bundle.parent == state_dir / "profile" / "bundles"
        assert orjson.loads((bundle / "trigger.json").read_bytes())["trigger"] == "slo-orders"
        cpu = Profile.from_json((bundle / "cpu.json").read_bytes())
        top = orjson.loads((bundle / "diff.json").read_bytes())["rows"][0]
        assert dict(top["labels"])["node_type"] == "bank", top
        assert top["verdict"] in ("grew", "new")
        assert "count_coins" in {one.stack[-1].name for one, _ in cpu if dict(one.labels).get("node_type") == "bank"}
        stacks = Profile.from_json((bundle / "stacks.json").read_bytes())
        assert stacks.kind == LIVE
        assert {"engine", "face", "worker"} <= {sample.process.role for sample, _ in stacks if sample.process}
        assert "findings" in orjson.loads((bundle / "leaks.json").read_bytes())
        assert (bundle / "cpu.html").stat().st_size > 10_000


def test_a_second_trigger_is_told_and_saves_nothing(state_dir: Path) -> None:
    """Acceptance test 13: whoever watches, and over a restart, in ten minutes one bundle."""
    told: list[Breach] = []
    meter = SloMeter()
    slo = Slo("orders", meter, target=0.9, fast=1.0, slow=2.0, burn=5.0)
    bounds = Bounds(silence=PATIENCE_S)

    def burnt() -> list[Breach]:
        for _ in range(20):
            meter.add(ok=False)
        return told

    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        rt.profile.watch(slos=[slo], tell=told.append, bounds=bounds, evidence=Quick(hurry=True))
        until(burnt, "the objective to be breached", PATIENCE_S)
    assert Path(told.pop().bundle).is_dir()
    profiling = Profiling(watch=True, slos=[slo], tell=told.append, bounds=bounds)
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)], profiling=profiling):
        until(burnt, "the objective to be breached again", PATIENCE_S)
    assert [one.bundle for one in told] == [""]
    assert len(list((state_dir / "profile" / "bundles").iterdir())) == 1


def test_an_async_runtime_is_told_in_its_loop(state_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And where nobody says what to do, a warning is logged."""
    told: list[tuple[Breach, asyncio.Task[None] | None]] = []

    async def tell(breach: Breach) -> None:
        told.append((breach, asyncio.current_task()))

    async def main() -> None:
        profiling = Profiling(watch=True, bounds=Bounds(silence=PATIENCE_S))
        async with AsyncRuntime(state_dir, node_types=[NodeType("cpu", workers=1)], profiling=profiling) as rt:
            for name, asked in (("thread", tell), ("descriptor", None)):
                rt.profile.watch(tell=asked, save=False, bounds=Bounds(ceilings={name: 0}, silence=PATIENCE_S))
            await asyncio.to_thread(until, lambda: told and caplog.records, "both to be told", PATIENCE_S)

    with caplog.at_level(logging.WARNING, logger="mainspring"):
        asyncio.run(main())
    assert told[0][0].trigger.startswith("ceiling-thread-")
    assert told[0][1] is not None
    assert "x descriptor, more than 0" in caplog.text


def test_who_holds_up_a_loop_is_told_with_its_stack(state_dir: Path, tmp_path: Path) -> None:
    """Acceptance test 11: while the loop stands still."""
    gate = tmp_path / "gate"
    types = [NodeType("io", workers=1, mode="asyncio", concurrency=10)]
    with Runtime(state_dir, node_types=types) as rt:
        ask(state_dir, "lag", timeout=PATIENCE_S)  # as whoever watches does each ten seconds
        with Watching(state_dir, bounds=Bounds(lag=2.0, silence=PATIENCE_S), save=False) as watching:
            handle = rt.submit(handlers_watch.forget_to_await, str(gate))

            def told() -> list[Breach]:
                return [one for one in watching.breaches if one.trigger == "lag-loop-worker-io"]

            until(told, "the loop's lag to be told", PATIENCE_S)
            gate.touch()
            assert handle.result(timeout=PATIENCE_S) == "done"
        (breach, *_) = told()
        names = [frame.name for frame in breach.stack]
        assert names[names.index("forget_to_await") :][:2] == ["forget_to_await", "read_file"], breach
        assert dict(breach.labels)["node_type"] == "io"
        assert "held up for" in breach.text


@pytest.mark.parametrize("asked", [False, True])
def test_who_may_attach_is_asked_of_the_kernel_in_each_process(state_dir: Path, asked: bool) -> None:
    """Where there is no Yama the kernel refuses, and nobody may attach more or less than before; `doctor` says so."""
    profiling = Profiling(allow_attach=asked)
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)], profiling=profiling) as rt:
        rt.submit(handlers_watch.show, 1).result(timeout=PATIENCE_S)
        rows = {row.process.role: bool(row.hears & LETS_ATTACH) for row in rows_of(state_dir)}
        assert {"face", "spawner", "engine", "worker"} <= set(rows)
        fact = next(fact for fact in doctor.of_folder(str(state_dir)) if fact.name == "allow_attach")
    known = os.path.exists(doctor.YAMA)
    assert set(rows.values()) == {asked and known}, rows
    if known:
        assert ("let any process of this user attach" in fact.text) == asked
    else:
        assert "EINVAL" in fact.text


@pytest.mark.parametrize("mode", ["process", "asyncio"])
def test_s47_the_node_type_and_the_line_whose_memory_grows_are_named(state_dir: Path, mode: str) -> None:
    """S47, shortened: ten KiB are lost with every task, in one of two node types. Ten seconds are a look here."""
    leaky = NodeType("leaky", workers=1, mode=mode)  # type: ignore[arg-type]
    fn = handlers_hygiene.leak if mode == "process" else handlers_hygiene.leak_async
    with Runtime(state_dir, node_types=[NodeType("clean", workers=1), leaky], durability="none") as rt:

        def work() -> None:
            list(rt.options(node_type="leaky").map(fn, [10 * 1024] * 200))
            list(rt.options(node_type="clean").map(handlers_hygiene.same, range(200)))

        work()
        watch = Watch(state_dir, bounds=Bounds(rss_per_min=2 << 20, silence=PATIENCE_S), memory_s=4.0)
        with seen_page(state_dir) as page:
            found: list[Breach] = []
            for second in range(0, 120, 10):
                work()
                found += watch.look(page, time.monotonic_ns() + second * 1_000_000_000)
                if found:
                    break
        grown = [one for one in found if one.trigger == "slope-memory-worker-leaky"]
        assert grown, found
        with going_on(work):
            breach = watch.explain(grown[0])
        assert breach.stack[-1][:2] == (fn.__name__, handlers_hygiene.__file__)
        assert dict(breach.labels)["node_type"] == "leaky"
        assert f"that {fn.__name__} took are kept" in breach.text


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["process", "asyncio"])
def test_s47_a_hundred_thousand_tasks_that_leak_are_named(state_dir: Path, mode: str) -> None:
    """S47 at full length: by a watch as users have it, while a pool that does not leak is not told."""
    leaky = NodeType("leaky", workers=1, mode=mode)  # type: ignore[arg-type]
    fn = handlers_hygiene.leak if mode == "process" else handlers_hygiene.leak_async
    told: list[Breach] = []
    types, kept = (
        [NodeType("clean", workers=1), leaky],
        Retention(runs=1_000, nodes=1_000),
    )  # so it does not grow
    with Runtime(state_dir, node_types=types, durability="none", retention=kept) as rt:
        rt.profile.watch(tell=told.append, bounds=Bounds(rss_per_min=16 << 20))
        done, ends_s = 0, time.monotonic() + 600.0
        while done < 100_000 or not told:
            assert time.monotonic() < ends_s
            list(rt.options(node_type="clean").map(handlers_hygiene.same, range(500)))
            done += len(list(rt.options(node_type="leaky").map(fn, [10 * 1024] * 500)))
            pause(0.4)  # no more than a gigabyte in the time that it takes to tell a slope
    leaks = [one for one in told if not one.trigger.startswith("self-")]  # looking for the line costs, and is said, too
    assert {one.trigger for one in leaks} == {"slope-memory-worker-leaky"}
    assert leaks[0].stack[-1].name == fn.__name__
    assert Path(leaks[0].bundle).is_dir()
