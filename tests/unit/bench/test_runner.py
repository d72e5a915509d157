"""The runner: alternation, repetition, and errors that become results."""

from __future__ import annotations

from pathlib import Path

from runtime.bench import runner
from runtime.bench.figures import BenchError, Sample
from runtime.bench.workloads.base import Scenario, Setup

SETUP = Setup(tasks=10, workers=2, durability="os", folder=Path())


class Recorder(Scenario):
    """Writes down who was asked, and answers with made-up times."""

    name = "recorder"
    title = "none"
    tasks_default = 1
    tasks_smoke = 1
    baseline_name = "nothing"

    def __init__(self) -> None:
        self.calls = ""

    def run(self, setup: Setup) -> Sample:
        self.calls += "A"
        return Sample(setup.tasks, 100 * len(self.calls))

    def run_baseline(self, setup: Setup) -> Sample:
        self.calls += "B"
        return Sample(setup.tasks, 400)


class Wrong(Recorder):
    """Gives a wrong result the second time."""

    def run(self, setup: Setup) -> Sample:
        if self.calls:
            raise BenchError("result 3 is 5 instead of 4")
        return super().run(setup)


def test_sides_alternate() -> None:
    scenario = Recorder()
    result = runner.measure(scenario, SETUP, repeat=3, against=True)
    assert scenario.calls == "ABABAB"
    assert len(result.ours) == len(result.theirs) == 3
    assert result.ratios()["ratio"].high == 4.0


def test_alone_when_not_asked_for_a_baseline() -> None:
    scenario = Recorder()
    result = runner.measure(scenario, SETUP, repeat=2, against=False)
    assert scenario.calls == "AA"
    assert result.baseline_name is None
    assert result.ratios() == {}


def test_a_wrong_result_fails_the_scenario() -> None:
    result = runner.measure(Wrong(), SETUP, repeat=2, against=False)
    assert result.error == "BenchError: result 3 is 5 instead of 4"
    assert "seconds" not in result.to_json()


class Itself(Recorder):
    """Is compared with itself, used in another way."""

    baseline_is_ours = True


def test_the_baseline_is_as_durable_as_it_is() -> None:
    assert runner.measure(Recorder(), SETUP, repeat=1, against=True).to_json()["baseline"]["durability"] == "none"
    assert runner.measure(Itself(), SETUP, repeat=1, against=True).to_json()["baseline"]["durability"] == "os"


def test_parameters_are_part_of_the_result() -> None:
    result = runner.measure(Recorder(), SETUP, repeat=2, against=True)
    assert result.params == {"workers": 2, "repeat": 2}
    assert result.durability == "os"


def test_notices_say_what_runs() -> None:
    heard: list[str] = []
    runner.measure(Recorder(), SETUP, repeat=1, against=True, notice=heard.append)
    assert heard == ["recorder: sample 1 of 1", "recorder: sample 1 of 1, nothing"]
