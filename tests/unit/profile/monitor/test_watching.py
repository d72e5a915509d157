"""What is out of bounds is told once, and saved at most once in ten minutes; rows of the page are made up."""

from __future__ import annotations

import logging
import math
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from actors.protocol.errors import CallerError, ConfigurationError
from runtime.profile.leak_check.survey import Report
from runtime.profile.ledger.books import Count
from runtime.profile.model import CPU, Frame, Process, Profile, StackSample
from runtime.profile.monitor import bundle
from runtime.profile.monitor import watching as module
from runtime.profile.monitor.bundle import Evidence
from runtime.profile.monitor.burn import Slo, SloMeter
from runtime.profile.monitor.lag import Block
from runtime.profile.monitor.watching import LOOK_S, Bounds, Breach, Watch, Watching
from runtime.profile.presence.control import Answers
from runtime.profile.presence.page import Page, ProcessRow

S = 1_000_000_000
MIB = 1 << 20
WORKER = Process(11, 12, "worker", 3, "http")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"ceilings": {"task": "x"}}, "ceilings must be numbers by kind"),
        ({"ceilings": [("task", 3)]}, "ceilings must be numbers by kind"),
        ({"slope_per_min": {"task": -1}}, "slope_per_min must be numbers by kind"),
        ({"lag": "0.2"}, "lag must be a number from 0 on, not '0.2'"),
        ({"rss_bytes": -1, "silence": None}, "rss_bytes must be a number from 0 on, not -1; silence must be"),
    ],
)
def test_bounds_that_are_no_numbers_are_refused_when_they_are_made(wrong: dict[str, Any], said: str) -> None:
    """And not by the thread that watches, which would end of it."""
    with pytest.raises(ConfigurationError, match=said):
        Bounds(**wrong)
    assert Bounds(lag=math.inf, ceilings={"task": 0}).rss_bytes is None


class Rows:
    """A page with rows as a test wants them."""

    def __init__(self) -> None:
        self.rows: list[ProcessRow] = []

    def show(self, process: Process = WORKER, self_cpu_ns: int = 0, **counts: tuple[int, int]) -> None:
        """This process has these: (how many, since when the oldest lives)."""
        books = {kind: Count(live, live, 0, oldest_ns) for kind, (live, oldest_ns) in counts.items()}
        self.rows = [row for row in self.rows if row.process != process]
        self.rows.append(ProcessRow(process, 0, books, 1, 1, self_cpu_ns, 0, -1, ()))

    def processes(self) -> list[ProcessRow]:
        """As `Page.processes`."""
        return self.rows


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    monkeypatch.setattr("runtime.profile.monitor.bounds.resident_bytes", lambda pid: 100 * MIB)
    return Rows()


def look(watch: Watch, rows: Rows, second: float) -> list[Breach]:
    return watch.look(cast(Page, rows), int((1000 + second) * S))


def test_a_ceiling_is_told_once_and_again_when_it_was_over(rows: Rows) -> None:
    watch = Watch("state", bounds=Bounds(ceilings={"task": 10}))
    rows.show(task=(10, 0))
    assert look(watch, rows, 0) == []
    rows.show(task=(11, 0))
    (breach,) = look(watch, rows, 1)
    assert (breach.trigger, breach.value, breach.bound) == ("ceiling-task-worker-http", 11.0, 10.0)
    assert str(breach) == "worker 3 [http] (pid 11): 11 x task, more than 10"
    assert look(watch, rows, 2) == []
    rows.show(task=(1, 0))
    assert look(watch, rows, 3) == []
    rows.show(task=(12, 0))
    assert len(look(watch, rows, 4)) == 1


def test_many_more_than_when_it_was_warm_is_too_many(rows: Rows) -> None:
    watch = Watch("state")
    rows.show(descriptor=(150, 0))
    assert look(watch, rows, 0) == []
    rows.show(descriptor=(1501, 0))
    assert [one.trigger for one in look(watch, rows, 1)] == ["ceiling-descriptor-worker-http"]


