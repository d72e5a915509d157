"""Questions about dead letters, and what may be done with them: listed, looked at, replayed, discarded; runs rerun.

A dead letter is a node in state FAILED that no other node called. None is kept apart: it is its run that is kept, and
its letters go with it, so there is nothing to be moved that a crash could lose. Finished runs with letters have bounds
of their own (`books`). A letter is named `run/number`; a single task is named as its run is.

    dead    {filter, from, limit}   -> {rows, next}; latest run first
    letter  {letter}                -> {row, failure, shape, item | null, cut}
    replay  {letters | filter, from} -> {count, next}          discard likewise
    rerun   {run}                   -> {count}
    held    {scopes, take_back}     -> {held}                  what workers hold of them

Pages: `next` is where to ask from, or null. What is asked for with a filter is done page by page, each durable when
answered; the letters that fail again meanwhile are passed already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import orjson

from actors import once, revival
from actors.policy.letters import LetterFilter
from actors.policy.policy import SCOPES
from actors.policy.scopes import parse, scopes_of
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import CallerError, MissingNode, UnknownRun
from actors.protocol.kinds import PRIORITIES, Kind
from actors.protocol.states import state_word
from actors.run import Run
from actors.state_column import CANCELLING, FAILED, LEASED, where

if TYPE_CHECKING:
    from actors.core import EngineCore
    from actors.scheduler import Scheduler

Place = tuple[int, int]
"""Number of a run, and of a node in it."""


def _dead(core: EngineCore, message: msg.Queried) -> dict[str, Any]:
    args = message.args
    rows_max = min(args.get("limit") or limits.QUERY_ROWS_MAX, limits.QUERY_ROWS_MAX)
    scheduler = core.scheduler
    found, following = _page(scheduler, args, rows_max)
    return {"rows": [row_of(run, node) for run, nodes in found for node in nodes], "next": following}


def _letter(core: EngineCore, message: msg.Queried) -> dict[str, Any]:
    run, node = find(core.scheduler, message.args.get("letter"))
    if node not in run.rare.died:
        raise MissingNode(f"{letter_id(run, node)!r} is no dead letter: it is {state_word(run.state[node])}")
    kind = run.kind(node)
    (item,) = run.build_items(kind, [node])
    cut = len(orjson.dumps(item)) > limits.FRAME_BYTES_MAX // 2
    return {
        "row": row_of(run, node),
        "failure": run.failure(node),
        "shape": kind.shape,
        "item": None if cut else item,
        "cut": cut,
    }


def _replay(core: EngineCore, message: msg.Queried) -> dict[str, Any]:
    scheduler = core.scheduler
    return _each_run(
        scheduler, message, lambda run, nodes: revival.revive(scheduler, run, nodes, message.session), again=True
    )


def _discard(core: EngineCore, message: msg.Queried) -> dict[str, Any]:
    scheduler = core.scheduler
    return _each_run(scheduler, message, lambda run, nodes: revival.discard(scheduler, run, nodes, message.session))


def _rerun(core: EngineCore, message: msg.Queried) -> dict[str, Any]:
    scheduler = core.scheduler
    run, own = _run(scheduler, message.args.get("run"))
    roots = None if own is None or run.base_size == 1 else [own]
    return {"count": revival.revive(scheduler, run, roots, message.session)}


def _held(core: EngineCore, message: msg.Queried) -> dict[str, Any]:
    """How many nodes of some scopes are with workers; with `take_back`, what was not started yet is fetched back.

    Nodes are under no schedule: of one, it is what is open of the runs that it started, which its pause does not stop.
    """
    scopes = {parse(scope, SCOPES).text for scope in message.args.get("scopes") or ()}
    held = 0
    for run in core.scheduler.book.live.values():
        schedule = core.scheduler.schedules.by_run.get(run.no)
        if schedule is not None and f"schedule:{schedule}" in scopes:
            held += run.open
            continue
        if scopes.isdisjoint(chain.from_iterable(map(scopes_of, run.kinds))):
            continue
        leased, stopping = (
            [node for node in where(run.state, state) if not scopes.isdisjoint(scopes_of(run.kind(node)))]
            for state in (LEASED, CANCELLING)
        )
        held += len(leased) + len(stopping)
        if leased and message.args.get("take_back"):
            core.scheduler.put(msg.StopLeases(run, leased))
    return {"held": held}


def count(scheduler: Scheduler) -> int:
    """How many dead letters there are."""
    book = scheduler.book
    return sum(len(run.rare.died) - len(run.rare.discarded) for run in (*book.live.values(), *book.finished.values()))


# --- finding ------------------------------------------------------------------------------------------------------


def find(scheduler: Scheduler, letter: object) -> tuple[Run, int]:
    """Run and node of a letter's id. Raises UnknownRun, MissingNode."""
    if not isinstance(letter, str):
        raise CallerError(f"a letter is named run/number, not {letter!r:.80}")
    found = scheduler.book.find(letter)
    number: int | None = None
    if found is None:
        key, _, digits = letter.rpartition("/")
        found = scheduler.book.find(key)
        number = int(digits) if digits.isdecimal() and digits.isascii() else None
        if found is None or number is None:
            raise UnknownRun(f"no dead letter {letter!r:.200} is known")
    run, own = found
    node = own if number is None else number
    if node is None and run.size == 1:
        node = 0
    if node is None or not 0 <= node < run.size:
        raise MissingNode(f"run {run.key!r} has several nodes; a letter of it is named {run.key}/number")
    return run, node


