"""One process on both sides of a link: what the bytes cost, without waking anyone."""

from __future__ import annotations

from collections.abc import Iterator

from bench.micro.timing import Operation
from runtime.mail.lease_table import LeaseTable
from runtime.mail.link import Link, create_link

FRAME = b"x" * 150
BATCH = 64


def operations() -> Iterator[Operation]:
    """Frames through a link, singly and in batches; leases granted and claimed."""
    yield from _link()
    yield from _leases()


def _link() -> Iterator[Operation]:
    ends = create_link()
    other = ends.dup()
    near, far = Link(ends, "a"), Link(other, "b")
    frames = [FRAME] * BATCH

    def one() -> None:
        near.send(FRAME)
        far.receive()

    def many() -> None:
        near.send_many(frames)
        far.receive()

    def singly() -> None:
        for frame in frames:
            near.send(frame)
        far.receive()

    try:
        yield Operation("150 bytes: send, receive", one)
        yield Operation(f"{BATCH} sends, one receive, per frame", singly, BATCH)
        yield Operation(f"send_many of {BATCH}, receive, per frame", many, BATCH)
    finally:
        near.close()
        far.close()


def _leases() -> Iterator[Operation]:
    table = LeaseTable(LeaseTable.create())
    serial = 1

    def grant_and_claim(count: int) -> None:
        nonlocal serial
        table.grant(serial, count)
        table.claim(serial, count)
        serial += count

    try:
        yield Operation("grant and claim one lease", lambda: grant_and_claim(1))
        yield Operation(f"grant and claim {BATCH} leases, per lease", lambda: grant_and_claim(BATCH), BATCH)
    finally:
        table.close()
