"""A bundle has what could be had and says what could not; their number and size are bounded."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from runtime.profile.leak_check.survey import Report
from runtime.profile.model import CPU, Frame, Profile, StackSample
from runtime.profile.monitor.bundle import Bundles, Evidence, slug_of
from tests.unit.profile.leak_check.test_grading import finding

NOBODY = (65534, 65534)
NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def profile_of(name: str) -> Profile:
    made = Profile(CPU)
    made.add(StackSample((Frame(name),)), 5)
    return made


class Planted(Evidence):
    """Evidence without processes."""

    def flight(self, state_dir: str) -> Profile:
        return profile_of("flight")

    def cpu(self, state_dir: str) -> Profile:
        return profile_of("cpu")

    def awaits(self, state_dir: str) -> Profile:
        raise RuntimeError("no await sampler")

    def stacks(self, state_dir: str) -> Profile:
        return profile_of("stacks")

    def leaks(self, state_dir: str) -> Report:
        return Report([finding()], ["a note"])

    def page(self, profile: Profile) -> bytes:
        return b"<html>" * 100

    def diff(self, before: Profile, after: Profile) -> bytes:
        return orjson.dumps([[sample.stack[0].name for sample, _ in one] for one in (before, after)])


def test_a_bundle_has_all_parts_and_says_what_failed(tmp_path: Path) -> None:
    bundles = Bundles(tmp_path, Planted())
    bundles.keep_healthy(profile_of("healthy"))
    left = bundles.folder / "20261130T110000-x~"
    left.mkdir(parents=True)
    path = bundles.save("slo-orders", {"text": "burns", "process": finding().process}, NOW)
    assert path.name == "20261130T120000-slo-orders"
    assert sorted(one.name for one in path.iterdir()) == [
        "cpu.html", "cpu.json", "diff.json", "flight.json", "leaks.json", "notes.txt", "stacks.json", "trigger.json",
    ]  # fmt: skip
    assert Profile.from_json((path / "flight.json").read_bytes()).samples.keys() == profile_of("flight").samples.keys()
    assert orjson.loads((path / "diff.json").read_bytes()) == [["healthy"], ["cpu"]]
    assert orjson.loads((path / "leaks.json").read_bytes())["findings"][0]["kind"] == "task"
    assert orjson.loads((path / "trigger.json").read_bytes())["process"][2] == "worker"
    assert (path / "notes.txt").read_text() == "await.json: RuntimeError: no await sampler\n"
    assert not left.exists()


def test_without_a_healthy_hour_there_is_no_diff(tmp_path: Path) -> None:
    path = Bundles(tmp_path, Planted()).save("x", {}, NOW)
    assert not (path / "diff.json").exists()
    assert "nothing healthy" in (path / "notes.txt").read_text()


def test_one_trigger_makes_one_in_ten_minutes_whoever_watches(tmp_path: Path) -> None:
    assert Bundles(tmp_path).may("slo-orders", NOW)
    Bundles(tmp_path, Planted()).save("slo-orders", {}, NOW)
    again = Bundles(tmp_path)
    assert not again.may("slo-orders", NOW + timedelta(seconds=599))
    assert again.may("slo-others", NOW + timedelta(seconds=599))
    assert again.may("slo-orders", NOW + timedelta(seconds=600))
    assert again.may("slo-orders", NOW - timedelta(seconds=5)), "the clock was set back"


def test_the_oldest_go_when_there_is_too_much(tmp_path: Path) -> None:
    bundles = Bundles(tmp_path, Planted(), bytes_max=3_000)
    made = [bundles.save(f"t{number}", {}, NOW + timedelta(hours=number)) for number in range(6)]
    there = [path for path in made if path.exists()]
    assert there == made[-len(there) :]
    assert 1 <= len(there) < 6
    assert sum(one.stat().st_size for path in there for one in path.iterdir()) <= 3_000


def test_the_newest_stays_even_if_it_is_too_large(tmp_path: Path) -> None:
    assert Bundles(tmp_path, Planted(), bytes_max=10).save("t", {}, NOW).exists()


class Watched(Planted):
    """While it is recorded somebody else looks at the bundles."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()
        self.look = look

    def stacks(self, state_dir: str) -> Profile:
        self.look()
        return super().stacks(state_dir)


def test_what_somebody_makes_counts_and_is_left_alone(tmp_path: Path) -> None:
    other = Bundles(tmp_path)
    seen: list[bool] = []

    def look() -> None:
        other.sweep()
        seen.append(other.may("t", NOW + timedelta(seconds=1)))

    path = Bundles(tmp_path, Watched(look)).save("t", {}, NOW)
    assert seen == [False]
    assert (path / "stacks.json").exists()


def test_what_a_dead_one_made_goes_and_does_not_count(tmp_path: Path) -> None:
    bundles = Bundles(tmp_path)
    left = bundles.folder / "20261130T120000-t~"
    left.mkdir(parents=True)
    (left / "cpu.json").write_bytes(b"half")
    assert bundles.may("t", NOW)
    bundles.sweep()
    assert not left.exists()


def test_what_cannot_be_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:
        raise OSError("full")

    bundles = Bundles(tmp_path, Planted())
    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OSError, match="full"):
        bundles.save("t", {}, NOW)
    assert not list(bundles.folder.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives away what it made")
def test_what_root_saves_is_the_programs_users(tmp_path: Path) -> None:
    os.chown(tmp_path, *NOBODY)
    bundles = Bundles(tmp_path, Planted())
    bundles.keep_healthy(profile_of("healthy"))
    path = bundles.save("t", {}, NOW)
    there = [bundles.folder.parent, bundles.folder, path, *path.iterdir(), bundles.folder.parent / "healthy.json"]
    assert {(one.stat().st_uid, one.stat().st_gid) for one in there} == {NOBODY}


@pytest.mark.parametrize(("trigger", "slug"), [("slo-a/b c", "slo-a-b-c"), ("../..", "trigger"), ("", "trigger")])
def test_a_trigger_is_no_path(trigger: str, slug: str) -> None:
    assert slug_of(trigger) == slug
