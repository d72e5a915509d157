"""Somebody takes checkpoints in a simulated world and dies at it now and then; an engine begins with what is there.

The parts of the state are kept as a file would keep them: those that did not change stay, and a crash leaves the
checkpoint before (`KeptParts`). The file itself is tested on real disks (tests/unit/storage).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from actors.protocol import log_messages as log
from actors.replay import Replay
from actors.saved import kept_runs, load, save, save_touched
from actors.scheduler import Scheduler
from runtime.storage.reader import RecoveryReport, list_segments, read_log, segment_heads
from runtime.storage.segment import LogPlace
from tests.sim.clock import Clock
from tests.sim.disk import FakeDisk
from tests.sim.parts import KeptParts
from tests.states import differences


class SimCheckpoints:
    """See the module. Draws by itself, so that worlds are what they were."""

    def __init__(self, seed: int, place: LogPlace, node_types: list[str]) -> None:
        self.lsn = 0
        self.taken = 0
        self.off = False
        self._parts = KeptParts()
        self._random = Random(f"checkpoints {seed}")
        self._place = place
        self._node_types = node_types

    @property
    def bytes_min(self) -> int | None:
        """How much is enough, in this life of the engine."""
        return None if self.off else self._random.choice((500, 3000, 20_000))

    def resume(self, replay: Replay, disk: FakeDisk) -> RecoveryReport:
        """Recover from checkpoint and log; where the log is whole, that is what the log says alone."""
        begins = self._begins(disk)
        base_lsn = self.lsn if begins <= self.lsn + 1 else 0
        if base_lsn:
            load(replay, self._parts.all())
        report = self._fold(replay, disk, base_lsn, 0)
        if begins == 1:
            alone = self._fresh()
            self._fold(alone, disk, 0, 0)
            assert differences(alone, self._again(replay)) == []
        elif not base_lsn:
            assert begins > replay.checkpoint_lsn + 1, "the log was cut for a checkpoint that is not there"
        return report

    def take(self, effect: log.TakeCheckpoint, clock: Clock, disk: Callable[[], FakeDisk | None], answer: Any) -> None:
        """Begin one: it takes a while. `disk` is None when the engine died meanwhile."""
        delay_ns = self._random.randrange(1_000, 30_000_000)
        fails = self._random.random() < 0.2
        clock.at(clock.now_ns + delay_ns, lambda: self._take(effect, disk(), answer, fails=fails))

    def _take(self, effect: log.TakeCheckpoint, disk: FakeDisk | None, answer: Any, *, fails: bool) -> None:
        if disk is None:
            return
        if fails:
            answer(log.CheckpointFailed("it died"))
            return
        replay = self._fresh()
        base_lsn = self.lsn if self._begins(disk) <= self.lsn + 1 else 0
        if base_lsn:
            replay.touched = load(replay, self._parts.all())
        report = self._fold(replay, disk, base_lsn, effect.below)
        assert report.next_lsn == effect.lsn + 1
        touched = replay.touched
        self._parts.put(save(replay) if touched is None else save_touched(replay, touched), kept_runs(replay))
        self.lsn = effect.lsn
        self.taken += 1
        if self._random.random() < 0.9:  # else nobody hears of it
            answer(log.CheckpointTaken(effect.lsn, 1))
        else:
            answer(log.CheckpointFailed("it died when it was done"))

    def _begins(self, disk: FakeDisk) -> int:
        numbers = list_segments(self._place, disk)
        return next((lsn or 1 for _, lsn, _ in segment_heads(self._place, disk, numbers)), 1)

    def _fold(self, replay: Replay, disk: FakeDisk, after_lsn: int, below: int) -> RecoveryReport:
        reader = read_log(self._place, disk, after_lsn=after_lsn, below=below)
        for record in reader:
            replay.fold(record)
        return reader.report()

    def _fresh(self) -> Replay:
        return Replay(Scheduler(self._node_types))

    def _again(self, replay: Replay) -> Replay:
        """Its state in a scheduler with the settings of `_fresh`."""
        again = self._fresh()
        load(again, save(replay))
        return again
