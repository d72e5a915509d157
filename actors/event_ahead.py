"""Runs of which a reader of events knows only how they were later: their submission is gone, a checkpoint has them.

A log that was cut behind a checkpoint still has records from before it, kept for a subscription, say. What they say
themselves is told as always, by the names that the checkpoint has. What follows from them is found the other way
round: a node that is skipped in the checkpoint was skipped when the last of its parents ended, and which nodes end
between here and the checkpoint, the log says (`Late`). From the checkpoint's record on the run's state is what the
checkpoint says, and it is folded on like any other.

Known limits: of a run that went again in between, and of calls that were cancelled with their caller, only what records
say is told. Of nodes that were cancelled one by one before reading began it is told again when their whole run is
cancelled. Runs that were released in between are not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import orjson

from actors.protocol.places import unpacked
from actors.protocol.records import Record, RecordType
from actors.run import Run
from actors.state_column import CANCELLED, SKIPPED, where

_FOLLOWS: Final = (CANCELLED, SKIPPED)


class Late:
    """Nodes whose own ends are told between two records, by run number; and runs that went again."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.ends: defaultdict[int, set[int]] = defaultdict(set)
        self.again: set[int] = set()
        for record in records:
            if record.type == RecordType.COMPLETED:
                for _, no, nodes, values, *_ in orjson.loads(record.payload)[1]:
                    self.ends[no].update(unpacked(nodes, len(values)))
            elif record.type == RecordType.ATTEMPT:
                no, node, outcome, *_ = orjson.loads(record.payload)
                if outcome != "retry":
                    self.ends[no].add(node)
            elif record.type == RecordType.DEAD and record.payload[:1] == b"[":
                self.again.add(orjson.loads(record.payload)[1])


class AheadRun:
    """One such run.

    Args:
        run: As the checkpoint has it; it is not changed.
        late: What the log tells between here and the checkpoint; None: nothing is known of that.
        ended_lsn: The record that ended it; 0: it is open.
    """

    def __init__(self, run: Run, late: Late | None, ended_lsn: int) -> None:
        self.run = run
        self.ended_lsn = ended_lsn
        """The record that ended it; 0: it is open."""
        self._late: set[int] = set()
        self._follows: set[int] = set()
        if late is not None and run.no not in late.again:
            self._late = late.ends[run.no]
            self._reach(self._late, self._follows)

    def ended(self, nodes: Sequence[int]) -> list[int]:
        """These nodes end now, as records say: those that end because of it."""
        self._late.difference_update(nodes)
        found: list[int] = []
        behind = list(nodes)
        open_, columns = (self._late, self._follows), self.run.columns
        while behind and self._follows and columns is not None:
            node = behind.pop()
            for child in columns.succ[columns.succ_off[node] : columns.succ_off[node + 1]]:
                waits = any(parent in some for parent in columns.edges_in(child) for some in open_)
                if child in self._follows and not waits:
                    self._follows.remove(child)
                    found.append(child)
                    behind.append(child)
        return sorted(found)

    def cancelled(self, node: int | None) -> list[int]:
        """Its cancellation, or that of a node, is asked for now: the nodes that end because of it."""
        state = self.run.state
        if node is None:
            found = [one for one in where(state, CANCELLED) if one not in self._late]
            self._follows.difference_update(found)
            return found
        if state[node] != CANCELLED or node in self._late:
            return []
        return sorted([node, *self.ended([node])])

    def _reach(self, nodes: Iterable[int], found: set[int]) -> None:
        """Nodes behind these that ended by no record of their own."""
        state, columns = self.run.state, self.run.columns
        behind = list(nodes)
        while behind and columns is not None and columns.succ:
            node = behind.pop()
            for child in columns.succ[columns.succ_off[node] : columns.succ_off[node + 1]]:
                if child not in found and child not in self._late and state[child] in _FOLLOWS:
                    found.add(child)
                    behind.append(child)
