"""`simulate`: lives a recorded history again with other workers, quotas, weights or rates, and says what would have
happened. Reads only; a first simulation with nothing changed says how well the model fits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from actors.protocol.errors import ConfigurationError, StateFolderError
from actors.protocol.records import LSN_FIRST
from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.exits import Exit
from runtime.cli.report import duration_text
from runtime.planning.figures import recorded_figures, simulated_figures
from runtime.planning.recording import Recording, read_recording
from runtime.planning.report import PlanReport, page, text_lines
from runtime.planning.setting import Setting
from runtime.planning.world import Simulation

SHORT_NS: Final = 200_000
"""Tasks that take less on average are paced by the engine's own work, which is not modelled."""


def show_simulation(
    state: Path, setting: Setting, console: Console, *, page_to: Path | None = None, as_json: bool = False
) -> Exit:
    """Simulate and print.

    Args:
        state: The state folder.
        setting: What is changed.
        console: Where to print.
        page_to: Also write a page there.
        as_json: One JSON object instead of text.

    Raises:
        ConfigurationError: The setting is wrong, or there is nothing to simulate. StateFolderError, LogCorrupt, ...:
        the folder cannot be read, or the page cannot be written.
    """
    recording = read_recording(state)
    if not recording.runs:
        raise ConfigurationError("simulate: the log holds no submission, so there is nothing to simulate")
    simulation = Simulation(recording, setting)  # what is wrong is said before anything takes long
    setting.refuse_unknown(recording)
    as_recorded = simulation.run() if setting.is_recorded else Simulation(recording, Setting()).run()
    was, base = recorded_figures(recording), simulated_figures(as_recorded)
    would = base if setting.is_recorded else simulated_figures(simulation.run())
    report = PlanReport(
        folder=os.fspath(state.absolute()),
        changes=setting.words(),
        recorded=was,
        simulated=would,
        fit=base.makespan_ns / was.makespan_ns if was.makespan_ns else None,
        unknown=not_known(recording, simulation),
        base=None if setting.is_recorded else base,
    )
    if page_to is not None:
        try:
            page_to.write_bytes(page(report))
        except OSError as error:
            raise StateFolderError(f"cannot write {page_to}: {error}") from error
    console.say(json.dumps(report.to_json(), indent=2) if as_json else text_lines(report))
    return Exit.OK


def not_known(recording: Recording, simulation: Simulation) -> list[str]:
    """What the simulation had to guess, or leaves out."""
    found = []
    if guessed := len(simulation.guessed):
        found.append(
            f"how long {counted(guessed, 'task')} would have taken: none has an end in the log, so the median of its "
            "kind stands for it, or nothing where there is none"
        )
    if simulation.lost:
        found.append(
            f"when {counted(simulation.lost, 'task')} would run: what they wait for never comes (a paused scope?)"
        )
    for name in sorted(recording.inferred):
        data = recording.node_types[name]
        cut = recording.first_lsn > LSN_FIRST
        why = "the opening that says it was cut from the log" if cut else "openings did not log that yet"
        found.append(f"how many workers {name!r} had: {why}; {data['workers_max']:,} of them had work")
    if recording.first_lsn > 1:
        found.append(f"what was before LSN {recording.first_lsn:,}: the log has been cut there")
    if recording.down_ns:
        found.append(f"anything of the {duration_text(recording.down_ns)} in which no engine ran; they are left out")
    if recording.revived:
        found.append(f"why {counted(recording.revived, 'node')} that had ended went again: that is not simulated")
    if recording.carried:
        found.append(f"when {counted(recording.carried, 'run')} kept for dead letters arrived; they are left out")
    busy = sum(recording.busy_ns.values())
    ran = sum(1 for run in recording.runs.values() for end in run.ends if end)
    if ran and busy / ran < SHORT_NS:
        found.append("what the engine itself can do at most: tasks are short, and its own work is not simulated")
    before = sum(data["workers_max"] for data in recording.node_types.values())
    after = sum(data["workers_max"] for data in simulation.node_types.values())
    if after > before:
        found.append(
            f"whether {counted(after, 'worker')} would find cores, memory and what else they share, as {before:,} did: "
            "each task takes as long as it took"
        )
    found.append("what a program would have submitted at another time, because results came at another time")
    return found
