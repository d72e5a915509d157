"""Labels: on whose account code runs. A context variable carries them, so they go where the code goes.

    with labels(customer="acme"):
        ...                                     # also in the tasks that are started here, and in `asyncio.to_thread`

The worker sets `AttemptLabels` before it calls a handler: tenant, workflow, node type, task and attempt. They are made
once for all attempts of a group that share them, and put into words when somebody looks, so an attempt costs one
`ContextVar.set`, or none where several are run in one go (then the number is that of the first of them).

Names: `tenant` where it is not the default one; `workflow` is the name of the flow, or of the task where it has none;
`node_type` as the runtime was given it; `actor` is the task; `attempt` counts from 1.

Labels are for adding up, so they must be few: a run, a user's name or an amount does not belong here. A process keeps
apart `LABEL_SETS_MAX` of them in half a minute; what comes beyond is added up as `OTHER` and counted.

Concurrency: values are never changed. A thread of a pool is told by `ThreadLabels` whose work it does, because another
thread cannot look into its context.
Known limits: threads and pools that user code makes by itself have no labels, unless it is a `carried.CarryingPool`
(before Python 3.14, whose threads inherit them).
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token, copy_context
from typing import Any, Final

Labels = tuple[tuple[str, str], ...]

LABEL_SETS_MAX: Final = 4_096
OTHER: Final[Labels] = (("labels", "other"),)
VALUE_CHARS_MAX: Final = 120


class AttemptLabels:
    """What the code of an attempt is labelled with; shared by all attempts that have the same.

    Args:
        kind: The task's kind, as the worker got it.
        workflow: Name of its run; "" where it has none.
        node_type: Of the worker.
        attempt: Its number, from 1.
    """

    __slots__ = ("_labels", "attempt", "kind", "node_type", "workflow")

    def __init__(self, kind: Mapping[str, Any], workflow: str, node_type: str, attempt: int = 1) -> None:
        self.kind, self.workflow, self.node_type, self.attempt = kind, workflow, node_type, attempt
        self._labels: Labels | None = None

    def labels(self) -> Labels:
        """In words, sorted by name."""
        found = self._labels
        if found is None:
            kind = self.kind
            task = kind.get("name") or str(kind.get("handler", "")).rpartition(":")[2]
            pairs = {
                "actor": task,
                "attempt": str(self.attempt),
                "node_type": self.node_type,
                "tenant": kind.get("tenant") or "",
                "workflow": self.workflow or task,
            }
            found = self._labels = tuple((name, value[:VALUE_CHARS_MAX]) for name, value in pairs.items() if value)
        return found


class Added:
    """Labels of a user, and those that they were added to."""

    __slots__ = ("_labels", "_outer", "_pairs")

    def __init__(self, outer: AttemptLabels | Added | None, pairs: dict[str, Any]) -> None:
        self._outer, self._pairs = outer, pairs
        self._labels: Labels | None = None

    def labels(self) -> Labels:
        """In words, sorted by name. Runs `str` of the values."""
        found = self._labels
        if found is None:
            pairs = dict(expand(self._outer))
            pairs |= {name: str(value)[:VALUE_CHARS_MAX] for name, value in self._pairs.items()}
            found = self._labels = tuple(sorted(pairs.items()))
        return found


LABELS: Final[ContextVar[AttemptLabels | Added | None]] = ContextVar("mainspring_labels", default=None)
"""Of the running code."""


def expand(value: Any) -> Labels:
    """The labels that a value of `LABELS` stands for; pairs are some already (entered before this module was there)."""
    return () if not value else value if type(value) is tuple else value.labels()


def current() -> Labels:
    """Labels of the running code."""
    return expand(LABELS.get())


class Labelling:
    """What `labels` returns: a context manager, to be entered once."""

    __slots__ = ("_pairs", "_token")

    def __init__(self, pairs: dict[str, Any]) -> None:
        self._pairs = pairs
        self._token: Token[AttemptLabels | Added | None] | None = None

    def __enter__(self) -> None:
        made = Added(LABELS.get(), self._pairs)
        made.labels()  # here, and not in a handler of a signal: a value's `__str__` may do anything
        self._token = LABELS.set(made)

    def __exit__(self, *exc: object) -> None:
        token = self._token
        if token is None:
            return
        try:
            LABELS.reset(token)
        except ValueError:  # left in another context, as async generators that are closed by the loop are
            LABELS.set(None if token.old_value is Token.MISSING else token.old_value)


def labels(**pairs: Any) -> Labelling:
    """Label the code in a `with` block, and what it starts, in profiles and in findings.

    Args:
        pairs: Names and values, as text; few different ones, because each set is added up apart.

    Returns:
        The context manager.
    """
    return Labelling(pairs)


class ThreadLabels:
    """Whose work the threads of our pools do, by their identifiers."""

    def __init__(self) -> None:
        self.by_thread: dict[int, AttemptLabels | Added | None] = {}


MAIN: Final = 0
"""In place of the main thread's identifier, which is another one in a fork of a thread."""
# global: of this process, as its threads are
THREADS: Final = ThreadLabels()


def label_main(scope: AttemptLabels | None) -> None:
    """Label what the main thread runs from here on, for itself and for threads that look at it. None: nothing."""
    LABELS.set(scope)
    THREADS.by_thread[MAIN] = scope


def carrying() -> Callable[..., Any]:
    """Runs a function, in another thread, in a copy of the context of whoever calls this, and with its labels."""
    run, found = copy_context().run, LABELS.get()

    def carried(fn: Callable[..., Any], *args: Any) -> Any:
        me = get_ident()
        THREADS.by_thread[me] = found
        try:
            return run(fn, *args)
        finally:
            THREADS.by_thread.pop(me, None)

    return carried


class LabelSets:
    """Bounds how many label sets are kept apart: in each of two generations, the older of which is forgotten."""

    def __init__(self, most: int = LABEL_SETS_MAX) -> None:
        self.most = most
        self.overflowed = 0
        self._known: dict[Labels, Labels] = {}
        self._before: dict[Labels, Labels] = {}

    def keep(self, found: Labels) -> Labels:
        """The same labels, one object for equal ones; `OTHER` when there are too many."""
        known = self._known.get(found)
        if known is None:
            if len(self._known) >= self.most:
                self.overflowed += 1
                return OTHER
            known = self._known[found] = self._before.get(found, found)
        return known

    def __len__(self) -> int:
        """How many are known, of both generations."""
        return len(self._known) + len(self._before)

    def age(self) -> None:
        """Half a minute has passed."""
        self._before, self._known = self._known, {}
