"""Posts: what is sent to a worker fits into frames, whatever the work is made of, and waits in order for room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from actors.protocol import limits
from actors.protocol.effects import LeaseWork
from actors.protocol.places import unpacked
from runtime.host.output import open_output_pipe
from runtime.host.post import Post, WorkerPost
from runtime.host.station import gathered
from runtime.mail.lease_table import LeaseTable
from runtime.mail.link import Link, create_link
from runtime.mail.pieces import PieceJoiner


class Pair:
    """A post and, at the other end of its link, the worker's side."""

    def __init__(self) -> None:
        ends = create_link()
        read_fd, self.output_fd = open_output_pipe()
        node_type = {"name": "cpu", "mode": "process"}
        self.post = WorkerPost(1, node_type, Link(ends.dup(), "a"), LeaseTable(LeaseTable.create()), read_fd)
        self.worker = Link(ends, "b")
        self._joiner = PieceJoiner()

    def lease(self, items: list[Any], deadlines: dict[int, int] | None = None, name: str = "") -> None:
        run: Any = SimpleNamespace(no=7, key="run-1", name=name, rare=SimpleNamespace(deadlines=deadlines or {}))
        kind: Any = SimpleNamespace(no=3, text=b"{}", priority=1)
        self.post.lease(LeaseWork(1, 1, run, kind, range(len(items)), None, items))
        self.post.send_leases()

    def lease_batches(self, *leases: tuple[int, int, list[Any]]) -> None:
        """Leases, each with its first serial and the number of its batch."""
        kind: Any = SimpleNamespace(no=3, text=b"{}", priority=1)
        for serial, batch, items in leases:
            run: Any = SimpleNamespace(no=batch, key=f"run-{serial}", name="flow", rare=SimpleNamespace(deadlines={}))
            self.post.lease(LeaseWork(1, serial, run, kind, range(len(items)), None, items, batch))
        self.post.send_leases()

    def messages(self) -> list[bytes]:
        """All that arrives, but for kinds, while the post sends on."""
        found: list[bytes] = []
        while True:
            _, frames = self.worker.receive()
            if not frames and self.post.clear:
                return found
            whole = [self._joiner.whole(frame) for frame in frames]
            found += [message for message in whole if message is not None and message[:1] != b"K"]
            self.post.flush()

    def groups(self) -> list[list[Any]]:
        """All groups of leases that arrive, while the post sends on."""
        found: list[list[Any]] = []
        while True:
            _, frames = self.worker.receive()
            if not frames and self.post.clear:
                return found
            for frame in frames:
                assert len(frame) <= limits.FRAME_BYTES_MAX
                message = self._joiner.whole(frame)
                if message is not None and message[:1] == b"L":
                    found += orjson.loads(message[1:])
            self.post.flush()

    def close(self) -> None:
        self.post.close()
        self.worker.close()
        os.close(self.output_fd)


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


@pytest.mark.parametrize("count", [1, 2, 100])
@pytest.mark.parametrize("length", [1, 60_000, 300_000])
def test_work_of_any_length_arrives_whole_and_in_order(pair: Pair, count: int, length: int) -> None:
    items = [["x" * length, n] for n in range(count)]
    pair.lease(items)
    groups = pair.groups()
    assert [item for group in groups for item in group[6]] == items
    assert [node for group in groups for node in unpacked(group[4], len(group[6]))] == list(range(count))
    assert [group[0] for group in groups] == [1 + group[4] for group in groups]
    assert {group[7] for group in groups} == {1}


def test_deadlines_go_with_the_work_that_has_them(pair: Pair) -> None:
    items = [["x" * 60_000, n] for n in range(100)]
    pair.lease(items, {3: 33, 99: 999})
    groups = pair.groups()
    assert len(groups) > 1
    assert [ends for group in groups for ends in group[8]] == [{3: 33, 99: 999}.get(n, 0) for n in range(100)]


def test_the_name_of_a_run_goes_with_its_work(pair: Pair) -> None:
    items = [["x" * 60_000, n] for n in range(100)]
    pair.lease(items, {3: 33}, "checkout")
    groups = pair.groups()
    assert len(groups) > 1
    assert {group[9] for group in groups} == {"checkout"}
    assert [ends for group in groups for ends in group[8]] == [33 if n == 3 else 0 for n in range(100)]
    pair.lease([1], None, "checkout")
    assert pair.groups()[0][8:] == ["checkout"]


def test_a_single_task_may_be_longer_than_the_ring(pair: Pair) -> None:
    """It takes the results of very many parents; no other task can be put beside it to be halved."""
    parents = ["x" * 1000 for _ in range(2 * limits.RING_WORK_BYTES // 1000)]
    pair.lease([parents])
    assert pair.groups() == [[1, 7, "run-1", 3, 0, 0, [parents], 1]]


def test_what_waits_for_room_keeps_the_order_of_its_lane() -> None:
    ends = create_link(4096, 1024)
    with closing(Link(ends, "a")) as near, closing(Link(ends.dup(), "b")) as far:
        post = Post(near)
        for number in range(100):
            post.send(b"work %03d" % number + b"." * 100)
            post.send(b"said %03d" % number + b"." * 40, control=True)
        assert not post.clear
        assert post.backlog_bytes > 0
        said: list[bytes] = []
        work: list[bytes] = []
        while not post.clear or far.pending():
            control, frames = far.receive(200)
            said += control
            work += frames
            post.flush()
        assert [frame[:8] for frame in work] == [b"work %03d" % n for n in range(100)]
        assert [frame[:8] for frame in said] == [b"said %03d" % n for n in range(100)]
        assert post.backlog_bytes == 0


def test_a_peer_that_does_not_read_is_crowded_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POST_BACKLOG_BYTES_MAX", 1000)
    ends = create_link(4096, 1024)
    with closing(Link(ends, "a")) as near, closing(Link(ends.dup(), "b")) as far:
        post = Post(near)
        while not post.crowded:
            post.send(b"x" * 500)
        while not post.clear:
            far.receive()
            post.flush()
        assert not post.crowded


def test_a_batch_is_one_message_between_the_others_in_the_order_of_serials(pair: Pair) -> None:
    pair.lease_batches((1, 0, [1]), (2, 5, [2, 3]), (4, 5, [4]), (5, 6, [5]), (6, 0, [6]))
    found = [(message[:1], [g[0] for g in orjson.loads(message[1:])]) for message in pair.messages()]
    assert found == [(b"L", [1]), (b"G", [2, 4]), (b"G", [5]), (b"L", [6])]
    pair.lease_batches((7, 0, [7]))
    assert [message[:1] for message in pair.messages()] == [b"L"]


def test_a_batch_that_is_longer_than_a_frame_arrives_whole(pair: Pair) -> None:
    item = "x" * (limits.FRAME_BYTES_MAX // 4)
    pair.lease_batches((1, 5, [item] * 6), (7, 5, [item]))
    (message,) = pair.messages()
    batch = gathered(orjson.loads(message[1:]), True)
    assert (batch.serial, len(batch.items), batch.attempts) == (1, 7, [1] * 7)
    assert batch.runs == [(5, "run-1")] * 6 + [(5, "run-7")]
    assert batch.nodes == [0, 1, 2, 3, 4, 5, 0]


def test_what_was_printed_is_there_with_the_result_although_the_loop_has_not_looked(pair: Pair) -> None:
    assert not pair.post.has_printed()
    os.write(pair.output_fd, b"\0\0013\0a line")
    assert pair.post.has_printed()
    assert pair.post.output.peek(3) == "a line"
    assert pair.post.has_printed(), "for good"
