"""What is out of bounds is told once, and saved at most once in ten minutes; rows of the page are made up."""

from __future__ import annotations

from typing import Any, cast

import pytest

from runtime.profile.burn import Slo, SloMeter
from runtime.profile.ledger import Count
from runtime.profile.model import CPU, Frame, Process, Profile, Sample
from runtime.profile.page import PageReader, ProcessRow
from runtime.profile.watch import Bounds, Breach, Watch

S = 1_000_000_000
MIB = 1 << 20
WORKER = Process(11, 12, "worker", 3, "http")


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
    monkeypatch.setattr("runtime.profile.watch.resident_bytes", lambda pid: 100 * MIB)
    return Rows()


def look(watch: Watch, rows: Rows, second: float) -> list[Breach]:
    return watch.look(cast(PageReader, rows), int((1000 + second) * S))


def test_a_ceiling_is_told_once_and_again_when_it_was_over(rows: Rows) -> None:
    watch = Watch("state", bounds=Bounds(ceilings={"task": 10}))
    rows.show(task=(10, 0))
    assert look(watch, rows, 0) == []
    rows.show(task=(11, 0))
    (breach,) = look(watch, rows, 1)
    assert (breach.trigger, breach.value, breach.bound) == ("ceiling-task-worker-http", 11.0, 10.0)
    assert str(breach) == "worker 3 [http] (pid 11): 11 x task, of 10"
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
        monkeypatch.setattr("runtime.profile.watch.resident_bytes", lambda pid, at=second: (100 + at) * MIB)
        rows.show()
        found += look(watch, rows, second)
    assert [one.text for one in found] == ["memory grows by 60 MiB a minute"]


def test_a_profiler_that_costs_too_much_is_told(rows: Rows) -> None:
    watch = Watch("state")
    rows.show()
    look(watch, rows, 0)
    rows.show(self_cpu_ns=S // 2)
    assert [one.trigger for one in look(watch, rows, 10)] == ["self-worker-http"]


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
    made.add(Sample((Frame(name),)), S)
    return made


def test_what_is_healthy_is_kept_while_nothing_is_wrong(rows: Rows) -> None:
    kept: list[Profile] = []
    bundles: Any = type("Kept", (), {"keep_healthy": staticmethod(kept.append)})()
    evidence: Any = type("Evidence", (), {"flight": staticmethod(lambda folder: profile_of("work"))})()
    watch = Watch("state", bounds=Bounds(ceilings={"task": 10}), bundles=bundles, evidence=evidence)
    rows.show(task=(1, 0))
    for second in (0, 1, 700):
        look(watch, rows, second)
        watch.keep_healthy((1000 + second) * S)
    assert [one.total().value for one in kept] == [S, 2 * S]
    assert kept[1].duration_ns == 2 * S
    rows.show(task=(11, 0))
    look(watch, rows, 1400)
    watch.keep_healthy(2400 * S)
    assert len(kept) == 2
