"""Gathering: when a batch is there, and what is taken to fill it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from actors.policy.fair import FairQueue
from actors.policy.gather import Gathered, Waiting, batch_scope, take_more, waiting
from actors.protocol.kinds import BatchRule, Kind

RULE = BatchRule(4, 100)
KIND = Kind.of(1, {"handler": "m:f", "node_type": "cpu", "shape": "one"})
OTHER = replace(KIND, no=2)


def live(run: str, nodes: Sequence[int]) -> int:
    """Nodes below 0 were cancelled."""
    return sum(node >= 0 for node in nodes)


def test_a_batch_is_there_when_enough_are_pushed_that_still_wait() -> None:
    queue: FairQueue[str] = FairQueue()
    gathered = Gathered(KIND, RULE)
    pushed = []
    for nodes in ([1, 2], [-1, -2], [3], [4]):
        queue.push(KIND, "a", nodes, 0, "f")
        pushed.append(gathered.push(len(nodes), queue, live))
    assert pushed == [False, False, False, True], "the second two do not count, and nobody looks for the third"
    assert not gathered.push(1, queue, live), "it is open already"


def test_a_batch_that_is_not_full_goes_when_its_oldest_has_waited() -> None:
    queue: FairQueue[str] = FairQueue()
    gathered = Gathered(KIND, RULE)
    queue.push(KIND, "a", [-1], 10, "f")
    queue.push(KIND, "b", [1], 30, "g")
    assert gathered.allows(queue, 50, live) == 130
    assert not gathered.is_open
    assert gathered.allows(queue, 130, live) is None
    assert gathered.is_open


def test_it_counts_one_kind_over_all_flows_until_it_is_enough() -> None:
    queue: FairQueue[str] = FairQueue()
    assert waiting(queue, KIND, live) == Waiting(0, 0)
    queue.push(KIND, "a", [1, 2, 3], 7, "f")
    assert waiting(queue, KIND, live) == Waiting(3, 7)
    assert waiting(queue, OTHER, live) == Waiting(0, 0)
    queue.push(OTHER, "a", [9], 1, "f")
    queue.push(KIND, "b", [4, 5], 5, "g")
    assert waiting(queue, KIND, live) == Waiting(5, 5)
    assert waiting(queue, KIND, live, 2).calls == 3


def test_a_batch_is_filled_with_what_waits_for_one_and_not_with_what_is_held_back() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(KIND, "a", [1, 2], 0, "f")
    queue.push(KIND, "b", [3, 4, 5], 0, "g")
    queue.push(OTHER, "c", [6], 0, "f")
    assert queue.pop(1, 0, gate=lambda kind, wanted: (0, batch_scope(kind))) == []
    assert [(run, list(nodes)) for run, _, nodes in take_more(queue, KIND, 4)] == [("a", [1, 2]), ("b", [3, 4])]
    assert (queue.size, queue.blocked_size) == (0, 2)
    queue.release(batch_scope(KIND))
    queue.block("type:cpu")
    assert take_more(queue, KIND, 4) == []
