"""`reshard`: moves the log of a state folder into another number of shards, while no engine has it open."""

from __future__ import annotations

import json
from pathlib import Path

from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.exits import Exit
from runtime.storage.reshard import ReshardReport, reshard


def reshard_log(state: Path, shards: int, console: Console, *, as_json: bool = False) -> Exit:
    """Move the log and say what was moved.

    Args:
        state: The state folder.
        shards: Into how many; 1 for a log in one piece.
        console: Where to say it.
        as_json: One JSON object instead of text.
    """
    report = reshard(state, shards)
    console.say(json.dumps(report.to_json(), indent=2) if as_json else reshard_lines(report))
    return Exit.OK


def reshard_lines(report: ReshardReport) -> list[str]:
    """The report as text."""
    lines = [f"removed {name}, which was not in use" for name in report.removed]
    if report.shards == report.shards_before:
        return [*lines, f"{report.path}: the log lies in {counted(report.shards, 'shard')} already"]
    moved = f"{counted(report.records, 'record')} in {counted(report.bytes, 'byte')}"
    return [*lines, f"{report.path}: {moved} moved from {report.shards_before} to {counted(report.shards, 'shard')}"]
