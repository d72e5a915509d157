"""What the page gets, unpacked by a second reader: every stack with its weight, and nothing else."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given

from runtime.profile.formats.tree import LIGHTER, bounded, columns, scale
from runtime.profile.formats.wire import read_varint
from runtime.profile.model import Frame, Profile, StackSample
from tests.unit.profile.profiles import profiles, small


def numbers(text: str) -> list[int]:
    content, at, found = b64decode(text), 0, []
    while at < len(content):
        value, at = read_varint(content, at)
        found.append(value)
    return found


def unpacked(data: dict[str, Any]) -> dict[tuple[Any, ...], list[int]]:
    """Rows of a page: (stack, labels, process, thread) -> weights."""
    places = numbers(data["frames"])
    frames = [
        (data["names"][places[at]], data["files"][places[at + 1]], places[at + 2]) for at in range(0, len(places), 3)
    ]
    raw = numbers(data["nodes"])
    parents, stacks, last = [0], [()], 0
    for at in range(0, len(raw), 2):
        for _ in range(raw[at]):
            last = parents[last]
        stacks.append((*stacks[last], frames[raw[at + 1]]))
        parents.append(last)
        last = len(stacks) - 1
    assert data["nodeCount"] == len(stacks) - 1
    assert len(set(stacks)) == len(stacks), "a beginning that stacks share is there once"
    width, rows, node = (8 if data["diff"] else 6), {}, 0
    values = numbers(data["samples"])
    assert len(values) == data["sampleCount"] * width
    for at in range(0, len(values), width):
        node += values[at]
        labels = tuple((data["labels"][name], text) for name, text in data["sets"][values[at + 1]])
        key = (stacks[node], labels, data["processes"][values[at + 2]], data["threads"][values[at + 3]])
        assert key not in rows
        rows[key] = values[at + 4 : at + width]
    return rows


@pytest.mark.slow
@given(profiles())
def test_every_stack_with_its_weight(profile: Profile) -> None:
    wanted: dict[Any, list[int]] = {}
    for one, weight in profile:
        process = f"process {one.process.pid}: {one.process.title}" if one.process else ""
        stack = tuple(tuple(frame) for frame in one.stack)
        row = wanted.setdefault((stack, one.labels, process, one.thread), [0, 0])
        row[0] += weight.value
        row[1] += weight.seen
    pids = {one.process for one in profile.samples}
    if len({(one.pid, one.title) for one in pids if one}) == len([one for one in pids if one]):
        assert unpacked(columns(profile, lines=True)) == wanted


def test_lines_of_a_function_are_one() -> None:
    rows = unpacked(columns(small()))
    assert sorted(values[0] for values in rows.values()) == [500_000_000, 2_000_000_000, 7_000_000_000]
    assert len(unpacked(columns(small(), lines=True))) == 4


def test_a_page_has_a_limit() -> None:
    few = bounded(small(), 2)
    assert few.total() == small().total()
    names = sorted(one.stack[-1].name for one in few.samples)
    assert names == ["(lighter stacks)", "(lighter stacks)", "fetch", "parse;all"]
    assert {one.process for one in few.samples} == {one.process for one in small().samples}
    assert sum(one.stack == (LIGHTER,) for one in few.samples) == 2
    assert bounded(small()).samples == small().samples


def test_before_is_made_as_long_as_after() -> None:
    before, after = small(), small()
    before.duration_ns //= 2
    assert scale(before, after) == 2.0
    gone = before.map(lambda one: one._replace(stack=(*one.stack, Frame("gone"))))
    rows = unpacked(columns(after, gone))
    assert sum(values[0] for values in rows.values()) == after.total().value
    assert sum(values[2] for values in rows.values()) == 2 * before.total().value
    assert all(not values[0] or not values[2] for values in rows.values())


def test_a_worker_is_the_same_with_another_pid() -> None:
    reborn = small().map(
        lambda one: one._replace(process=one.process and one.process._replace(pid=one.process.pid + 1))
    )
    assert len(unpacked(columns(small(), reborn))) == len(unpacked(columns(small())))


def test_without_a_length_shares_are_compared() -> None:
    one, other = Profile(), Profile()
    one.add(StackSample((Frame("a"),)), 10)
    other.add(StackSample((Frame("a"),)), 30)
    assert scale(one, other) == 3.0
    assert scale(Profile(), other) == 1.0
