"""Runs in the middle of their lives, for what is measured of their state alone: no process, no clock, no disk.

`Lives` holds many runs of layered graphs at once, each at another place of its life, and moves all of them on by so
many nodes. A run is there twice: as the engine has it (`actors.run`), and as rows, one for each node, which is how a
program without columns would have it. A result is what a step of a business says: an id, numbers, words.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder
from actors.run import Run
from actors.scheduler import Scheduler
from actors.timing import keep_frame
from runtime.bench.figures import BenchError

WIDTH: Final = 10
PARENTS: Final = 3
START_NS: Final = 1_750_000_000_000_000_000
NODE_NS: Final = 1_000_000_000
PID: Final = 4_711
WORDS: Final = "copper silver iron tin lead zinc gold nickel cobalt chromium".split()


class Life(NamedTuple):
    """One run: as the engine has it, as rows, the rows that changed when it moved on last, and the nodes that ended."""

    run: Run
    rows: list[dict[str, Any]]
    changed: list[int]
    ended: list[int]


class Lives:
    """See the module.

    Args:
        runs: How many.
        nodes: How many each of them has.
        seed: Of the results.
    """

    def __init__(self, runs: int, nodes: int, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._now_ns = 0
        self.scheduler = Scheduler(["default"])
        self.lives = [self._life(no, nodes) for no in range(1, runs + 1)]
        for at, life in enumerate(self.lives):
            self._advance(life, nodes * at // (2 * runs))

    def move_on(self, nodes: int, passed_ns: int) -> None:
        """So many nodes of each run end, and so much time has passed."""
        self._now_ns += passed_ns
        for life in self.lives:
            self._advance(life, nodes)

    def _life(self, no: int, nodes: int) -> Life:
        builder, rows = GraphBuilder(), []
        for node in range(nodes):
            first = node - node % WIDTH - WIDTH
            parents = sorted(self._random.sample(range(first, first + WIDTH), PARENTS)) if first >= 0 else []
            item = {"part": node, "of": f"{self._random.choice(WORDS)}-{self._random.randrange(1000)}"}
            builder.add(0, parents, item=orjson.dumps(item))
            rows.append(
                {
                    "id": str(node),
                    "handler": "shop.orders:step",
                    "state": "pending" if parents else "ready",
                    "parents": parents,
                    "item": item,
                    "result": None,
                    "attempt": 0,
                    "pid": 0,
                    "started_ns": 0,
                    "ended_ns": 0,
                }
            )
        kind = {"handler": "shop.orders:step", "node_type": "default", "shape": "mixed"}
        header, columns = decode(encode(builder.finish(), {"kinds": [kind]}))
        run = Run.of_graph(no, f"run-{no}", "s", no, START_NS, self.scheduler.interned(header["kinds"]), columns)
        run.roots()
        run.tally = None
        return Life(run, rows, [], [])

    def _advance(self, life: Life, nodes: int) -> None:
        """The next nodes end, in order, two at a time, as two workers return them."""
        run, rows, changed, ended = life
        changed.clear()
        ended.clear()
        done = run.size - run.open
        while nodes and done < run.size:
            row_ends = done - done % WIDTH + WIDTH  # what is in the next row waits for what is in this one
            batch = range(done, min(done + min(nodes, 2), row_ends, run.size))
            values = [self._result() for _ in batch]
            started_ns = self._now_ns + self._random.randrange(NODE_NS)
            ends = [NODE_NS + self._random.randrange(NODE_NS // 10) for _ in batch]
            raw = orjson.dumps([PID, [[0, run.no, list(batch), values, started_ns, ends]]])
            keep_frame(run, START_NS, raw, batch, len(raw))
            ready = run.succeed(batch, values)
            for node, value, end in zip(batch, values, ends, strict=True):
                begins = START_NS + started_ns
                rows[node] |= {"state": "succeeded", "result": value, "attempt": 1, "pid": PID}
                rows[node] |= {"started_ns": begins, "ended_ns": begins + end}
            for node in ready:
                rows[node]["state"] = "ready"
            changed += [*batch, *ready]
            ended += batch
            done, nodes = done + len(batch), nodes - len(batch)
        changed[:] = sorted(set(changed))

    def _result(self) -> dict[str, Any]:
        draw = self._random
        return {
            "order": f"{draw.getrandbits(64):016x}",
            "sum": draw.randrange(1_000_000),
            "mean": round(draw.random(), 4),
            "of": [draw.choice(WORDS) for _ in range(6)],
            "checked": True,
            "warehouse": f"{draw.choice(WORDS)}-{draw.randrange(20)}",
        }


def check_rows(rows: Sequence[dict[str, Any]], life: Life, what: str) -> None:
    """Raise BenchError unless these rows tell of the same states and results as the run's own."""
    for found, expected in zip(rows, life.rows, strict=True):
        if any(found[name] != expected[name] for name in ("state", "result")):
            raise BenchError(f"{what}: node {expected['id']} of {life.run.key} is {found!r} instead of {expected!r}")
