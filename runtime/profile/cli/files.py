"""`convert` and `diff`: files turned into others, and compared; see `runtime.profile.convert`."""

from __future__ import annotations

from argparse import Namespace

from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.profile import convert
from runtime.profile.cli.app import ProfileExit
from runtime.profile.cli.shared import names_of, note_all
from runtime.profile.diff import BY


def convert_file(arguments: Namespace, console: Console) -> int:
    """The command `convert`."""
    found = convert.convert(arguments.source, arguments.target, arguments.format, by=names_of(arguments.by))
    console.note(f"written: {arguments.target}, {counted(len(found), 'stack')}")
    note_all(console, found.notes)
    return ProfileExit.OK


def show_diff(arguments: Namespace, console: Console) -> int:
    """The command `diff`."""
    found = convert.compare(
        arguments.before,
        arguments.after,
        by=names_of(arguments.by) or BY,
        unit=arguments.unit,
        report=arguments.report,
    )
    console.say(convert.diff_lines(found, arguments.limit))
    return ProfileExit.CHANGED if arguments.fail and found.changed() else ProfileExit.OK
