"""The command line: what is refused and how, exit codes, and where the JSON goes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from runtime.bench import catalogue, command
from runtime.bench.figures import BenchError, Sample
from runtime.bench.workloads.base import Scenario, Setup

REAL_SCENARIOS = catalogue.SCENARIOS


class Instant(Scenario):
    """A scenario that takes no time; fails when it is given 13 tasks."""

    name = "instant"
    title = "a task is nothing"
    tasks_default = 5
    tasks_smoke = 2
    durability_default = "os"
    baseline_name = "less"

    def refusal(self, setup: Setup) -> str:
        return "instant cannot count to 99" if setup.tasks == 99 else ""

    def run(self, setup: Setup) -> Sample:
        if setup.tasks == 13:
            raise BenchError("result 3 is 5 instead of 4")
        return Sample(setup.tasks, 1_000)

    def run_baseline(self, setup: Setup) -> Sample:
        return Sample(setup.tasks, 2_000)


@pytest.fixture(autouse=True)
def only_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "SCENARIOS", (Instant(),))


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert command.main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["instnat"], "did you mean instant?"),
        (["--tasks", "0"], "not between 1 and"),
        (["--tasks", "many"], "not a whole number"),
        (["--tasks", "99"], "cannot count to 99"),
        (["--workers", "-1"], "not between 1 and 512"),
        (["--repeat", "1.5"], "not a whole number"),
        (["--durability", "maybe"], "invalid choice"),
        (["--file", "no-such-file"], "there is no file"),
        (["--folder", "no-such-folder"], "there is no folder"),
        (["--json", "no-such-folder/out.json"], "cannot write"),
        (["--frobnicate"], "unrecognized arguments"),
    ],
)
def test_wrong_calls_end_with_code_2(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_without_arguments_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    out = capsys.readouterr().out
    assert "scenario" in out
    assert "instant" in out
    assert "os" in out


def test_json_on_standard_output_is_the_only_thing_there(capsys: pytest.CaptureFixture[str]) -> None:
    document = run_json(capsys, "instant")
    (row,) = document["results"]
    assert row["tasks"] == 5
    assert row["params"] == {"workers": row["params"]["workers"], "repeat": 1}
    assert document["machine"]["cores"] >= 1


def test_json_into_a_file_beside_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.json"
    assert command.main(["--json", str(target)]) == 0
    assert json.loads(target.read_text())["results"][0]["scenario"] == "instant"
    assert "instant" in capsys.readouterr().out


def test_options_reach_the_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = run_json(capsys, "--tasks", "1_000", "--workers", "3", "--durability", "none", "--repeat", "2")["results"]
    assert (row["tasks"], row["durability"], row["samples"]) == (1000, "none", 2)
    assert row["params"]["workers"] == 3


def test_against_measures_three_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = run_json(capsys, "--against")["results"]
    assert row["samples"] == 3
    assert row["ratio"] == 2.0
    assert row["baseline"]["name"] == "less"


def test_smoke_uses_the_tiny_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_json(capsys, "--smoke")["results"][0]["tasks"] == 2


def test_a_failed_scenario_ends_with_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--tasks", "13"]) == 1
    assert "failed: BenchError: result 3 is 5 instead of 4" in capsys.readouterr().out


def test_help_names_the_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--help"])
    assert ended.value.code == 0
    assert "a task is nothing" in capsys.readouterr().out


def test_help_marks_the_groups_and_says_each_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "SCENARIOS", REAL_SCENARIOS)
    with pytest.raises(SystemExit):
        command.main(["--help"])
    words = re.sub(r"(?<=[a-z])- (?=[a-z])", "-", " ".join(capsys.readouterr().out.split()))  # a name may be wrapped
    speed, who_is_next, the_log = (words.index(text) for text in ("when none is", "next stands for", "log stands for"))
    assert speed < words.index(" chain ") < who_is_next < words.index(" starvation ", who_is_next) < the_log
    assert the_log < words.index(" openruns ", the_log)
    said = re.findall(r"[a-z-]+", words[words.index("(default: os: ") : words.index("--repeat R samples")])
    for scenario in REAL_SCENARIOS:
        assert (scenario.name in said) == (scenario.durability_default != "fsync")
