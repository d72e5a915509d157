"""Each log that a test of actors reads also goes through a checkpoint: saved and loaded, its state is the same."""

from __future__ import annotations

from typing import Any

import pytest

from actors.replay import Replay
from actors.saved import load, save
from actors.scheduler import Scheduler
from tests.states import differences


@pytest.fixture(autouse=True)
def _saved_and_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = Replay.finish

    def checked(self: Replay, *args: Any, **more: Any) -> Any:
        again = Replay(Scheduler(list(self.scheduler.ready), policy=self.scheduler.standing.given.to_json()))
        again.scheduler.schedules.calendar = self.scheduler.schedules.calendar
        for name in ("missing_handler", "wave_edges_max", "wave_edges_left"):
            setattr(again.scheduler, name, getattr(self.scheduler, name))
        again.scheduler.book.runs_max, again.scheduler.book.nodes_max = (
            self.scheduler.book.runs_max,
            self.scheduler.book.nodes_max,
        )
        load(again, list(save(self)))
        assert differences(self, again) == []
        return finish(self, *args, **more)

    monkeypatch.setattr(Replay, "finish", checked)
