"""A task kind: handler and options, interned, so that a node refers to all of it by one number.

Purpose: the engine never imports user code; what it knows of a task is this. Built from the plain dictionary that the
submitter sends (see `Kind.of`), immutable afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

import orjson

from actors.protocol import limits
from actors.protocol.errors import CallerError, ProtocolError
from actors.protocol.moments import NS_PER_S
from actors.protocol.states import TriggerRule
from actors.protocol.values import is_number, is_whole

BATCH_RULE: Final = (
    f"batch: max_size must be a whole number from 1 to {limits.BATCH_MAX:,}, and max_wait 0 to "
    f"{limits.BATCH_WAIT_NS_MAX // NS_PER_S:,} seconds"
)
Shape = Literal["one", "args", "call", "parents", "mixed", "template"]
"""How a task's arguments are stored, and what its worker is sent:

- "one": a value. "args": a list of them. "call": [args, kwargs].
- "parents": nothing; sent are the results of its data parents, which are all its arguments.
- "mixed": [args with null in the places of parents' results, those places]; sent together with the results.
- "template": anything with references to parents' results inside; sent together with the results.
"""
SHAPES: Final = frozenset(get_args(Shape))
PRIORITIES: Final = ("realtime", "high", "normal", "low")
SHARING: Final = ("tenant", "concurrency_key", "rate_key", "rate_cost")
"""Fields that say with whom a task shares. In a kind's text only where they differ from the default, so that a kind
without them has the text, and is the kind, that it always was."""
RATE_COST_MAX: Final = 1_000_000.0
RATE_COST_RULE: Final = f"rate_cost must be above 0 and at most {RATE_COST_MAX:,.0f}"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a failed attempt is tried again: exponential backoff with full jitter.

    `on` holds the failure kinds that are retried; times are nanoseconds. After `lower_after` failed attempts, and after
    each further one, the task goes one priority class down; 0: never. On the wire only where it is set, as `SHARING`.
    """

    attempts_max: int = 1
    base_ns: int = 100_000_000
    cap_ns: int = 60_000_000_000
    factor: float = 2.0
    jitter: bool = True
    on: frozenset[str] = frozenset({"error", "timeout", "crash", "memory"})
    lower_after: int = 0


class BatchRule(NamedTuple):
    """How many calls of a batching handler are run as one, and how long the first of them waits for others."""

    size: int
    wait_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One interned kind. Compared by identity: one object per kind in one engine."""

    no: int
    text: bytes
    handler: str
    name: str
    node_type: str
    shape: Shape
    timeout_ns: int | None
    grace_ns: int
    retry: RetryPolicy
    crashes_max: int
    priority: int
    trigger: TriggerRule
    tenant: str = ""
    concurrency_key: str | None = None
    rate_key: str | None = None
    rate_cost: float = 1.0
    batch: BatchRule | None = None

    @staticmethod
    def of(no: int, data: dict[str, Any]) -> Kind:
        """Build from the submitter's dictionary.

        Raises:
            ProtocolError: A field is missing or has a value that this engine does not know.
        """
        try:
            retry = data.get("retry") or {}
            shape = data["shape"]
            if shape not in SHAPES:
                raise ProtocolError(f"unknown shape {shape!r}")
            return Kind(
                no=no,
                text=b"%b" % orjson.dumps(data, option=orjson.OPT_SORT_KEYS),  # orjson's own holds 4 KiB
                handler=data["handler"],
                name=data.get("name") or data["handler"].rpartition(":")[2],
                node_type=data["node_type"],
                shape=shape,
                timeout_ns=data.get("timeout_ns"),
                grace_ns=data.get("grace_ns") or limits.GRACE_NS,
                retry=RetryPolicy(
                    attempts_max=retry.get("max_attempts", 1),
                    base_ns=retry.get("base_ns", 100_000_000),
                    cap_ns=retry.get("cap_ns", 60_000_000_000),
                    factor=retry.get("factor", 2.0),
                    jitter=retry.get("jitter", True),
                    on=frozenset(retry.get("on", ("error", "timeout", "crash", "memory"))),
                    lower_after=int(retry.get("lower_after", 0)),
                ),
                crashes_max=data.get("poison") or limits.POISON_CRASHES_MAX,
                priority=PRIORITIES.index(data.get("priority", "normal")),
                trigger=TriggerRule(data.get("trigger", "all_succeeded")),
                **_sharing(data),
                batch=_batch(data.get("batch")),
            )
        except (KeyError, ValueError, TypeError, AttributeError) as broken:
            raise ProtocolError(f"task kind is malformed: {broken!r}") from broken


def is_cost(value: object) -> bool:
    """Whether a task can cost so much of a rate."""
    return is_number(value, 0, RATE_COST_MAX, above=True)


def _sharing(data: dict[str, Any]) -> dict[str, Any]:
    found = {name: data[name] for name in SHARING if data.get(name) is not None}
    cost = found.pop("rate_cost", 1.0)
    if not all(isinstance(value, str) for value in found.values()) or not is_cost(cost):
        raise ProtocolError(f"tenant and keys must be text, and {RATE_COST_RULE}")
    return {**found, "rate_cost": float(cost)}


def _is_batch(size: object, wait_ns: object) -> bool:
    """Whether a handler can take so many calls at once, the first of which waits so long."""
    return is_whole(size, 1, limits.BATCH_MAX) and is_whole(wait_ns, 0, limits.BATCH_WAIT_NS_MAX)


def _batch(wire: Any) -> BatchRule | None:
    if wire is None:
        return None
    size, wait_ns = wire
    if not _is_batch(size, wait_ns):
        raise ProtocolError(BATCH_RULE)
    return BatchRule(size, wait_ns)


class KindTable:
    """Interns kinds by their text, so that equal kinds of any session are one object with one number.

    Bounded by `limits.KINDS_MAX`: when it is full, those that nothing refers to any more are forgotten. A number is
    never given twice, because workers know kinds by it.

    `stuffed` says that all were found to be in use: nobody looks again until the owner, who knows when that may have
    changed, takes the word back.
    """

    def __init__(self) -> None:
        self.stuffed = False
        self._by_text: dict[bytes, Kind] = {}
        self._last_no = 0

    def __len__(self) -> int:
        return len(self._by_text)

    def intern(self, data: dict[str, Any], in_use: Callable[[], Iterable[Kind]] = tuple) -> Kind:
        """The kind of this dictionary.

        Args:
            data: As the submitter sends it.
            in_use: Called when the table is full: the kinds that must be kept.

        Raises:
            ProtocolError: It is malformed. CallerError: there are too many that are in use.
        """
        kind = self._by_text.get(orjson.dumps(data, option=orjson.OPT_SORT_KEYS))
        if kind is None:
            if len(self._by_text) >= limits.KINDS_MAX:
                self._make_room(in_use)
            kind = Kind.of(self._last_no + 1, data)
            self._by_text[kind.text] = kind
            self._last_no += 1
        return kind

    def _make_room(self, in_use: Callable[[], Iterable[Kind]]) -> None:
        if not self.stuffed:
            self._by_text = {kind.text: kind for kind in in_use()}
            self.stuffed = len(self._by_text) >= limits.KINDS_MAX
        if self.stuffed:
            raise CallerError(f"more than {limits.KINDS_MAX:,} different functions and options are in use")
