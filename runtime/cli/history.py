"""`replay`: the state of a folder as of any moment, a run's story up to there, and what changed between two moments.

Reads only, with or without a running engine. The log is folded twice, and the digests of the two states are compared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from actors.protocol import messages as msg
from actors.protocol.errors import UnknownRun
from actors.protocol.moments import precise_moment
from actors.protocol.states import NodeState
from actors.protocol.words import counted
from actors.queries import Queries
from actors.run import Run
from actors.scheduler import Scheduler
from actors.timing import read_timing
from runtime.cli.console import Console
from runtime.cli.exits import Exit
from runtime.cli.report import align, duration_text, time_text
from runtime.storage.history import Look, Picture, RunPicture, difference, look, picture_of
from runtime.storage.moments import NOW, Moment
from runtime.views import Counts

RUNS_SHOWN_MAX: Final = 50
"""Runs in the table, the latest first; `--json` has all."""
_NOTHING: Final = ("came", "gone", "changed", "policy", "schedules")


@dataclass(frozen=True, slots=True)
class Viewed:
    """What `replay` shall show: a run or all, as of `until`; and the difference to `other`, if there is one."""

    run: str | None = None
    until: Moment = NOW
    other: Moment | None = None
    lines_max: int = 200


def show_history(state: Path, asked: Viewed, console: Console, *, as_json: bool = False) -> Exit:
    """Read and print.

    Args:
        state: The state folder.
        asked: What.
        console: Where to print.
        as_json: One JSON object instead of text.

    Raises:
        UnknownMoment: The log does not reach there. UnknownRun: there was no such run then. InternalError: folding
        the log twice gave two states. StateFolderError, LogCorrupt, ...: it cannot be read.
    """
    found = look(state, (asked.until,) if asked.other is None else (asked.until, asked.other))
    pictures = sorted(found.pictures, key=lambda picture: picture.lsn)
    shown = pictures[-1] if asked.other is not None else pictures[0]
    story, archived = [], False
    if asked.run is not None:
        no = _number_of(asked.run, found.scheduler, pictures)
        scheduler, archived = found.scheduler, no is None
        if no is None:
            scheduler, no, run = _archived(state, asked, pictures[-1])
            pictures = [replace(pictures[-1], runs={no: run})]
            shown = pictures[0]
        story = story_of(scheduler, no)
        pictures = [_only(picture, no) for picture in pictures]
        shown = _only(shown, no)
    changes = difference(pictures[0], pictures[-1]) if asked.other is not None else None
    if as_json:
        data = _as_json(found, pictures, shown, story, changes)
        console.say(json.dumps({**data, "archived": True} if archived else data, indent=2, default=str))
    else:
        console.say(_as_text(state, found, pictures, shown, story, changes, asked))
        if archived:
            console.note(f"run {asked.run} is in the archive only: this is what that has of it")
    return Exit.OK


def story_of(scheduler: Scheduler, no: int) -> list[list[Any]]:
    """All that happened in a run up to the moment of a scheduler, in order.

    Returns:
        Rows [when (wall clock ns), node or -1, what, details, LSN or 0].
    """
    book = scheduler.book
    run = book.live.get(no) or book.finished.get(no)
    if run is None:
        return []
    core = cast("Any", SimpleNamespace(scheduler=scheduler))
    (tell,) = Queries(core).answer(msg.Queried("", 0, "story", {"run": run.key}), scheduler.now_ns, scheduler.wall_ns)
    events: list[list[Any]] = list(tell.body[1]["events"]) + _successes(run)
    ended_ns, what = scheduler.ended_ns.get(run.no), f"run {run.run_state()}"
    if not run.open and ended_ns and run.is_graph and not any(event[2] == what for event in events):
        events.append([ended_ns, -1, what, "", 0])  # the log tells of nodes
    return sorted(events, key=lambda event: event[0])


def _successes(run: Run) -> list[list[Any]]:
    """The story has what is rare; that nodes succeeded is in the result frames."""
    attempts, found = run.rare.attempts, []
    for node, (started, ended, pid) in read_timing(run, range(run.size)).items():
        if run.state[node] == NodeState.SUCCEEDED:
            text = f"attempt {attempts.get(node, 0) + 1} in process {pid}, {duration_text(ended - started)}"
            found.append([ended, node, "succeeded", text, 0])
    return found


def _number_of(key: str, scheduler: Scheduler, pictures: Sequence[Picture]) -> int | None:
    """The number of a run of this key, or of the one that has this task in it; None: nobody knew it."""
    for picture in reversed(pictures):
        for no, run in picture.runs.items():
            if run.run_id == key:
                return no
    found = scheduler.book.find(key)
    return None if found is None else found[0].no


def _archived(state: Path, asked: Viewed, last: Picture) -> tuple[Scheduler, int, RunPicture]:
    """A run that memory let go of, as the archive has it: a scheduler that knows it, its number, and its picture.

    Raises:
        UnknownRun: It is not there, either; or it is, and another moment than now was asked for.
    """
    from runtime.storage.past_runs import past_of  # lazy: most runs are met in the log

    unknown = UnknownRun(f"no run {asked.run!r} was known at LSN {last.lsn:,}")
    scheduler = past_of(state).scheduler_with(asked.run or "")
    if scheduler is None:
        raise unknown
    if asked.until != NOW or asked.other is not None:
        raise unknown.hinting("the archive has it, as it ended: leave --until and --diff out")
    ((no, run),) = scheduler.book.finished.items()
    return scheduler, no, picture_of(run, scheduler.ended_ns.get(no))


def _only(picture: Picture, no: int) -> Picture:
    """The same picture with one run in it."""
    runs = {no: picture.runs[no]} if no in picture.runs else {}
    return Picture(picture.lsn, picture.at_ns, picture.digest, runs, picture.policy, picture.schedules)


# --- as JSON ------------------------------------------------------------------------------------------------------


def _as_json(
    found: Look,
    pictures: Sequence[Picture],
    shown: Picture,
    story: Sequence[Sequence[Any]],
    changes: dict[str, Any] | None,
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "as_of": _moment_json(shown),
        "log": {"first_lsn": found.first_lsn, "last_lsn": found.last_lsn},
        "folded_twice": found.folded_twice,
        "runs": [_run_json(run) for run in shown.runs.values()],
        "policy": shown.policy,
        "schedules": list(shown.schedules),
    }
    if story:
        names = ("at_ns", "node", "event", "detail", "lsn")
        data["story"] = [dict(zip(names, event, strict=False)) for event in story]
    if changes is not None:
        changed = [{**run, "counts": [Counts(*c)._asdict() for c in run["counts"]]} for run in changes["changed"]]
        data["diff"] = {
            "from": _moment_json(pictures[0]),
            "to": _moment_json(pictures[-1]),
            **changes,
            "changed": changed,
        }
    return data


def _moment_json(picture: Picture) -> dict[str, Any]:
    return {"lsn": picture.lsn, "at_ns": picture.at_ns, "digest": picture.digest}


def _run_json(run: RunPicture) -> dict[str, Any]:
    return {**asdict(run), "counts": Counts(*run.counts)._asdict(), "nodes": len(run.nodes)}


# --- as text ------------------------------------------------------------------------------------------------------


def _as_text(
    state: Path,
    found: Look,
    pictures: Sequence[Picture],
    shown: Picture,
    story: Sequence[Sequence[Any]],
    changes: dict[str, Any] | None,
    asked: Viewed,
) -> list[str]:
    ended = sum(run.state != "running" for run in shown.runs.values())
    lines = [
        f"state folder   {state.absolute()}",
        f"log            LSN {found.first_lsn:,} to {found.last_lsn:,}",
        f"as of          {_moment_text(shown)}",
        f"digest         {shown.digest}; folding the log twice gives the same",
        f"runs           {len(shown.runs) - ended:,} unfinished, {ended:,} finished",
    ]
    if found.first_lsn > 1:
        lines.append("               runs that were forgotten since then are not among them: their records are gone")
    if changes is not None:
        return [*lines, "", f"from           {_moment_text(pictures[0])}", *_changes(changes)]
    if shown.runs:
        lines += ["", *_table(list(shown.runs.values()))]
    if story:
        lines += ["", *_story(story, asked.lines_max)]
    return lines


def _moment_text(picture: Picture) -> str:
    return f"LSN {picture.lsn:,}" + (f", {precise_moment(picture.at_ns)}" if picture.at_ns else "")


def _table(runs: Sequence[RunPicture]) -> list[str]:
    header = ("run", "flow", "state", "nodes", "done", "failed", "ready", "pending", "submitted", "took")
    rows = [_row(run) for run in runs[::-1][:RUNS_SHOWN_MAX]]
    lines = align([header, *rows], left=3)
    if len(runs) > RUNS_SHOWN_MAX:
        lines.append(f"… and {len(runs) - RUNS_SHOWN_MAX:,} more; --json has them all")
    return lines


def _row(run: RunPicture) -> tuple[str, ...]:
    counts = Counts(*run.counts)
    return (
        run.run_id,
        run.name or "–",
        run.state,
        f"{counts.total:,}",
        f"{counts.done:,}",
        f"{counts.failed:,}",
        f"{counts.ready + counts.running:,}",
        f"{counts.pending:,}",
        time_text(run.created_ns),
        duration_text(run.ended_ns - run.created_ns) if run.ended_ns else "–",
    )


def _story(events: Sequence[Sequence[Any]], lines_max: int) -> list[str]:
    rows = [("when", "node", "what", "details")]
    for when, node, what, details, *_ in events[:lines_max]:
        rows.append((precise_moment(when), "–" if node < 0 else str(node), what, details))
    lines = align(rows, left=len(rows[0]))
    if len(events) > lines_max:
        lines.append(f"… and {len(events) - lines_max:,} more; --limit shows them")
    return lines


def _changes(changes: dict[str, Any]) -> list[str]:
    """What is different, one line for each thing."""
    if not any(changes[name] for name in _NOTHING):
        return ["nothing is different"]
    lines = [f"+ {run}" for run in changes["came"]] + [f"- {run}" for run in changes["gone"]]
    for run in changes["changed"]:
        before, after = run["state"]
        parts = [f"{before} to {after}"] if before != after else [before]
        parts += [f"{counted(count, 'node')} {words}" for words, count in sorted(run["moves"].items())]
        if run["new_nodes"]:
            parts.append(f"{counted(run['new_nodes'], 'new node')}")
        lines.append(f"~ {run['run_id']}: {', '.join(parts)}")
    for what in ("policy", "schedules"):
        for name, (before, after) in changes[what].items():
            word = f"schedule {name}" if what == "schedules" else name
            lines.append(f"~ {word}: {_brief(before)} to {_brief(after)}")
    return lines


def _brief(value: Any) -> str:
    text = json.dumps(value, default=str)
    return "nothing" if value is None else text if len(text) <= 120 else f"{text[:119]}…"
