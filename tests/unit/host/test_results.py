"""From results to frames: grouping, order, size, and values that cannot be stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from actors.protocol import limits
from actors.protocol.errors import DiskFull
from actors.protocol.states import FailureKind
from runtime.host.results import Place, ResultPile
from runtime.mail.codec import Codec
from runtime.mail.failure import failure_of

PID = 42


class FailingCodec(Codec):
    """Refuses one value."""

    def encode_list(self, values: list[Any], *, pickle: bool = False, blob_key: str = "") -> bytes:
        if "bad" in values:
            raise DiskFull("no space for a value")
        return super().encode_list(values, pickle=pickle, blob_key=blob_key)


@pytest.fixture
def pile() -> ResultPile:
    return ResultPile(PID, FailingCodec())


def place(serial: int, run: int = 7) -> Place:
    return Place(serial, run, f"run-{run}", serial * 10)


def read(frames: list[bytes]) -> list[tuple[str, Any]]:
    return [(frame[:1].decode(), orjson.loads(frame[1:])) for frame in frames]


def test_a_span_becomes_one_group(pile: ResultPile) -> None:
    span = pile.span(place(5), [1, 2, 3], 1000)
    span.values += ["a", b'{"k":[1]}', None]
    span.ends += [10, 20, 30]
    assert pile.waiting
    assert read(pile.frames()) == [("D", [PID, [[5, 7, [1, 2, 3], ["a", {"k": [1]}, None], 1000, [10, 20, 30]]]])]
    assert not pile.waiting
    assert pile.frames() == []


@pytest.mark.parametrize(
    ("first", "second", "written"),
    [
        (range(3), range(3, 5), 0),
        (range(3), range(4, 6), [0, 1, 2, 4, 5]),
        ([7, 8, 9], range(3, 5), [7, 8, 9, 3, 4]),
    ],
)
def test_chunks_that_follow_each_other_are_one_group(
    pile: ResultPile, first: Sequence[int], second: Sequence[int], written: Any
) -> None:
    span = pile.span(place(5), first, 1000)
    span.values += [1, 2, 3]
    span.ends += [10, 20, 30]
    assert pile.span(place(8), second, 1035) is span
    span.values += [4, 5]
    span.ends += [45, 55]
    assert pile.span(place(11), [1], 1060) is not span, "another serial than the next"
    assert read(pile.frames()) == [("D", [PID, [[5, 7, written, [1, 2, 3, 4, 5], 1000, [10, 20, 30, 45, 55]]]])]


def test_an_open_span_is_sent_in_parts(pile: ResultPile) -> None:
    span = pile.span(place(5), [1, 2, 3], 1000)
    span.values += [1, 2, 3]
    span.ends += [10, 20]  # the third value is there, its end not yet
    assert read(pile.frames(span)) == [("D", [PID, [[5, 7, [1, 2], [1, 2], 1000, [10, 20]]]])]
    assert pile.frames(span) == []
    span.ends.append(35)
    assert read(pile.frames()) == [("D", [PID, [[7, 7, [3], [3], 1020, [15]]]])]


def test_single_results_join_when_one_follows_the_other(pile: ResultPile) -> None:
    pile.result(place(1), "a", 1000, 1500)
    pile.result(place(2), "b", 1510, 1700)
    pile.result(place(4), "gap in serials", 1710, 1800)
    pile.result(place(5, run=8), "other run", 1810, 1900)
    pile.result(place(6, run=8), "overlaps", 1850, 1950)
    pile.result(place(7, run=8), "waited", 900_000, 900_100)
    [(_, (_, groups))] = read(pile.frames())
    assert [(group[0], group[2], group[4], group[5]) for group in groups] == [
        (1, [10, 20], 1000, [500, 700]),
        (4, [40], 1710, [90]),
        (5, [50], 1810, [90]),
        (6, [60], 1850, [100]),
        (7, [70], 900_000, [100]),
    ]


def test_spawned_nodes_go_before_results_and_failures_after(pile: ResultPile) -> None:
    pile.failure(place(1), 10, 20, failure_of(ValueError("x"), FailureKind.ERROR, Codec()))
    pile.result(place(2), 1, 30, 40)
    pile.spawned(b"S[2,7,20,{}]")
    frames = read(pile.frames())
    assert [letter for letter, _ in frames] == ["S", "D", "E"]
    assert frames[2][1][1][0][:5] == [1, 7, 10, 10, 20]


def test_frames_stay_below_the_limit(pile: ResultPile) -> None:
    span = pile.span(place(1), list(range(100)), 0)
    span.values += ["x" * 40_000] * 100
    span.ends += range(1, 101)
    frames = pile.frames()
    assert len(frames) > 1
    assert all(len(frame) <= limits.FRAME_BYTES_MAX for frame in frames)
    groups = [group for _, (_, groups) in read(frames) for group in groups]
    assert [node for group in groups for node in group[2]] == list(range(100))
    ends = [group[4] + end for group in groups for end in group[5]]
    assert ends == list(range(1, 101))
    assert all(group[5][0] > 0 for group in groups)


def test_one_value_that_cannot_be_sent_fails_alone(pile: ResultPile) -> None:
    span = pile.span(place(1), list(range(9)), 0)
    span.values += [0, 1, 2, "bad", 4, 5, 6, 7, 8]
    span.ends += range(10, 100, 10)
    frames = read(pile.frames())
    values = {
        group[0] + i: v
        for letter, (_, groups) in frames
        if letter == "D"
        for group in groups
        for i, v in enumerate(group[3])
    }
    assert values == {serial: serial - 1 for serial in range(1, 10) if serial != 4}
    [row] = next(rows for letter, (_, rows) in frames if letter == "E")
    assert row[:5] == [4, 7, 3, 30, 40]
    assert row[5]["kind"] == "error"


def test_many_failures_are_split(pile: ResultPile) -> None:
    failure = failure_of(ValueError("y" * 3000), FailureKind.ERROR, Codec())
    for serial in range(1, 400):
        pile.failure(place(serial), 0, 1, failure)
    frames = pile.frames()
    assert len(frames) > 1
    assert all(len(frame) <= limits.FRAME_BYTES_MAX for frame in frames)
    assert sum(len(rows) for _, (_, rows) in read(frames)) == 399