def letter_id(run: Run, node: int) -> str:
    """The name of a letter: `find` finds it again."""
    if run.is_graph or run.is_map or node >= run.base_size:
        return f"{run.key}/{node}"
    return f"{run.session}-{run.seq + node}"


def row_of(run: Run, node: int) -> list[Any]:
    """A letter in the table: id, run, number, node id, handler, name, kind of failure, type, message, attempts, when,
    tenant, class."""
    kind, failure = run.kind(node), run.failure(node) or {}
    own = not (run.is_graph or run.is_map or node >= run.base_size)
    return [
        letter_id(run, node),
        letter_id(run, node) if own else run.key,
        0 if own else node,
        "0" if own else run.node_id(node),
        kind.handler,
        kind.name,
        failure.get("kind", ""),
        failure.get("type", ""),
        failure.get("message", ""),
        run.rare.attempts.get(node, 0),
        run.rare.died.get(node),
        kind.tenant,
        PRIORITIES[kind.priority],
    ]


def _run(scheduler: Scheduler, key: object) -> tuple[Run, int | None]:
    found = scheduler.book.find(key) if isinstance(key, str) else None
    if found is None:
        raise UnknownRun(f"no run {key!r:.200} is known")
    return found


def _each_run(
    scheduler: Scheduler, message: msg.Queried, do: Callable[[Run, list[int]], int], *, again: bool = False
) -> dict[str, Any]:
    """Do something with the letters that are named, or with a page of those that a filter finds.

    With `again` they shall go again: of those that cannot, a filter finds none, and naming one is refused.
    """
    args = message.args
    if args.get("letters") is None:
        found, following = _page(scheduler, args, limits.LETTERS_PER_TURN)
        count = 0
        for run, nodes in found:  # one by one: of two of one unique task, the first is in the way of the second
            able = [n for n in nodes if not revival.is_stopping(run, n)] if again else nodes
            if able and not (again and once.stands_in_the_way(scheduler, run) is not None):
                count += do(run, able)
        return {"count": count, "next": following}
    letters = args["letters"]
    if not isinstance(letters, list) or len(letters) > limits.LETTERS_PER_TURN:
        raise CallerError(f"letters are a list of at most {limits.LETTERS_PER_TURN}")
    named: dict[int, tuple[Run, list[int]]] = {}
    for run, node in [find(scheduler, letter) for letter in letters]:  # all are known before anything is done
        if node in run.rare.died:
            named.setdefault(run.no, (run, []))[1].append(node)
    for run, nodes in named.values() if again else ():
        revival.check(scheduler, run, nodes)
    if again:
        once.refuse_rivals(run for run, _ in named.values())
    return {"count": sum(do(run, nodes) for run, nodes in named.values()), "next": None}


def _page(
    scheduler: Scheduler, args: Mapping[str, Any], rows_max: int
) -> tuple[list[tuple[Run, list[int]]], Place | None]:
    """Letters from a place on that a filter finds, by run, and where the next page begins."""
    wanted = LetterFilter.of(args.get("filter") or {})
    found: dict[int, tuple[Run, list[int]]] = {}
    tasks: dict[Kind, bool] = {}
    left, looks = rows_max, limits.LETTERS_LOOKED_AT_MAX
    for run, node in _letters(scheduler, wanted.run, args.get("from")):
        if not (left and looks):
            return list(found.values()), (run.no, node)
        looks -= 1
        kind = run.kind(node)
        meant = tasks.get(kind)
        if meant is None:
            meant = tasks[kind] = wanted.matches_task(kind.handler, kind.name, kind.tenant)
        if meant and wanted.matches_failure(run.rare.failures[node]["kind"], run.rare.died[node]):
            found.setdefault(run.no, (run, []))[1].append(node)
            left -= 1
    return list(found.values()), None


def _letters(scheduler: Scheduler, key: str | None, start: Place | None) -> Iterator[tuple[Run, int]]:
    """Letters from a place on: those of the latest run first, in a run in order of their numbers."""
    book = scheduler.book
    if key is not None:
        run, own = _run(scheduler, key)
        if own is not None and run.base_size > 1:
            if own in run.rare.died and own not in run.rare.discarded:
                yield run, own
            return
        runs = [run]
    else:
        runs = [run for run in (*book.live.values(), *book.finished.values()) if run.rare.died]
    if start is not None:
        runs = [run for run in runs if run.no <= start[0]]
    for run in sorted(runs, key=_by_number, reverse=True):
        node = run.state.find(FAILED, start[1] if start is not None and run.no == start[0] else 0)
        while node >= 0:
            if node in run.rare.died and node not in run.rare.discarded:
                yield run, node
            node = run.state.find(FAILED, node + 1)


_by_number = attrgetter("no")


QUESTIONS: Final[Mapping[str, Callable[[Any, msg.Queried], dict[str, Any]]]] = {
    "dead": _dead,
    "letter": _letter,
    "replay": _replay,
    "discard": _discard,
    "rerun": _rerun,
    "held": _held,
}
