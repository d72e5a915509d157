"""What it costs to show how far runs are, and to look: `mail.board` and the counts of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Final

from actors.run import Run
from bench.micro.queues import kind_of
from bench.micro.timing import Operation
from runtime.mail.board import SLOTS, BoardReader, BoardRow, BoardWriter, create_board, run_key

CHUNK: Final = 4_096
"""Nodes of a chunk of a map."""
SHOWN: Final = 10
"""How often such a chunk was shown in a map of half a million no-op tasks."""


def operations() -> Iterator[Operation]:
    """Write, look on a board with one run and on a full one, count, and all of it for a chunk of a map."""
    fd = create_board("micro")
    writer, reader = BoardWriter(os.dup(fd)), BoardReader(fd)
    writer.sweep()
    writer.begin()
    row = BoardRow(1, (1, 2, 3, 4, 5, 6, 7), 8, 9)
    key = run_key("run-0")
    slot = writer.place(key, row)
    small, chunk = (Run.of_tasks(1, "s-1", "s", 1, 1, [kind_of()], None, [None] * size) for size in (100, CHUNK))
    try:
        yield Operation("one run shown", partial(writer.write, slot, key, row))
        yield Operation("one run looked for", partial(reader.run, "run-0"))
        for number in range(1, SLOTS):
            writer.place(run_key(f"run-{number}"), row)
        yield Operation("the last of 4,096 runs looked for", partial(reader.run, f"run-{SLOTS - 1}"))
        yield Operation("counts of 100 nodes", small.counts)
        yield Operation("counts of 4,096 nodes", chunk.counts)

        def show() -> None:
            for _ in range(SHOWN):
                writer.write(slot, key, BoardRow(1, tuple(chunk.counts()), 8, 9))

        yield Operation("a chunk of a map shown ten times, per node", show, CHUNK)
    finally:
        writer.close()
        reader.close()
        os.close(fd)
