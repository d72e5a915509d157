"""Posts: the engine's end of a link to one peer, with what could not be sent yet.

`WorkerPost` adds the lease table and the captured output of one worker process. Bounded: a worker is never owed more
than its leases (`PREFETCH_MAX` and slots); a face that does not read is `crowded`, and nothing it submits is read.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

import orjson

from actors.protocol import limits
from actors.protocol.effects import AskResults, DrainWorker, LeaseWork
from actors.protocol.places import packed, unpacked
from runtime.host.output import OutputCollector
from runtime.mail.lease_table import LeaseTable
from runtime.mail.link import Link
from runtime.mail.pieces import in_pieces

OUTPUT_READ_BYTES = 65_536
"""Output taken from a worker's pipe in one turn."""
OUTPUT_READS_MAX = 64
"""Reads that empty a full pipe: more is being printed right now, and comes with the next turn."""
_ITEMS: Final = 6
"""Place of the items in a group of leases."""


class Post:
    """A link and its backlog."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.backlog_bytes = 0
        self._control: deque[bytes] = deque()
        self._work: deque[bytes] = deque()

    @property
    def clear(self) -> bool:
        """Whether all that was given is in the rings."""
        return not self._work and not self._control

    @property
    def crowded(self) -> bool:
        """Whether the peer takes so little that it should be given less."""
        return self.backlog_bytes > limits.POST_BACKLOG_BYTES_MAX

    def send(self, payload: bytes, *, control: bool = False) -> None:
        """Send, or keep until there is room; order is kept within a lane."""
        backlog = self._control if control else self._work
        if backlog or not self.link.send(payload, control=control):
            backlog.append(payload)
            self.backlog_bytes += len(payload)
            self.link.want_room()

    def flush(self) -> None:
        """Send what is kept, as far as there is room in its lane."""
        if self._control:
            self._flush(self._control, control=True)
        if self._work:
            self._flush(self._work, control=False)

    def _flush(self, backlog: deque[bytes], *, control: bool) -> None:
        while backlog:
            if not self.link.send(backlog[0], control=control):
                self.link.want_room()
                return
            self.backlog_bytes -= len(backlog.popleft())


class WorkerPost(Post):
    """All that the engine holds of one worker process."""

    def __init__(self, worker: int, node_type: dict[str, Any], link: Link, table: LeaseTable, output_fd: int) -> None:
        super().__init__(link)
        self.worker = worker
        self.node_type = node_type
        self.is_async = node_type["mode"] == "asyncio"
        self.table = table
        self.output = OutputCollector()
        self.prints = False
        self.output_fd = output_fd
        self.pid = 0
        self.known_kinds: set[int] = set()
        self.leases: list[LeaseWork] = []
        self.batched = False

    def say(self, effect: AskResults | DrainWorker) -> None:
        """Ask for results soon or by the batch, or tell it to end when its task is done."""
        if type(effect) is AskResults:
            self.table.ask_results(effect.wanted)
        else:
            self.send(b"X[]", control=True)

    def lease(self, effect: LeaseWork) -> None:
        """Enter the leases in the table; they are sent with the others of this turn by `send_leases`."""
        self.table.grant(effect.serial, len(effect.nodes))
        kind = effect.kind
        if kind.no not in self.known_kinds:
            self.known_kinds.add(kind.no)
            self.send(b"K[%d,%s]" % (kind.no, kind.text))
        self.leases.append(effect)
        if effect.batch:
            self.batched = True

    def send_leases(self) -> None:
        """Send the work of this turn as one frame, or several where it would be too large."""
        if not self.leases:
            return
        groups: list[list[Any]] = [
            [e.serial, e.run.no, e.run.key, e.kind.no, packed(e.nodes), e.attempts or 0, e.items, e.kind.priority]
            for e in self.leases
        ]
        for group, lease in zip(groups, self.leases, strict=True):
            if ends := lease.run.rare.deadlines:
                group.append([ends.get(node, 0) for node in lease.nodes])
            if lease.run.name:
                group.append(lease.run.name)
        if self.batched:
            self.batched = False
            send_with_batches(self, [e.batch for e in self.leases], groups)
        else:
            self.send_groups(groups)
        self.leases = []

    def send_groups(self, groups: list[list[Any]]) -> None:
        frame = b"L" + orjson.dumps(groups)
        if len(frame) <= limits.FRAME_BYTES_MAX:
            self.send(frame)
        elif len(groups) > 1:
            half = len(groups) // 2
            self.send_groups(groups[:half])
            self.send_groups(groups[half:])
        elif len(groups[0][_ITEMS]) > 1:
            self.send_groups(_halved(groups[0]))
        else:  # a single task that takes the results of very many parents
            for piece in in_pieces(frame):
                self.send(piece)

    def output_came(self) -> None:
        """The worker printed something: take a bounded part of it now."""
        self._read_output()

    def has_printed(self) -> bool:
        """Whether the worker ever printed. Before it did, this looks: the loop, which tells of output, may be behind
        the results, which are taken without it."""
        if not self.prints:
            self._read_output()
        return self.prints

    def drain_output(self) -> None:
        """Take all that is in the pipe now."""
        for _ in range(OUTPUT_READS_MAX):
            if not self._read_output():
                return

    def _read_output(self) -> bool:
        try:
            data = os.read(self.output_fd, OUTPUT_READ_BYTES)
        except (BlockingIOError, OSError):
            return False
        if data:
            self.prints = True
            self.output.feed(data)
        return len(data) == OUTPUT_READ_BYTES

    def close(self) -> None:
        """Release memory and descriptors."""
        self.link.close()
        self.table.close()
        os.close(self.output_fd)


def send_with_batches(post: WorkerPost, batches: list[int], groups: list[list[Any]]) -> None:
    """Send groups of which some belong to batches: each batch as a frame of its own, in the order of their serials."""
    rest: list[list[Any]] = []
    for no, members in groupby(range(len(groups)), key=batches.__getitem__):
        found = [groups[at] for at in members]
        if not no:
            rest += found
            continue
        if rest:
            post.send_groups(rest)
            rest = []
        for piece in in_pieces(b"G" + orjson.dumps(found)):
            post.send(piece)
    if rest:
        post.send_groups(rest)


def _halved(group: list[Any]) -> list[list[Any]]:
    """One group of several tasks as two."""
    serial, run_no, key, kind_no, nodes, attempts, items, lane, *ends = group
    nodes = unpacked(nodes, len(items))
    half = len(items) // 2

    def part(start: int, stop: int) -> list[Any]:
        tries: Sequence[int] | int = attempts[start:stop] if attempts else 0
        late = [column if type(column) is str else column[start:stop] for column in ends]
        return [serial + start, run_no, key, kind_no, packed(nodes[start:stop]), tries, items[start:stop], lane, *late]

    return [part(0, half), part(half, len(items))]
