"""The flame graph as one self-contained page: it asks for nothing outside itself and works without a network.

What is in it without scripts: what was measured, notes, and the functions that weigh most. Scripts (`pages/`) draw
the graph on a canvas and read the data of `tree`: search, zoom, filters by label, process and thread, groups, and with
a profile from before, what grew and shrank. Only what is wide enough to be seen is drawn, so that the time of a frame
depends on the screen and not on the number of stacks.

All text is escaped; the data is ASCII JSON in which `<` cannot occur, and a content security policy forbids the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Final

from actors.protocol.words import counted
from runtime.cli.pages import fill, script_json, shown
from runtime.cli.report import duration_text
from runtime.profile.formats import changes
from runtime.profile.formats.figures import amount_text, moment_text
from runtime.profile.formats.roots import label_names_of
from runtime.profile.formats.tree import ROWS_MAX, bounded, columns
from runtime.profile.model import COUNT, NANOSECONDS, Frame, Profile

SCRIPTS: Final = ("base.js", "model.js", "draw.js", "table.js", "start.js")
FUNCTIONS_LISTED: Final = 40
"""In the table that needs no script."""
TITLES: Final = {"cpu": "CPU", "await": "Waits", "live": "Alive now", "leaks": "Leaks"}


def page(
    profile: Profile,
    before: Profile | None = None,
    *,
    by: Sequence[str] = (),
    lines: bool | None = None,
    title: str = "",
) -> bytes:
    """The page, UTF-8.

    Args:
        profile: What is shown.
        before: What it is compared with.
        by: What the first view is grouped by: "process", "thread", names of labels. None named: processes, if there
            are several.
        lines: Whether lines of one function are frames of their own. By default where things are counted: there the
            line is what they wait at.
        title: Above it; by default from the kind of the profile.
    """
    lines = profile.unit == COUNT if lines is None else lines
    title = title or TITLES.get(profile.kind, profile.kind) + (" · what changed" if before is not None else "")
    processes = {sample.process for sample in profile.samples}
    known = {"process", "thread", *label_names_of(profile)}
    groups = [name for name in by if name in known] or (["process"] if len(processes) > 1 else [])
    notes = [*profile.notes, *(f"before: {note}" for note in (before.notes if before is not None else ()))]
    if len(profile) > ROWS_MAX:
        notes.append(f"of {len(profile):,} rows the {ROWS_MAX:,} heaviest are drawn, the others as one frame")
    was = None if before is None else bounded(before)
    data = columns(bounded(profile), was, lines=lines) | {"groups": groups, "title": title}
    parts = {
        "title": shown(title),
        "subtitle": shown(_subtitle(profile, before)),
        "notes": "".join(f"<li>{shown(note)}</li>" for note in notes),
        "notes_hidden": "" if notes else " hidden",
        "changes": "" if before is None else changes.table(profile, before),
        "changes_hidden": " hidden" if before is None else "",
        "functions": _functions(profile),
        "data": script_json(data),
    }
    return fill(resources.files("runtime.profile.formats") / "pages", "flame.html", SCRIPTS, parts)


def _subtitle(profile: Profile, before: Profile | None) -> str:
    total = profile.total()
    parts = [amount_text(total.value, profile.unit)]
    if profile.unit == NANOSECONDS:
        parts.append(counted(total.seen, "sample") + (f" at {profile.hz:g} Hz" if profile.hz else ""))
    else:
        parts[0] += f" in {counted(len({sample.stack for sample in profile.samples}), 'stack')}"
    if profile.duration_ns:
        parts.append(f"recorded for {duration_text(profile.duration_ns)}")
    if profile.begun_ns:
        parts.append(moment_text(profile.begun_ns))
    if before is not None:
        was = before.total()
        took = f" in {duration_text(before.duration_ns)}" if before.duration_ns else ""
        parts.append(f"compared with {amount_text(was.value, before.unit)}{took}, {counted(was.seen, 'sample')}")
    return " · ".join(parts)


def _functions(profile: Profile) -> str:
    """Rows of the functions that weigh most by themselves."""
    own: dict[Frame, int] = {}
    whole: dict[Frame, int] = {}
    function_of = {frame: Frame(frame.name, frame.file) for sample in profile.samples for frame in sample.stack}
    for sample, weight in profile:
        functions = [function_of[frame] for frame in sample.stack]
        for frame in set(functions):
            whole[frame] = whole.get(frame, 0) + weight.value
        if functions:
            own[functions[-1]] = own.get(functions[-1], 0) + weight.value
    total = max(1, profile.total().value)
    first = sorted(own, key=lambda frame: (-own[frame], frame))[:FUNCTIONS_LISTED]
    return "".join(
        f'<tr><th scope="row">{shown(frame.name)} <small>{shown(frame.file)}</small></th>'
        f"<td>{amount_text(own[frame], profile.unit)}</td><td>{own[frame] / total:.1%}</td>"
        f"<td>{amount_text(whole[frame], profile.unit)}</td><td>{whole[frame] / total:.1%}</td></tr>"
        for frame in first
    )
