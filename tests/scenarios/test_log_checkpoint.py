"""S08: a log that goes on for long. Checkpoints by real processes: taken, killed on the way, without room, damaged."""

from __future__ import annotations

import contextlib
import json
import math
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from runtime import AsyncRuntime, Flow, NodeType, Runtime
from runtime.errors import CheckpointUnusable, ConfigurationError
from runtime.planning.recording import read_recording
from runtime.storage.checkpoint import CHECKPOINT_NAME
from runtime.storage.history import look
from runtime.storage.recovery import summarise
from runtime.storage.verify import verify
from tests.scenarios import handlers
from tests.scenarios.processes import OwnFamily, kill, send
from tests.scenarios.waiting import await_gone, await_lines, until

pytestmark = pytest.mark.slow

ONE = [NodeType("default", workers=1)]
SMALL = 20_000
"""Of log, after which there is a checkpoint, and bytes of a segment."""
ROUND = 500


def checkpoint(rt: Runtime) -> dict[str, Any]:
    found: dict[str, Any] = rt.statistics()["checkpoint"]
    return found


def work(rt: Runtime, rounds: int = 5) -> None:
    """Some tens of kilobytes of log."""
    for _ in range(rounds):
        assert len(list(rt.map(math.sqrt, range(ROUND)))) == ROUND


def segments(state_dir: Path) -> list[int]:
    return sorted(int(path.stem) for path in (state_dir / "log").glob("*.seg"))


def taken(rt: Runtime, after_lsn: int = 0) -> int:
    """Work until a checkpoint was taken above this LSN; returns its own."""

    def one() -> int:
        work(rt, 1)
        found: int = checkpoint(rt)["lsn"]
        return found if found > after_lsn else 0

    return until(one, "a checkpoint")


def mended(rt: Runtime) -> None:
    """Work until a checkpoint was taken after the latest one that failed: none may be on its way to fail any more."""

    def one() -> bool:
        work(rt, 1)
        found = checkpoint(rt)
        return found["taken"] > 0 and not found["trouble"]

    until(one, "a checkpoint after the one that failed")


