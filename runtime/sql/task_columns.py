"""The columns of the view `tasks`: one row for each node of a flow, item of a map, single task and task that was added.

`README.md` has them as a table, which is made from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from actors.dead import letter_id
from actors.event_names import is_single, key_of
from actors.protocol.kinds import PRIORITIES, Kind
from actors.state_column import BACKOFF, FAILED, SUCCEEDED
from runtime.mail.plain import EXTENSION
from runtime.sql.columns import ViewColumn, iso
from runtime.sql.seen import STATE_NAMES, SeenRun

Getter = Callable[[SeenRun, int], Any]
"""Works out a value from the run and the number of the node in it."""
_BLOB_SIZE: Final = 3


def _node_id(seen: SeenRun, node: int) -> str:
    return "0" if is_single(seen.run, node) else seen.run.node_id(node)


def _kind(of: Callable[[Kind], Any]) -> Getter:
    return lambda seen, node: of(seen.run.kind(node))


def _attempts(seen: SeenRun, node: int) -> int:
    run = seen.run
    return run.rare.attempts.get(node, 0) + (run.state[node] == SUCCEEDED)


def _due_ns(seen: SeenRun, node: int) -> int | None:
    return seen.run.rare.due.get(node)


def _retry_ns(seen: SeenRun, node: int) -> int | None:
    run = seen.run
    return run.rare.backoff_until.get(node) if run.state[node] == BACKOFF else None


def _started_ns(seen: SeenRun, node: int) -> int | None:
    timing = seen.timing(node)
    return None if timing is None else timing[0]


def _duration_ns(seen: SeenRun, node: int) -> int | None:
    timing = seen.timing(node)
    return None if timing is None else timing[1] - timing[0]


def _worker_pid(seen: SeenRun, node: int) -> int | None:
    timing = seen.timing(node)
    return None if timing is None else timing[2]


def _failure(word: str) -> Getter:
    def of(seen: SeenRun, node: int) -> str | None:
        failure = seen.run.failure(node)
        return None if failure is None else failure.get(word)

    return of


def _dead_letter(seen: SeenRun, node: int) -> int:
    rare = seen.run.rare
    return int(seen.run.state[node] == FAILED and node in rare.died and node not in rare.discarded)


def _result(seen: SeenRun, node: int) -> str | None:
    run = seen.run
    return orjson.dumps(run.results[node]).decode() if run.state[node] == SUCCEEDED else None


def _result_bytes(seen: SeenRun, node: int) -> int | None:
    run = seen.run
    if run.state[node] != SUCCEEDED:
        return None
    value = run.results[node]
    if type(value) is dict and len(value) == 1:
        extension = value.get(EXTENSION)
        if type(extension) is list and len(extension) > _BLOB_SIZE and extension[0] == "blob":
            return int(extension[_BLOB_SIZE])
    return len(orjson.dumps(value))


def _parents(seen: SeenRun, node: int) -> str:
    return orjson.dumps(seen.run.parents(node)).decode()


def _caller(seen: SeenRun, node: int) -> str | None:
    caller = seen.run.rare.callers.get(node)
    return None if caller is None else letter_id(seen.run, caller)


TASK_COLUMNS: Final[tuple[ViewColumn[Getter], ...]] = (
    ViewColumn("task_id", "TEXT", "the id of a single task, else `run_id/node`", lambda s, n: letter_id(s.run, n)),
    ViewColumn("run_id", "TEXT", "of its run in `runs`", lambda s, n: key_of(s.run, n)),
    ViewColumn("run_no", "INTEGER", "of its run in `runs`", lambda s, n: s.run.no),
    ViewColumn("node", "INTEGER", "its number in the run", lambda s, n: s.number_of(n)),
    ViewColumn("node_id", "TEXT", "the id that it was given, else its number", _node_id),
    ViewColumn("name", "TEXT", "of the task", _kind(lambda kind: kind.name)),
    ViewColumn("handler", "TEXT", "its function, as `module:name`", _kind(lambda kind: kind.handler)),
    ViewColumn("node_type", "TEXT", "the node type that runs it", _kind(lambda kind: kind.node_type)),
    ViewColumn("tenant", "TEXT", "its tenant; the default one is empty", _kind(lambda kind: kind.tenant)),
    ViewColumn("priority", "TEXT", "its class as it stands", _kind(lambda kind: PRIORITIES[kind.priority])),
    ViewColumn("concurrency_key", "TEXT", "its concurrency key", _kind(lambda kind: kind.concurrency_key)),
    ViewColumn("rate_key", "TEXT", "its rate key", _kind(lambda kind: kind.rate_key)),
    ViewColumn(
        "state",
        "TEXT",
        "`pending` (for others), `ready` (or with a worker), `backoff` (for its time: a retry, or `due_ns`), "
        "`cancelling`, `succeeded`, `failed`, `cancelled`, `skipped`",
        lambda s, n: STATE_NAMES[s.run.state[n]],
    ),
    ViewColumn("attempts", "INTEGER", "attempts that ended", _attempts),
    ViewColumn("submitted_ns", "INTEGER", "when its run was submitted", lambda s, n: s.run.created_ns),
    ViewColumn("submitted_at", "TEXT", "the same, ISO 8601", lambda s, n: iso(s.run.created_ns)),
    ViewColumn("due_ns", "INTEGER", "before when it does not start, where it was submitted so", _due_ns),
    ViewColumn("retry_ns", "INTEGER", "when its next attempt is due, in `backoff` for a retry", _retry_ns),
    ViewColumn("started_ns", "INTEGER", "when its latest attempt started, of those that ended", _started_ns),
    ViewColumn("started_at", "TEXT", "the same, ISO 8601", lambda s, n: iso(_started_ns(s, n))),
    ViewColumn("ended_ns", "INTEGER", "when it ended; not of what was skipped", lambda s, n: s.ended_ns(n)),
    ViewColumn("ended_at", "TEXT", "the same, ISO 8601", lambda s, n: iso(s.ended_ns(n))),
    ViewColumn("duration_ns", "INTEGER", "how long that attempt took", _duration_ns),
    ViewColumn("worker_pid", "INTEGER", "the process that ran it", _worker_pid),
    ViewColumn("failure_kind", "TEXT", "`error`, `timeout`, `crash`, ... where it did not succeed", _failure("kind")),
    ViewColumn("failure_type", "TEXT", "the type of its exception", _failure("type")),
    ViewColumn("failure_message", "TEXT", "what it said", _failure("message")),
    ViewColumn("traceback", "TEXT", "from where", _failure("traceback")),
    ViewColumn("dead_letter", "INTEGER", "1: it failed for good, and nobody dealt with it", _dead_letter),
    ViewColumn("result", "TEXT", "its result as JSON, as it is stored", _result),
    ViewColumn("result_bytes", "INTEGER", "how large that is, also in a file of its own", _result_bytes),
    ViewColumn("parents", "TEXT", "JSON list of the nodes that it waits for", _parents),
    ViewColumn("caller", "TEXT", "`task_id` of the task that called it", _caller),
    ViewColumn("archived", "INTEGER", "1: only the archive has its run", lambda s, n: int(s.stored.archived)),
)
