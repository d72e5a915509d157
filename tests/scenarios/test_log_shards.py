"""S02, S11: a log in shards with real processes: killed and opened again, read as one by every command, and moved."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from runtime import AsyncRuntime, Flow, NodeType, Runtime, export_runs, history, import_runs, reshard
from runtime.errors import LogCorrupt, OtherShards, StateFolderInUse
from runtime.storage.folder import StateFolder
from runtime.storage.recovery import summarise
from runtime.storage.verify import verify
from tests.scenarios import handlers
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.waiting import await_lines, until

pytestmark = pytest.mark.slow

ONE = [NodeType("default", workers=1)]
SMALL = 20_000
SHARDS = 3


def work(rt: Runtime, count: int = 300) -> None:
    """Single tasks, each a run of its own, so that all shards have some."""
    for handle in [rt.submit(math.sqrt, float(n)) for n in range(count)]:
        assert handle.result(timeout=60) is not None


def files_of(state_dir: Path) -> dict[int, int]:
    """Bytes of log in each shard."""
    return {
        shard: sum(f.stat().st_size for f in (state_dir / "log" / str(shard)).glob("*.seg")) for shard in range(SHARDS)
    }


def told(state_dir: Path) -> dict[str, str]:
    return {row["run_id"]: row["state"] for row in summarise(state_dir)["runs"]}


def command(*arguments: str, ok: bool = True) -> str:
    said = subprocess.run([sys.executable, "-m", "runtime", *arguments], capture_output=True, text=True, timeout=120)
    assert (said.returncode == 0) is ok, said
    return said.stdout if ok else said.stderr


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_killed_again_and_again_nothing_acknowledged_is_lost(durability: Any, state_dir: Path) -> None:
    with Runtime(state_dir, node_types=ONE, durability=durability, log_shards=SHARDS) as rt:
        handles = []
        for _ in range(4):
            handles += [rt.submit(math.sqrt, float(n)) for n in range(60)]
            kill(OwnFamily(rt).engine)
        assert [handle.result(timeout=60) for handle in handles] == [math.sqrt(n) for n in range(60)] * 4
        known = {status.run_id: str(status.state) for status in rt.runs()}
    assert min(files_of(state_dir).values()) > 1000
    assert told(state_dir) == known
    assert verify(state_dir).sound


def test_checkpoints_cut_all_shards_and_the_state_is_all_there(state_dir: Path, tmp_path: Path) -> None:
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    two = [NodeType("default", workers=2)]
    with Runtime(state_dir, node_types=two, durability="os", checkpoint_bytes=SMALL, log_shards=SHARDS) as rt:
        flow = Flow("half")
        flow.add(handlers.hold, str(runs), "held", str(gate), after=[flow.add(math.sqrt, 16.0)])
        half = rt.submit(flow, run_id="half")
        await_lines(runs, 1)

        def cut() -> bool:
            work(rt, 100)
            return not any((state_dir / "log" / str(shard) / "00000001.seg").exists() for shard in range(SHARDS))

        until(cut, "a log that was cut on all shards")
        known = {status.run_id for status in rt.runs()}
        kill(OwnFamily(rt).engine)
        assert until(lambda: rt.recovery.get("checkpoint_lsn", 0), "an engine that began with the checkpoint")
        gate.touch()
        assert half.result(timeout=30) is not None
        assert known <= {status.run_id for status in rt.runs()}
    assert verify(state_dir).sound


def test_events_are_those_of_all_shards_in_order(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=ONE, durability="os", log_shards=SHARDS) as rt:
        work(rt, 50)
        with rt.events(since="begin") as events:
            seen = []
            for event in events:
                seen.append(event)
                if sum(one.kind == "run.succeeded" for one in seen) == 50:
                    break
        assert [one.lsn for one in seen] == sorted(one.lsn for one in seen)
        middle = seen[len(seen) // 2]
        with rt.events(since=middle.lsn) as events:
            assert next(iter(events)).lsn == middle.lsn
    lines = [json.loads(line) for line in command("events", str(state_dir), "--json").splitlines()]
    assert {line["lsn"] for line in lines} >= {one.lsn for one in seen}


def test_every_command_reads_it(state_dir: Path, tmp_path: Path) -> None:
    with Runtime(state_dir, node_types=ONE, durability="os", log_shards=SHARDS) as rt:
        work(rt, 40)
        lsn = history(state_dir).lsn
        assert len(history(state_dir, until=lsn // 2).runs) < 40
    assert len(json.loads(command("status", str(state_dir), "--json"))["runs"]) == 40
    assert "sound" in command("verify", str(state_dir))
    command("replay", str(state_dir))
    command("simulate", str(state_dir), "--workers", "2")
    out, other = tmp_path / "runs.jsonl", tmp_path / "other"
    with out.open("wb") as file:
        export_runs(state_dir, file)
    StateFolder.open(other, log_shards=2).close()
    with out.open("rb") as file:
        assert import_runs(other, file).runs == 40
    assert told(other).keys() == told(state_dir).keys()


def test_damage_is_told_salvaged_into_a_new_folder_and_opened_with_salvage(state_dir: Path, tmp_path: Path) -> None:
    with Runtime(state_dir, node_types=ONE, durability="os", log_shards=SHARDS) as rt:
        work(rt, 60)
        names = set(told(state_dir))
    path = state_dir / "log" / "1" / "00000001.seg"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(LogCorrupt, match=r"1/00000001\.seg is damaged"):
        Runtime(state_dir, node_types=ONE)
    assert not verify(state_dir).sound
    new = tmp_path / "new"
    command("verify", str(state_dir), "--salvage", str(new))
    with StateFolder.open(new) as folder:
        assert folder.log_shards == SHARDS
    assert verify(new).sound
    assert 50 <= len(told(new)) <= 60
    with Runtime(state_dir, node_types=ONE, durability="os", salvage=True) as rt:
        assert rt.recovery["mended"]
        assert rt.submit(math.sqrt, 4.0).result(timeout=30) == 2.0
    assert verify(state_dir).sound
    assert len(told(state_dir).keys() & names) >= 50


def test_another_number_is_refused_and_the_offline_step_named(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=ONE, log_shards=SHARDS) as rt:
        work(rt, 5)
        with pytest.raises(StateFolderInUse):
            reshard(state_dir, 2)
        assert "in use" in command("reshard", str(state_dir), "2", ok=False)
    with pytest.raises(OtherShards, match="reshard STATE N"):
        Runtime(state_dir, node_types=ONE, log_shards=1)

    async def opened() -> None:
        async with AsyncRuntime(state_dir, node_types=ONE, log_shards=2):
            raise AssertionError("it was opened")

    with pytest.raises(OtherShards, match="lies in 3 shards, not in 2"):
        asyncio.run(opened())
    assert "moved from 3 to 1 shard" in command("reshard", str(state_dir), "1")
    with Runtime(state_dir, node_types=ONE, log_shards=1) as rt:
        assert len(list(rt.runs())) == 5
    report = json.loads(command("reshard", str(state_dir), "2", "--json"))
    assert (report["shards_before"], report["shards"]) == (1, 2)
    with Runtime(state_dir, node_types=ONE) as rt:
        assert len(list(rt.runs())) == 5


def test_a_reshard_that_is_killed_at_any_moment_leaves_one_whole_log(state_dir: Path) -> None:
    with Runtime(state_dir, node_types=ONE, durability="os", log_shards=SHARDS) as rt:
        for _ in range(10):
            assert len(list(rt.map(math.sqrt, range(5000)))) == 5000
    known, random, to, seen = told(state_dir), Random(1), 2, set()
    for number in range(12):
        process = subprocess.Popen(
            [sys.executable, "-m", "runtime", "reshard", str(state_dir), str(to)], stdout=subprocess.DEVNULL
        )
        try:
            process.wait(timeout=0.2 + random.random() * 0.8)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert told(state_dir) == known, number
        assert verify(state_dir).sound
        with StateFolder.open(state_dir) as folder:
            seen.add(folder.log_shards)
            to = 2 if folder.log_shards != 2 else 4
    reshard(state_dir, to)
    assert len([path for path in state_dir.iterdir() if path.name.startswith("log")]) == 1
    with Runtime(state_dir, node_types=ONE) as rt:
        assert {status.run_id: str(status.state) for status in rt.runs()} == known
