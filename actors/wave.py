"""The wave: how the end of nodes reaches those behind them, so many edges at a time.

A node that ended stands in `Run.wave` until its children know. A child is judged by its trigger rule when all its
parents ended, or at the first success where the rule is any-succeeded; one that is skipped stands in the wave in turn.
No recursion: chains are long. `advance` takes as many edges as it may and stops, inside the children of one node if
need be, because a root may have a million.

Nothing of this is logged: what ended is, and the rest follows from it. In whatever order edges are taken, and whatever
ends in between, each node comes to the same state. So a recovery takes the whole wave at once. Only what a cancel finds
depends on how far the wave is: `actors.consequences` says what is done about that.

Invariants (`check`)
- `waits` of a node are its parents that did not end, and the edges to it that the wave still has.
- `marks`, which a run has once a node of it did not succeed, say of each node what those of its parents came to whose
  edges were taken. So a node with a million parents is judged without looking at them.
- A node all of whose parents ended, and are not in the wave, is where its trigger rule puts it.
- In a run nodes of which went again (`actors.revival`) all this holds for what is PENDING only: what had started or
  ended behind them stays, and nobody reads its `waits` and `marks` any more.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from actors.protocol.states import TriggerRule
from actors.state_column import (
    CANCELLED,
    FAILED,
    PENDING,
    READY,
    SKIPPED,
    SUCCEEDED,
    TERMINAL_FIRST,
    TERMINAL_LAST,
    rule_met,
)

if TYPE_CHECKING:
    from actors.run import Run

UNSUCCESSFUL: Final = 1
"""Mark: a parent ended without success."""
SPOILED: Final = 2
"""Mark: a parent failed or was cancelled."""
NODE_EDGES: Final = 8
"""What taking a node from the wave costs, in edges."""

_WAITED_FOR: Final = 4
_MEANINGS: Final = bytes(
    _WAITED_FOR
    if not TERMINAL_FIRST <= state <= TERMINAL_LAST
    else {SUCCEEDED: 0, SKIPPED: UNSUCCESSFUL}.get(state, UNSUCCESSFUL | SPOILED)
    for state in range(256)
)
"""What a parent in a state means to its children: a mark, or that it is waited for."""

_ALL_SUCCEEDED: Final = TriggerRule.ALL_SUCCEEDED
_NONE_FAILED: Final = TriggerRule.NONE_FAILED
_ANY_SUCCEEDED: Final = TriggerRule.ANY_SUCCEEDED


def join(run: Run, nodes: Sequence[int]) -> bool:
    """Put those of these nodes, which ended, into the wave that have children; whether there are any."""
    columns = run.columns
    assert columns is not None
    off = columns.succ_off
    behind = [node for node in nodes if off[node] != off[node + 1]]
    if behind:
        if run.wave is None:
            run.wave = deque()
        run.wave.extend(behind)
    return bool(behind)


def advance(run: Run, edges_max: int) -> tuple[list[int], int, int]:
    """Take up to about so many edges.

    Returns: nodes that became READY, how many were skipped, and how many edges more might have been taken.
    """
    wave, columns = run.wave, run.columns
    ready: list[int] = []
    skipped = 0
    left = edges_max
    if not wave or columns is None:
        return ready, skipped, left
    off, succ = columns.succ_off, columns.succ
    while wave and left > 0:
        node = wave[0]
        stop = off[node + 1]
        start = run.wave_at or off[node]
        end = min(stop, start + left)
        left -= end - start + NODE_EDGES
        run.wave_at = end
        if end == stop:
            run.wave_at = 0
            wave.popleft()
        if run.state[node] == SUCCEEDED:
            more, fewer = _after_success(run, succ[start:end])
        else:
            more, fewer = _after_failure(run, succ[start:end], run.state[node])
        ready += more
        skipped += fewer
    return ready, skipped, left


def finish(run: Run) -> None:
    """Take the rest of the wave at once: recovery."""
    while run.wave:
        advance(run, run.size)


def recount(run: Run, nodes: Iterable[int]) -> None:
    """Work out anew what these nodes wait for and what their ended parents came to. There is no wave."""
    columns, state, waits, marks, calls = run.columns, run.state, run.waits, run.marks, run.rare.calls
    assert columns is not None
    if marks is None:
        marks = run.marks = bytearray(run.size)
    rows = [(columns.deps_off, columns.deps)]
    if columns.after_off is not None and columns.after is not None:
        rows.append((columns.after_off, columns.after))
    for node in nodes:
        waiting = mark = 0
        for off, parents in rows:
            for parent in parents[off[node] : off[node + 1]]:
                meaning = _MEANINGS[state[parent]]
                if meaning == _WAITED_FOR:
                    waiting += 1
                else:
                    mark |= meaning
        if node in calls:
            waiting += sum(_MEANINGS[state[called]] == _WAITED_FOR for called in calls[node].nodes)
        waits[node] = waiting
        marks[node] = mark


def _after_failure(run: Run, children: Sequence[int], ending: int) -> tuple[list[int], int]:
    """A parent of these nodes ended without success: the inner loop of a failure with a million nodes behind it."""
    state, waits, kinds = run.state, run.waits, run.kinds
    marks = run.marks
    if marks is None:
        marks = run.marks = bytearray(run.size)
    mark = UNSUCCESSFUL if ending == SKIPPED else UNSUCCESSFUL | SPOILED
    kind_of = None if run.columns is None else run.columns.kind_of
    rule, calls = kinds[0].trigger, run.rare.calls
    ready: list[int] = []
    skipped: list[int] = []
    for child in children:
        marks[child] |= mark
        waits[child] = waiting = waits[child] - 1
        if waiting or state[child] != PENDING:
            continue
        if kind_of is not None:
            rule = kinds[kind_of[child]].trigger
        if calls and child in calls and calls[child].waits:
            ready.append(child)
        elif rule is _ALL_SUCCEEDED or rule is _ANY_SUCCEEDED or (rule is _NONE_FAILED and marks[child] & SPOILED):
            state[child] = SKIPPED
            skipped.append(child)
        else:
            ready.append(child)
    return _entered(run, ready, skipped)


def _after_success(run: Run, children: Sequence[int]) -> tuple[list[int], int]:
    """A parent of these nodes succeeded, and it has so many children that they are told in the wave."""
    waits = run.waits
    candidates: list[int] = []
    for child in children:
        waits[child] = waiting = waits[child] - 1
        if not waiting:
            candidates.append(child)
    if run.special:
        candidates += [child for child in children if waits[child] and run.starts_early(child)]
    return judge(run, candidates)


def judge(run: Run, nodes: Sequence[int]) -> tuple[list[int], int]:
    """What becomes of nodes a parent of which has just succeeded, and that either wait for no other one or start at the
    first success. Returns those that are READY, and how many were skipped; these join the wave.
    """
    state, marks = run.state, run.marks
    ready: list[int] = []
    skipped: list[int] = []
    for node in nodes:
        if state[node] != PENDING:
            continue
        mark = marks[node] if marks is not None else 0
        if mark and not run.waits_for_calls(node):
            rule = run.kind(node).trigger
            if rule is _ALL_SUCCEEDED or (rule is _NONE_FAILED and mark & SPOILED):
                state[node] = SKIPPED
                skipped.append(node)
                continue
        state[node] = READY
        ready.append(node)
    return _entered(run, ready, skipped)


def _entered(run: Run, ready: list[int], skipped: list[int]) -> tuple[list[int], int]:
    """Nodes were judged. In a run whose cancel was asked meanwhile, nothing becomes READY any more."""
    state = run.state
    to = CANCELLED if run.cancel_asked else READY
    for node in ready:
        state[node] = to
    run.count(PENDING, to, len(ready))
    if run.cancel_asked:
        run.open -= len(ready)
        ready = []
    if skipped:
        run.count(PENDING, SKIPPED, len(skipped))
        run.open -= len(skipped)
        run.clean = False
        join(run, skipped)
    return ready, len(skipped)


def check(run: Run) -> None:
    """Raise AssertionError when waits, marks and states contradict what the parents came to."""
    columns, state = run.columns, run.state
    assert columns is not None
    taken = [TERMINAL_FIRST <= s <= TERMINAL_LAST for s in state]
    on_the_way: Counter[int] = Counter()
    for place, node in enumerate(run.wave or ()):
        start = (run.wave_at if not place else 0) or columns.succ_off[node]
        on_the_way.update(columns.succ[start : columns.succ_off[node + 1]])
    for node in range(run.size):
        if run.rare.revived and taken[node]:  # what is behind nodes that go again may have ended before
            continue
        calls = run.rare.calls.get(node)
        parents = columns.edges_in(node) + ([] if calls is None else calls.nodes)
        if run.waits[node] != len(parents) - sum(taken[p] for p in parents) + on_the_way[node]:
            raise AssertionError(f"run {run.key}: node {node} waits for {run.waits[node]} edges")
        if run.waits[node] or not parents:
            continue
        if calls is not None and state[node] != PENDING:  # it goes on whatever they came to
            continue
        endings = [state[p] for p in parents]
        mark = run.marks[node] if run.marks is not None else 0
        spoiled = any(s in (FAILED, CANCELLED) for s in endings)
        if mark != (UNSUCCESSFUL if any(s != SUCCEEDED for s in endings) else 0) | (SPOILED if spoiled else 0):
            raise AssertionError(f"run {run.key}: the marks {mark} of node {node} are not what its parents came to")
        if state[node] == CANCELLED or node in run.rare.failures or (run.rare.revived and state[node] != PENDING):
            continue
        if state[node] == PENDING or (state[node] == SKIPPED) == rule_met(run.kind(node).trigger, endings):
            raise AssertionError(f"run {run.key}: node {node} is not where its trigger rule puts it")
