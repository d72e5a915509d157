"""What failed is not pushed out by what succeeds, nor does it keep the log: its run is written again."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import books, kept, once
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.records import Record, RecordType
from actors.run import Run
from actors.scheduler import Scheduler
from actors.state_column import FAILED
from tests.unit.actors.rig import Rig, kind, node_type, recovered


@pytest.fixture(autouse=True)
def no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are written again as soon as they keep a record."""
    monkeypatch.setattr(books, "CARRY_LAG_RECORDS", 0)


def small(**more: Any) -> Rig:
    """A rig that keeps two finished runs."""
    return Rig(scheduler=Scheduler(["default"], retention={"runs": 2, "nodes": 100}), **more)


def submit(rig: Rig, seq: int, count: int = 1) -> None:
    rows = [[number, 1, number] for number in range(seq, seq + count)]
    rig.say(msg.KindDefined("s", 1, kind()), msg.TasksSubmitted("s", rows, orjson.dumps(rows)), msg.Told(1 << 40))


def work(rig: Rig, *, fail: bool = False) -> None:
    """All that is given ends."""
    while leases := rig.taken(fx.LeaseWork):
        for lease in leases:
            for at, node in enumerate(lease.nodes):
                if fail:
                    failure = {"kind": "error", "type": "ValueError", "message": "no", "traceback": ""}
                    row = [lease.serial + at, lease.run.no, node, rig.now_ns, rig.now_ns + 5, failure]
                    rig.say(msg.WorkerFailed(lease.worker, [row]))
                else:
                    rig.succeed(lease.worker, lease.serial + at, node, value=node, run=lease.run.no)


def succeed_many(rig: Rig, first: int, count: int = 40) -> None:
    """So many tasks, each a run; the log is looked at after each."""
    for seq in range(first, first + count):
        submit(rig, seq)
        work(rig)
        rig.core.scheduler._floor_look_lsn = 0


def floor_of(rig: Rig) -> int:
    """What the log has to keep, as the persister was told."""
    return rig.core.scheduler._floor_lsn


def reopened(records: list[Record], floor: int = 0) -> Scheduler:
    """What is there when the log was cut at its floor."""
    return recovered([record for record in records if record.lsn >= floor])


def at_the_beginning(scheduler: Scheduler) -> Scheduler:
    """With a log that begins anew, because that of the rig does."""
    scheduler.lsn = 0
    return scheduler


def letters(rig: Rig) -> list[str]:
    return [row[0] for row in rig.ask("dead")["rows"]]


def test_successes_do_not_push_out_what_failed() -> None:
    rig = small()
    submit(rig, 1, 3)
    work(rig, fail=True)
    submitted = rig.core.scheduler.book.finished[1].lsn
    succeed_many(rig, 4)
    book = rig.core.scheduler.book
    assert letters(rig) == ["s-1", "s-2", "s-3"]
    assert len(book.finished) <= 4
    assert submitted < floor_of(rig), "the log is cut all the same"
    for scheduler in (reopened(rig.records), reopened(rig.records, floor_of(rig))):
        run = scheduler.book.finished[1]
        assert (run.state, run.items, run.rare.failures) == (
            book.finished[1].state,
            book.finished[1].items,
            book.finished[1].rare.failures,
        )
        assert run.rare.died == book.finished[1].rare.died
        assert scheduler.ended_ns[1] == rig.core.scheduler.ended_ns[1]
        assert scheduler.book.find("s-3") == (run, 2)


def test_it_is_written_once_for_each_time_that_the_log_goes_round() -> None:
    rig = small()
    submit(rig, 1)
    work(rig, fail=True)
    succeed_many(rig, 2, 60)
    written = sum(r.type == RecordType.DEAD for r in rig.records)
    assert 5 < written < 40


def test_it_is_not_written_for_a_few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "CARRY_LAG_RECORDS", 40)
    rig = small()
    submit(rig, 1)
    work(rig, fail=True)
    succeed_many(rig, 2, 60)
    assert 2 < sum(r.type == RecordType.DEAD for r in rig.records) < 6


def test_what_was_written_again_is_replayed_and_ends() -> None:
    rig = small()
    submit(rig, 1, 2)
    work(rig, fail=True)
    succeed_many(rig, 3)
    again = Rig(scheduler=at_the_beginning(reopened(rig.records, floor_of(rig))))
    assert again.ask("replay", letters=["s-2"]) == {"count": 1, "next": None}
    work(again)
    assert letters(again) == ["s-1"]
    succeed_many(again, 50)
    assert again.core.scheduler.book.finished[1].results == [None, 1]


