"""Publishes the progress of runs in shared memory: takes what moved in the core, and writes it to the board.

Shown is what the log holds (rule R3): counts are taken, and written when the log is durable up to where they were
taken; meanwhile what moves is noted, and not taken. So a write of the board costs the log nothing, and what a reader
saw is true after a crash, too. What workers hold and what handlers report is not in the log, and as of the same moment.

Not every turn takes what moved, but one in `EVERY_NS` at most; an engine that sleeps before that is woken. A run that
ends within that time is never shown, so short tasks pay for an entry in a dictionary. In one turn at most
`RUNS_PER_TURN` are taken; the rest comes with the next. The end of a run that is shown is taken at once, and shown
before anybody is told of it.

Who finds no room (more live runs than slots) is asked for, as where there is no board. Runs of graphs have all slots,
bundles of single tasks and chunks of maps half of them, single tasks that report a quarter, the latest ones.
Concurrency: the engine's loop.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from actors.event_names import is_single, key_of
from actors.run import Run
from actors.state_column import CANCELLING, LEASED
from runtime.mail.board import SLOTS, BoardRow, BoardWriter, bundle_key, run_key, said_text, task_key
from runtime.profile.presence.here import HERE

if TYPE_CHECKING:
    from actors.core import EngineCore

EVERY_NS: Final = 5_000_000
"""Between two looks at what moved: nobody sees more. With 1 ms, and a look whenever the engine was about to sleep, a
round trip of a single task took 11 us of the engine's time for this alone."""
RUNS_PER_TURN: Final = 128
"""Runs taken in one turn: half a millisecond."""
OTHERS_MAX: Final = SLOTS // 2
REPORTS_MAX: Final = SLOTS // 4
REPORTERS_MAX: Final = 64
"""Nodes that are looked at for another report, where the one that reported last has ended."""
ENDED_MAX: Final = 256
"""Runs that ended and are still shown, the latest: fewer than end while a program reads that one of them did."""

Taken = tuple[Run, list[int], tuple[int, float, float, str] | None]
"""A run, its counts, and what a handler of it reported last."""


