"""Consequences: what follows from the end of a node, a slice a turn, so that a million skipped nodes hold nobody up.

Functions of the scheduler, in a file of their own. The record of what ended is logged first and says all; the wave of
the run (`actors.wave`) works out what follows from it, `Scheduler.wave_edges_max` edges a turn for all runs together.
While a run has a wave it is in `Scheduler.waves`; runs take turns, and all else goes on between them.

Rules
- Cancels come out of the same edges, and wait for the next turn when none are left.
- A run ends when its last node does, so never while a node of it is still to be skipped.
- A cancel never undoes what an earlier end brought about, however far the wave was: recovery does not know how far. So
  a cancel of a run takes all nodes but those that are PENDING; what the wave skips is skipped, and what it does not
  reach is cancelled when it is done. A cancel of one PENDING node waits for the wave: it is recorded, and answered,
  after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors import calls, wave
from actors.protocol import messages as msg
from actors.protocol.words import counted
from actors.run import Run
from actors.state_column import PENDING

if TYPE_CHECKING:
    from actors.scheduler import Scheduler


CANCEL_EDGES: Final = 40
"""What a cancel costs, in edges of 0.2 us: it is found, logged, noted and answered."""
CANCEL_NODES_PER_EDGE: Final = 256
"""Nodes of a graph that a cancel takes for the price of an edge: their column is translated."""
TOLD_EDGES: Final = 4
"""What telling the session of one cancelled task costs, in edges, encoding included."""

FREED_NODES: Final = 1024
"""Nodes of a run that is gone whose items, results or waits are freed at a time, each for the price of an edge."""


class Spreading:
    """A run with a wave. `node` is the first that ended without success, -1 when none did."""

    __slots__ = ("cancels", "node", "others", "run", "skipped")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.node = -1
        self.others = False
        self.skipped = 0
        self.cancels: list[msg.CancelAsked] = []
        """Cancels of single nodes that wait: not more than the session has questions open."""


def begin(scheduler: Scheduler, run: Run, node: int = -1) -> None:
    """This run has a wave, or more of it, because this node ended without success (-1: because nodes succeeded)."""
    found = scheduler.waves.get(run.no)
    if found is None:
        found = scheduler.waves[run.no] = Spreading(run)
    if node >= 0:
        found.others = found.node >= 0
        found.node = node if found.node < 0 else found.node


def cost_of_cancel(run: Run) -> int:
    """What its nodes add to it. Who leaves a map cancels a hundred runs, and is told of each of their nodes."""
    return run.size // CANCEL_NODES_PER_EDGE if run.is_graph else run.size * TOLD_EDGES


def go_on(scheduler: Scheduler) -> None:
    """Take what is left of this turn's edges: first for cancels that waited, then for waves, then to free memory."""
    for _ in range(len(scheduler.postponed)):
        if scheduler.wave_edges_left <= 0:
            return
        scheduler.repeat(scheduler.postponed.popleft())
    waves = scheduler.waves
    while waves and scheduler.wave_edges_left > 0:
        no, spreading = waves.popitem(last=False)
        run = spreading.run
        scheduler.book.touch(run)
        if run.open:
            ready, skipped, scheduler.wave_edges_left = wave.advance(run, scheduler.wave_edges_left)
            spreading.skipped += skipped
            calls.queue(scheduler, run, ready) if run.rare.calls else scheduler.queue(run, ready)
        if run.wave and run.open:
            waves[no] = spreading
            if run.is_graph:
                scheduler.stirred[no] = run
        else:
            _end(scheduler, spreading)
    while scheduler.waste and scheduler.wave_edges_left > 0:
        _shorten(scheduler)


def hasten(scheduler: Scheduler, run: Run) -> None:
    """Take the rest of a run's wave at once, because what comes next needs to know what it brings about."""
    spreading = scheduler.waves.pop(run.no, None)
    if spreading is None:
        return
    scheduler.book.touch(run)
    while run.wave and run.open:
        ready, skipped, _ = wave.advance(run, run.size)
        spreading.skipped += skipped
        calls.queue(scheduler, run, ready) if run.rare.calls else scheduler.queue(run, ready)
    _end(scheduler, spreading)


def _shorten(scheduler: Scheduler) -> None:
    """Free a part of a run that is gone: a million items that are lists take 80 ms."""
    column = scheduler.waste[-1]
    del column[-FREED_NODES:]
    scheduler.wave_edges_left -= FREED_NODES
    if not column:
        scheduler.waste.pop()


def postponed(scheduler: Scheduler, message: msg.CancelAsked, run: Run, node: int) -> bool:
    """Whether a cancel of one node must wait for the wave, which may skip it; it comes again by itself."""
    found = scheduler.waves.get(run.no)
    if found is None or run.state[node] != PENDING:
        return False
    found.cancels.append(message)
    return True


def _end(scheduler: Scheduler, spreading: Spreading) -> None:
    """What there was to be done is done."""
    run = spreading.run
    if run.wave:
        run.wave.clear()
        run.wave_at = 0
    if spreading.skipped and spreading.node >= 0:
        others = " and behind others that ended meanwhile" if spreading.others else ""
        scheduler.note(run, spreading.node, "skipped others", f"{counted(spreading.skipped, 'node')} behind it{others}")
    if run.cancel_asked:
        run.cancel_rest()
    scheduler.finish_if_over(run)
    scheduler.postponed += spreading.cancels