def submit_one(rig: Rig, seq: int, **header: Any) -> None:
    """A task with words of its own in the header of its submission."""
    builder = GraphBuilder()
    builder.add(0, item=b"%d" % seq)
    raw = encode(builder.finish(), {"kinds": [kind(tenant="a")], "name": "f", **header})
    decoded, columns = decode(raw)
    rig.say(msg.GraphSubmitted("s", seq, decoded, columns, raw))


@pytest.mark.parametrize("joins", [{"unique": "a"}, {"debounce": ["a", 10**9, 10**12]}], ids=["unique", "debounced"])
def test_what_was_written_again_is_not_in_the_way_of_who_joins_an_open_run(joins: dict[str, Any]) -> None:
    rig = small()
    submit_one(rig, 1, **joins)
    rig.later(2 * 10**9)
    work(rig, fail=True)
    rig.ask("policy", change={"pause": ["tenant:a"]})
    submit_one(rig, 2, **joins)
    succeed_many(rig, 3)
    again = reopened(rig.records, floor_of(rig))
    assert [run.key for run in again.book.finished.values() if run.rare.died] == ["s-1"]
    assert [run.key for run in again.book.known.values()] == ["s-2"]


def test_a_debounced_run_that_was_written_again_has_the_values_of_the_call_that_counts_and_goes_again() -> None:
    """The values are in a folder that has the name of that call; and the next calls are another run."""
    rig = small()
    for seq in (1, 2):
        submit_one(rig, seq, debounce=["a", 10**9, 10**12], files=True)
    rig.later(2 * 10**9)
    work(rig, fail=True)
    succeed_many(rig, 3)
    again = Rig(scheduler=at_the_beginning(reopened(rig.records, floor_of(rig))))
    assert once.folders(again.core.scheduler.book.finished[1]) == ["s-1", "s-2"]
    submit_one(again, 60, debounce=["a", 10**9, 10**12])
    assert again.ask("rerun", run="s-1") == {"count": 1}


def test_a_run_that_goes_again_is_not_written_meanwhile() -> None:
    rig = small()
    submit(rig, 1)
    work(rig, fail=True)
    succeed_many(rig, 2)
    rig.ask("pause")
    rig.ask("policy", change={"pause": ["tenant:"]})
    rig.ask("replay")
    run = rig.core.scheduler.book.live[1]
    rig.ask("policy", change={"resume": ["tenant:"], "quotas": {"class:low": 1}})
    ((worker, serial, node),) = rig.leases()
    before = run.lsn
    succeed_many(rig, 50, 10)
    assert run.lsn == before == floor_of(rig)
    rig.succeed(worker, serial, node, run=1)
    succeed_many(rig, 70, 10)
    assert 1 not in rig.core.scheduler.book.finished, "it has no letters any more, and goes as the others do"


def test_discarded_letters_let_their_run_go() -> None:
    rig = small()
    submit(rig, 1)
    work(rig, fail=True)
    succeed_many(rig, 2)
    assert 1 in rig.core.scheduler.book.spared
    rig.ask("discard", letters=["s-1"])
    succeed_many(rig, 50, 5)
    assert 1 not in rig.core.scheduler.book.finished


@pytest.mark.parametrize(("name", "value"), [("LETTER_RUNS_MAX", 2), ("LETTER_NODES_MAX", 5), ("LETTER_BYTES_MAX", 40)])
def test_there_is_a_bound_and_the_oldest_go(name: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, name, value)
    rig = small()
    for seq in (1, 3, 5, 7):
        submit(rig, seq, 2)
        work(rig, fail=True)
    succeed_many(rig, 9)
    assert 2 <= len(letters(rig)) <= 4
    assert letters(rig)[:2] == ["s-7", "s-8"]
    assert "s-1" not in letters(rig)


@pytest.mark.parametrize("name", ["LETTER_RUN_NODES_MAX", "LETTER_RUN_BYTES_MAX"])
def test_a_run_that_is_too_large_goes_with_the_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, name, 1)
    rig = small()
    submit(rig, 1, 2)
    work(rig, fail=True)
    succeed_many(rig, 3)
    assert letters(rig) == []


def test_only_so_much_is_written_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "CARRY_BYTES_PER_TURN", 0)
    rig = small()
    for seq in range(1, 6):
        submit(rig, seq)
        work(rig, fail=True)
    most = 0
    for seq in range(6, 40):
        before = len(rig.records)
        succeed_many(rig, seq, 1)
        most = max(most, sum(r.type == RecordType.DEAD for r in rig.records[before:]))
    assert 0 < most <= 4
    assert len(reopened(rig.records, floor_of(rig)).book.finished) >= 5


