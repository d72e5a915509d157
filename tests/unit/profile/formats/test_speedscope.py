"""Speedscope's format: one profile a thread, indices within their tables, read again; and files of others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from actors.protocol.profile_errors import ProfileUnreadable
from runtime.profile.formats import speedscope
from runtime.profile.model import COUNT, NANOSECONDS, Frame, Profile, StackSample, Weight
from tests.unit.profile.profiles import profiles, small


def test_one_profile_a_thread() -> None:
    found = json.loads(speedscope.encode(small(), ["tenant"]))
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    names = [one["name"] for one in found["profiles"]]
    assert names == [
        "engine · pid 4700 · MainThread",
        "worker 3 [http] · pid 4711 · MainThread",
        "worker 3 [http] · pid 4711 · pool-1",
    ]
    frames = found["shared"]["frames"]
    main = found["profiles"][1]
    assert [frames[at]["name"] for at in main["samples"][0]] == ["tenant=acme", "main", "fetch"]
    assert frames[main["samples"][0][2]] == {"name": "fetch", "file": "app.py", "line": 40}
    assert (main["unit"], main["endValue"], main["weights"]) == ("nanoseconds", 7 * 10**9, [6 * 10**9, 10**9])


@pytest.mark.slow
@given(profiles())
def test_the_shape_holds(profile: Profile) -> None:
    found = json.loads(speedscope.encode(profile))
    assert found["profiles"]
    for one in found["profiles"]:
        assert len(one["samples"]) == len(one["weights"])
        assert one["endValue"] - one["startValue"] == sum(one["weights"])
        assert all(0 <= at < len(found["shared"]["frames"]) for places in one["samples"] for at in places)


@pytest.mark.slow
@given(profiles())
def test_what_is_written_is_read(profile: Profile) -> None:
    plain = profile.map(lambda one: one._replace(labels=()))
    again = speedscope.decode(json.loads(speedscope.encode(profile)))
    if not any(
        frame.name.startswith(("k=", "thread: ", "process ")) for one in plain.samples for frame in one.stack[:1]
    ):
        assert {one: weight.value for one, weight in again} == {one: weight.value for one, weight in plain}
    assert again.total() == profile.total()
    assert (again.kind, again.notes, again.hz) == (profile.kind, profile.notes, profile.hz)


def other(**changed: Any) -> dict[str, Any]:
    one = {"type": "sampled", "name": "t", "unit": "milliseconds", "samples": [[0, 1], [0]], "weights": [1.5, 2]}
    return {
        "shared": {"frames": [{"name": "a"}, {"name": "b", "file": "b.py", "line": 3}]},
        "profiles": [one | changed],
    }


def test_files_of_others() -> None:
    a, b = Frame("a"), Frame("b", "b.py", 3)
    found = speedscope.decode(other())
    assert (found.unit, len(found)) == (NANOSECONDS, 2)
    assert found.samples[StackSample((a, b), thread="t")] == Weight(1_500_000, 1)
    moments = [(0, "O", 0), (2, "O", 1), (5, "C", 1), (6, "C", 0)]
    events = [{"at": at, "type": kind, "frame": frame} for at, kind, frame in moments]
    evented = speedscope.decode(other(type="evented", unit="none", events=events))
    assert evented.unit == COUNT
    assert {one.stack: weight.value for one, weight in evented} == {(a,): 3, (a, b): 3}


@pytest.mark.parametrize(
    "changed",
    [{"unit": "miles"}, {"weights": [1]}, {"samples": [[7], []]}, {"type": "evented"}, {"samples": None}],
    ids=str,
)
def test_damage(changed: dict[str, Any]) -> None:
    with pytest.raises(ProfileUnreadable):
        speedscope.decode(other(**changed))
