"""A checkpoint at any record: reading a log on from it gives the state that reading all of the log gives."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from actors import saved_again, saved_run
from actors.protocol.records import Record
from actors.replay import Replay
from actors.saved import SavedPart, kept_runs, load, save, save_touched
from actors.saved_again import Touched, Unchanged
from actors.scheduler import Scheduler
from runtime.storage.reader import read_log
from tests.sim.parts import KeptParts
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
@settings(max_examples=20, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(seed=st.integers(0, 10_000), each=st.sampled_from([0.02, 0.1, 0.5]), small=st.booleans())
def test_what_records_touch_is_all_that_has_to_be_written(seed: int, each: float, small: bool) -> None:
    """A state that was saved again and again by what was touched reads back as one that was saved whole: the same
    fields, and saved once more the same bytes."""
    seen: Counter[str] = Counter()
    random, records = Random(seed), life(seed)
    with pytest.MonkeyPatch.context() as patch:
        if small:  # simulated runs have few nodes: as if they were large
            patch.setattr(saved_again, "CHANGE_NODES_MAX", 3)
            patch.setattr(saved_run, "SMALL_BYTES_MAX", 300)
            for module in (saved_run, saved_again):
                patch.setattr(module, "PIECE_VALUES", 2)
        patch.setattr(saved_run, "TINY_BYTES_MAX", random.choice([0, 1024]))
        patch.setattr(saved_again, "CHANGE_BASE_BYTES_MIN", 0)
        replay, file = fresh(), KeptParts()
        replay.touched = Touched()
        for record in records:
            replay.fold(record)
            if random.random() < each:
                put = list(save_touched(replay, replay.touched))
                seen.update("stays" if isinstance(part, Unchanged) else part.column for part in put)
                file.put(put, kept_runs(replay))
                again = fresh()
                touched = load(again, file.all())
                assert differences(replay, again) == [], f"at record {record.lsn}"
                assert list(save(again)) == list(save(loaded(list(save(replay))))), f"at record {record.lsn}"
                if random.random() < 0.5:  # as a process that begins with what was written
                    replay, replay.touched = again, touched
        event("changes" if seen["change"] else "no changes")
        event("parts stay" if seen["stays"] > seen["change"] else "only all parts stay")


@pytest.mark.slow
def test_simulated_engines_begin_with_checkpoints_and_cut_their_logs_behind_them() -> None:
    worlds = [World(seed) for seed in (0, 1, 2, 3)]
    for world in worlds:
        world.run()
    assert sum(world.checkpoints.taken for world in worlds) > 1
    assert any(next(iter(read_log(PLACE, world.disk.after_kill()))).lsn > 1 for world in worlds)
