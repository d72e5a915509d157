"""The columns of the view `runs`: one row for each flow, map and single task, as for whoever holds its handle.

`README.md` has them as a table, which is made from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from actors.archived import form_of
from actors.event_names import key_of, name_of, title_of
from actors.protocol.kinds import PRIORITIES, Kind
from actors.protocol.states import NodeState, RunState
from actors.timing import first_start_ns
from runtime.sql.columns import ViewColumn, iso
from runtime.sql.seen import COUNTED, SeenRun
from runtime.sql.sources import StoredRun

_END: Final = {
    NodeState.SUCCEEDED: RunState.SUCCEEDED,
    NodeState.FAILED: RunState.FAILED,
    NodeState.CANCELLED: RunState.CANCELLED,
    NodeState.SKIPPED: RunState.SUCCEEDED,
}


class RunRow:
    """A row of `runs`: a run, or the single task of this number in a bundle."""

    __slots__ = ("_counts", "_seen", "single", "stored")

    def __init__(self, stored: StoredRun, single: int | None = None, seen: SeenRun | None = None) -> None:
        self.stored = stored
        self.single = single
        self._seen = seen
        self._counts: dict[str, int] | None = None

    @property
    def seen(self) -> SeenRun:
        """The run itself."""
        if self._seen is None:
            self._seen = SeenRun(self.stored)
        return self._seen

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes are in each state."""
        if self._counts is None:
            self._counts = self.seen.counts(self.single)
        return self._counts

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of its nodes."""
        run = self.seen.run
        return run.kinds if self.single is None else [run.kind(self.single)]

    @property
    def ended_ns(self) -> int | None:
        """When it ended."""
        return self.stored.ended_ns if self.single is None else self.seen.ended_ns(self.single)

    @property
    def failed_node(self) -> int | None:
        """The node that says why it did not succeed."""
        run = self.seen.run
        if self.single is not None:
            return None if run.failure(self.single) is None else self.single
        return None if run.clean else run.first_failure()


def _state(row: RunRow) -> str:
    run = row.seen.run
    if row.single is None:
        return str(run.run_state())
    return str(_END.get(NodeState(run.state[row.single]), RunState.RUNNING))


def _run_id(row: RunRow) -> str:
    run = row.seen.run
    return run.key if row.single is None else key_of(run, row.single)


def _name(row: RunRow) -> str:
    run = row.seen.run
    return title_of(run) if row.single is None else name_of(run, row.single)


def _form(row: RunRow) -> str:
    return form_of(row.seen.run)


def _same(words: Iterable[str]) -> str | None:
    """The word that all of them are."""
    found = set(words)
    return found.pop() if len(found) == 1 else None


def _started_ns(row: RunRow) -> int | None:
    if row.single is None:
        return first_start_ns(row.seen.run)
    timing = row.seen.timing(row.single)
    return None if timing is None else timing[0]


def _duration_ns(row: RunRow) -> int | None:
    ended_ns = row.ended_ns
    return None if ended_ns is None else ended_ns - row.seen.run.created_ns


def _failed_attempts(row: RunRow) -> int:
    attempts = row.seen.run.rare.attempts
    if row.single is None:
        return sum(attempts.values())
    return sum(attempts.get(node, 0) for node in row.seen.nodes_of(row.single)) if attempts else 0


def _dead_letters(row: RunRow) -> int:
    rare = row.seen.run.rare
    if not rare.died:
        return 0
    letters = rare.died.keys() - rare.discarded
    return len(letters) if row.single is None else len(letters.intersection(row.seen.nodes_of(row.single)))


def _failed_node(row: RunRow) -> int | None:
    node = row.failed_node
    return None if node is None else row.seen.number_of(node)


def _failure(word: str) -> Callable[[RunRow], str | None]:
    def of(row: RunRow) -> str | None:
        node = row.failed_node
        failure = None if node is None else row.seen.run.failure(node)
        return None if failure is None else failure.get(word)

    return of


def _stored_bytes(row: RunRow) -> int | None:
    run = row.seen.run
    return run.items_bytes + run.results_bytes if row.single is None or run.base_size == 1 else None


def _count(name: str) -> ViewColumn[Callable[[RunRow], Any]]:
    return ViewColumn(name, "INTEGER", f"tasks of it in `tasks` whose state is `{name}`", lambda row: row.counts[name])


RUN_COLUMNS: Final[tuple[ViewColumn[Callable[[RunRow], Any]], ...]] = (
    ViewColumn("run_id", "TEXT", "the id of its handle", _run_id),
    ViewColumn("run_no", "INTEGER", "in order of submission; single tasks may share one", lambda r: r.stored.no),
    ViewColumn("name", "TEXT", "of the flow; of the task, else", _name),
    ViewColumn("form", "TEXT", "`flow`, `map` or `task`", _form),
    ViewColumn("state", "TEXT", "`running` while it has not ended, `succeeded`, `failed` or `cancelled`", _state),
    ViewColumn("tenant", "TEXT", "where all its tasks have the same one", lambda r: _same(k.tenant for k in r.kinds)),
    ViewColumn(
        "priority",
        "TEXT",
        "its class, where all its tasks have the same one",
        lambda r: _same(PRIORITIES[k.priority] for k in r.kinds),
    ),
    ViewColumn("session", "TEXT", "which opening of a runtime submitted it", lambda r: r.seen.run.session),
    ViewColumn("submitted_ns", "INTEGER", "when it was submitted", lambda r: r.seen.run.created_ns),
    ViewColumn("submitted_at", "TEXT", "the same, ISO 8601", lambda r: iso(r.seen.run.created_ns)),
    ViewColumn("started_ns", "INTEGER", "when the first attempt started, of those that ended", _started_ns),
    ViewColumn("started_at", "TEXT", "the same, ISO 8601", lambda r: iso(_started_ns(r))),
    ViewColumn("ended_ns", "INTEGER", "when it ended", lambda r: r.ended_ns),
    ViewColumn("ended_at", "TEXT", "the same, ISO 8601", lambda r: iso(r.ended_ns)),
    ViewColumn("duration_ns", "INTEGER", "from its submission to its end", _duration_ns),
    ViewColumn("tasks", "INTEGER", "how many rows it has in `tasks`", lambda r: len(r.seen.nodes_of(r.single))),
    *map(_count, COUNTED),
    ViewColumn("failed_attempts", "INTEGER", "attempts that ended without success", _failed_attempts),
    ViewColumn("dead_letters", "INTEGER", "tasks that failed for good, and nobody dealt with", _dead_letters),
    ViewColumn("failed_node", "INTEGER", "the first task that says why it did not succeed", _failed_node),
    ViewColumn("failure_kind", "TEXT", "`error`, `timeout`, `crash`, ... of that task", _failure("kind")),
    ViewColumn("failure_type", "TEXT", "the type of its exception", _failure("type")),
    ViewColumn("failure_message", "TEXT", "what it said", _failure("message")),
    ViewColumn(
        "stored_bytes", "INTEGER", "its arguments and results in the log, if it has its `run_no` alone", _stored_bytes
    ),
    ViewColumn("lsn", "INTEGER", "of the record that submitted it", lambda r: r.seen.run.lsn),
    ViewColumn("archived", "INTEGER", "1: only the archive has it", lambda r: int(r.stored.archived)),
)
