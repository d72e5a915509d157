"""What failed for good goes again, whatever is killed meanwhile; what succeeded does not. Scopes are drained."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from runtime import Flow, NodeType, Retention, RunState, Runtime
from runtime.errors import TaskFailed, WaitTimeout
from tests.scenarios import handlers, handlers_next
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.waiting import await_gone, await_lines, until, words

pytestmark = pytest.mark.slow

TASKS: Final = 60
PATIENCE_S: Final = 60.0


def opened(state_dir: Path, **options: object) -> Runtime:
    return Runtime(state_dir, node_types=[NodeType("default", workers=2, **options)])  # type: ignore[arg-type]


def all_failed(rt: Runtime, runs: Path, up: Path) -> list[str]:
    """Submit calls to a service that is down; their run ids."""
    handles = [rt.submit(handlers_next.call_service, str(runs), f"call-{n}", str(up)) for n in range(TASKS)]
    assert all(isinstance(handle.exception(PATIENCE_S), TaskFailed) for handle in handles)
    return [handle.run_id for handle in handles]


def test_what_was_replayed_runs_although_the_engine_is_killed(state_dir: Path, tmp_path: Path) -> None:
    runs, up = tmp_path / "runs", tmp_path / "up"
    with opened(state_dir) as rt:
        ids = all_failed(rt, runs, up)
        assert len(list(rt.dead(kind="error"))) == TASKS
        up.touch()
        assert rt.replay(handler="*:call_service") == TASKS
        engine = OwnFamily(rt).engine
        kill(engine)
        await_gone([engine])
        assert [rt.handle(run_id).result(timeout=PATIENCE_S) for run_id in ids] == [f"call-{n}" for n in range(TASKS)]
        assert list(rt.dead()) == []
    assert set(words(runs)) == {f"call-{n}" for n in range(TASKS)}
    assert min(words(runs).values()) >= 2, "more, where the engine was killed before it had the result"
    with opened(state_dir) as rt:
        assert list(rt.dead()) == []
        assert rt.handle(ids[7]).result() == "call-7"


def test_letters_of_another_life_are_replayed(state_dir: Path, tmp_path: Path) -> None:
    runs, up = tmp_path / "runs", tmp_path / "up"
    with opened(state_dir) as rt:
        ids = all_failed(rt, runs, up)
    with opened(state_dir) as rt:
        details = rt.dead_letter(ids[3])
        assert details.args == (str(runs), "call-3", str(up))
        assert isinstance(details.error.__cause__, ConnectionError)
        assert rt.discard(*ids[:5]) == 5
        up.touch()
        assert rt.replay(everything=True) == TASKS - 5
        assert rt.handle(ids[5]).result(timeout=PATIENCE_S) == "call-5"
    with opened(state_dir) as rt:
        for run_id in ids[5:]:
            rt.handle(run_id).wait(PATIENCE_S)
        assert list(rt.dead()) == []
        with pytest.raises(TaskFailed):
            rt.handle(ids[0]).result()
        assert rt.rerun(ids[0]).result(timeout=PATIENCE_S) == "call-0"


def test_only_the_failed_subtree_runs_again(state_dir: Path, tmp_path: Path) -> None:
    """Two branches of which one fails in the middle. The engine is killed while it runs for the second time."""
    runs, up, gate = tmp_path / "runs", tmp_path / "up", tmp_path / "gate"
    flow = Flow("branches")
    left = [flow.add(handlers.mark, str(runs), f"left-{n}", id=f"left-{n}") for n in range(20)]
    broken = flow.add(handlers_next.call_service, str(runs), "broken", str(up), after=left, id="broken")
    behind = [flow.add(handlers.hold, str(runs), f"behind-{n}", str(gate), after=[broken]) for n in range(4)]
    last = flow.add(handlers.mark, str(runs), "last", after=behind)
    with opened(state_dir) as rt:
        run = rt.submit(flow, run_id="branches")
        assert run.wait(PATIENCE_S) == RunState.FAILED
        before = words(runs)
        assert before["broken"] == 1
        up.touch()
        again = run.rerun()
        until(lambda: words(runs)["behind-0"], "a node behind the one that failed")
        assert again.status().state == RunState.RUNNING
        engine = OwnFamily(rt).engine
        kill(engine)
        await_gone([engine])
        gate.touch()
        assert again.wait(PATIENCE_S) == RunState.SUCCEEDED
        again.result(last)
        after = words(runs)
        assert {word: after[word] for word in before if word != "broken"} == {f"left-{n}": 1 for n in range(20)}
        assert after["broken"] == 2
        assert after["last"] >= 1
        assert "replayed" in [event.event for event in again.story()]
    with opened(state_dir) as rt:
        assert rt.handle("branches").status().state == RunState.SUCCEEDED


def test_a_task_that_took_its_workers_along_is_a_letter(state_dir: Path, tmp_path: Path) -> None:
    """S03, and what comes after it: the cause is mended, the letter replayed, and counts its crashes anew."""
    runs, up = tmp_path / "runs", tmp_path / "up"
    with opened(state_dir) as rt:
        poison = rt.submit(handlers_next.die_unless, str(runs), "poison", str(up))
        assert isinstance(poison.exception(PATIENCE_S), TaskFailed)
        (letter,) = rt.dead(kind="crash")
        assert letter.attempts == words(runs)["poison"] == 3
        assert rt.submit(handlers.mark, str(runs), "good").result(PATIENCE_S) is not None
        up.touch()
        assert rt.replay(letter) == 1
        assert rt.handle(letter.run_id).result(timeout=PATIENCE_S) == "poison"
        assert rt.handle(letter.run_id).nodes()[0].attempts == 1


def test_after_a_drain_nothing_of_the_scope_starts(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    with opened(state_dir, prefetch=8) as rt:
        waiting = [rt.submit(handlers.hold, str(runs), "acme", str(gate), tenant="acme") for _ in range(20)]
        await_lines(runs, 2)
        with pytest.raises(WaitTimeout, match="2 tasks of tenant:acme still ran"):
            rt.drain("tenant:acme", timeout=0.5)
        gate.touch()
        assert rt.drain("tenant:acme", timeout=PATIENCE_S).paused == ("tenant:acme",)
        assert words(runs)["acme"] == 2, "what was held ahead went back"
        assert rt.submit(handlers.mark, str(runs), "other").result(PATIENCE_S) is not None
        more = rt.submit(handlers.mark, str(runs), "acme", tenant="acme")
        for worker in OwnFamily(rt).workers:
            kill(worker)
        assert rt.submit(handlers.mark, str(runs), "third").result(PATIENCE_S) is not None
        assert words(runs)["acme"] == 2
        assert "tenant:acme is paused" in more.why()
        rt.resume("tenant:acme")
        assert [handle.result(PATIENCE_S) for handle in waiting] == ["acme"] * 20
        more.result(PATIENCE_S)


def test_a_cancelled_run_goes_on_where_it_was(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    flow = Flow("stopped")
    first = flow.add(handlers.mark, str(runs), "first", id="first")
    held = flow.add(handlers.hold, str(runs), "held", str(gate), after=[first], id="held")
    flow.add(handlers.mark, str(runs), "last", after=[held], id="last")
    with opened(state_dir) as rt:
        run = rt.submit(flow, run_id="stopped")
        until(lambda: words(runs)["held"], "the node that is held")
        assert run.cancel()
        assert run.wait(PATIENCE_S) == RunState.CANCELLED
        assert list(rt.dead(run=run)) == [], "what was cancelled has not failed"
    with opened(state_dir) as rt:
        again = rt.rerun("stopped")
        gate.touch()
        assert again.wait(PATIENCE_S) == RunState.SUCCEEDED
        assert again.results() == {"first": "first", "held": "held", "last": "last"}
        assert words(runs) == {"first": 1, "held": 2, "last": 1}


def test_what_expired_runs_when_it_is_replayed(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with opened(state_dir) as rt:
        rt.pause("tenant:acme")
        late = rt.submit(handlers.mark, str(runs), "late", tenant="acme", expires=0.05)
        assert isinstance(late.exception(PATIENCE_S), TaskFailed)
        rt.resume("tenant:acme")
        assert rt.replay(kind="expired", tenant="acme") == 1
        assert late.rerun().result(timeout=PATIENCE_S) == "late", "a rerun of what runs waits for it"
        assert words(runs) == {"late": 1}


def test_what_succeeds_does_not_push_out_what_failed(state_dir: Path, tmp_path: Path) -> None:
    runs, up = tmp_path / "runs", tmp_path / "up"
    nodes = [NodeType("default", workers=2)]
    with Runtime(state_dir, node_types=nodes, retention=Retention(runs=2)) as rt:
        ids = all_failed(rt, runs, up)
        for _ in range(5):
            assert [rt.submit(abs, -n).result(PATIENCE_S) for n in range(20)] == list(range(20))
        engine = OwnFamily(rt).engine
        kill(engine)
        await_gone([engine])
        assert [rt.submit(abs, -n).result(PATIENCE_S) for n in range(20)] == list(range(20))
        assert {letter.id for letter in rt.dead()} == {*ids}
        assert len(list(rt.runs(archived=False))) < TASKS + 10
    up.touch()
    with Runtime(state_dir, node_types=nodes, retention=Retention(runs=2)) as rt:
        assert rt.replay(everything=True) == TASKS
        until(lambda: len(words(runs)) == TASKS and min(words(runs).values()) >= 2, "second attempts of all")
        assert rt.submit(abs, -1).result(PATIENCE_S) == 1
        until(lambda: not list(rt.dead()), "no dead letters")
