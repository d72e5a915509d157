"""`verify`: walks the log of a state folder and says whether it is sound. Reads only, also beside a running engine."""

from __future__ import annotations

import json
from pathlib import Path

from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.exits import Exit
from runtime.storage.verify import VerifyReport, verify


def show_verify(state: Path, console: Console, *, as_json: bool = False) -> Exit:
    """Check and print.

    Args:
        state: The state folder.
        console: Where to print.
        as_json: One JSON object instead of text.

    Returns:
        OK when the log opens without salvage, ENVIRONMENT when it is damaged.
    """
    report = verify(state)
    console.say(json.dumps(report.to_json(), indent=2) if as_json else verify_lines(report))
    return Exit.OK if report.sound else Exit.ENVIRONMENT


def verify_lines(report: VerifyReport) -> list[str]:
    """The report as text."""
    log = report.log
    lines = [
        f"state folder   {report.path}",
        f"created        {report.created}, {report.uuid}",
        f"log            {counted(log.records, 'record')} in {counted(len(log.segments), 'segment')}",
    ]
    if report.record_types:
        kinds = ", ".join(f"{count:,} {name.lower()}" for name, count in report.record_types.items())
        lines.append(f"records        {kinds}")
    lines += [f"note           {note}" for note in report.notes]
    lines += [f"problem        {problem}" for problem in report.problems]
    if report.sound:
        return [*lines, "sound: opens as it is"]
    return [*lines, "damaged: salvage=True opens it and reports what was dropped"]
