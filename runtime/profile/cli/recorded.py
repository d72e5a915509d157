"""`cpu`, `await` and `flight`: what takes time, recorded in all processes at once, into one file.

Ctrl-C ends the recording early: what was recorded by then is kept and shown, and the exit code is 130. Where it went is
said on standard error, and what it is made of on standard output: the label sets and the functions that weigh most.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from actors.protocol.errors import CallerError
from runtime.cli.console import Console
from runtime.cli.outputs import check_writable
from runtime.cli.report import align, duration_text
from runtime.profile.captures import capture
from runtime.profile.cli.app import ProfileExit
from runtime.profile.cli.shared import frame_text, names_of, note_all, pids_of, state_of, until_interrupted
from runtime.profile.convert import save as save_file
from runtime.profile.formats.figures import amount_text
from runtime.profile.formats.files import ending_of, format_of, known_format
from runtime.profile.model import NANOSECONDS, Frame, Profile

ROWS: Final = 15
DEFAULT_BY: Final = ("node_type", "workflow")


def record_cpu(arguments: Namespace, console: Console) -> int:
    """The command `cpu`."""
    return _record(capture.cpu, arguments, console)


def record_await(arguments: Namespace, console: Console) -> int:
    """The command `await`."""
    return _record(capture.awaits, arguments, console)


def _record(record: Callable[..., Profile], arguments: Namespace, console: Console) -> int:
    check_output(arguments)
    state = state_of(arguments, console)
    with until_interrupted() as stop:
        found = record(state, arguments.duration, hz=arguments.hz, pids=pids_of(arguments, state), stop=stop)
    return finish(found, arguments, console, interrupted=stop())


def show_flight(arguments: Namespace, console: Console) -> int:
    """The command `flight`."""
    check_output(arguments)
    state = state_of(arguments, console)
    found = capture.flight(state, arguments.duration, pids=pids_of(arguments, state))
    return finish(found, arguments, console)


def finish(profile: Profile, arguments: Namespace, console: Console, *, interrupted: bool = False) -> int:
    """Write it, and say what is in it; `interrupted`: it is of less time than was asked for."""
    save(profile, arguments, console, by=names_of(arguments.by))
    console.say(summary_lines(profile, names_of(arguments.by) or DEFAULT_BY))
    note_all(console, profile.notes)
    if not interrupted:
        return ProfileExit.OK
    console.note(f"note: interrupted after {duration_text(profile.duration_ns)} of {arguments.duration:g} s")
    return ProfileExit.INTERRUPTED


# --- files ------------------------------------------------------------------------------------------------------------


def check_output(arguments: Namespace) -> None:
    """Refuse a format or a place before anything is recorded. Raises CallerError, EnvironmentFault."""
    if arguments.output == Path("-"):
        raise CallerError("-o takes a file, standard output has the summary; a pipe is -o /dev/stdout -f folded")
    if arguments.format:
        known_format(arguments.format)
    elif arguments.output is not None:
        format_of(arguments.output.name)
    check_writable(arguments.output)


def save(profile: Profile, arguments: Namespace, console: Console, *, by: tuple[str, ...] = ()) -> Path:
    """Write a profile where the options say, or under a name that is made in the current folder."""
    path: Path | None = arguments.output
    if path is None:
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime((profile.begun_ns or time.time_ns()) / 1e9))
        path = Path(f"{profile.kind}-{stamp}{ending_of(arguments.format or 'html')}")
    save_file(profile, path, arguments.format, by=by)
    console.note(f"written: {path}")
    return path


# --- what is in it ----------------------------------------------------------------------------------------------------


def summary_lines(profile: Profile, by: tuple[str, ...]) -> Iterator[str]:
    """Sums by process, by label set and by function."""
    total = profile.total()
    if not total.value:
        yield "nothing was recorded"
        return
    yield f"{amount_text(total.value, profile.unit)} in {duration_text(profile.duration_ns)}, seen {total.seen:,} times"
    processes: dict[str, int] = {}
    functions: dict[Frame, int] = {}
    for sample, weight in profile:
        title = sample.process.title if sample.process is not None else "?"
        processes[title] = processes.get(title, 0) + weight.value
        if sample.stack:
            frame = sample.stack[-1]._replace(line=0)
            functions[frame] = functions.get(frame, 0) + weight.value
    sets = {
        ", ".join(f"{name}={text}" for name, text in zip(by, key, strict=True) if text) or "no labels": weight.value
        for key, weight in profile.by(*by).items()
    }
    for head, sums in (("process", processes), (", ".join(by), sets)):
        yield ""
        yield from _table(profile, head, sums, total.value)
    yield ""
    names: dict[str, int] = {}
    for frame, value in functions.items():
        names[frame_text(frame)] = names.get(frame_text(frame), 0) + value
    yield from _table(profile, "function, itself", names, total.value)


def _table(profile: Profile, head: str, sums: dict[str, int], total: int) -> list[str]:
    rows = sorted(sums.items(), key=lambda row: -row[1])
    cells = [(name, f"{value / total:.1%}", amount_text(value, profile.unit)) for name, value in rows[:ROWS]]
    return align([(head, "share", "time" if profile.unit == NANOSECONDS else "number"), *cells])
