"""A step in the size of a pool: a line in the log, or a question to the program's function, which can do no harm."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import Any

import pytest

from runtime.host.client import EngineClient
from runtime.host.scaling import OnScale, ScaleDesk, ScaleFigures, ScaleStep, announce_scaled, can_be_asked
from tests.unit.runtime.fake_engine import FakeEngine

WIRE: dict[str, Any] = {
    "waiting": 3,
    "oldest_ns": 20_000_000,
    "held": 2,
    "starting": 1,
    "service_ns": 5_000_000,
    "rate_per_s": 40.0,
    "cpu_busy": None,
    "memory_free": 0.5,
    "workers_range": [1, 8],
}
STEP = ScaleStep("cpu", 2, 4, "why", ScaleFigures(3, 0.02, 2, 1, 0.005, 40.0, None, 0.5, 1, 8))
SECONDS = 10


class Answers:
    """What the engine is told."""

    def __init__(self) -> None:
        self.heard: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()

    def __call__(self, what: str, args: dict[str, Any]) -> None:
        self.heard.put((what, args))

    def size(self) -> int | None:
        """The next answer's."""
        what, args = self.heard.get(timeout=SECONDS)
        assert (what, args["node_type"], args["number"]) == ("scale", "cpu", 17)
        size: int | None = args["size"]
        return size


def desk(on_scale: OnScale | None) -> tuple[ScaleDesk, Answers]:
    answers = Answers()
    made = ScaleDesk(answers)
    made.on_scale = on_scale
    return made, answers


def test_a_step_that_was_taken_is_logged_as_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mainspring")
    asked: list[ScaleStep] = []
    announce_scaled("2 tasks wait and there is no worker", ("cpu", 0, 1, 0, None), desk(asked.append)[0])
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert record.getMessage() == "node type cpu: 0 -> 1 worker: 2 tasks wait and there is no worker"
    assert asked == []


@pytest.mark.parametrize(
    ("answer", "size"), [(None, None), (True, None), (False, 2), (3, 3), (2, 2), (0, 1), (99, 8), (1, 1)]
)
def test_what_the_function_answers_is_a_size_within_the_bounds(answer: int | bool | None, size: int | None) -> None:
    steps: list[ScaleStep] = []

    def on_scale(step: ScaleStep) -> int | bool | None:
        steps.append(step)
        return answer

    made, answers = desk(on_scale)
    announce_scaled("why", ("cpu", 2, 4, 17, WIRE), made)
    assert answers.size() == size
    assert steps == [STEP]
    made.close()


def test_what_the_function_raises_or_answers_wrongly_is_logged_and_the_step_is_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(step: ScaleStep) -> int:
        raise ValueError("not now")

    for wrong in (refuse, lambda step: "many"):
        made, answers = desk(wrong)  # type: ignore[arg-type]
        made.ask(STEP, 17)
        assert answers.size() is None
        made.close()
    assert "not now" in caplog.text
    assert "on_scale answered 'many', which is no number of workers" in caplog.text


def test_the_function_is_called_by_a_thread_of_its_own_in_order_and_not_after_the_end() -> None:
    gate = threading.Event()
    threads: list[threading.Thread] = []

    def on_scale(step: ScaleStep) -> int:
        threads.append(threading.current_thread())
        gate.wait(SECONDS)
        return step.after

    made, answers = desk(on_scale)
    made.ask(STEP, 17)
    made.ask(ScaleStep("cpu", 4, 5, "why", STEP.figures), 17)
    gate.set()
    assert [answers.size(), answers.size()] == [4, 5]
    assert threading.current_thread() not in threads
    made.close()
    assert not any(thread.is_alive() for thread in threads)
    made.ask(STEP, 17)
    assert len(threads) == 2


async def _coroutine(step: ScaleStep) -> None:
    """No answer at once."""


def test_what_can_be_asked() -> None:
    assert can_be_asked(None)
    assert can_be_asked(lambda step: None)
    assert not can_be_asked(3)
    assert not can_be_asked(_coroutine)


def test_a_client_hears_of_steps_and_is_in_no_trouble() -> None:
    engine = FakeEngine()
    client = EngineClient(engine, "s", None)
    steps: SimpleQueue[ScaleStep] = SimpleQueue()
    client.scale_desk.on_scale = steps.put
    client.start()
    client.attach_thread()
    engine.say("Y", ["why", "scaled", ["cpu", 2, 4, 17, WIRE]], control=True)
    assert steps.get(timeout=SECONDS) == STEP
    assert client.trouble is None
    engine.end(client)
