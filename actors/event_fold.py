"""From records to events: the log read again, as recovery reads it, and told one transition at a time.

    EventFold(wanted).events(record)      for each record in order: its events, those that are wanted

Two ways of reading, chosen by what is wanted:

- told: what the record itself says. A run is known by its SUBMITTED record, which is looked up (`find`) where reading
  began after it. Nothing else is folded, so that reading can begin anywhere at once.
- folded: what follows from a record is told too: nodes that were skipped or cancelled because of it, runs that it
  ended. That takes the states of the nodes, so `Replay` folds them (the code of recovery, no second one), without
  results and times. A record of a run that was submitted before reading began makes it read everything that the log
  keeps up to there (`history`), once; a run that came later never does. Where the log was cut behind a checkpoint, that
  is where it begins (`base`).

Invariants: a record leads to the same events whatever else is wanted, and wherever reading began; what the record says
stands before what follows from it.
Concurrency: none. Pure: what reads the disk is given.
Known limits: told only, nodes that a run got while it ran have no name. What recovery ends (cancels that were under way
when the engine died) is told by the records it writes. A wave that was on its way when something else was recorded is
told with the record that set it off. What is told of runs that only a checkpoint has, `actors.event_ahead` says.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from actors import wave
from actors.event_lean import no_values
from actors.event_names import is_single
from actors.event_teller import EventTeller, Folding
from actors.growth import attach_spawned
from actors.imported import committed, committed_ns
from actors.kept import MARK
from actors.once import HEAD_BYTES
from actors.outcomes import brief
from actors.protocol.kinds import PRIORITIES
from actors.protocol.places import unpacked
from actors.protocol.records import Record
from actors.protocol.words import asker as named
from actors.released import released, released_ns
from actors.revival import DISCARDED
from actors.run import Run


class EventFold(EventTeller):
    """See the module; arguments as `EventTeller`."""

    def _submitted(self, record: Record) -> None:
        if not (self.folds or self._about_runs):
            return
        run = self._enter(record)
        run.lsn = record.lsn
        self.wall_ns = run.created_ns
        if run.is_graph or run.is_map:
            self._tell("run.submitted", run, data={"nodes": run.size})
            if self.folds:
                self._close(run, record, run.created_ns)
            return
        self._tell_singles("run.submitted", run, range(run.size), [run.created_ns] * run.size, {"nodes": 1})

    def _completed(self, record: Record) -> None:
        _, groups = orjson.loads(record.payload)
        entered: list[tuple[Run, Sequence[int], list[int]]] = []
        for _, no, nodes, values, started_ns, ends in groups:
            run = self._found(no)
            if run is None or not (run.open or no in self._ahead):
                continue
            nodes = unpacked(nodes, len(values))
            if self.offset_ns:
                times = list(map((self.offset_ns + started_ns).__add__, ends))
            else:  # nothing says how the worker's clock went
                times = [self.wall_ns] * len(ends)
            self.wall_ns = times[-1]
            self._tell_nodes("node.succeeded", run, nodes, times)
            if self.folds:
                entered.append((run, nodes, times))
        for run, nodes, times in entered:
            why = "what it waited for has ended"
            if run.no in self._ahead:
                follows = self._ahead[run.no].ended(nodes)
                self._tell_ahead(run, Folding(None, nodes, times, why), follows, times[-1])
                continue
            if run.rare.spawned:  # such a run has its edges: see `_spawned`
                for _ in attach_spawned(self.scheduler, run, nodes):
                    pass
            quiet = run.clean and not run.special  # where nothing failed before, nothing can be skipped now
            self._folding = Folding(None if quiet else bytes(run.state), nodes, times, why)
            run.succeed(nodes, no_values(len(nodes)))
            wave.finish(run)
            self._close(run, record, times[-1])

    def _attempt(self, record: Record) -> None:
        no, node, outcome, attempt, failure, due, self.wall_ns, times = orjson.loads(record.payload)
        run = self._found(no) if outcome == "retry" else self._run(no)
        if run is None or not (run.open or no in self._ahead):
            return
        at_ns = times[1] or self.wall_ns
        data = {"attempt": attempt, "failure": failure.get("kind"), "type": failure.get("type")}
        if outcome == "retry":
            self._tell("node.retried", run, node, at_ns=at_ns, cause=brief(failure), data={**data, "due_ns": due})
        else:
            self._tell(f"node.{outcome}", run, node, at_ns=at_ns, cause=brief(failure), data=data)
        why = f"node {run.node_id(node)} ended {outcome}"
        if no in self._ahead:
            if outcome != "retry":
                follows = self._ahead[no].ended((node,))
                self._tell_ahead(run, Folding(None, (node,), (at_ns,), why), follows, at_ns)
        elif self.folds:
            before = bytes(run.state) if run.waits and outcome != "retry" else None
            self._folding = Folding(before, (node,), (at_ns,), why)
            super()._attempt(record)
            self._folding = None

    def _cancel(self, record: Record) -> None:
        no, node, _, *told = orjson.loads(record.payload)
        self._at(told[0] if told else None)
        run = self._run(no)
        if run is None or not (run.open or no in self._ahead):
            return
        kind = "run.cancel_asked" if node is None else "node.cancel_asked"
        self._tell(kind, run, node, cause=told[1] if told else "")
        why = "its cancellation was asked for"
        if no in self._ahead:
            self._tell_ahead(run, Folding(None, (), (), why), self._ahead[no].cancelled(node), self.wall_ns)
        elif self.folds:
            self._folding = Folding(bytes(run.state), (), (), why)
            self.scheduler.set_time(0, self.wall_ns)
            super()._cancel(record)

    def _spawned(self, record: Record) -> None:
        _, no, node, block = orjson.loads(record.payload)
        run = self._run(no)
        if run is not None:
            self._tell("node.spawned", run, node, data={"nodes": block["n"], "called": "calls" in block})
            if self.folds:
                super()._spawned(record)

    def _lent(self, record: Record) -> None:
        no, node, self.wall_ns, *_ = orjson.loads(record.payload)
        run = self._run(no)
        if run is not None:
            self._tell("node.waiting", run, node)
            if self.folds:
                super()._lent(record)

    def _released(self, record: Record) -> None:
        self._at(released_ns(record.payload))
        if "run.released" in self.wanted and not self._muted:
            for no in released(record.payload):
                run = self._found(no)
                if run is not None and (run.is_graph or run.is_map):
                    self._tell("run.released", run)
                elif run is not None:
                    for node in range(run.base_size):
                        self._tell_single("run.released", run, node, self.wall_ns)
        if self.folds:
            super()._released(record)

    def _opened(self, record: Record) -> None:
        super()._opened(record)
        self.wall_ns = self.opened["wall_ns"]
        self.scheduler.book.forget_sessions("")
        clocks = ("now_ns", "wall_ns", "next_run_no")
        self._tell("engine.opened", data={name: v for name, v in self.opened.items() if name not in clocks})

    def _keys(self, record: Record) -> None:
        facts = orjson.loads(record.payload)
        self._at(facts.get("at_ns"))
        again = facts.get("again")
        if again is not None:
            session, seq, key, asked = again
            self._tell("run.joined", key=key, cause=f"key {asked}", data={"as": f"{session}-{seq}"})
        if self.folds:
            super()._keys(record)
            self.scheduler.keys.again.clear()  # no session comes and asks

    def _debounced(self, record: Record) -> None:
        length = int.from_bytes(record.payload[:HEAD_BYTES], "little")
        head = orjson.loads(record.payload[HEAD_BYTES : HEAD_BYTES + length])
        session, seq, no, key, self.wall_ns, due_ns = head
        run = self._run(no)
        self._tell("run.called_again", run, key=key, data={"as": f"{session}-{seq}", "due_ns": due_ns})
        if self.folds:
            super()._debounced(record)
            self.scheduler.keys.again.clear()

    def _priority(self, record: Record) -> None:
        no, node, class_, self.wall_ns, asker = orjson.loads(record.payload)
        run = self._found(no)
        if run is not None:
            kind = "run.reprioritised" if node is None else "node.reprioritised"
            self._tell(kind, run, node, cause=_by(asker), data={"priority": PRIORITIES[class_]})
            if self.folds:
                super()._priority(record)

    def _dead(self, record: Record) -> None:
        if record.payload[:1] == MARK:
            if self.folds:
                super()._dead(record)
            return
        what, no, nodes, self.wall_ns, asker = orjson.loads(record.payload)
        run = self._run(no)
        if run is None:
            return
        if what == DISCARDED:
            for node in nodes:
                self._tell("node.discarded", run, node, cause=_by(asker))
        elif nodes is None or not is_single(run, nodes[0]):
            self._tell("run.replayed", run, cause=_by(asker), data={"nodes": None if nodes is None else len(nodes)})
        else:
            for node in nodes:
                self._tell_single("run.replayed", run, node, self.wall_ns)
        if self.folds:
            before = bytes(run.state)
            super()._dead(record)
            if what != DISCARDED:
                self._follow(run, Folding(before, (), (), _by(asker) or "it was asked for"), self.wall_ns)

    def _imported(self, record: Record) -> None:
        """Read in both ways: an import is rare, and what follows is told of runs that are known."""
        self._at(committed_ns(record.payload))
        super()._imported(record)
        for no in committed(record.payload):
            run = self.scheduler.book.live.get(no) or self.scheduler.book.finished.get(no)
            if run is not None:
                self._tell("run.imported", run, data={"nodes": run.size})

    def _policy(self, record: Record) -> None:
        facts = orjson.loads(record.payload)
        self._at(facts.get("at_ns"))
        self._tell("policy.changed", cause=facts.get("cause", ""), data=facts["policy"])
        if self.folds:
            super()._policy(record)

    def _schedule(self, record: Record) -> None:
        facts = orjson.loads(record.payload)
        self._at(facts.get("at_ns"))
        if "put" in facts:
            self._tell("schedule.set", name=facts["put"]["name"])
        elif "gone" in facts:
            self._tell("schedule.removed", name=facts["gone"])
        else:
            name, until_ns, queued, _, passed = facts["judged"]
            self._tell("schedule.judged", name=name, data={"until_ns": until_ns, "queued": queued, "passed": passed})
        if self.folds:
            super()._schedule(record)

    def _at(self, wall_ns: int | None) -> None:
        """A record that need not tell when it was written may do so."""
        self.wall_ns = wall_ns or self.wall_ns

    def _rates(self, record: Record) -> None:
        """Nothing to tell, and nothing that a run's state depends on."""


def _by(asker: str | None) -> str:
    """Who asked for it, as a cause; empty: the log does not say."""
    return f"by {named(asker)}" if asker else ""