class ProgressPublisher:
    """See the module.

    Args:
        core: Not started yet.
        wake_at: Asks for a turn at a time (ns, monotonic).
        wall_ns: The wall clock.

    Attributes:
        held: What was taken and is not durable yet, with the record up to which it counts.
    """

    def __init__(
        self, core: EngineCore, wake_at: Callable[[int], None], wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._wake_at = wake_at
        self._book = core.scheduler.book
        self._scheduler = core.scheduler
        self._persister = core.persister
        self._wall_ns = wall_ns
        self._board: BoardWriter | None = None
        self.held: deque[tuple[int, list[Taken]]] = deque()
        self._due_ns = self._others = self._finished = 0
        self._slots: dict[int, tuple[int, int]] = {}
        self._reports: dict[tuple[int, int], int] = {}
        self._nodes: dict[int, list[int]] = {}
        self._latest: dict[int, int] = {}
        self._outside: dict[int, Run] = {}
        self._ended: dict[int, bool] = {}  # whether it is one of a graph; not the run, which memory may let go of

    def begin(self, fd: int | None) -> None:
        """Show what is known, now and from now on, on the board of the program; None: it has none. Closes the
        descriptor."""
        if fd is None:
            return
        self._board = board = BoardWriter(fd)
        board.sweep()
        self._book.moved = {}
        durable = self._persister.durable_lsn
        for run in sorted(self._book.live.values(), key=lambda run: not run.is_graph):
            if self._has_room(run):
                self._write([(run, run.counts(), None)], durable)
            else:
                self._outside[run.no] = run
        board.begin()

    def turn(self, now_ns: int, *, idle: bool = False) -> bool:
        """Take what is due; `idle`: the engine is about to sleep. True: another turn is wanted at once."""
        if now_ns >= HERE.due_ns:
            HERE.beat(now_ns)
        moved = self._book.moved
        if not moved or self.held:
            return False
        if now_ns < self._due_ns:
            if idle:
                self._wake_at(self._due_ns)
            return False
        if len(moved) <= RUNS_PER_TURN:
            runs = list(moved.values())
            moved.clear()
        else:
            runs = [moved.pop(no) for no in list(moved)[:RUNS_PER_TURN]]
        self._due_ns = now_ns if moved else now_ns + EVERY_NS
        for run in runs:
            if not run.open and run.no not in self._slots:  # it came and went, or found no room
                self._forget(run)
        self._take(run for run in runs if run.open or run.no in self._slots)
        return bool(idle and moved and not self.held)

    def before(self, effects: list[Any]) -> list[Any]:
        """Take the runs that ended in this turn, so that their ends are shown before anybody is told of them. Returns
        the effects that are carried out next."""
        if not self._slots:
            return effects
        last = next(reversed(self._book.finished), 0)
        if last != self._finished and (moved := self._book.moved):
            self._finished = last
            self._take(moved.pop(no) for no in [no for no, run in moved.items() if not run.open and no in self._slots])
        return effects

    def flush(self) -> None:
        """Write what was taken and is durable by now."""
        while self.held and self.held[0][0] <= self._persister.durable_lsn:
            lsn, taken = self.held.popleft()
            self._write(taken, lsn)

    def close(self) -> None:
        """Show nothing more; what was shown stays."""
        self._book.moved = None
        if self._board is not None:
            self._board.close()
            self._board = None

    def _take(self, runs: Iterable[Run]) -> None:
        """The counts of these runs as they are now."""
        if self._book.reports:
            self._report()
        taken = [(run, run.counts(), self._said_of(run)) for run in runs]
        if taken:
            self.held.append((self._scheduler.lsn, taken))
            self.flush()

    def _reporter(self, run: Run) -> int:
        """The node that reported last, or one that reported before and still runs, where that has ended; -1: none."""
        node = self._latest.get(run.no, -1)
        if node < 0 or run.state[node] in (LEASED, CANCELLING):
            return node
        others = islice(reversed(run.rare.progress), REPORTERS_MAX)
        return next((other for other in others if run.state[other] in (LEASED, CANCELLING)), -1)

    def _said_of(self, run: Run) -> tuple[int, float, float, str] | None:
        """What the handler of a node that still runs reported last."""
        node = self._reporter(run)
        said = _said(run, node) if node >= 0 and run.state[node] in (LEASED, CANCELLING) else None
        if said is None:
            return None
        done, total, text = said
        return node, done, total, f"{run.node_id(node)}: {said_text(done, total, text)}" if run.size > 1 else text

    # --- the board ------------------------------------------------------------------------------------------------

    def _write(self, taken: list[Taken], lsn: int) -> None:
        board, at_ns, slots = self._board, self._wall_ns(), self._slots
        if board is None:
            return
        for run, counts, said in taken:
            place = slots.get(run.no)
            row = BoardRow(run.no, tuple(counts), lsn, at_ns, *(said or ()))
            if place is not None:
                board.write(*place, row)
                self._ended.pop(run.no, None)
                if not run.open:
                    self._end(run)
            elif not run.open:
                self._forget(run)
            elif self._has_room(run):
                key = run_key(run.key) if run.is_graph else bundle_key(run.key)
                slots[run.no] = (board.place(key, row), key)
                self._others += not run.is_graph
            else:
                self._outside[run.no] = run
        board.wrote(at_ns)

    def _has_room(self, run: Run) -> bool:
        """Whether a run can be shown; if need be one that ended goes for it."""
        assert self._board is not None
        if not run.is_graph and self._others >= OTHERS_MAX:
            return False
        if not self._board.room and self._ended:
            self._release(*next(iter(self._ended.items())))
        return self._board.room > 0

    def _end(self, run: Run) -> None:
        """A run is over: it is shown for a while, because its program may not have been told yet."""
        self._forget(run)
        self._ended[run.no] = run.is_graph
        if len(self._ended) > ENDED_MAX:
            self._release(*next(iter(self._ended.items())))

    def _forget(self, run: Run) -> None:
        """Nothing of a run that is over is reported any more, and it needs no room."""
        self._outside.pop(run.no, None)
        self._latest.pop(run.no, None)
        for node in self._nodes.pop(run.no, ()):
            shown = self._reports.pop((run.no, node), None)
            if shown is not None and self._board is not None:
                self._board.release(shown)

    def _release(self, no: int, is_graph: bool) -> None:
        """A run that ended is not shown any more; one that found no room may be."""
        assert self._board is not None
        del self._ended[no]
        self._board.release(self._slots.pop(no)[0])
        self._others -= not is_graph
        while self._outside:
            other_no, other = self._outside.popitem()
            if other.open and self._book.moved is not None:
                self._book.moved[other_no] = other
                return

    def _report(self) -> None:
        """What handlers said since the last time: a run shows the latest, and a single task its own."""
        reports, self._book.reports = self._book.reports, {}
        board, at_ns = self._board, self._wall_ns()
        for (no, node), run in reports.items():
            said = _said(run, node)
            if said is None or board is None or not run.open:
                continue
            self._latest[no] = node
            if not (is_single(run, node) or (run.base_size == 1 and node == 0)):
                continue
            row = BoardRow(no, (0,) * 7, 0, at_ns, node, *said)
            key = task_key(key_of(run, node))
            slot = self._reports.pop((no, node), None)
            if slot is not None:
                board.write(slot, key, row)
            else:
                slot = self._place_report(no, node, key, row)
            if slot is not None:
                self._reports[no, node] = slot

    def _place_report(self, no: int, node: int, key: int, row: BoardRow) -> int | None:
        """A slot for a report: a free one, or that of the oldest."""
        board = self._board
        assert board is not None
        if len(self._reports) >= REPORTS_MAX:
            board.release(self._reports.pop(next(iter(self._reports))))
            board.lost()
        if not board.room:
            board.lost()
            return None
        self._nodes.setdefault(no, []).append(node)
        return board.place(key, row)


def _said(run: Run, node: int) -> tuple[float, float, str] | None:
    """What the handler of a node reported last. What is no number (NaN, in JSON null) is none done."""
    found = run.rare.progress.get(node)
    return None if found is None else (found[0] or 0.0, found[1] or 0.0, found[2])
