"""`verify`: says whether a state folder is sound, record by record and blob by blob, and what salvage would keep.

Reads only, also beside a running engine. With `--salvage NEW` it writes what can be kept into a new folder; the old one
is left as it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.exits import Exit
from runtime.cli.status import segments_text
from runtime.storage.contents import Contents, check_contents
from runtime.storage.rescue import RescueReport, rescue
from runtime.storage.verify import VerifyReport, verify
from runtime.storage.verify_archive import ArchiveFinding, verify_archive

NO_ARCHIVE: Final = ArchiveFinding()
SOUND: Final = "sound: opens as it is"


def show_verify(state: Path, console: Console, *, as_json: bool = False, salvage: Path | None = None) -> Exit:
    """Check and print.

    Args:
        state: The state folder.
        console: Where to print.
        as_json: One JSON object instead of text.
        salvage: A new folder for what can be kept.

    Returns:
        OK when nothing is damaged or missing, or what can be kept was salvaged; else ENVIRONMENT.
    """
    report, contents, archive = verify(state), check_contents(state), verify_archive(state)
    rescued = None if salvage is None else rescue(state, salvage)
    sound = report.sound and not contents.problems and not archive.problems
    if as_json:
        data = {**report.to_json(), "sound": sound, "opens": opens(report, contents), "contents": contents.to_json()}
        data["archive"] = archive.to_json()
        if rescued is not None:
            data["salvaged"] = rescued.to_json()
        console.say(json.dumps(data, indent=2))
    else:
        lines = verify_lines(report, contents, archive)
        console.say(lines if rescued is None else [*lines[:-1], *rescue_lines(rescued)])
    return Exit.OK if sound or rescued is not None else Exit.ENVIRONMENT


def verify_lines(report: VerifyReport, contents: Contents, archive: ArchiveFinding = NO_ARCHIVE) -> list[str]:
    """The reports as text."""
    log = report.log
    lines = [
        f"state folder   {report.path}",
        f"created        {report.created}, {report.uuid}",
        f"log            {counted(log.records, 'record')} in {segments_text(len(log.segments), report.log_shards)}",
    ]
    if report.record_types:
        kinds = ", ".join(f"{count:,} {name.lower()}" for name, count in report.record_types.items())
        lines.append(f"records        {kinds}")
    lines += [f"runs           {_runs(contents)}", f"blobs          {_blobs(contents)}"]
    if archive.runs:
        lines.append(f"archive        {_archived(archive)}")
    lines += [f"note           {note}" for note in (*report.notes, *contents.notes, *archive.notes)]
    lines += [f"problem        {problem}" for problem in (*report.problems, *contents.problems, *archive.problems)]
    if report.sound and not contents.problems:
        return [*lines, "opens as it is, but not all of its archive can be read" if archive.problems else SOUND]
    lines.append(f"salvage keeps  {_kept(contents)}")
    how = "opens, but not all of it can be read" if opens(report, contents) else "does not open as it is"
    return [*lines, f"damaged: {how}; --salvage NEW writes what can be kept into a new folder"]


def opens(report: VerifyReport, contents: Contents) -> bool:
    """Whether an engine opens the folder as it is."""
    return report.sound and not contents.records_unfit


def rescue_lines(rescued: RescueReport) -> list[str]:
    """What was salvaged, as text."""
    copied = f"{counted(rescued.blobs_copied, 'blob')} of {counted(rescued.bytes_copied, 'byte')}"
    archived = f"; {counted(rescued.archived, 'archived run')}" if rescued.archived or rescued.archived_lost else ""
    lost = f", {rescued.archived_lost:,} lost" if rescued.archived_lost else ""
    return [f"salvaged into {rescued.target}: {_runs(rescued.contents)}, {copied}{archived}{lost}"]


def _runs(contents: Contents) -> str:
    lost = f", {contents.runs_lost:,} lost" if contents.runs_lost else ""
    return f"{contents.runs_open:,} unfinished, {contents.runs_finished:,} finished{lost}"


def _blobs(contents: Contents) -> str:
    bad = ((len(contents.blobs_missing), "missing"), (len(contents.blobs_damaged), "damaged"))
    return ", ".join([f"{contents.blobs_referred:,} referred to", *(f"{n:,} {what}" for n, what in bad if n)])


def _archived(archive: ArchiveFinding) -> str:
    text = f"{counted(archive.runs, 'run')} of {counted(archive.nodes, 'node')}"
    if archive.submissions not in (0, archive.runs):  # 0: the log is damaged, and nobody counted them
        text += f", {counted(archive.submissions, 'submission')}"
    return text + (f"; {archive.waiting:,} of them come with the next checkpoint" if archive.waiting else "")


def _kept(contents: Contents) -> str:
    parts = [_runs(contents), f"{counted(contents.records_kept, 'record')}"]
    if contents.records_dropped:
        parts.append(f"without {counted(contents.records_dropped, 'record')} that would not fit")
    if contents.nodes_again:
        parts.append(f"{counted(contents.nodes_again, 'node')} would run again")
    return "; ".join(parts)
