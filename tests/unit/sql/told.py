"""What the views should say, worked out in plain Python from the same runs: the slow way, without SQLite."""

from __future__ import annotations

from typing import Any

import orjson

from actors.protocol.kinds import PRIORITIES
from actors.protocol.records import Record
from actors.protocol.states import NodeState, RunState
from actors.run import Run
from actors.scheduler import Scheduler
from actors.timing import read_timing
from runtime.sql.budget import Budget
from runtime.sql.rows import QueryRows
from runtime.sql.snapshot import Snapshot
from runtime.sql.statement import run_statement
from runtime.storage.recovery import replay_of_all

SHOWN = {NodeState.LEASED: "ready", NodeState.PARKED: "ready"}
ENDS = {"succeeded": "succeeded", "skipped": "succeeded", "failed": "failed", "cancelled": "cancelled"}


def fold(records: tuple[Record, ...] | list[Record]) -> Scheduler:
    replay = replay_of_all(None)
    for record in records:
        replay.fold(record)
    return replay.scheduler


def ask(scheduler: Scheduler, sql: str, params: Any = (), *, rows_max: int = 1_000_000) -> QueryRows:
    return run_statement(Snapshot(scheduler.lsn, 5, scheduler), sql, params, rows_max, Budget(60.0))


def runs_of(scheduler: Scheduler) -> list[Run]:
    book = scheduler.book
    return [book.live.get(no) or book.finished[no] for no in sorted((*book.live, *book.finished))]


def is_own(run: Run, node: int) -> bool:
    """Whether a node is the run of a single task."""
    return not run.is_graph and not run.is_map and node < run.base_size


def task_rows(scheduler: Scheduler) -> list[dict[str, Any]]:
    """Rows of `tasks`, without those columns that need a clock to read."""
    return [row for run in runs_of(scheduler) for row in _tasks_of(run)]


def _tasks_of(run: Run) -> list[dict[str, Any]]:
    times = read_timing(run, range(run.size))
    return [_task(run, node, times.get(node)) for node in range(run.size)]


def _task(run: Run, node: int, timing: tuple[int, int, int] | None) -> dict[str, Any]:
    own, state, kind = is_own(run, node), NodeState(run.state[node]), run.kind(node)
    own_id = f"{run.session}-{run.seq + node}"
    failure = run.failure(node) or {}
    started, ended, pid = timing or (None, None, None)
    over = state in (NodeState.SUCCEEDED, NodeState.FAILED, NodeState.CANCELLED, NodeState.SKIPPED)
    done = state == NodeState.SUCCEEDED
    return {
        "task_id": own_id if own else f"{run.key}/{node}",
        "run_id": own_id if own else run.key,
        "run_no": run.no,
        "node": 0 if own else node,
        "node_id": "0" if own else run.node_id(node),
        "name": kind.name,
        "handler": kind.handler,
        "node_type": kind.node_type,
        "tenant": kind.tenant,
        "priority": PRIORITIES[kind.priority],
        "state": SHOWN.get(state, state.name.lower()),
        "attempts": run.rare.attempts.get(node, 0) + int(done),
        "submitted_ns": run.created_ns,
        "started_ns": started,
        "ended_ns": _ended(run, node, ended) if over else None,
        "duration_ns": ended - started if timing and ended is not None and started is not None else None,
        "worker_pid": pid,
        "failure_kind": failure.get("kind"),
        "failure_message": failure.get("message"),
        "dead_letter": int(state == NodeState.FAILED and node in run.rare.died and node not in run.rare.discarded),
        "result": orjson.dumps(run.results[node]).decode() if done else None,
        "parents": orjson.dumps(run.parents(node)).decode(),
    }


def _ended(run: Run, node: int, ended: int | None) -> int | None:
    """By its worker; before any had it; with the cancel of its run; by its failure."""
    early, rare = run.rare.ended_early.get(node), run.rare
    if early is None and run.state[node] == NodeState.CANCELLED and -1 in rare.ended_early:
        early = max(rare.ended_early[-1], ended or 0)
    return early or ended or rare.died.get(node)


def run_rows(scheduler: Scheduler) -> list[dict[str, Any]]:
    """Rows of `runs`: made of those of `tasks`, and of what is said of a run as a whole."""
    by_id: dict[str, list[dict[str, Any]]] = {}
    for row in task_rows(scheduler):
        by_id.setdefault(row["run_id"], []).append(row)
    rows = []
    for run in runs_of(scheduler):
        bundle = not (run.is_graph or run.is_map)
        ids = [f"{run.session}-{run.seq + node}" for node in range(run.base_size)] if bundle else [run.key]
        for run_id in ids:
            tasks = by_id[run_id]
            if bundle:
                state, ended = ENDS.get(tasks[0]["state"], "running"), tasks[0]["ended_ns"]
            else:
                state, ended = str(run.run_state()), None if run.open else scheduler.ended_ns.get(run.no)
            counts = {name: sum(task["state"] == name for task in tasks) for name in COUNTED}
            rows.append(
                {
                    "run_id": run_id,
                    "run_no": run.no,
                    "form": "task" if bundle else "flow" if run.is_graph else "map",
                    "state": state,
                    "ended_ns": ended,
                    "tasks": len(tasks),
                    **counts,
                    "failed_attempts": sum(task["attempts"] - (task["state"] == "succeeded") for task in tasks),
                    "dead_letters": sum(task["dead_letter"] for task in tasks),
                }
            )
            assert state in set(map(str, RunState))
    return rows


COUNTED = ("pending", "ready", "backoff", "cancelling", "succeeded", "failed", "cancelled", "skipped")
