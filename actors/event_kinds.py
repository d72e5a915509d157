"""Events: what the log says, one transition at a time, in words that are kept.

An event is derived from a record of the log (`actors.event_fold`), so it is as durable as what it tells of, and reading
the log again gives the same events. What is not in the log is no event: that a node was queued, leased or started.

Names of kinds are part of what programs rely on: append only. `BY_RECORD` says which record leads to which kinds; those
in `FOLDED_KINDS` follow from a record only together with the state of its run: whoever wants them has the log folded.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from actors.protocol.records import RecordType
from actors.protocol.states import NodeState


class Event(NamedTuple):
    """One transition.

    Args:
        lsn: The record of the log that tells of it.
        place: Its place among the events of that record, whoever reads, and whatever kinds are wanted of it.
        at_ns: When, on the wall clock of the engine (ns since 1970). Where the record has no time, that of one before.
        kind: What happened, one of `EVENT_KINDS`.
        run: The id of the run; None where it is about none.
        node: The number of the node in it; None where it is about all of it.
        node_id: The id that the flow gave the node, or its number as text; "" without a node.
        name: Of the task, the flow or the schedule.
        cause: Why, in words: who asked, what failed, what it followed from; "" where the kind says all.
        data: What else there is to know, as plain JSON data; None: nothing.
    """

    lsn: int
    place: int
    at_ns: int
    kind: str
    run: str | None = None
    node: int | None = None
    node_id: str = ""
    name: str = ""
    cause: str = ""
    data: dict[str, Any] | None = None


EVENT_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "engine.opened": "the state folder was opened",
        "node.cancel_asked": "its cancellation was accepted",
        "node.cancelled": "it ended cancelled",
        "node.discarded": "it is no dead letter any more",
        "node.failed": "it ended without success; its attempts are used up",
        "node.replayed": "it had ended, and goes again",
        "node.reprioritised": "it was given another priority class",
        "node.retried": "an attempt did not succeed, another one follows",
        "node.skipped": "it ended skipped: by its trigger rule, or because it asked for that",
        "node.spawned": "it adds nodes to its run, or calls tasks; they begin when it succeeds, or waits for them",
        "node.succeeded": "it ended with a result",
        "node.waiting": "it gave back its slot until what it called has ended",
        "policy.changed": "who runs next was changed, or written again",
        "run.called_again": "a debounced call took the place of an earlier one",
        "run.cancel_asked": "its cancellation was accepted",
        "run.cancelled": "it ended, nodes of it cancelled",
        "run.failed": "it ended, a node of it failed",
        "run.imported": "it came from an export of another folder, as far as it was there",
        "run.joined": "a submission stands for this run instead of starting one",
        "run.released": "it is not kept any longer",
        "run.replayed": "dead letters of it, or all that did not succeed, go again",
        "run.reprioritised": "it was given another priority class",
        "run.submitted": "it was admitted",
        "run.succeeded": "it ended with success",
        "schedule.judged": "due times were queued or passed over",
        "schedule.removed": "the schedule is gone",
        "schedule.set": "the schedule was made, changed or written again",
    }
)
"""All kinds and what they mean."""

FOLDED_KINDS: Final = frozenset(
    {"node.cancelled", "node.replayed", "node.skipped", "run.cancelled", "run.failed", "run.succeeded"}
)
"""Kinds that take the state of the run."""

TIMED_KINDS: Final = frozenset(
    {
        "engine.opened", "node.discarded", "node.failed", "node.reprioritised", "node.retried", "node.waiting",
        "run.called_again", "run.replayed", "run.reprioritised", "run.submitted",
    }
)  # fmt: skip
"""Kinds whose record says when: whoever wants no others need not look at results."""

_RUN_ENDS: Final = frozenset({"run.cancelled", "run.failed", "run.succeeded"})
BY_RECORD: Final[Mapping[RecordType, frozenset[str]]] = MappingProxyType(
    {
        RecordType.KIND: frozenset(),
        RecordType.SUBMITTED: frozenset({"run.submitted"}) | _RUN_ENDS,
        RecordType.COMPLETED: frozenset({"node.succeeded", "node.cancelled", "node.skipped"}) | _RUN_ENDS,
        RecordType.ATTEMPT: frozenset({"node.failed", "node.cancelled", "node.skipped", "node.retried"}) | _RUN_ENDS,
        RecordType.CANCEL: frozenset({"node.cancel_asked", "node.cancelled", "node.skipped", "run.cancel_asked"})
        | _RUN_ENDS,
        RecordType.SPAWNED: frozenset({"node.spawned"}),
        RecordType.RELEASED: frozenset({"run.released"}),
        RecordType.OPENED: frozenset({"engine.opened"}),
        RecordType.MARK: frozenset(),
        RecordType.POLICY: frozenset({"policy.changed"}),
        RecordType.RATES: frozenset(),
        RecordType.KEYS: frozenset({"run.joined"}),
        RecordType.PRIORITY: frozenset({"node.reprioritised", "run.reprioritised"}),
        RecordType.SCHEDULE: frozenset({"schedule.judged", "schedule.removed", "schedule.set"}),
        RecordType.DEBOUNCE: frozenset({"run.called_again"}),
        RecordType.DEAD: frozenset({"node.discarded", "node.replayed", "run.replayed"}),
        RecordType.LENT: frozenset({"node.waiting"}),
        RecordType.IMPORTED: frozenset({"run.imported"}),
        RecordType.CHECKPOINT: frozenset(),
    }
)
"""Which kinds a record can lead to."""

ENDED: Final[Mapping[int, str]] = MappingProxyType(
    {
        int(NodeState.SUCCEEDED): "node.succeeded",
        int(NodeState.FAILED): "node.failed",
        int(NodeState.CANCELLED): "node.cancelled",
        int(NodeState.SKIPPED): "node.skipped",
    }
)
"""The kind of a node's end, by its state."""
