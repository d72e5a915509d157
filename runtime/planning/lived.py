"""Runs that are lived again, and what was recorded of them: how each attempt goes, and which node is which.

Nodes that were there from the beginning have the same numbers. Those that tasks added have numbers by the order in
which they were added, which may be another one than in the recording; so they are matched by who added them.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any, Final

from actors.protocol import messages as msg
from actors.run import Run
from runtime.planning.recording import RecordedRun, Recording
from runtime.planning.worker import Ending

CUT_MORE_NS: Final = 1_000_000_000
"""A task that was stopped would have taken longer. So much, at least, that it still runs when it is stopped again,
though it may have begun a moment earlier."""
_WAITS: Final = {"kind": "waits", "type": "", "message": "", "traceback": ""}


class LivedRun:
    """A run in the simulation, and the times of its nodes under their numbers in the recording."""

    __slots__ = ("ends", "known_size", "more", "recorded", "run", "starts", "suspended")

    def __init__(self, run: Run, recorded: RecordedRun) -> None:
        self.run = run
        self.recorded = recorded
        self.starts = array("q", bytes(8 * recorded.run.size))
        self.ends = array("q", bytes(8 * recorded.run.size))
        self.more: list[int] = []
        """Numbers in the recording of the nodes that were added, in the order in which they were added here."""
        self.known_size = run.base_size
        self.suspended: dict[int, int] = {}
        """By node: how often it has waited for calls."""

    def number(self, node: int) -> int:
        """A node's number in the recording; -1: it has none."""
        if node < self.run.base_size:
            return node
        at = node - self.run.base_size
        return self.more[at] if at < len(self.more) else -1


class LivedRuns:
    """All runs of one simulation. `runs` are by number in the recording."""

    def __init__(self, recording: Recording) -> None:
        self.runs: dict[int, LivedRun] = {}
        self.busy_ns: Counter[str] = Counter()
        self.guessed: set[tuple[int, int]] = set()
        """Run and node of those whose duration the recording does not have."""
        self._recording = recording
        self._by_key = {(r.run.session, r.run.seq): r for r in recording.runs.values()}
        self._by_no: dict[int, LivedRun] = {}

    def ending(self, run: Run, node: int, attempt: int) -> Ending:
        """How an attempt goes: as it went."""
        lived = self.of(run)
        number = -1 if lived is None else lived.number(node)
        if lived is None or number < 0:
            return Ending(self._guess(run, node, (run.no, node)))
        recorded = lived.recorded
        if (calls := recorded.segments.get(number)) is not None:
            at = lived.suspended.get(node, 0)
            if at < len(calls):
                lived.suspended[node] = at + 1
                return Ending(calls[at][0], _WAITS, calls[at][1])
        failed = recorded.failed.get(number)
        if failed is not None and attempt in failed:
            failure, took_ns = failed[attempt]
            return Ending(took_ns, failure)
        took_ns = recorded.took[number] if number < len(recorded.took) else -1
        if took_ns < 0:
            cut_ns = recorded.cut.get(number)
            took_ns = (0 if cut_ns is None else cut_ns + CUT_MORE_NS) + self._guess(
                run, node, (recorded.run.no, number)
            )
        block = recorded.blocks.get(number)
        return Ending(took_ns, None, None if block is None else block[0])

    def _guess(self, run: Run, node: int, place: tuple[int, int]) -> int:
        self.guessed.add(place)
        return self._recording.guess_ns(run.kind(node))

    def ran(self, run: Run, node: int, start_ns: int, end_ns: int) -> None:
        """An attempt is over."""
        self.busy_ns[run.kind(node).node_type] += end_ns - start_ns
        lived = self.of(run)
        number = -1 if lived is None else lived.number(node)
        if lived is not None and 0 <= number < len(lived.starts):
            if not lived.starts[number]:
                lived.starts[number] = start_ns
            lived.ends[number] = end_ns

    def of(self, run: Run) -> LivedRun | None:
        """A run of the simulation with what was recorded of it; None: nothing was."""
        lived = self._by_no.get(run.no)
        if lived is None:
            recorded = self._by_key.get((run.session, run.seq))
            if recorded is None:
                return None
            lived = self._by_no[run.no] = self.runs[recorded.run.no] = LivedRun(run, recorded)
        return lived

    def see_added(self, message: Any) -> None:
        """A task has added nodes to its run, or has called some: they are those of the recording."""
        rows = message.groups if isinstance(message, msg.WorkerDone) else message.rows
        for _, no, nodes, *_ in rows:
            lived = self._by_no.get(no)
            if lived is None or lived.run.size == lived.known_size:
                continue
            node = nodes[0] if isinstance(nodes, list) else nodes
            number = lived.number(node)
            added = lived.run.size - lived.known_size
            if isinstance(message, msg.WorkerDone):
                base = lived.recorded.blocks.get(number, (b"", -1))[1]
            else:
                calls = lived.recorded.segments.get(number, ())
                at = lived.suspended.get(node, 0) - 1
                base = calls[at][2] if 0 <= at < len(calls) else -1
            lived.more += range(base, base + added) if base >= 0 else [-1] * added
            lived.known_size = lived.run.size