def test_an_event_is_a_breach(rows: Rows) -> None:
    watch = Watch("state")
    rows.show(unawaited=(2, 0))
    assert [one.trigger for one in look(watch, rows, 0)] == ["ceiling-unawaited-worker-http"]


def test_what_grows_while_its_oldest_stays_is_told(rows: Rows) -> None:
    watch = Watch("state")
    found = []
    for second in range(0, 120, 10):
        rows.show(checkout=(10 + second, 900 * S), lock=(10 + second, (900 + second) * S))
        found += look(watch, rows, second)
    assert [one.trigger for one in found] == ["slope-checkout-worker-http"], "of the other the head is taken"
    assert found[0].value == pytest.approx(60.0)


def test_memory_that_grows_is_told(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch("state", bounds=Bounds(rss_per_min=50 * MIB))
    found = []
    for second in range(0, 120, 10):
        monkeypatch.setattr("runtime.profile.monitor.bounds.resident_bytes", lambda pid, at=second: (100 + at) * MIB)
        rows.show()
        found += look(watch, rows, second)
    assert [one.text for one in found] == ["memory grows by 60 MiB a minute"]


def test_a_profiler_that_costs_too_much_is_told(rows: Rows) -> None:
    watch = Watch("state")
    rows.show()
    look(watch, rows, 0)
    rows.show(self_cpu_ns=S // 2)
    assert look(watch, rows, 1) == [], "one answer is no rate"
    assert [one.trigger for one in look(watch, rows, 10)] == ["self-worker-http"]


def test_what_evidence_costs_is_no_breach(rows: Rows) -> None:
    """It would be evidence of itself: a proof, stacks and two profiles, in a process that is busy."""
    watch = Watch("state", bundles=cast(Any, SimpleNamespace(may=lambda *_: True, save=lambda *_: "bundle")))
    rows.show()
    look(watch, rows, 0)
    watch.save(Breach("lag-loop", "it comes late", 1.0, 0.5))
    rows.show(self_cpu_ns=S)
    assert look(watch, rows, 12) == []
    rows.show(self_cpu_ns=2 * S)
    assert [one.trigger for one in look(watch, rows, 22)] == ["self-worker-http"]


def test_a_burning_objective_is_told_without_a_process(rows: Rows) -> None:
    meter = SloMeter(within=0.1)
    watch = Watch("state", slos=[Slo("orders", meter, fast=2.0, slow=5.0)])
    found = []
    for second in range(10):
        for _ in range(10):
            meter.add(1.0 if second > 4 else 0.01)
        found += look(watch, rows, second)
    (breach,) = found
    assert (breach.trigger, breach.process) == ("slo-orders", None)
    assert "bad)" in str(breach)


def test_a_measure_that_fails_is_nothing(rows: Rows) -> None:
    watch = Watch("state", slos=[Slo("orders", lambda: (1 // 0, 0))])
    assert look(watch, rows, 0) == []


def test_a_process_that_is_gone_is_forgotten(rows: Rows) -> None:
    watch = Watch("state", bounds=Bounds(ceilings={"task": 10}))
    rows.show(task=(11, 0))
    assert len(look(watch, rows, 0)) == 1
    rows.rows = []
    assert look(watch, rows, 1) == []
    rows.show(WORKER._replace(pid=99), task=(11, 0))
    assert len(look(watch, rows, 2)) == 1


def profile_of(name: str) -> Profile:
    made = Profile(CPU, duration_ns=S)
    made.add(StackSample((Frame(name),)), S)
    return made


def test_what_is_healthy_is_kept_while_nothing_is_wrong(rows: Rows) -> None:
    kept: list[Profile] = []
    bundles: Any = type("Kept", (), {"keep_healthy": staticmethod(kept.append)})()
    evidence: Any = type("Evidence", (), {"flight": staticmethod(lambda folder: profile_of("work"))})()
    watch = Watch("state", bounds=Bounds(ceilings={"task": 10}), bundles=bundles, evidence=evidence)
    rows.show(task=(1, 0))
    for second in (0, 1, 61, 600, 700):
        look(watch, rows, second)
        watch.keep_healthy((1000 + second) * S)
    assert [one.total().value for one in kept] == [S, 2 * S]
    assert kept[1].duration_ns == 2 * S, "a minute after the beginning, and ten minutes later"
    rows.show(task=(11, 0))
    look(watch, rows, 1400)
    watch.keep_healthy(2400 * S)
    assert len(kept) == 2


def test_what_happened_once_is_no_illness(rows: Rows) -> None:
    """A call that lacked an await is told, and what the program looks like is kept all the same."""
    kept: list[Profile] = []
    bundles: Any = type("Kept", (), {"keep_healthy": staticmethod(kept.append)})()
    evidence: Any = type("Evidence", (), {"flight": staticmethod(lambda folder: profile_of("work"))})()
    watch = Watch("state", bundles=bundles, evidence=evidence)
    rows.show(unawaited=(2, 0))
    for second in (0, 61):
        look(watch, rows, second)
        watch.keep_healthy((1000 + second) * S)
    assert len(kept) == 1


def test_a_loop_that_comes_late_is_told(rows: Rows) -> None:
    watch = Watch("state", bounds=Bounds(lag=0.2))
    rows.show()
    rows.rows[0] = rows.rows[0]._replace(lag_ns=S // 10)
    assert look(watch, rows, 0) == []
    rows.rows[0] = rows.rows[0]._replace(lag_ns=S)
    (breach,) = look(watch, rows, 1)
    assert (breach.trigger, breach.rule, breach.value, breach.bound) == ("lag-loop-worker-http", "lag", 1.0, 0.2)
    assert look(watch, rows, 2) == []


def test_a_slope_of_ones_own_needs_no_age(rows: Rows) -> None:
    """It may become so many more in a minute; heads that are taken do not matter then."""
    watch = Watch("state", bounds=Bounds(slope_per_min={"message": 30.0, "lease": 90.0}))
    found = []
    for second in range(0, 120, 10):
        rows.show(message=(10 + second, (900 + second) * S), lease=(10 + second, (900 + second) * S))
        found += look(watch, rows, second)
    assert [(one.trigger, one.bound) for one in found] == [("slope-message-worker-http", 30.0)]


def test_too_much_memory_is_told(rows: Rows) -> None:
    watch = Watch("state", bounds=Bounds(rss_bytes=99 * MIB))
    rows.show()
    assert [one.text for one in look(watch, rows, 0)] == ["100 MiB of memory, more than 99"]


def test_who_does_not_answer_is_told_after_a_while(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [WORKER]

    def ask(state_dir: str, what: str, **asked: Any) -> Answers:
        return Answers([], list(missing), [])

    monkeypatch.setattr("runtime.profile.monitor.watching.ask", ask)
    watch = Watch("state", bounds=Bounds(silence=25.0))
    rows.show()
    found = []
    for second in range(60):
        watch.ask_all((1000 + second) * S)
        found += look(watch, rows, second)
    assert [(one.trigger, one.value) for one in found] == [("silence-worker-http", 25.0)]
    missing.clear()
    watch.ask_all(1070 * S)
    assert look(watch, rows, 70) == []
    assert watch._silent == {}


def test_who_holds_up_the_loop_is_said(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = (Frame("run", "a.py", 1), Frame("parse", "b.py", 7))
    block = Block(1, 3 * S, stack, "task", (("workflow", "orders"),))
    small = Block(1, S, (), "", ())
    content = orjson.dumps([small.as_json(), block.as_json()])
    monkeypatch.setattr("runtime.profile.monitor.watching.ask", lambda *_, **__: Answers([(WORKER, content)], [], []))
    watch = Watch("state", bounds=Bounds(lag=0.2))
    rows.show()
    rows.rows[0] = rows.rows[0]._replace(lag_ns=S)
    (breach,) = look(watch, rows, 0)
    breach = watch.explain(breach)
    assert breach.stack == stack
    assert breach.labels == (("workflow", "orders"),)
    assert breach.text.endswith("held up for 3 s by parse")


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"bound": Bounds()}, TypeError),
        ({"stop": print}, TypeError),
        ({"tell": "print"}, CallerError),
        ({"bounds": {"lag": 1.0}}, CallerError),
        ({"slos": ["orders"]}, CallerError),
        ({"slos": [None]}, CallerError),
        ({"evidence": Evidence}, CallerError),
        ({"healthy": "often"}, CallerError),
    ],
)
def test_what_is_asked_wrongly_is_raised_at_the_call(tmp_path: Path, asked: dict[str, Any], error: type) -> None:
    with pytest.raises(error):
        Watching(tmp_path, **asked)


def test_a_tell_that_fails_ends_nothing_and_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Breach] = []

    def tell(breach: Breach) -> None:
        told.append(breach)
        raise ZeroDivisionError("no")

    def watch(_: Any, *, tell: Any, **__: Any) -> None:
        for number in range(3):
            tell(Breach(f"self-{number}", "", 1.0, 0.0))

    watching = Watching(tmp_path, tell=tell)
    monkeypatch.setattr(module, "watch", watch)
    with caplog.at_level(logging.WARNING, logger="mainspring"), watching:
        watching._thread.join()
    assert [one.trigger for one in told] == ["self-0", "self-1", "self-2"]
    assert watching.breaches == told
    assert (watching.failures, len(caplog.records)) == (3, 1)
    assert watching.failure.endswith("ZeroDivisionError: no")


def test_a_watch_that_ends_by_itself_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="mainspring"), Watching(tmp_path / "none") as watching:
        watching._thread.join()
    assert watching.failures == 1
    assert watching.failure.startswith("the watch has ended: StateFolderError: ")
    assert str(tmp_path / "none") in caplog.text


IN_TIME_S = 15.0
WITHIN_S = 2.0
"""In which a run shall be done; one that is not is bad from then on."""


def test_a_slow_node_is_told_and_its_evidence_there_within_fifteen_seconds(
    rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acceptance test 13, by what is configured: looks until the trigger, and the longest part of the bundle. The parts
    are recorded at the same time: here they wait for each other."""
    per_s, healthy_s, asked_s = 10, 60, list[float]()
    now_s, bad = healthy_s, 0

    def measure() -> tuple[int, int]:
        return per_s * now_s, bad

    watch = Watch("state", slos=[Slo("orders", measure, fast=2.0, slow=5.0)])
    for now_s in range(healthy_s):
        assert look(watch, rows, now_s * LOOK_S) == []
    looks, found = 0, list[Breach]()
    while not found:
        now_s, looks = now_s + 1, looks + 1
        bad = per_s * max(0, looks - int(WITHIN_S / LOOK_S))
        found = look(watch, rows, now_s * LOOK_S)

    together = threading.Barrier(4)

    def captured(_: str, seconds: float = 0.0) -> Profile:
        together.wait(60.0)
        asked_s.append(seconds)
        return profile_of("nothing")

    def survey(_: str, *, seconds: float, timeout: float) -> Report:
        together.wait(60.0)
        asked_s.append(seconds + timeout)
        return Report([], [])

    for part in ("flight", "cpu", "awaits"):
        monkeypatch.setattr(bundle.capture, part, captured)
    monkeypatch.setattr(bundle.capture, "live", lambda _, merge: profile_of("stacks"))
    monkeypatch.setattr(bundle, "survey", survey)
    watch.bundles = bundle.Bundles(tmp_path)
    saved = Path(watch.save(found[0]).bundle)
    assert found[0].trigger == "slo-orders"
    assert (saved / "leaks.json").exists(), (saved / "notes.txt").read_text()
    assert len(asked_s) == 4
    assert looks * LOOK_S + max(asked_s) <= IN_TIME_S
