"""Runs that were saved are saved again: by a change, by the pieces that may differ, or whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from actors import saved_again, saved_run
from actors.protocol.errors import InvariantBroken, ProtocolError
from actors.run import Run
from actors.saved_again import Form, Touched, Unchanged
from actors.saved_run import CHANGE, HEAD, PIECE_VALUES, STILL, Piece, load_run, save_change, save_run
from actors.scheduler import Scheduler
from actors.timing import keep_frame
from tests.unit.actors.test_saved_run import LARGE, accept, large_run


def end(run: Run, nodes: Sequence[int], touched: Touched) -> None:
    """These nodes end with results, as a record says it."""
    touched.note(run.no, run, nodes)
    raw = orjson.dumps([7, [[0, run.no, list(nodes), list(nodes), 5, [1] * len(nodes)]]])
    keep_frame(run, 0, raw, nodes, len(raw))
    run.succeed(nodes, [f"r{node}" for node in nodes])


def saved(nodes: int) -> tuple[Run, Touched, dict[tuple[str, int], bytes]]:
    """A run that was saved whole, and its pieces."""
    run = large_run(Scheduler(["default"]), nodes)
    touched = Touched()
    pieces = save_run(run)
    touched.forms[run.no] = Form.of(run, pieces)
    return run, touched, {piece[:2]: piece[2] for piece in pieces}


def save_on(run: Run, touched: Touched, rows: dict[tuple[str, int], bytes]) -> list[Piece | Unchanged]:
    """Save it again, into `rows`; returns what was given."""
    given = list(touched.save(run))
    touched.nodes.clear()
    stays = [part for part in given if isinstance(part, Unchanged)]
    for key in [key for key in rows if not any(unchanged.covers(*key) for unchanged in stays)]:
        del rows[key]
    rows.update((part[:2], part[2]) for part in given if not isinstance(part, Unchanged))
    return given


def loaded(rows: dict[tuple[str, int], bytes]) -> Run:
    return load_run(Scheduler(["default"]), [(*key, rows[key]) for key in sorted(rows)], accept)


def test_results_of_some_nodes_are_a_change_with_nothing_of_the_others() -> None:
    run, touched, rows = saved(1000)
    for nodes in ([0, 2], [1], [4, 6, 8]):
        end(run, nodes, touched)
        unchanged, (name, _, body) = save_on(run, touched, rows)
        assert (unchanged, name) == (Unchanged(run.no), CHANGE)
        assert [b'"r%d"' % node in body for node in range(10)] == [node in nodes for node in range(10)]
        assert save_run(loaded(rows)) == save_run(run)
    assert [key for key in rows if key[0] == CHANGE] == [(CHANGE, 0), (CHANGE, 1), (CHANGE, 2)]


def test_changes_that_come_to_much_more_than_the_run_are_taken_up_by_it() -> None:
    run, touched, rows = saved(300)
    still, given = rows[STILL, 0], []
    for node in range(0, 150, 2):
        end(run, [node], touched)
        given.append(save_on(run, touched, rows))
        taken = sum(len(rows[key]) for key in rows if key[0] == CHANGE)
        assert taken <= saved_again.CHANGES_FACTOR * len(rows[HEAD, 0])
        assert save_run(loaded(rows)) == save_run(run)
    whole = [parts for parts in given if any(part[0] == HEAD for part in parts if not isinstance(part, Unchanged))]
    assert 0 < len(whole) < len(given) / 2
    assert all(Unchanged(run.no, STILL) in parts for parts in whole)
    assert rows[STILL, 0] == still


def test_more_nodes_than_not_are_no_change() -> None:
    run, touched, rows = saved(1000)
    end(run, range(0, 1000, 2), touched)
    end(run, range(1, 1000, 2), touched)
    save_on(run, touched, rows)
    assert rows.keys() == {(HEAD, 0), (STILL, 0)}
    assert save_run(loaded(rows)) == save_run(run)


@pytest.mark.parametrize("nodes", [[17_000, 17_002], range(17_000, 17_001)], ids=["list", "range"])
def test_of_a_large_run_the_pieces_of_nodes_that_ended_are_made(nodes: Sequence[int]) -> None:
    run, touched, rows = saved(LARGE)
    end(run, nodes, touched)
    assert touched.nodes == {run.no: {PIECE_VALUES}}
    given = save_on(run, touched, rows)
    names = [part[:2] for part in given if not isinstance(part, Unchanged)]
    assert names == [(HEAD, 0), ("state", 0), ("waits", 0), ("results", PIECE_VALUES), ("frames", 0)]
    assert save_run(loaded(rows)) == save_run(run)


def test_pieces_that_become_more_or_fewer_take_each_others_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_run, "JSON_BYTES_MAX", 200_000)
    run, touched, rows = saved(LARGE)
    for value in ("x" * 20, "y"):
        touched.note(run.no, run, [5])
        run.results[:PIECE_VALUES] = [value] * PIECE_VALUES
        save_on(run, touched, rows)
        assert loaded(rows).results == run.results
    assert [key for key in sorted(rows) if key[0] == "results"] == [("results", at) for at in (0, 16_384, 32_768)]


def test_whatever_else_happened_makes_all_anew() -> None:
    run, touched, rows = saved(1000)
    end(run, [0], touched)
    save_on(run, touched, rows)
    touched.note(run.no, run, None)
    end(run, [2], touched)
    assert [part[:2] for part in save_on(run, touched, rows)] == [(HEAD, 0), (STILL, 0)]
    assert save_run(loaded(rows)) == save_run(run)


def test_a_run_that_was_never_saved_is_saved_whole() -> None:
    run, touched = large_run(Scheduler(["default"]), 1000), Touched()
    end(run, [0], touched)
    assert list(touched.save(run)) == save_run(run)


def test_a_run_of_which_something_is_on_its_way_has_no_change() -> None:
    run, touched, _ = saved(1000)
    touched.note(run.no, run, ())
    run.settle([0], 4)
    with pytest.raises(InvariantBroken):
        list(touched.save(run))


@pytest.mark.parametrize("waits", [255, 256, -1])
def test_numbers_of_edges_are_as_wide_as_they_must(waits: int) -> None:
    run, _, rows = saved(100)
    run.waits[99] = waits
    rows[CHANGE, 0] = save_change(run, [], 0)
    assert loaded(rows).waits == run.waits


@pytest.mark.parametrize("spoil", ["cut", "more", "no list", "one result too many"])
def test_a_change_that_does_not_fit_is_refused(spoil: str) -> None:
    run, touched, rows = saved(1000)
    end(run, [0, 2], touched)
    save_on(run, touched, rows)
    body = rows[CHANGE, 0]
    broken: Any = {
        "cut": body[:-1],
        "more": body + b"\0",
        "no list": b"\2\0\0\0{}",
        "one result too many": body.replace(b'"r2"]', b'"r2",5]').replace(body[:1], bytes([body[0] + 2]), 1),
    }
    with pytest.raises(ProtocolError):
        loaded({**rows, (CHANGE, 0): broken[spoil]})


def test_the_bounds_fit_together() -> None:
    assert saved_again.CHANGE_NODES_MAX <= PIECE_VALUES, "a run with changes has one piece of results"
