"""Profiles are sums: merging, filtering and writing them loses nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.profile.model import COUNT, CPU, Frame, Process, Profile, StackSample, Weight

FRAMES = st.builds(Frame, st.sampled_from("abc"), st.sampled_from(["", "x.py"]), st.integers(0, 3))
LABELS = st.dictionaries(st.sampled_from(["tenant", "workflow"]), st.sampled_from("xyz;"), max_size=2).map(
    lambda found: tuple(sorted(found.items()))
)
ROLES = st.sampled_from(["engine", "worker"])
PROCESSES = st.none() | st.builds(Process, st.integers(1, 3), st.just(7), ROLES, st.integers(0, 9), st.just("http"))
SAMPLES = st.builds(StackSample, st.lists(FRAMES, max_size=4).map(tuple), LABELS, PROCESSES, st.sampled_from(["", "t"]))
ROWS = st.lists(st.tuples(SAMPLES, st.integers(0, 1000)), max_size=20)


def made(rows: list[tuple[StackSample, int]]) -> Profile:
    profile = Profile()
    for sample, value in rows:
        profile.add(sample, value)
    return profile


@pytest.mark.slow
@given(ROWS, ROWS)
def test_merging_adds(one: list[tuple[StackSample, int]], other: list[tuple[StackSample, int]]) -> None:
    assert made(one).merge(made(other)).samples == made(one + other).samples


@pytest.mark.slow
@given(ROWS)
def test_what_is_written_is_read(rows: list[tuple[StackSample, int]]) -> None:
    profile = made(rows)
    profile.notes.append("a worker was lost")
    again = Profile.from_json(profile.to_json())
    assert (again.samples, again.notes) == (profile.samples, profile.notes)


@pytest.mark.slow
@given(ROWS)
def test_labels_divide_the_sum(rows: list[tuple[StackSample, int]]) -> None:
    profile = made(rows)
    by_tenant = profile.by("tenant")
    assert sum(weight.value for weight in by_tenant.values()) == profile.total().value
    for (tenant,), weight in by_tenant.items():
        kept = profile.filter(tenant=tenant) if tenant else profile.filter(lambda s: "tenant" not in dict(s.labels))
        assert kept.total() == weight


def test_it_says_what_it_is() -> None:
    profile = Profile(CPU)
    profile.add(StackSample((), (), None, "MainThread"), 1_500)
    assert repr(profile) == "<Profile cpu: 1 stacks, 1,500 nanoseconds>"


def test_units_do_not_mix() -> None:
    with pytest.raises(ValueError, match="count"):
        Profile().merge(Profile(unit=COUNT))


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"format": 2}', b'{"format": 1, "kind": 1}'])
def test_what_is_no_profile(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"profile|zero-length"):
        Profile.from_json(content)


def test_a_process_has_a_title() -> None:
    assert Process(1, 2, "worker", 3, "http").title == "worker 3 [http]"
    assert Process(1, 2, "engine").title == "engine"
    assert Weight(1, 2).value == 1


def test_names_that_are_no_text_are_written_as_python_writes_them() -> None:
    """Of a file, a thread, a task or a label of a user: one of them must not hide all others."""
    profile = Profile()
    sample = StackSample((Frame("f", "a\ud800;\nb", 1),), (("k", "\udfff"),), Process(1, 2, "worker"), "t\ud800")
    profile.add(sample, 1)
    profile.notes.append("cpu \ud800")
    again = Profile.from_json(profile.to_json())
    ((found, weight),) = again
    assert (found.stack[0].file, found.labels, found.thread) == ("a\\ud800;\nb", (("k", "\\udfff"),), "t\\ud800")
    assert (weight.value, again.notes) == (1, ["cpu \\ud800"])
