"""Scenario `retention`: does deleting what is over cost the engine throughput, and does its space come back?

A state folder has an archive with the columns of `tasks` tasks, in runs of a thousand. Ours: all of it is over, and the
process that trims it works while maps run. Baseline: the same folder, where nothing is over. What is compared is a task
of the maps; they go on until the archive is empty.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.archived import archived_run
from actors.protocol.kinds import Kind
from actors.run import Run
from actors.saved import SavedPart
from actors.saved_run import save_run
from actors.state_column import SUCCEEDED
from runtime import Retention, Runtime
from runtime.bench import session
from runtime.bench.figures import BenchError, Sample
from runtime.bench.handlers import increment
from runtime.bench.measure import MeasuredWindow
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal
from runtime.storage.archive import ArchiveFile
from runtime.storage.archive_rows import ArchiveEntry
from runtime.storage.folder import ARCHIVE_NAME, StateFolder

RUN_TASKS = 1_000
MAP_TASKS = 20_000
BATCH_RUNS = 100
CHECKPOINT_BYTES = 1 << 30
"""No checkpoint is taken meanwhile: what one costs is another scenario's."""
POLL_S = 0.005


class RetentionScenario(Scenario):
    """Throughput while archived tasks are deleted, against the same without that."""

    name = "retention"
    title = "maps while so many archived tasks are deleted; a task of the result is one of the maps"
    tasks_default = 1_000_000
    tasks_smoke = 4_000
    baseline_name = "the same, nothing deleted"
    baseline_is_ours = True

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "archived_tasks": setup.tasks, "map_tasks": MAP_TASKS}

    def run(self, setup: Setup) -> Sample:
        with tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as parent:
            state = Path(parent) / "state"
            before = fill(state, setup.tasks)
            with _opened(state, setup, Retention(archive=1.0)) as runtime:
                session.warm(runtime)
                _await(lambda: _trims(runtime, begun=True), "a process that trims")
                with MeasuredWindow(session.members(runtime)) as window:
                    done = _maps(runtime, lambda: _trims(runtime) or _unfinished(state))
            after = (state / ARCHIVE_NAME).stat().st_size
            if after > before / 2 and before > 1 << 20:
                raise BenchError(f"the archive has {after:,} of {before:,} bytes when it is empty")
            return window.sample(
                done,
                delete_seconds=window.elapsed_ns / 1e9,
                archive_before_bytes=before,
                archive_after_bytes=after,
            )

    def run_baseline(self, setup: Setup) -> Sample:
        with tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as parent:
            state = Path(parent) / "state"
            fill(state, setup.tasks)
            with _opened(state, setup, Retention(archive=None, archive_bytes=None)) as runtime:
                session.warm(runtime)
                rounds = iter(range(2 if setup.smoke else 25))
                with MeasuredWindow(session.members(runtime)) as window:
                    done = _maps(runtime, lambda: next(rounds, None) is not None)
            return window.sample(done)


def fill(state: Path, tasks: int) -> int:
    """A state folder with an archive of so many tasks that ended long ago; returns its bytes."""
    kind = Kind.of(1, {"handler": "m:f", "node_type": session.NODE_TYPE, "shape": "one"})
    runs = max(1, tasks // RUN_TASKS)
    with StateFolder.open(state) as folder, ArchiveFile.write(folder.path, folder.uuid) as archive:
        for first in range(1, runs + 1, BATCH_RUNS):
            archive.put(_entry(no, kind, tasks // runs) for no in range(first, min(first + BATCH_RUNS, runs + 1)))
        found = archive.totals()
    check_equal(found[:2], (runs, tasks // runs * runs), RetentionScenario.name)
    return (state / ARCHIVE_NAME).stat().st_size


def _entry(no: int, kind: Kind, tasks: int) -> ArchiveEntry:
    """A run as the engine leaves one."""
    ended_ns = time.time_ns() - 3_600_000_000_000
    run = Run.of_tasks(no, f"past-{no}", "past", no, ended_ns, [kind], None, list(range(tasks)))
    run.is_map = True
    run.state = bytearray([SUCCEEDED]) * tasks
    run.results = [(no * 7_919 + node * node) % 1_000_003 for node in range(tasks)]
    run.open = 0
    return ArchiveEntry(archived_run(run, ended_ns), None, [SavedPart(no, *piece) for piece in save_run(run)])


def _opened(state: Path, setup: Setup, retention: Retention) -> Runtime:
    return session.open_folder(state, setup, retention=retention, checkpoint_bytes=CHECKPOINT_BYTES)


def _maps(runtime: Runtime, goes_on: Callable[[], bool]) -> int:
    """Maps one after the other while something holds; returns how many tasks."""
    done, until = 0, time.monotonic() + SECONDS_MAX
    while goes_on():
        found = list(runtime.map(increment, range(MAP_TASKS)))
        check_equal(found, list(range(1, MAP_TASKS + 1)), RetentionScenario.name)
        done += MAP_TASKS
        if time.monotonic() > until:
            raise BenchError(f"the archive was not trimmed within {SECONDS_MAX:.0f} s")
    return done or _maps(runtime, iter([True, False]).__next__)


def _trims(runtime: Runtime, *, begun: bool = False) -> bool:
    """Whether the archive is trimmed now; with `begun`, or was before."""
    archive = runtime.statistics()["archive"]
    return bool(archive["running"] or (begun and archive["runs_deleted"]))


def _unfinished(state: Path) -> bool:
    """Whether there is anything in the archive."""
    with StateFolder.open(state, create=False, owner=False) as folder:
        archive = ArchiveFile.read(folder.path, folder.uuid)
        if archive is None:
            return False
        with archive:
            return archive.totals()[0] > 0 or archive.due_ns(None) == 0


def _await(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + SECONDS_MAX
    while not holds():
        if time.monotonic() > until:
            raise BenchError(f"not within {SECONDS_MAX:.0f} s: {what}")
        time.sleep(POLL_S)
