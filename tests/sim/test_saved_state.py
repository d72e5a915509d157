"""A checkpoint at any record: reading a log on from it gives the state that reading all of the log gives."""

from __future__ import annotations

from random import Random

import pytest

from actors.protocol.records import Record
from actors.replay import Replay
from actors.saved import SavedPart, kept_runs, load, save
from actors.scheduler import Scheduler
from runtime.storage.reader import read_log
from tests.sim.world import PLACE, World
from tests.states import differences


def life(seed: int) -> list[Record]:
    """The whole log of a simulated life, with crashes."""
    world = World(seed)
    world.checkpoints.off = True
    world.run()
    return list(read_log(PLACE, world.disk.after_kill()))


def fresh() -> Replay:
    return Replay(Scheduler(["default", "io"]))


def loaded(parts: list[SavedPart]) -> Replay:
    replay = fresh()
    load(replay, parts)
    return replay


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_the_state_at_each_record_comes_back(seed: int) -> None:
    replay = fresh()
    for record in life(seed):
        replay.fold(record)
        assert differences(replay, loaded(list(save(replay)))) == [], f"at record {record.lsn}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 24))
def test_reading_on_from_a_checkpoint_is_reading_all(seed: int) -> None:
    random, whole, part = Random(seed), fresh(), fresh()
    for record in life(seed):
        whole.fold(record)
        part.fold(record)
        if random.random() < 0.1:
            part = loaded(list(save(part)))
            assert differences(whole, part) == [], f"at record {record.lsn}"
    assert differences(whole, part) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24, 36))
def test_what_changed_since_the_last_checkpoint_is_all_that_has_to_be_written(seed: int) -> None:
    random, replay = Random(seed), fresh()
    rows: dict[tuple[int, str, int], SavedPart] = {}
    replay.touched = set()
    for record in life(seed):
        replay.fold(record)
        if random.random() < 0.1:
            changed, replay.touched = replay.touched, set()
            kept = set(kept_runs(replay))
            rows = {key: part for key, part in rows.items() if key[0] in kept - changed}
            rows.update((part[:3], part) for part in save(replay, changed))
            parts = [rows[key] for key in sorted(rows)]
            assert differences(replay, loaded(parts)) == [], f"at record {record.lsn}"


@pytest.mark.slow
def test_simulated_engines_begin_with_checkpoints_and_cut_their_logs_behind_them() -> None:
    worlds = [World(seed) for seed in (0, 1, 2, 3)]
    for world in worlds:
        world.run()
    assert sum(world.checkpoints.taken for world in worlds) > 1
    assert any(next(iter(read_log(PLACE, world.disk.after_kill()))).lsn > 1 for world in worlds)