def test_the_log_is_cut_and_all_is_known_after_everything_was_killed(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    two = [NodeType("default", workers=2)]  # one of them is held
    with Runtime(state_dir, node_types=two, durability="os", checkpoint_bytes=SMALL) as rt:
        failed = rt.submit(handlers.fail, str(runs), "failed")
        assert failed.exception(timeout=30)
        flow = Flow("half")
        first = flow.add(math.sqrt, 16.0)
        flow.add(handlers.hold, str(runs), "held", str(gate), after=[first])
        half = rt.submit(flow, run_id="half")
        await_lines(runs, 2)
        lsn = taken(rt)
        until(lambda: segments(state_dir)[0] > 1, "a log that was cut")
        known = {status.run_id: status.state for status in rt.runs()}
        kill(OwnFamily(rt).engine)
        assert until(lambda: rt.recovery.get("checkpoint_lsn", 0) >= lsn, "an engine that began with the checkpoint")
        gate.touch()
        assert half.result(timeout=30) is not None
        now = {status.run_id: status.state for status in rt.runs()}
        assert known.keys() <= now.keys()
        assert len(list(rt.dead())) == 1
    assert verify(state_dir).sound
    assert verify(state_dir).checkpoint_lsn >= lsn


def test_a_log_that_was_cut_has_its_times(state_dir: Path) -> None:
    """The record that says how the clocks stood is gone with its segment."""
    begun_ns = time.time_ns()
    with Runtime(state_dir, node_types=ONE, durability="os", checkpoint_bytes=SMALL) as rt:
        taken(rt)
        until(lambda: segments(state_dir)[0] > 1, "a log that was cut")
        assert [rt.submit(math.sqrt, 4.0).result(timeout=30) for _ in range(20)] == [2.0] * 20
    assert begun_ns < look(state_dir).pictures[0].at_ns < time.time_ns()
    recording = read_recording(state_dir)
    assert recording.runs
    command = [sys.executable, "-m", "runtime", "simulate", str(state_dir), "--json"]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert 0 < told["recorded"]["makespan_ns"] < time.time_ns() - begun_ns


def test_status_and_verify_read_checkpoint_and_log(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=ONE, durability="os", checkpoint_bytes=SMALL) as rt:
        lsn = taken(rt)
        until(lambda: segments(state_dir)[0] > 1, "a log that was cut")
        beside = {row["run_id"] for row in summarise(state_dir)["runs"]}
        known = {status.run_id for status in rt.runs()}
        assert beside == known
        assert verify(state_dir).sound
    for command in ("status", "verify"):
        said = subprocess.run(
            [sys.executable, "-m", "runtime", command, str(state_dir), "--json"], capture_output=True, check=True
        )
        data = json.loads(said.stdout)
        assert len(data["runs"]) >= len(known) if command == "status" else data["checkpoint_lsn"] >= lsn


def test_killed_at_any_moment_it_harms_nobody(state_dir: Path) -> None:
    """SIGKILL of the process that takes it, early and late; the next try succeeds."""
    with Runtime(state_dir, node_types=ONE, durability="os", checkpoint_bytes=SMALL) as rt:
        family, killed = OwnFamily(rt), 0
        for _ in range(6):
            work(rt, 2)
            for pid in family.named("ms-checkpointer"):
                send(pid, signal.SIGKILL)
                killed += 1

        def one() -> str:
            nonlocal killed
            work(rt, 1)
            pids = family.named("ms-checkpointer")
            for pid in pids:
                send(pid, signal.SIGKILL)
            killed += len(pids)
            return str(checkpoint(rt)["trouble"])

        assert "SIGKILL" in until(one, "a checkpoint that failed")
        assert killed
        mended(rt)
        known = {status.run_id for status in rt.runs()}
    assert verify(state_dir).sound
    with Runtime(state_dir, node_types=ONE) as rt:
        assert rt.recovery["checkpoint_lsn"] > 0
        assert {status.run_id for status in rt.runs()} == known


@pytest.mark.parametrize("after", [0, 1, 2])
def test_an_engine_that_is_killed_while_one_is_taken_loses_nothing(state_dir: Path, after: int) -> None:
    """After none, one or two that were taken before it; what was submitted meanwhile has its results."""
    with Runtime(state_dir, node_types=ONE, checkpoint_bytes=SMALL) as rt:
        family, lsn = OwnFamily(rt), 0
        for _ in range(after):
            lsn = taken(rt, lsn)
        handles = []

        def one() -> list[int]:
            handles.extend(rt.submit(math.sqrt, float(i)) for i in range(50))
            return family.named("ms-checkpointer")

        until(one, "a checkpointer")
        kill(family.engine)
        handles.append(rt.submit(math.sqrt, 0.0))
        assert [handle.result(timeout=60) for handle in handles] == [
            math.sqrt(float(i)) for i in [*range(50)] * (len(handles) // 50) + [0]
        ]
        assert rt.recovery["checkpoint_lsn"] >= lsn
        taken(rt, lsn)
        known = {status.run_id for status in rt.runs()}
    assert verify(state_dir).sound
    assert {row["run_id"] for row in summarise(state_dir)["runs"]} == known


def test_without_room_it_is_told_and_tried_again(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=ONE, durability="os", checkpoint_bytes=SMALL) as rt:
        spawner = psutil.Process(OwnFamily(rt).spawner)
        spawner.rlimit(psutil.RLIMIT_FSIZE, (8192, -1))  # for what it starts from now on

        def failed() -> str:
            work(rt, 1)
            return str(checkpoint(rt)["trouble"])

        assert "cannot be used" in until(failed, "a checkpoint that failed")
        spawner.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        mended(rt)
    assert verify(state_dir).sound


def test_it_ends_with_its_engine(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=ONE, durability="os", checkpoint_bytes=SMALL) as rt:
        family = OwnFamily(rt)

        def one() -> list[int]:
            work(rt, 1)
            return family.named("ms-checkpointer")

        pids = until(one, "a checkpointer")
        for pid in pids:
            send(pid, signal.SIGSTOP)  # it would never end by itself
    await_gone(pids)


def test_a_damaged_one_is_refused_and_salvage_does_without(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=ONE, durability="os", checkpoint_bytes=SMALL) as rt:
        taken(rt)
        until(lambda: segments(state_dir)[0] > 1, "a log that was cut")
    with sqlite3.connect(state_dir / CHECKPOINT_NAME) as database:
        database.execute("UPDATE part SET digest = x'00' WHERE run > 0")
    database.close()
    assert not verify(state_dir).sound
    with pytest.raises(CheckpointUnusable) as refused:
        Runtime(state_dir, node_types=ONE)
    assert "salvage" in refused.value.hint
    with Runtime(state_dir, node_types=ONE, durability="os", checkpoint_bytes=SMALL, salvage=True) as rt:
        assert rt.recovery["mended"]
        assert not rt.recovery["clean"]
        assert CHECKPOINT_NAME in rt.recovery["lost"][0]
        work(rt, 1)
        assert rt.runs()
        taken(rt)
    assert verify(state_dir).sound
    with Runtime(state_dir, node_types=ONE) as rt:
        work(rt, 1)


def differences(state_dir: Path) -> set[bytes]:
    """Digests of the parts of which the difference to an earlier checkpoint is written."""
    with contextlib.closing(sqlite3.connect(f"file:{state_dir / CHECKPOINT_NAME}?mode=ro", uri=True)) as database:
        return {digest for (digest,) in database.execute("SELECT digest FROM delta WHERE run > 0")}  # 0: the engine's


def test_of_a_run_that_goes_on_the_difference_is_written_and_read_again(state_dir: Path, tmp_path: Path) -> None:
    """A part is written whole when its differences are as long together, so not every change makes one."""
    runs, gates = tmp_path / "runs", [tmp_path / f"gate-{number}" for number in range(6)]
    flow = Flow("long")
    last = [flow.add(math.sqrt, float(number * 7919)) for number in range(300)]
    for gate in gates:
        held = flow.add(handlers.hold, str(runs), gate.name, str(gate), after=last)
        last = [flow.add(math.sqrt, float(number), after=[held]) for number in range(20)]
    two = [NodeType("default", workers=2)]  # one of them is held
    with Runtime(state_dir, node_types=two, durability="os", checkpoint_bytes=SMALL) as rt:
        long = rt.submit(flow, run_id="long")
        known: set[bytes] = set()
        for number, gate in enumerate(gates[:-1], 1):
            await_lines(runs, number)
            lsn = taken(rt, taken(rt))  # what was closed when the second began has all of the run that ended so far
            found = differences(state_dir)
            if number > 1 and found - known:
                break
            known |= found
            gate.touch()
        else:
            raise AssertionError("no difference was written")
        kill(OwnFamily(rt).engine)
        until(lambda: rt.recovery.get("checkpoint_lsn", 0) >= lsn, "an engine that began with that checkpoint")
        for gate in gates:
            gate.touch()
        long.raise_if_failed(timeout=60)
        assert list(long.results().values())[:300] == [math.sqrt(number * 7919) for number in range(300)]
    assert verify(state_dir).sound


def test_there_are_some_unless_somebody_says_otherwise(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=ONE, durability="os") as rt:
        assert until(lambda: list(rt.map(math.sqrt, range(100_000))) and checkpoint(rt)["taken"], "a checkpoint")
        assert checkpoint(rt)["cpu_ns"] > 0
        assert checkpoint(rt)["bytes_written"] > 0


def test_without_them_the_log_stays(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=ONE, durability="os", checkpoint_bytes=None) as rt:
        work(rt)
        assert checkpoint(rt)["taken"] == 0
    assert not (state_dir / CHECKPOINT_NAME).exists()


@pytest.mark.parametrize("wrong", [0, 100, -1, True, 1.5, "1"])
def test_a_size_that_cannot_be(state_dir: Path, wrong: Any) -> None:
    for face in (Runtime, AsyncRuntime):
        with pytest.raises(ConfigurationError, match="checkpoint_bytes"):
            face(state_dir, checkpoint_bytes=wrong)
