"""Runs in a checkpoint: nothing is forgotten, pieces that did not change stay as they are, nonsense is refused."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors import saved_run
from actors.calls import Calls
from actors.once import Burst
from actors.protocol.errors import InvariantBroken, ProtocolError
from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder
from actors.rare import Rare
from actors.run import Run
from actors.saved_run import HEAD, NOT_SAVED, load_run, save_run
from actors.scheduler import Scheduler
from tests.unit.actors.rig import kind

LARGE = 40_000


def large_run(scheduler: Scheduler, nodes: int = LARGE) -> Run:
    """A chain of pairs, each with an item."""
    builder = GraphBuilder()
    for node in range(nodes):
        builder.add(0, [node - 1] if node % 2 else [], item=b"%d" % node)
    _, columns = decode(encode(builder.finish(), {"kinds": [kind("mixed")]}))
    run = Run.of_graph(1, "r", "s", 1, 5, scheduler.interned([kind("mixed")]), columns)
    run.roots()
    run.tally = None
    return run


def accept(kinds: list[dict[str, Any]]) -> None:
    """All node types are there."""


def test_each_fact_of_a_run_is_saved_or_has_a_reason_not_to_be() -> None:
    saved = {
        *saved_run._PLAIN,
        *saved_run._BYTES,
        *saved_run._VALUES,
        *saved_run._RARE_PLAIN,
        *saved_run._RARE_BY_NODE,
        *saved_run._RARE_NODES,
        *("kinds", "columns", "waits", "frames", "rare"),
        *("calls", "debounce", "ended", "events", "spawned"),
    }
    assert {*Run.__slots__, *Rare.__slots__} == saved | NOT_SAVED.keys()
    assert set(Burst.__slots__) == {"wait_ns", "until_ns", "calls", "files"}
    assert set(Calls.__slots__) == {"nodes", "digests", "waits"}


def test_a_small_run_is_one_piece() -> None:
    scheduler = Scheduler(["default"])
    ((name, at, _),) = save_run(large_run(scheduler, 10))
    assert (name, at) == (HEAD, 0)


def test_only_pieces_of_nodes_that_ended_change() -> None:
    scheduler = Scheduler(["default"])
    run = large_run(scheduler)
    before = {piece[:2]: piece[2] for piece in save_run(run)}
    run.succeed([0, 2], [1, 2])
    after = {piece[:2]: piece[2] for piece in save_run(run)}
    changed = {key for key in after if after[key] != before.get(key)}
    assert changed == {(HEAD, 0), ("state", 0), ("waits", 0), ("results", 0)}
    assert {at for name, at in after if name == "results"} == {0, 16_384, 32_768}


def test_a_large_run_comes_back() -> None:
    scheduler = Scheduler(["default"])
    run = large_run(scheduler)
    run.succeed([0, 2], [1, 2])
    again = load_run(scheduler, save_run(run), accept)
    assert (again.state, again.results, again.waits, again.items) == (run.state, run.results, run.waits, run.items)
    assert again.columns == run.columns
    again.check_invariants()


def test_large_values_are_halved_until_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_run, "JSON_BYTES_MAX", 1000)
    monkeypatch.setattr(saved_run, "SMALL_BYTES_MAX", 0)
    scheduler = Scheduler(["default"])
    run = large_run(scheduler, 64)
    run.results = ["x" * 90] * 63 + ["y" * 5000]
    pieces = save_run(run)
    sizes = [len(body) for name, _, body in pieces if name == "results"]
    assert max(sizes[:-1]) <= 1000
    assert sizes[-1] > 5000
    assert load_run(scheduler, pieces, accept).results == run.results


def test_when_nodes_ran_is_kept_without_what_they_gave() -> None:
    scheduler = Scheduler(["default"])
    run = large_run(scheduler, 4)
    raw = orjson.dumps([7, [[9, 1, [0], ["x" * 1000], 50, [3]], [10, 2, [0], ["y" * 1000], 60, [4]]]])
    run.frames.append((100, raw, 0, 0))
    again = load_run(scheduler, save_run(run), accept)
    assert again.frames == [(100, b" [7,[[0,1,[0],0,50,[3]]]]", 0, 0)]
    assert save_run(again) == save_run(run)


def test_a_run_of_which_something_is_on_its_way_is_not_saved() -> None:
    run = large_run(Scheduler(["default"]), 4)
    run.settle([0], 4)
    with pytest.raises(InvariantBroken):
        save_run(run)


@pytest.mark.parametrize("spoil", ["cut", "no head", "columns", "json"])
def test_what_does_not_fit_together_is_refused(spoil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_run, "SMALL_BYTES_MAX", 0)
    scheduler = Scheduler(["default"])
    pieces = save_run(large_run(scheduler, 8))
    if spoil == "cut":
        pieces[0] = (HEAD, 0, pieces[0][2][:-5])
    elif spoil == "no head":
        del pieces[0]
    elif spoil == "columns":
        pieces = [piece for piece in pieces if piece[0] != "state"]
    else:
        pieces = [(name, at, b"[" if name == "results" else body) for name, at, body in pieces]
    with pytest.raises(ProtocolError):
        load_run(scheduler, pieces, accept)
