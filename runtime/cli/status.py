"""`status`: what a state folder holds, read from its log. Reads only, with or without a running engine.

It shows what is durable. The log tells of submissions and ends, not of starts; what a running engine shows in shared
memory says how far its runs are now, and what workers hold. Where that cannot be seen (see `host.folder_board`), what
runs counts as ready; `status()` and `why()` of a handle know more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from actors.policy.pauses import PauseNote
from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.control import paused_lines
from runtime.cli.exits import Exit
from runtime.cli.object_pools import pool_lines, with_pools
from runtime.cli.report import align, duration_text, time_text
from runtime.host.folder_board import board_of_process
from runtime.mail.board import BoardReader, said_text
from runtime.storage.recovery import summarise
from runtime.views import Counts

RUNS_SHOWN_MAX: Final = 50
"""Runs in the table, unfinished ones and then the latest; `--json` has all."""
RUNNING: Final = "running"
HELD: Final = "held"
"""What workers hold: it runs there, or is next to run."""
PAUSED: Final = "paused"
"""Shown of a run of which all that is ready waits for the end of a pause."""


def show_status(state: Path, console: Console, *, as_json: bool = False) -> Exit:
    """Read and print.

    Args:
        state: The state folder.
        console: Where to print.
        as_json: One JSON object instead of text.
    """
    summary = with_pools(state, with_board(summarise(str(state))))
    console.say(status_json(summary) if as_json else status_lines(state, summary))
    return Exit.OK


def with_board(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary with what the engine that runs shows of its runs: their counts, `live`, and what handlers report.

    Args:
        summary: Of `summarise`.
    """
    pid = summary.get("owner_pid")
    board = board_of_process(pid, summary["uuid"]) if pid else None
    if board is None:
        return summary
    try:
        summary["board_ns"] = board.written_ns()
        summary["runs"] = [_with_row(run, board) if run["state"] == RUNNING else run for run in summary["runs"]]
    finally:
        board.close()
    return summary


def _with_row(run: dict[str, Any], board: BoardReader) -> dict[str, Any]:
    row = board.run(run["run_id"]) or board.bundle(run["run_id"])
    if row is None:
        return run
    text = row.text
    if row.node >= 0 and Counts(*row.counts).total <= 1:  # of one among several the text has the numbers
        text = said_text(row.done, row.total, text)
    return {**run, "counts": list(row.counts), "live": True, "progress": text}


def status_json(summary: Mapping[str, Any]) -> str:
    """The summary as one JSON object: each run's `counts` by the names of the states; of one that is `live`, `held` are
    those that workers hold, in the place of `running`: which of them run, memory does not tell."""
    runs = [{**run, "counts": _named(Counts(*run["counts"]), live=bool(run.get("live")))} for run in summary["runs"]]
    return json.dumps({**summary, "runs": runs}, indent=2, default=str)


def _named(counts: Counts, *, live: bool) -> dict[str, int]:
    return {HELD if live and name == RUNNING else name: count for name, count in counts._asdict().items()}


def status_lines(state: Path, summary: Mapping[str, Any]) -> list[str]:
    """The summary as text."""
    runs: Sequence[Mapping[str, Any]] = summary["runs"]
    open_runs = [run for run in runs if run["state"] == RUNNING]
    pid = summary.get("owner_pid")
    lines = [
        f"state folder   {state.absolute()}",
        f"engine         {f'process {pid} has it open' if pid else 'none is running'}",
        f"durability     {summary.get('durability') or _unset(summary)}",
        *log_lines(summary.get("log") or {}),
        f"runs           {len(open_runs):,} unfinished, {len(runs) - len(open_runs):,} finished",
    ]
    if open_runs and not pid:
        lines.append("               they go on when the folder is opened again")
    elif any(not run.get("live") for run in open_runs):
        which = "" if not any(run.get("live") for run in open_runs) else " where held is not known"
        lines.append(f"               what runs now counts as ready{which}: the log tells of ends, not of starts")
    if paused := summary.get("paused"):
        notes = {scope: PauseNote(**note) for scope, note in (summary.get("pauses") or {}).items()}
        lines.append(f"paused         {('; ' if notes else ', ').join(paused_lines(paused, notes))}")
    lines += pool_lines(summary.get("objects") or [])
    if not runs:
        return lines
    ended = [run for run in runs if run["state"] != RUNNING]
    shown = [*open_runs, *ended][:RUNS_SHOWN_MAX]
    live = any(run.get("live") for run in shown)
    held = (HELD,) if live else ()
    header = ("run", "flow", "state", "nodes", "done", "failed", *held, "ready", "pending", "submitted", "took")
    lines += ["", *align([header, *(_row(run, live=live) for run in shown)], left=3)]
    lines += [f"{run['run_id']}: {run['progress']}" for run in shown if run.get("progress")]
    if len(runs) > len(shown):
        lines.append(f"… and {len(runs) - len(shown):,} more; --json has them all")
    return lines


def _unset(summary: Mapping[str, Any]) -> str:
    """Why no engine says what an acknowledgement survives."""
    return "not known" if summary.get("opened", True) else "as the first engine that opens it says; none has yet"


def log_lines(log: Mapping[str, Any]) -> list[str]:
    """The state of the log on one line."""
    if not log:
        return []
    size = bytes_text(log["bytes"])
    behind = f" behind the checkpoint (LSN {log['checkpoint_lsn']:,})" if log.get("checkpoint_lsn") else ""
    upto = f", up to LSN {log['last_lsn']:,}" if log.get("last_lsn") else ""
    text = (
        f"{counted(log['records'], 'record')}{behind} in {segments_text(log['segments'], log['shards'])}, {size}{upto}"
    )
    if log.get("bytes_cut"):
        text += f"; at its end {counted(log['bytes_cut'], 'byte')} that nobody was told of"
    return [f"log            {text}"]


def segments_text(segments: int, shards: int) -> str:
    """In how many pieces a log lies."""
    return counted(segments, "segment") + (f" of {shards} shards" if shards > 1 else "")


def bytes_text(size: int) -> str:
    """A size for people."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return counted(size, "byte")


def _row(run: Mapping[str, Any], *, live: bool) -> tuple[str, ...]:
    """The cells of a run; with `live` there is a column of what workers hold, as far as that is known."""
    counts = Counts(*run["counts"])
    created, ended = run.get("created_ns"), run.get("ended_ns")
    return (
        run["run_id"],
        run.get("name") or "–",
        PAUSED if _is_paused(run, counts) else run["state"],
        f"{counts.total:,}",
        f"{counts.done:,}",
        f"{counts.failed:,}",
        *((f"{counts.running:,}" if run.get("live") else "–",) if live else ()),
        f"{counts.ready + (0 if run.get('live') else counts.running):,}",
        f"{counts.pending:,}",
        time_text(created),
        duration_text(ended - created) if created and ended else "–",
    )


def _is_paused(run: Mapping[str, Any], counts: Counts) -> bool:
    """Whether a pause holds all of it back that could run; what workers have runs on."""
    if run.get("live") and counts.running:
        return False
    return bool(run.get("paused", 0) >= max(1, counts.ready + counts.running))
