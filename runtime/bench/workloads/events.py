"""Scenario `events`: what happens, told to a subscriber in this program: live, again, and from any record on.

- delivered: the events of a map that was run, from its first record on, through `rt.events(...).batches()`, to one
  subscriber, which looks at each. The rate of the scenario; a task is an event.
- live: how long after its task ended the event of a single task is there (p50, p99). The way of a result is in it:
  worker, engine, log (durable in the page cache, because `fsync` measures the disk), and the way to this program; so it
  is more than what follows on being durable.
- beside: the same map again with a subscriber that follows: when the last event came after the last result.
- replay: all that a folder's log tells, of all kinds, with what follows (ends of runs): a map, a graph of layers, and
  single tasks, `--tasks` of each; each log by itself.
- start: the first event, from a record somewhere in a log of `RECORDS_MAX` records, a task each; of fewer with fewer
  `--tasks`.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from actors.protocol.records import LSN_FIRST, Record, RecordType
from runtime import Runtime
from runtime.bench import session
from runtime.bench.figures import BenchError, Sample
from runtime.bench.handlers import burn_stamp, increment
from runtime.bench.measure import MeasuredWindow, percentile
from runtime.bench.workloads.base import SECONDS_MAX, Scenario, Setup, check_equal
from runtime.bench.workloads.graphs import layered
from runtime.event_filter import filter_of
from runtime.event_reader import EventReader
from runtime.event_stream import EventStream
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.openings import Opening, note_opening
from runtime.storage.reader import read_log
from runtime.storage.wal import LogWriter

RECORDS: Final = 50
"""Of the long log, for each of `--tasks`,"""
RECORDS_MAX: Final = 10_000_000
"""and no more: they take a quarter of a minute to write, and 0.8 GB. That many are there by default."""
NODES_EACH: Final = 256
"""Tasks of a bundle of the long log."""
WRITE_RECORDS: Final = 4_096
NOW_NS: Final = 1_000_000_000
WALL_NS: Final = 1_800_000_000_000_000_000
BATCH: Final = 1_000
PROBES: Final = 200
PROBES_SMOKE: Final = 5
WIDTH: Final = 1_000
TOLD: Final = "node.succeeded"


class EventsScenario(Scenario):
    """Events a second to one subscriber, their latency, and where reading may begin."""

    name = "events"
    title = "events delivered to a subscriber, live, replayed, from any record on; a task is an event"
    tasks_default = 200_000
    tasks_smoke = 2_000
    durability_default = "os"

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"workers": setup.workers, "batch": BATCH, "records": _records_of(setup), "probes": _probes(setup)}

    def run(self, setup: Setup) -> Sample:
        extra: dict[str, float] = {}
        with session.open_runtime(setup) as runtime:
            delivered = _delivered(runtime, setup)
            latencies_ns = _live(runtime, setup)
            _beside(runtime, setup, extra)
        _replays(setup, extra)
        _starts(setup, extra)
        return delivered.sample(setup.tasks, latencies_ns, **extra)


def _records_of(setup: Setup) -> int:
    return min(RECORDS * setup.tasks, RECORDS_MAX)


def _probes(setup: Setup) -> int:
    return PROBES_SMOKE if setup.smoke else PROBES


# --- a subscriber of a running engine -----------------------------------------------------------------------------


def _delivered(runtime: Runtime, setup: Setup) -> MeasuredWindow:
    """From the first record of a map that is over to its last."""
    with runtime.events(TOLD) as events:
        first = events.statistics().next_lsn
    _map(runtime, setup.tasks)
    with runtime.events(TOLD, since=first) as events, MeasuredWindow(session.members(runtime)) as window:
        seen = _count(events, setup.tasks)
    check_equal(seen, setup.tasks, "delivered")
    return window


def _count(events: EventStream, least: int) -> int:
    """Look at so many events."""
    seen = 0
    for batch in events.batches(BATCH):
        for event in batch:
            seen += event.kind == TOLD
        if seen >= least:
            break
    return seen


def _live(runtime: Runtime, setup: Setup) -> list[int]:
    """From the end of a task to its event, for some tasks one after the other."""
    found: list[int] = []
    with runtime.events(TOLD) as events:
        for number in range(_probes(setup)):
            handle = runtime.submit(burn_stamp, 0, number)
            event = events.get(SECONDS_MAX)
            now_ns = time.monotonic_ns()
            value, ended_ns = handle.result(SECONDS_MAX)
            check_equal([event and event.run, value], [handle.run_id, number], "live")
            found.append(now_ns - ended_ns)
    return found


def _beside(runtime: Runtime, setup: Setup, extra: dict[str, float]) -> None:
    """A map, and who follows it."""
    ended: list[int] = []
    with runtime.events(TOLD) as events:
        follower = threading.Thread(target=lambda: ended.extend([_count(events, setup.tasks), time.perf_counter_ns()]))
        follower.start()
        begun_ns = time.perf_counter_ns()
        _map(runtime, setup.tasks)
        result_ns = time.perf_counter_ns()
        follower.join(SECONDS_MAX)
    if not ended:
        raise BenchError(f"who followed had not seen {setup.tasks:,} events after {SECONDS_MAX:.0f} s")
    check_equal(ended[0], setup.tasks, "beside")
    extra["beside_per_second"] = setup.tasks / (ended[1] - begun_ns) * 1e9
    extra["beside_late_ms"] = (ended[1] - result_ns) / 1e6


def _map(runtime: Runtime, tasks: int) -> None:
    found = list(runtime.map(increment, range(tasks)))
    check_equal(found, list(range(1, tasks + 1)), "map")


# --- logs that are there ------------------------------------------------------------------------------------------


def _replays(setup: Setup, extra: dict[str, float]) -> None:
    """All events of three logs."""
    tasks, width = setup.tasks, min(WIDTH, max(1, setup.tasks // 4))
    graph = layered(max(2, tasks // width), width, 3)

    def dag(runtime: Runtime) -> int:
        check_equal(session.run_flow(runtime, session.flow_of(graph, "events")), session.expected_results(graph), "dag")
        return len(graph)

    def single(runtime: Runtime) -> int:
        handles = [session.submit_soon(runtime, increment, number) for number in range(tasks)]
        check_equal([handle.result(SECONDS_MAX) for handle in handles], list(range(1, tasks + 1)), "tasks")
        return tasks

    def mapped(runtime: Runtime) -> int:
        _map(runtime, tasks)
        return tasks

    for name, fill in (("map", mapped), ("dag", dag), ("tasks", single)):
        with tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=setup.folder) as parent:
            folder = Path(parent) / "state"
            with session.open_folder(folder, setup) as runtime:
                nodes = fill(runtime)
            extra[f"replay_{name}_per_second"] = _replay(folder, nodes)


def _replay(folder: Path, nodes: int) -> float:
    """Events a second of all kinds, of a log in which so many nodes succeeded."""
    seen = ends = 0
    begun_ns = time.perf_counter_ns()
    with EventStream(EventReader(folder, filter_of()), follow=False) as events:
        for batch in events.batches(BATCH):
            seen += len(batch)
            for event in batch:
                ends += event.kind == TOLD
    elapsed_ns = time.perf_counter_ns() - begun_ns
    check_equal(ends, nodes, "replay")
    return seen / elapsed_ns * 1e9


def _starts(setup: Setup, extra: dict[str, float]) -> None:
    """Opening somewhere in a long log, and the first event there."""
    opening, first = list[int](), list[int]()
    records = _records_of(setup)
    with long_log(setup.folder, records) as folder:
        wanted = filter_of(TOLD)
        choose = random.Random(records)
        for _ in range(_probes(setup)):
            lsn = choose.randrange(LSN_FIRST + 1, records)
            begun_ns = time.perf_counter_ns()
            with EventReader(folder, wanted, lsn) as reader:
                opening.append(time.perf_counter_ns() - begun_ns)
                (event, *_) = reader.read()
                first.append(time.perf_counter_ns() - begun_ns)
            if not lsn <= event.lsn <= lsn + 1:  # the record with this LSN may be a submission
                raise BenchError(f"reading from LSN {lsn} began with {event}")
    extra["start_p50_ms"] = percentile(opening, 0.50) / 1e6
    extra["start_p99_ms"] = percentile(opening, 0.99) / 1e6
    extra["first_event_p50_ms"] = percentile(first, 0.50) / 1e6
    extra["first_event_p99_ms"] = percentile(first, 0.99) / 1e6


@contextmanager
def long_log(parent: Path, records: int) -> Iterator[Path]:
    """A state folder whose log has so many records, as an engine writes them: bundles, and each task's end alone."""
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-", dir=parent) as name:
        path = Path(name) / "state"
        with StateFolder.open(path) as folder:
            note_opening(folder.path, Opening(LSN_FIRST, NOW_NS, WALL_NS))
            reader = read_log(folder.log, DiskFiles())
            for _ in reader:
                pass
            writer = LogWriter(folder.log, DiskFiles(), reader.report())
            batch: list[Record] = []
            for record in _records(records):
                batch.append(record)
                if len(batch) == WRITE_RECORDS:
                    writer.write(batch, sync=False)
                    batch = []
            writer.write(batch, sync=False)
            writer.close()
        yield path


def _records(count: int) -> Iterable[Record]:
    now_ns, wall_ns, lsn, run = NOW_NS, WALL_NS, LSN_FIRST, 0
    opened = {"pid": 1, "durability": "os", "node_types": [], "policy": None}
    opened |= {"now_ns": now_ns, "wall_ns": wall_ns, "next_run_no": 1}
    yield Record(lsn, RecordType.OPENED, orjson.dumps(opened))
    kind = {"name": "increment", "handler": "h:increment", "node_type": session.NODE_TYPE, "shape": "one"}
    while lsn < LSN_FIRST + count - 1:
        lsn, run = lsn + 1, run + 1
        rows = [[(run - 1) * NODES_EACH + node + 1, 1, 0] for node in range(NODES_EACH)]
        body = orjson.dumps(["s", run, wall_ns + lsn, [[1, kind]], rows])
        yield Record(lsn, RecordType.SUBMITTED, b"T" + body)
        for node in range(min(NODES_EACH, LSN_FIRST + count - 1 - lsn)):
            lsn += 1
            yield Record(lsn, RecordType.COMPLETED, b"[1,[[%d,%d,[%d],[7],%d,[20]]]]" % (lsn, run, node, now_ns + lsn))
