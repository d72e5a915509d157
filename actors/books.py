"""Where the scheduler keeps its runs: live ones, finished ones kept for their results, and the sessions they came from.

A session numbers its submissions 1, 2, 3, ...; a run covers one number, a bundle of single tasks several in a row. The
public key of a run is "session-number", or the id that the user gave.

Retention rule: finished runs go, oldest first, when there are more than `runs` of them, more than `nodes` nodes in them
or more than `BYTES_FINISHED_MAX` encoded bytes; never the latest one, and never one whose end was not yet handed to its
session.

Runs with dead letters are spared: kept beside those bounds, within bounds of their own (`LETTER_RUNS_MAX` and those
that follow it), where the oldest go first, too. So what succeeds does not push out what failed. Such a run would keep
the log from being cut at its first record; `actors.kept` writes it again when the log's floor comes to it.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from actors.protocol import limits
from actors.run import Run

UNIQUE: Final = "unique:"
"""What a name begins with under which one run is open at a time."""
CARRY_LAG_RECORDS: Final = 4096
"""Records that a run which is kept for its letters may keep in the log, beside those for its size."""
SESSIONS_IDLE_MAX: Final = 100
"""Sessions without runs that a checkpoint keeps: the latest ones."""
ROOM_PART: Final = 16
"""Retiring frees one part in so many, so that it is done for many runs at once."""


def has_letters(run: Run) -> bool:
    """Whether there are dead letters in it that nobody has dealt with."""
    return len(run.rare.died) > len(run.rare.discarded)


class Session:
    """Submissions of one face."""

    __slots__ = ("bases", "runs", "seq_last")

    def __init__(self) -> None:
        self.seq_last = 0
        self.bases: list[int] = []
        self.runs: dict[int, Run] = {}

    def find(self, seq: int) -> Run | None:
        """The run that covers this number."""
        at = bisect_right(self.bases, seq) - 1
        if at < 0:
            return None
        run = self.runs[self.bases[at]]
        covers = 1 if run.is_graph or run.is_map else run.base_size
        return run if seq < run.seq + covers else None


class RunBook:
    """All runs by number, key and session. `runs` and `nodes` bound what is kept of finished ones."""

    def __init__(self, runs: int = limits.RUNS_FINISHED_MAX, nodes: int = limits.NODES_FINISHED_MAX) -> None:
        self.runs_max = runs
        self.nodes_max = nodes
        self.live: dict[int, Run] = {}
        self.finished: dict[int, Run] = {}
        self.known: dict[str, Run] = {}
        """Live runs that submissions may join: see `actors.once`."""
        self.sessions: dict[str, Session] = {}
        self.nodes_live = 0
        self.nodes_finished = 0
        self.bytes_live = 0
        """Of what was submitted, encoded. What its results take is not known before, and limited by its nodes only."""
        self.bytes_finished = 0
        self.told_lsn = 0
        self.spared: dict[int, Run] = {}
        """Those of the finished ones that are kept for their letters, oldest first."""
        self._spared_nodes = self._spared_bytes = 0
        self._aside: dict[int, Run] = {}
        """Runs whose records are not where their age says: spared ones, and those that were written again."""
        self._by_key: dict[str, Run] = {}
        self._by_age: deque[int] = deque()  # numbers in order of submission; also some of runs that are gone
        self._ended_lsn: dict[int, int] = {}
        self._next_no = 1
        self.moved: dict[int, Run] | None = None
        """Runs whose counts may have changed since whoever shows them took them; None: nobody does."""
        self.reports: dict[tuple[int, int], Run] = {}
        """Nodes whose handlers said how far they are, since the same moment."""

    def touch(self, run: Run) -> None:
        """Nodes of this run are about to change their states, or did."""
        if self.moved is not None:
            self.moved[run.no] = run

    def report(self, run: Run, node: int) -> None:
        """A handler said how far this node is."""
        if self.moved is not None:
            self.moved[run.no] = self.reports[run.no, node] = run

    def session(self, name: str) -> Session:
        """The session of this name, made when new."""
        found = self.sessions.get(name)
        if found is None:
            found = self.sessions[name] = Session()
        return found

    def forget_sessions(self, but: str) -> None:
        """Forget sessions without runs: their faces are gone, because an engine has one at a time."""
        for name in [name for name, session in self.sessions.items() if not session.runs and name != but]:
            del self.sessions[name]

    @property
    def next_run_no(self) -> int:
        """Number that the next run will get."""
        return self._next_no

    def next_no(self) -> int:
        """Take a run number."""
        no = self._next_no
        self._next_no += 1
        return no

    def expect_no(self, no: int) -> None:
        """Replay: the next number taken is this one."""
        self._next_no = no

    def expect_no_at_least(self, no: int) -> None:
        """Replay: no number below this one is taken again."""
        self._next_no = max(self._next_no, no)

    def add(self, run: Run, seq_last: int) -> None:
        """Enter a new run that covers its session's numbers up to `seq_last`."""
        session = self.session(run.session)
        self.live[run.no] = run
        self._by_key[run.key] = run
        self._by_age.append(run.no)
        self.nodes_live += run.size
        if session.bases and run.seq < session.bases[-1]:
            insort(session.bases, run.seq)
        else:
            session.bases.append(run.seq)
        session.runs[run.seq] = run
        session.seq_last = max(session.seq_last, seq_last)
        if run.rare.known_as and run.open:
            self.known[run.rare.known_as] = run
        self.touch(run)

    def grew(self, count: int) -> None:
        """A live run got so many more nodes."""
        self.nodes_live += count

    def weigh(self, run: Run, items_bytes: int) -> None:
        """A new run was submitted in so many bytes."""
        run.items_bytes = items_bytes
        self.bytes_live += items_bytes

    def weigh_again(self, run: Run, items_bytes: int) -> None:
        """What a live run was submitted in was replaced."""
        self.bytes_live -= run.items_bytes
        self.weigh(run, items_bytes)

    def get(self, key: str) -> Run | None:
        """The run with exactly this key."""
        return self._by_key.get(key)

    def find(self, key: str) -> tuple[Run, int | None] | None:
        """The run of a public key, and the node when the key is that of one task of a bundle."""
        run = self._by_key.get(key)
        if run is None:
            name, _, number = key.rpartition("-")
            session = self.sessions.get(name)
            if session is None or not number.isdigit():
                return None
            run = session.find(int(number))
            if run is None:
                return None
            return run, int(number) - run.seq
        return run, None if run.is_graph or run.is_map else 0

    def finish(self, run: Run, lsn: int) -> bool:
        """Move a run whose nodes all ended; False when it was moved before."""
        if self.live.pop(run.no, None) is None:
            return False
        self.touch(run)
        if run.rare.known_as and self.known.get(run.rare.known_as) is run:
            del self.known[run.rare.known_as]
        self.nodes_live -= run.size
        self.nodes_finished += run.size
        self.bytes_live -= run.items_bytes
        self.bytes_finished += run.items_bytes + run.results_bytes
        self.finished[run.no] = run
        self._ended_lsn[run.no] = lsn
        return True

    def ended_lsn(self, no: int) -> int:
        """The latest record when this run, which has finished, ended."""
        return self._ended_lsn[no]

    def reopen(self, run: Run) -> bool:
        """Move a finished run, nodes of which are about to go again, back to the live ones; False when it is there."""
        if run.no not in self.finished:
            return False
        self.unspare(run)
        del self.finished[run.no]
        self.nodes_finished -= run.size
        self.nodes_live += run.size
        self.bytes_finished -= run.items_bytes + run.results_bytes
        self.bytes_live += run.items_bytes
        self.live[run.no] = run
        if run.rare.known_as.startswith(UNIQUE):
            self.known[run.rare.known_as] = run
        del self._ended_lsn[run.no]
        return True

    @property
    def crowded(self) -> bool:
        """Whether finished runs are over the bounds."""
        return (
            len(self.finished) - len(self.spared) > self.runs_max
            or self.nodes_finished - self._spared_nodes > self.nodes_max
            or self.bytes_finished - self._spared_bytes > limits.BYTES_FINISHED_MAX
        )

    def retire(self) -> list[Run]:
        """When over the bounds, forget the oldest finished runs until a part of the room is free; returns them."""
        gone: list[Run] = []
        if not self.crowded:
            return gone
        over_runs, over_nodes, over_bytes = (
            used - bound + bound // ROOM_PART
            for used, bound in (
                (len(self.finished) - len(self.spared), self.runs_max),
                (self.nodes_finished - self._spared_nodes, self.nodes_max),
                (self.bytes_finished - self._spared_bytes, limits.BYTES_FINISHED_MAX),
            )
        )
        others = len(self.finished) - len(self.spared)
        for no, run in self.finished.items():
            if no in self.spared:
                continue
            enough = over_runs <= 0 and over_nodes <= 0 and over_bytes <= 0
            if enough or others == 1 or self._ended_lsn[no] > self.told_lsn:
                break
            others -= 1
            gone += self._spare(run) if has_letters(run) else [run]
            over_runs -= 1
            over_nodes -= run.size
            over_bytes -= run.items_bytes + run.results_bytes
        for run in gone:
            self._drop(run.no)
        return gone

    def _spare(self, run: Run) -> list[Run]:
        """Keep a run for its letters; returns what has to go for it, or itself where it is too large."""
        size = run.items_bytes + run.results_bytes
        if run.size > limits.LETTER_RUN_NODES_MAX or size > limits.LETTER_RUN_BYTES_MAX:
            return [run]
        self.spared[run.no] = run
        self._spared_nodes += run.size
        self._spared_bytes += size
        gone: list[Run] = []
        while (
            len(self.spared) > limits.LETTER_RUNS_MAX
            or self._spared_nodes > limits.LETTER_NODES_MAX
            or self._spared_bytes > limits.LETTER_BYTES_MAX
        ):
            gone.append(next(iter(self.spared.values())))
            self.unspare(gone[-1])
        return gone

    def unspare(self, run: Run) -> None:
        """This run is kept as any other from now on, if it was spared."""
        if self.spared.pop(run.no, None) is not None:
            self._spared_nodes -= run.size
            self._spared_bytes -= run.items_bytes + run.results_bytes

    def forget(self, numbers: list[int]) -> None:
        """Replay: these runs were retired."""
        for no in numbers:
            if no in self.finished:
                self._drop(no)

    def floor(self, next_lsn: int) -> int:
        """The lowest LSN that a kept run needs."""
        return min([self._floor_by_age(next_lsn), *(run.lsn for run in self._aside.values())])

    def below_floor(self, next_lsn: int) -> list[Run]:
        """Finished runs that alone keep much of the log from being cut: those that are spared, or were.

        Much is so many records that writing them again, as often, adds a KiB to each.
        """
        low = [run for no, run in self._aside.items() if no in self.finished]
        size = sum(run.items_bytes + run.results_bytes for run in low)
        floor = self._floor_by_age(next_lsn) - CARRY_LAG_RECORDS - size // limits.KIB
        return [run for run in low if run.lsn < floor]

    def saved(self) -> dict[str, Any]:
        """What a checkpoint holds beside the runs: sessions, in order, and where runs stand. Those that may go are left
        out: sessions without runs, but the latest ones (a face has one, and the next face another one)."""
        idle = [name for name, session in self.sessions.items() if not session.runs][:-SESSIONS_IDLE_MAX]
        return {
            "next_no": self._next_no,
            "live": list(self.live),
            "finished": [[no, self._ended_lsn[no]] for no in self.finished],
            "aside": list(self._aside),
            "known": [[name, run.no] for name, run in self.known.items()],
            "sessions": [
                [name, session.seq_last, [run.no for run in session.runs.values()]]
                for name, session in self.sessions.items()
                if name not in idle
            ],
        }

    def load(self, data: dict[str, Any], runs: Mapping[int, Run]) -> None:
        """Take what `saved` made into an empty book, and these runs, all that it names."""
        self._next_no = data["next_no"]
        for name, seq_last, numbers in data["sessions"]:
            session = self.session(name)
            session.seq_last = seq_last
            session.runs = {runs[no].seq: runs[no] for no in numbers}
            session.bases = sorted(session.runs)
        self.live = {no: runs[no] for no in data["live"]}
        self.finished = {no: runs[no] for no, _ in data["finished"]}
        self._ended_lsn = dict(data["finished"])
        self._aside = {no: runs[no] for no in data["aside"]}
        self.known = {name: runs[no] for name, no in data["known"]}
        self._by_key = {run.key: run for run in runs.values()}
        self._by_age = deque(sorted(runs.keys() - self._aside.keys()))
        self.nodes_live = sum(run.size for run in self.live.values())
        self.nodes_finished = sum(run.size for run in self.finished.values())
        self.bytes_live = sum(run.items_bytes for run in self.live.values())
        self.bytes_finished = sum(run.items_bytes + run.results_bytes for run in self.finished.values())

    def put_aside(self, run: Run, lsn: int) -> None:
        """All that the log has to keep of this run begins with this record."""
        run.lsn = lsn
        self._aside[run.no] = run

    def restore(self, run: Run, lsn: int) -> None:
        """Replay: a finished run that was written again."""
        self.add(run, run.seq if run.is_graph or run.is_map else run.seq + run.base_size - 1)
        self.expect_no_at_least(run.no + 1)
        self._by_age.pop()
        self.weigh(run, run.items_bytes)
        self.put_aside(run, lsn)
        self.finish(run, lsn)

    def _floor_by_age(self, next_lsn: int) -> int:
        """That of the oldest by submission, whichever ended first, without those that stand aside."""
        by_age, live, finished = self._by_age, self.live, self.finished
        if len(by_age) > 2 * (len(live) + len(finished)):
            self._by_age = by_age = deque(no for no in by_age if no in live or no in finished)
        while by_age:
            no = by_age[0]
            run = live.get(no) or finished.get(no)
            if no in self.spared and run is not None:
                self._aside[no] = run
            if run is not None and no not in self._aside:
                return run.lsn
            by_age.popleft()
        return next_lsn

    def check_invariants(self) -> None:
        """Raise AssertionError when the books disagree."""
        if self.nodes_live != sum(run.size for run in self.live.values()):
            raise AssertionError("nodes_live is wrong")
        if self.nodes_finished != sum(run.size for run in self.finished.values()):
            raise AssertionError("nodes_finished is wrong")
        if self.bytes_live != sum(run.items_bytes for run in self.live.values()):
            raise AssertionError("bytes_live is wrong")
        if self.bytes_finished != sum(run.items_bytes + run.results_bytes for run in self.finished.values()):
            raise AssertionError("bytes_finished is wrong")
        if any(not run.open for run in self.live.values()) or any(run.open for run in self.finished.values()):
            raise AssertionError("a run is in the wrong book")
        if any(not run.open or run.rare.known_as != name for name, run in self.known.items()):
            raise AssertionError("a submission could join a run that is over, or another one")
        if self._spared_nodes != sum(run.size for run in self.spared.values()) or not (
            self.spared.keys() <= self.finished.keys()
        ):
            raise AssertionError("spared runs are counted wrongly")
        kept = [no for no in self._by_age if (no in self.live or no in self.finished) and no not in self._aside]
        if kept != sorted({*self.live, *self.finished} - self._aside.keys()):
            raise AssertionError("the runs in order of submission are not the live and the finished ones")

    def _drop(self, no: int) -> None:
        self.unspare(self.finished[no])
        self._aside.pop(no, None)
        run = self.finished.pop(no)
        self.bytes_finished -= run.items_bytes + run.results_bytes
        del self._ended_lsn[no]
        self.nodes_finished -= run.size
        self._by_key.pop(run.key, None)
        session = self.sessions[run.session]
        session.runs.pop(run.seq, None)
        at = bisect_right(session.bases, run.seq) - 1
        if at >= 0 and session.bases[at] == run.seq:
            del session.bases[at]
