"""Retries that go down in class, for real: what keeps failing does not stand before what nobody has tried yet."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from runtime import NodeType, Retry, Runtime
from runtime.errors import TaskFailed
from tests.scenarios import handlers
from tests.scenarios.processes import OwnFamily, kill
from tests.scenarios.waiting import await_gone, lines, until

pytestmark = pytest.mark.slow

ONE: Final = [NodeType("default", workers=1, prefetch=1)]


def test_a_retry_waits_behind_the_class_below_also_after_a_crash_of_the_engine(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    retry = Retry(max_attempts=3, base=0.05, factor=1.0, jitter=False, lower_class=True)
    with Runtime(state_dir, node_types=ONE) as rt:
        fails = rt.options(priority="high", retry=retry).submit(handlers.fail, str(runs), "fails")
        until(lambda: "in class normal" in " ".join(event.text for event in fails.story()), "the first retry")
        rt.pause("type:default")
        engine = OwnFamily(rt).engine
        kill(engine)
        await_gone([engine])
        until(lambda: "its retries lowered it to" in fails.why(), "the engine to know it again")
        others = [rt.submit(handlers.mark, str(runs), f"normal-{i}") for i in range(3)]
        rt.resume("type:default")
        with pytest.raises(TaskFailed):
            fails.result(timeout=30)
        assert [other.result(timeout=30) for other in others] == ["normal-0", "normal-1", "normal-2"]
    noted = [line.word for line in lines(runs)]
    assert noted.count("fails") == 3
    assert noted[-1] == "fails"
