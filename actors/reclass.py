"""Another priority class for what was submitted: of a run, or of one task of a bundle; or of a node that is retried.

    "priority" ──► change: log ─► queue and places (`Giving.exchange`) ─► kinds of the run
                   enter: the same from the log, where nothing waits yet and nothing holds places
    a retry ─────► lower: kind of the node, which is neither queued nor leased then

A class is a word of the kind, and whoever asks for it (queue, quotas, shares, pauses, workers) asks a kind. So a class
is changed by exchanging kinds: the run refers to kinds that differ from its old ones in that word only, and all that
becomes ready later of it, also after a failure or a return, is of the new class without anybody looking.

What a worker has already been handed keeps its place there. Nodes that are added to the run later get its class, too:
who changes it knows more than who wrote the submission.

The submission in the log keeps its kinds; a PRIORITY record behind it tells of the change. A run's records are kept
from its submission on, so the change is kept as long as the run.

A retry that lowers the class (`Retry(lower_class=...)`) needs no record of its own: the attempt's record says that
there is a retry, and from where it goes down is known. It goes down from the class that the node has by then, so it
starts anew from one that somebody set. What the node's end makes ready keeps its own class.

Limits: at most one kind more per kind and class; where the table of kinds is full, the change is refused,
and a retry keeps its class.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import orjson

from actors.policy.retry import next_class
from actors.protocol.errors import CallerError, ConfigurationError
from actors.protocol.graph import GraphColumns
from actors.protocol.kinds import PRIORITIES, Kind
from actors.protocol.records import RecordType
from actors.rare import WHOLE
from actors.run import Run
from actors.state_column import SKIPPED, SUCCEEDED

if TYPE_CHECKING:
    from actors.scheduler import Scheduler


def change(scheduler: Scheduler, run: Run, own: int | None, priority: object, asker: str) -> bool:
    """Give a run, or the task `own` of a bundle, another class.

    Returns:
        Whether it is recorded; False: it has ended.

    Raises:
        ConfigurationError: There is no such class. CallerError: there are too many kinds. Nothing was changed.
    """
    if priority not in PRIORITIES:
        raise ConfigurationError(f"priority must be one of {', '.join(PRIORITIES)}, not {priority!r:.80}")
    class_ = PRIORITIES.index(str(priority))
    node = None if run.base_size == 1 else own
    if not run.open or (node is not None and SUCCEEDED <= run.state[node] <= SKIPPED):
        return False
    kinds = _others(scheduler, _kinds(run, node), class_)
    if not kinds and run.rare.classes.get(WHOLE if node is None else node) == class_:
        return True
    scheduler.log(RecordType.PRIORITY, orjson.dumps([run.no, node, class_, scheduler.wall_ns, asker]))
    scheduler.giving.exchange(run, node, kinds, class_)
    _exchange(scheduler, run, node, class_, kinds, asker)
    return True


def enter(scheduler: Scheduler, run: Run, node: int | None, class_: int, asker: str) -> None:
    """Make a change again that stands in the log."""
    _exchange(scheduler, run, node, class_, _others(scheduler, _kinds(run, node), class_), asker)


def lower(scheduler: Scheduler, run: Run, node: int, attempt: int) -> str:
    """A node whose attempt failed will be tried again, if its kind asks for that in a lower class.

    Who called it waits for it, so it goes down no further than its caller.

    Returns:
        What the story says of it; "" when the class stays.
    """
    kind = run.kind(node)
    class_ = next_class(kind.retry, kind.priority, attempt)
    caller = run.rare.callers.get(node)
    if caller is not None:
        class_ = max(kind.priority, min(class_, run.kind(caller).priority))
    if class_ == kind.priority:
        return ""
    try:
        (other,) = _others(scheduler, [kind], class_).values()
    except CallerError:
        return ""
    _set_kind(run, node, other)
    run.own_rare().lowered[node] = class_
    return f", in class {PRIORITIES[class_]}"


def kinds_of_block(scheduler: Scheduler, run: Run, node: int, block: dict[str, Any]) -> list[Kind]:
    """The kinds of nodes that a task adds to a run: what it calls has at least its class.

    Raises as `Scheduler.interned`.
    """
    kinds = scheduler.interned(block["kinds"])
    class_ = run.rare.classes.get(WHOLE)
    if class_ is not None:
        others = _others(scheduler, kinds, class_)
    elif "calls" in block:
        class_ = run.kind(node).priority
        others = _others(scheduler, [kind for kind in kinds if kind.priority > class_], class_)
    else:
        return kinds
    return [others.get(kind, kind) for kind in kinds]


def _kinds(run: Run, node: int | None) -> list[Kind]:
    """Kinds of a run and of what waits to be added to it, or of one node."""
    if node is not None:
        return [run.kind(node)]
    return [*run.kinds, *(kind for _, kinds in run.rare.spawned.values() for kind in kinds)]


def _others(scheduler: Scheduler, kinds: Iterable[Kind], class_: int) -> dict[Kind, Kind]:
    """For each kind of another class, the one that differs from it in the class only."""
    old = [kind for kind in dict.fromkeys(kinds) if kind.priority != class_]
    new = scheduler.interned([{**orjson.loads(kind.text), "priority": PRIORITIES[class_]} for kind in old])
    return dict(zip(old, new, strict=True))


def _exchange(
    scheduler: Scheduler, run: Run, node: int | None, class_: int, kinds: dict[Kind, Kind], asker: str
) -> None:
    """Let the run refer to other kinds, and note it."""
    rare = run.own_rare()
    if node is None:
        run.kinds = [kinds.get(kind, kind) for kind in run.kinds]
        for spawner, (block, waiting) in rare.spawned.items():
            rare.spawned[spawner] = (block, [kinds.get(kind, kind) for kind in waiting])
        rare.classes = {WHOLE: class_}
        rare.lowered.clear()
    else:
        for kind in kinds.values():
            _set_kind(run, node, kind)
        rare.classes[node] = class_
        rare.lowered.pop(node, None)
    scheduler.note(run, WHOLE if node is None else node, "priority set", f"{PRIORITIES[class_]}, by {asker}")


def _set_kind(run: Run, node: int, kind: Kind) -> None:
    """Give one node a kind of its own."""
    if run.columns is None:
        run.columns = GraphColumns.edgeless(run.size, None)
    if run.columns.kind_of is None:
        run.columns.kind_of = array("I", bytes(4 * run.size))
    if kind not in run.kinds:
        run.kinds = [*run.kinds, kind]
        run.mixed = True
    run.columns.kind_of[node] = run.kinds.index(kind)
