"""Scenario `gc`: how often, and for how long, each kind of process collects garbage over very many tasks.

Ours: the settings of each process role (see `runtime/ARCHITECTURE.md`). The baseline: the same engine with those that
CPython starts with, and nothing frozen. Every collection of every process is noted as it ends, in one file, by a module
`sitecustomize` that the spawner imports and its forks have. Workers are of both modes, half of the tasks each.
"""

from __future__ import annotations

import gc
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runtime import NodeType
from runtime.bench import session
from runtime.bench.figures import Sample
from runtime.bench.handlers import increment
from runtime.bench.measure import MeasuredWindow, percentile
from runtime.bench.workloads.base import Scenario, Setup, check_equal

LOOP = "loop"
_RECORD = struct.Struct("<iiq")
_NOTER = """
import gc, os, struct, time
fd = os.open({path!r}, os.O_WRONLY | os.O_APPEND)
began = [0]
def noted(phase, info, write=os.write, pack=struct.Struct("<iiq").pack, clock_ns=time.perf_counter_ns, pid=os.getpid):
    if phase == "start":
        began[0] = clock_ns()
    else:
        took_ns = clock_ns() - began[0]
        write(fd, pack(pid(), info["generation"], took_ns))
gc.callbacks.append(noted)
if {default}:
    gc.freeze = gc.set_threshold = lambda *_: None
"""


class GcScenario(Scenario):
    """Ours: our settings. The baseline: CPython's."""

    name = "gc"
    title = "collections of cycles by process role over very many tasks, in both modes; a task is one call"
    tasks_default = 1_000_000
    tasks_smoke = 4_000
    durability_default = "os"
    baseline_name = "settings of CPython"
    baseline_is_ours = True

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": 2}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return self.params(setup)

    def run(self, setup: Setup) -> Sample:
        return _measured(setup, default=False)

    def run_baseline(self, setup: Setup) -> Sample:
        return _measured(setup, default=True)


def _measured(setup: Setup, *, default: bool) -> Sample:
    types = [*session.node_types(1), NodeType(LOOP, workers=1, mode="asyncio", concurrency=64)]
    half = setup.tasks // 2
    with _noting(default=default) as log, session.open_runtime(setup, node_types=types) as runtime:
        on_loop = runtime.options(node_type=LOOP)
        list(on_loop.map(increment_async, range(100)))
        seen = log.stat().st_size
        with MeasuredWindow(session.members(runtime)) as window:
            found = list(runtime.map(increment, range(half)))
            found += on_loop.map(increment_async, range(half))
        roles = {process["pid"]: _role(process) for process in runtime.processes()}
        notes = list(_RECORD.iter_unpack(log.read_bytes()[seen:]))
    check_equal(found, [*range(1, half + 1)] * 2, "results")
    extra: dict[str, float] = {}
    for role in ("face", "spawner", "engine", "worker", LOOP):
        pauses = sorted(took_ns for pid, _, took_ns in notes if roles.get(pid) == role)
        extra[f"{role}_collections"] = len(pauses)
        extra[f"{role}_full"] = sum(g == 2 for pid, g, _ in notes if roles.get(pid) == role)
        extra[f"{role}_p99_us"] = percentile(pauses, 0.99) / 1e3 if pauses else 0.0
        extra[f"{role}_pauses_ms"] = sum(pauses) / 1e6
    return window.sample(setup.tasks, (), **extra)


async def increment_async(number: int) -> int:
    """The same as `increment`, on a loop."""
    return number + 1


def _role(process: dict[str, Any]) -> str:
    return LOOP if process["node_type"] == LOOP else str(process["role"])


@contextmanager
def _noting(*, default: bool) -> Iterator[Path]:
    """Note the collections of this process, and of those that it starts inside of the block; gives the file."""
    settings, path_before = gc.get_threshold(), os.environ.get("PYTHONPATH")
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder:
        log = Path(folder) / "collections"
        log.touch()
        program = _NOTER.format(path=str(log), default=default)
        (Path(folder) / "sitecustomize.py").write_text(program)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, path_before)))
        names: dict[str, Any] = {}
        exec(_NOTER.format(path=str(log), default=False), names)
        try:
            yield log
        finally:
            gc.callbacks.remove(names["noted"])
            os.close(names["fd"])
            gc.set_threshold(*settings)
            os.environ.pop("PYTHONPATH")
            if path_before is not None:
                os.environ["PYTHONPATH"] = path_before
