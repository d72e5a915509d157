"""Answers to questions about runs: status, table of nodes, results, story, and why something is not running.

Only reads, but for `policy`, `priority`, `schedules` and `forget`, which pass a change on; questions about dead letters
are `actors.dead`'s. Every answer, but what is said of the engine itself, carries the LSN of the latest record, so that
nobody is told of a change that could still be lost. That one waits for nothing: it must be said when the log stalls.

Times in answers are wall clock nanoseconds; workers measure with the monotonic clock, and each stored frame keeps the
difference between the two as it was then.

Pages: a reply has `next`, the number to ask from next, or null at the end. Rows per page are bounded by
`QUERY_ROWS_MAX`, and the nodes that are looked at for them by `QUERY_NODES_MAX`: a page may be short, or empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import orjson

from actors import dead, forgetting, reclass, schedule_asked
from actors.afterwards import end_of, name_of, output_of
from actors.asked import refuse_malformed
from actors.at_workers import held_nodes, holder_of, split_counts
from actors.calls import called_by
from actors.pool_row import pool_row
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import CallerError, MissingNode, UnknownRun
from actors.protocol.kinds import PRIORITIES
from actors.protocol.moments import moment
from actors.protocol.states import RunState
from actors.protocol.words import counted
from actors.run import Run
from actors.state_column import (
    BACKOFF,
    CANCELLED,
    CANCELLING,
    FAILED,
    LEASED,
    PARKED,
    PENDING,
    READY,
    SKIPPED,
    SUCCEEDED,
)
from actors.timing import Timing, end_ns, read_timing
from actors.why import Reasons

if TYPE_CHECKING:
    from actors.core import EngineCore


class Queries:
    """Reads one core."""

    def __init__(self, core: EngineCore) -> None:
        self._core = core
        self._now_ns = 0
        self._wall_ns = 0

    def answer(self, message: msg.Queried, now_ns: int, wall_ns: int) -> list[fx.Tell]:
        """The reply to one question."""
        self._now_ns, self._wall_ns = now_ns, wall_ns
        try:
            refuse_malformed(message.what, message.args)
            handler, of_letters = self._on.get(message.what), dead.QUESTIONS.get(message.what)
            if of_letters is not None:
                body = [message.query_id, of_letters(self._core, message), None]
            elif handler is not None:
                body = [message.query_id, handler(self, message), None]
            else:
                raise CallerError(f"unknown question {message.what!r}")
        except CallerError as refused:
            body = [message.query_id, None, {"code": refused.code, "message": refused.message}]
        lsn = 0 if message.what == "engine" else self._core.scheduler.lsn
        return [fx.Tell(message.session, "Q", body, lsn, control=False)]

    # --- questions ------------------------------------------------------------------------------------------------

    def _status(self, message: msg.Queried) -> dict[str, Any]:
        run, own = self._find(message.args)
        if message.args.get("watch") and run.open:
            self._core.scheduler.watchers.setdefault(run.no, set()).add(message.session)
        names = ("run", "name", "state", "counts", "created_ns", "ended_ns")
        return dict(zip(names, self._run_row(run, own, self._running_by_run()), strict=True))

    def _nodes(self, message: msg.Queried) -> dict[str, Any]:
        run, own = self._find(message.args)
        timing = read_timing(run, self._asked_for(run, own, message.args))
        held = self._held(run)
        return self._page(run, own, message.args, lambda node: self._node_row(run, node, timing, held))

    def _result(self, message: msg.Queried) -> dict[str, Any]:
        run, own = self._find(message.args)
        which = message.args.get("which", "all")
        keep: Callable[[int], bool] | None = None
        if which == "final":
            keep = self._is_final(run)
        elif which == "failed":
            keep = self._has_failure(run)
        return self._page(run, own, message.args, lambda node: self._result_row(run, node), keep)

    def _story(self, message: msg.Queried) -> dict[str, Any]:
        run, own = self._find(message.args)
        node = self._node(run, message.args, own)
        size, key = (run.base_size, run.key) if own is None else (1, f"{run.session}-{run.seq + own}")
        what = f"{counted(size, 'node')} as {key}"
        events: list[list[Any]] = [[run.created_ns, -1, "submitted", what, run.lsn]]
        events += [list(event) for event in run.rare.events if node is None or event[1] in (node, -1)]
        if node is not None:
            events += self._node_events(run, node)
        for delayed, due in run.rare.due.items():
            if node in (None, delayed):
                events.append([run.created_ns, delayed, "delayed", f"until {moment(due)}", run.lsn])
        events += end_of(run, self._core.scheduler.ended_ns.get(run.no), events)
        events.sort(key=lambda event: event[0])
        return {"events": events}

    def _output(self, message: msg.Queried) -> dict[str, Any]:
        return output_of(*self.place_of(message.args)[:2])

    def _why(self, message: msg.Queried) -> dict[str, Any]:
        run, own = self._find(message.args)
        node = self._node(run, message.args, own)
        node = 0 if node is None and run.size == 1 else node
        reasons = Reasons(self._core, self._now_ns, self._wall_ns)
        return {"text": reasons.of_run(run) if node is None else reasons.of_node(run, node)}

    def _runs(self, message: msg.Queried) -> dict[str, Any]:
        book = self._core.scheduler.book
        start = message.args.get("from")
        limit = _limit(message.args)
        numbers = sorted((*book.live, *book.finished), reverse=True)
        if start is not None:
            numbers = [no for no in numbers if no <= start]
        page = numbers[:limit]
        running = self._running_by_run()
        rows = [self._run_row(book.live.get(no) or book.finished[no], None, running) for no in page]
        return {"rows": rows, "next": numbers[limit] if len(numbers) > limit else None}

    def _engine(self, message: msg.Queried) -> dict[str, Any]:
        core, ahead_ns = self._core, self._wall_ns - self._now_ns
        return {
            **core.facts,
            "state": str(core.supervisor.state),
            "log": asdict(core.persister.statistics()),
            "checkpoint": asdict(core.persister.checkpoint_statistics()),
            "runs_live": len(core.scheduler.book.live),
            "nodes_live": core.scheduler.book.nodes_live,
            "dead_letters": dead.count(core.scheduler),
            "pools": [pool_row(pool, core.scheduler.ready[pool.name].size, ahead_ns) for pool in core.pools.values()],
        }

    def _policy(self, message: msg.Queried) -> dict[str, Any]:
        """What stands, after the change if there is one."""
        scheduler = self._core.scheduler
        change = message.args.get("change")
        policy = scheduler.policy.to_json() if change is None else scheduler.change_policy(change)
        waiting = map(sum, zip(*(queue.counts() for queue in scheduler.ready.values()), strict=True))
        return {"policy": policy, "waiting": dict(zip(PRIORITIES, waiting, strict=False))}

    def _priority(self, message: msg.Queried) -> dict[str, Any]:
        """Change the class of a run, or of one task of a bundle."""
        run, own = self._find(message.args)
        change = reclass.change(self._core.scheduler, run, own, message.args.get("priority"), message.session)
        return {"changed": change}

    def _scale(self, message: msg.Queried) -> dict[str, Any]:
        """What the program says of a step in the size of a pool; heard in this turn."""
        args = message.args
        pool = self._core.pools.get(args.get("node_type", ""))
        advice = None if pool is None else pool.steps.advice
        return {"heard": advice is not None and advice.answer(args["number"], args["size"])}

    def _forget(self, message: msg.Queried) -> dict[str, Any]:
        """Forget a finished run."""
        return forgetting.forget(self._core.scheduler, message.args["run"])

    def _schedules(self, message: msg.Queried) -> dict[str, Any]:
        """All schedules, or what became of a change of one."""
        return schedule_asked.answer(self._core.scheduler, message.args)

    # --- rows -----------------------------------------------------------------------------------------------------

    def _run_row(self, run: Run, own: int | None, running: Mapping[int, int]) -> list[Any]:
        if own is not None:
            state = run.state[own]
            counts = [0] * 7
            counts[_COUNTED[state]] = 1
            if state in (LEASED, CANCELLING):
                runs = any(found.run is run and found.node == own for found in self._core.running_nodes())
                counts = split_counts(counts, int(runs))
            return [
                f"{run.session}-{run.seq + own}",
                name_of(run, own),
                _run_state_of(state),
                counts,
                run.created_ns,
                self._ended(run, own),
            ]
        ended = None if run.open else self._core.scheduler.ended_ns.get(run.no)
        counts = split_counts(run.counts(), running[run.no])
        return [run.key, name_of(run), str(run.run_state()), counts, run.created_ns, ended]

    def _running_by_run(self) -> Counter[int]:
        """How many nodes of each run are running, by the run's number."""
        return Counter(found.run.no for found in self._core.running_nodes())

    def _held(self, run: Run) -> dict[int, tuple[int | None, None, int]]:
        """Start, end and pid of the nodes of a run that workers hold; those that run have a start."""
        pids = held_nodes(self._core.pools, run)
        held: dict[int, tuple[int | None, None, int]] = {node: (None, None, pid) for node, pid in pids.items()}
        for found in self._core.running_nodes():
            if found.run is run:
                started = found.started_ns or self._now_ns
                held[found.node] = (started + self._wall_ns - self._now_ns, None, found.pid)
        return held

    def _ended(self, run: Run, node: int) -> int | None:
        if run.state[node] not in (SUCCEEDED, FAILED, CANCELLED, SKIPPED):
            return None
        timing = read_timing(run, range(node, node + 1)).get(node)
        return end_ns(run, node, timing)

    def _node_row(
        self, run: Run, node: int, timing: dict[int, Timing], held: dict[int, tuple[int | None, None, int]]
    ) -> list[Any]:
        started, ended, pid = timing.get(node, (None, None, None))
        state = run.state[node]
        if ended is None and SUCCEEDED < state <= SKIPPED:  # no attempt of it did
            ended = end_ns(run, node, None)
        runs = False
        if state in (LEASED, CANCELLING):
            started, ended, pid = held.get(node, (None, None, None))
            runs = started is not None
        attempts = run.rare.attempts.get(node, 0)
        if state == SUCCEEDED or runs:
            attempts += 1
        name = None if run.columns is None else run.columns.ids.get(node)
        return [
            node,
            name,
            [*run.parents(node), *called_by(run, node)],
            state,
            attempts,
            started,
            ended,
            pid,
            run.kind(node).name,
            run.rare.progress.get(node),
        ]

    def _result_row(self, run: Run, node: int) -> list[Any]:
        name = None if run.columns is None else run.columns.ids.get(node)
        return [node, name, run.state[node], run.results[node], run.failure(node)]

    def _page(
        self,
        run: Run,
        own: int | None,
        args: dict[str, Any],
        row: Callable[[int], list[Any]],
        keep: Callable[[int], bool] | None = None,
    ) -> dict[str, Any]:
        node = self._node(run, args, own)
        if node is not None:
            return {"rows": [row(node)], "next": None}
        limit = _limit(args)
        rows: list[list[Any]] = []
        spent = 0
        first = args.get("from") or 0
        for number in range(first, run.size):
            if len(rows) >= limit or spent > limits.FRAME_BYTES_MAX // 2 or number - first >= limits.QUERY_NODES_MAX:
                return {"rows": rows, "next": number}
            if keep is not None and not keep(number):
                continue
            found = row(number)
            rows.append(found)
            spent += _size_of(found)
        return {"rows": rows, "next": None}

    def _asked_for(self, run: Run, own: int | None, args: dict[str, Any]) -> range:
        """The nodes that a page of all nodes shows."""
        node = self._node(run, args, own)
        first = (args.get("from") or 0) if node is None else node
        return range(first, min(run.size, first + (_limit(args) if node is None else 1)))

    def place_of(self, args: dict[str, Any]) -> tuple[Run, int, int, int]:
        """Run, node, and the worker and serial of its lease (0, 0 when it has none). Raises CallerError."""
        run, own = self._find(args)
        node = self._node(run, args, own)
        if node is None and run.size > 1:
            raise MissingNode(f"run {run.key!r} has several nodes; name one, as in run.node(id).output()")
        node = node or 0
        holder = holder_of(self._core.pools, run, node)
        return (run, node, 0, 0) if holder is None else (run, node, holder.worker, holder.serial)

    # --- finding --------------------------------------------------------------------------------------------------

    def _find(self, args: dict[str, Any]) -> tuple[Run, int | None]:
        found = self._core.scheduler.book.find(args["run"])
        if found is None:
            raise UnknownRun(f"no run {args['run']!r} is known")
        return found

    def _node(self, run: Run, args: dict[str, Any], own: int | None) -> int | None:
        asked = args.get("node")
        if asked is None:
            return own
        if isinstance(asked, str):
            ids = {} if run.columns is None else run.columns.ids
            found = next((index for index, name in ids.items() if name == asked), None)
            if found is None and asked.isdigit() and int(asked) not in ids:
                found = int(asked)
            asked = found
        if asked is None or not 0 <= asked < run.size:
            raise MissingNode(f"run {run.key!r} has no node {args['node']!r}")
        return int(asked)

    def _is_final(self, run: Run) -> Callable[[int], bool]:
        columns = run.columns
        if columns is None:
            return lambda node: True
        off = columns.succ_off
        return lambda node: off[node] == off[node + 1]

    @staticmethod
    def _has_failure(run: Run) -> Callable[[int], bool]:
        return lambda node: run.failure(node) is not None

    # --- words ----------------------------------------------------------------------------------------------------

    def _node_events(self, run: Run, node: int) -> list[list[Any]]:
        timing = read_timing(run, range(node, node + 1)).get(node)
        if timing is None or run.state[node] != SUCCEEDED:
            return []
        started, ended, pid = timing
        return [
            [started, node, "started", f"attempt {run.rare.attempts.get(node, 0) + 1} in process {pid}"],
            [ended, node, "succeeded", f"after {(ended - started) / 1e6:.3f} ms"],
        ]

    _on: Final[dict[str, Callable[[Any, msg.Queried], dict[str, Any]]]] = {
        "status": _status,
        "nodes": _nodes,
        "result": _result,
        "story": _story,
        "output": _output,
        "why": _why,
        "runs": _runs,
        "engine": _engine,
        "policy": _policy,
        "priority": _priority,
        "scale": _scale,
        "schedules": _schedules,
        "forget": _forget,
    }


_COUNTED: Final = {
    PENDING: 0,
    READY: 1,
    BACKOFF: 1,
    PARKED: 1,
    LEASED: 2,
    CANCELLING: 2,
    SUCCEEDED: 3,
    FAILED: 4,
    CANCELLED: 5,
    SKIPPED: 6,
}
"""Place of a node state in `Run.counts`."""


def _run_state_of(state: int) -> str:
    names = {
        SUCCEEDED: RunState.SUCCEEDED,
        FAILED: RunState.FAILED,
        CANCELLED: RunState.CANCELLED,
        SKIPPED: RunState.SUCCEEDED,
    }
    return str(names.get(state, RunState.RUNNING))


def _limit(args: dict[str, Any]) -> int:
    """Rows that may be in the answer."""
    return min(args.get("limit") or limits.QUERY_ROWS_MAX, limits.QUERY_ROWS_MAX)


def _size_of(row: list[Any]) -> int:
    """A bound of a row's JSON size: exact only for the large parts."""
    return 64 + sum(len(part) if isinstance(part, str) else 24 for part in row) + sum(_deep(part) for part in row)


def _deep(part: Any) -> int:
    return len(orjson.dumps(part)) if isinstance(part, list | dict) else 0