RULES = ("all_succeeded", "all_done", "any_succeeded", "none_failed")


def ended_run(data: st.DataObject) -> Rig:
    """A run of any graph, some nodes of which failed."""
    size = data.draw(st.integers(1, 8))
    builder = GraphBuilder()
    kinds = [kind("mixed", trigger=rule, tenant="a") for rule in RULES]
    for node in range(size):
        earlier = st.lists(st.integers(0, node - 1), max_size=3) if node else st.just([])
        name = data.draw(st.sampled_from([None, f"node {node}"]))
        item = orjson.dumps([[node], []])
        builder.add(data.draw(st.integers(0, 3)), data.draw(earlier), data.draw(earlier), item=item, node_id=name)
    raw = encode(builder.finish(), {"kinds": kinds, "name": "graph", "run_id": "own"})
    header, columns = decode(raw)
    rig = Rig(node_type(prefetch=2))
    rig.say(msg.GraphSubmitted("s", 1, header, columns, raw))
    while leases := rig.leases():
        for worker, serial, node in leases:
            if data.draw(st.booleans()):
                rig.fail(worker, serial, node)
            else:
                rig.succeed(worker, serial, node, value=[node])
    return rig


def facts(run: Run) -> list[Any]:
    columns = run.columns
    assert columns is not None
    edges = [columns.edges_in(node) for node in range(run.size)]
    kinds = [run.kind(node).text for node in range(run.size)]
    rare = run.rare
    return [
        (run.no, run.key, run.name, run.session, run.seq, run.created_ns, run.base_size, run.is_graph, run.is_map),
        (edges, kinds, run.state, run.items, run.results, columns.ids, run.special, run.fan, bool(run.waits)),
        (rare.attempts, rare.crashes, rare.failures, rare.died, rare.discarded, run.run_state(), run.counts()),
    ]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_run_is_what_it_was_and_goes_again_as_it_would(data: st.DataObject) -> None:
    rig = ended_run(data)
    run = rig.core.scheduler.book.finished[1]
    payload = kept.snapshot(run, 7)
    assert run.columns is not None
    assert run.columns.items is run.items
    fresh = Scheduler(["default"])
    kept.restore(fresh, payload, 5, lambda kinds: None)
    fresh.check_invariants()
    restored = fresh.book.finished[1]
    assert facts(restored) == facts(run)
    again = Rig(node_type(prefetch=2), scheduler=fresh)
    for each in (rig, again):
        each.ask("rerun", run="own")
        while leases := each.leases():
            for worker, serial, node in leases:
                each.succeed(worker, serial, node, value=[node])
    assert FAILED not in restored.state
    assert facts(restored) == facts(run)


def letters_of(scheduler: Scheduler) -> dict[str, Any]:
    """All letters that somebody would be shown, with how they failed."""
    book = scheduler.book
    return {
        f"{run.no}/{node}": (run.rare.failures[node], run.rare.died[node], run.items[node])
        for run in (*book.live.values(), *book.finished.values())
        for node in run.rare.died
        if node not in run.rare.discarded and run.items is not None
    }


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_log_that_was_cut_has_the_letters_that_are_there(data: st.DataObject) -> None:
    """Whatever fails, succeeds, is replayed or discarded, and wherever the log is cut."""
    rig = small()
    seq = 1
    for _ in range(data.draw(st.integers(3, 14))):
        step = data.draw(st.sampled_from(["fail", "fail", "succeed", "succeed", "replay", "discard", "rerun"]))
        known = letters(rig)
        if step in ("fail", "succeed") or not known:
            count = data.draw(st.integers(1, 3))
            submit(rig, seq, count)
            seq += count
        elif step == "rerun":
            rig.ask("rerun", run=data.draw(st.sampled_from(known)))
        else:
            chosen = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
            assert rig.ask(step, letters=chosen)["count"] == len(chosen)
        work(rig, fail=step == "fail" or (step in ("replay", "rerun") and data.draw(st.booleans())))
        rig.core.scheduler._floor_look_lsn = 0
        rig.say(msg.TimePassed())
        there = letters_of(rig.core.scheduler)
        assert letters_of(reopened(rig.records, floor_of(rig))) == there
        assert letters_of(reopened(rig.records)) == there
        assert len(there) == len(letters(rig))
