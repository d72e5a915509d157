"""Whole lives of the engine on a log in shards, whose files tear, forget and reorder each for itself."""

from __future__ import annotations

import pytest

from runtime.storage.reader import read_log
from tests.sim.world import World


@pytest.mark.slow
def test_the_engine_lives_on_shards_as_on_one_log(pytestconfig: pytest.Config) -> None:
    killed = spread = 0
    for seed in range(700, 700 + pytestconfig.getoption("--seeds", default=25)):
        world = World(seed, shards=2 + seed % 3)
        try:
            world.run()
        except BaseException as error:
            error.add_note(f"seed {seed}, {2 + seed % 3} shards")
            raise
        disk = world.disk.after_kill()
        log = read_log(world.place, disk)
        assert list(log) is not None
        killed += world.incarnation > 1
        last = log.report().segments[-1].no
        spread += all(disk.size(f"{part.folder}/{last:08d}.seg") > 48 for part in world.place.parts())
    assert killed
    assert spread
