"""On whose account CPU time changed."""

from __future__ import annotations

from runtime.profile.model import CPU, Frame, Profile, StackSample
from runtime.profile.monitor.blame import blamed

S = 1_000_000_000


def profile(seconds: float = 10.0, **sets: tuple[float, str]) -> Profile:
    """Node types with seconds of CPU time, a sample each 10 ms, and where they are spent; "none": no labels."""
    made = Profile(CPU, duration_ns=int(seconds * S))
    for name, (cpu_s, function) in sets.items():
        labels = () if name == "none" else (("node_type", name), ("workflow", "orders"))
        made.add(StackSample((Frame("main"), Frame(function, "a.py", 3)), labels), int(cpu_s * S), int(cpu_s * 100))
    return made


def test_who_takes_more_is_first_whatever_its_shares_within() -> None:
    """It does ten times more of the same, which is no change within its label set; the engine has less to do."""
    before = profile(shop=(2.0, "show"), bank=(1.0, "count"), none=(6.0, "turn"))
    after = profile(shop=(1.0, "show"), bank=(9.0, "count"), none=(0.5, "turn"))
    first, *others = blamed(before, after)
    assert dict(first["labels"])["node_type"] == "bank"
    assert (first["verdict"], first["stack"]) == ("grew", [["count", "a.py", 0]])
    assert (first["before"], first["after"], first["change"]) == (0.1 * S, 0.9 * S, 0.8 * S)
    assert first["low"] > 0
    assert [dict(row["labels"]).get("node_type") for row in others] == ["shop", None]


def test_what_comes_and_goes_is_said() -> None:
    before, after = profile(shop=(5.0, "show"), old=(5.0, "a")), profile(shop=(5.0, "show"), new=(5.0, "b"))
    verdicts = {dict(row["labels"])["node_type"]: row["verdict"] for row in blamed(before, after)}
    assert verdicts == {"new": "new", "old": "vanished", "shop": "same"}


def test_recordings_of_different_length_are_compared_by_rate() -> None:
    (row,) = blamed(profile(10.0, shop=(2.0, "show")), profile(30.0, shop=(6.0, "show")))
    assert (row["change"], row["verdict"]) == (0.0, "same")


def test_nothing_is_compared_with_nothing() -> None:
    assert blamed(profile(), profile(shop=(1.0, "show"))) == []
