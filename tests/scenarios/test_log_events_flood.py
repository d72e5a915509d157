"""A flood of subscribers beside an engine that is full: whoever is slow, raises or is stopped harms itself alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import Event, NodeType, Runtime
from runtime.errors import SubscriberTooSlow
from tests.scenarios.processes import ROOT, OwnFamily
from tests.scenarios.waiting import stopped, until

pytestmark = pytest.mark.slow

PATIENCE_S: Final = 120.0
TASKS: Final = 4_000
TOLD: Final = "node.succeeded"
POLICIES: Final[list[dict[str, Any]]] = [
    {},
    {},
    {"when_full": "drop_oldest", "holds": 100},
    {"when_full": "latest", "key": "node", "holds": 100},
    {"when_full": "disconnect", "holds": 100},
]
"""Each of ten subscribers."""


class Reader(threading.Thread):
    """Reads a stream to the last event of the flood, or to the end that its policy makes."""

    def __init__(self, events: Any, last: threading.Event, *, sees_all: bool) -> None:
        super().__init__(daemon=True)
        self.events, self.last = events, last
        self.patience_s = PATIENCE_S if sees_all else 0.05
        self.seen: list[Event] = []
        self.too_slow = False

    def run(self) -> None:
        try:
            while len(self.seen) < TASKS:
                event = self.events.get(self.patience_s)
                if event is not None:
                    self.seen.append(event)
                elif self.last.is_set():
                    return
        except SubscriberTooSlow:
            self.too_slow = True


@contextmanager
def outside(state_dir: Path, lines: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that follows the folder, and prints what happens."""
    command = [sys.executable, "-m", "runtime", "events", str(state_dir), "--follow", "--kind", TOLD, "--json"]
    with lines.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--since", "begin"], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=file
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()


def refuse(event: Event) -> None:
    raise ValueError(f"I take no {event.kind}")


def test_fifty_subscribers_and_nobody_is_harmed_by_another(state_dir: Path, tmp_path: Path) -> None:
    last = threading.Event()
    lines = tmp_path / "lines"
    with ExitStack() as stack:
        rt = stack.enter_context(Runtime(state_dir, node_types=[NodeType("default", workers=2)]))
        engine = OwnFamily(rt).engine
        rt.submit(abs, -1).result(PATIENCE_S)
        frozen = stack.enter_context(outside(state_dir, lines))
        until(lambda: lines.read_bytes().count(b"\n") == 1, "the first event outside")
        os.kill(frozen.pid, signal.SIGSTOP)
        until(lambda: stopped(frozen.pid), "the process to stop")
        streams = [stack.enter_context(rt.events(TOLD, **policy)) for policy in POLICIES for _ in range(10)]
        asleep = stack.enter_context(rt.events(TOLD))
        raising = rt.subscribe("raising", TOLD)
        raiser = threading.Thread(
            target=raising.run, args=(refuse,), kwargs={"attempts": 2, "pause": 30.0}, daemon=True
        )
        raiser.start()
        readers = [Reader(stream, last, sees_all=at < 20) for at, stream in enumerate(streams)]
        for reader in readers:
            reader.start()
        assert list(rt.map(abs, range(TASKS))) == list(range(TASKS))
        assert rt.submit(abs, -7).result(PATIENCE_S) == 7, "the engine is as quick as before"
        last.set()
        for reader in readers:
            reader.join(PATIENCE_S)
            assert not reader.is_alive()
        assert OwnFamily(rt).engine == engine
        whole = [event for event in rt.events(TOLD, since="begin", follow=False) if event.run is not None]
        for at, reader in enumerate(readers):
            figures = reader.events.statistics()
            assert [*reader.seen] == sorted(reader.seen), "in order, each once"
            assert figures.read == figures.delivered + figures.dropped + figures.held or reader.too_slow
            if at < 20:
                assert reader.seen == whole[1 : TASKS + 1], "who is told all is told all"
        assert asleep.get(PATIENCE_S) == whole[1], "who slept finds it where it was"
        raising.close()
        raiser.join(PATIENCE_S)
        assert not raiser.is_alive()
        os.kill(frozen.pid, signal.SIGCONT)
        until(lambda: lines.read_bytes().count(b"\n") == TASKS + 2, "all that happened meanwhile", PATIENCE_S)
        told = [json.loads(line) for line in lines.read_bytes().splitlines()]
        assert [(event["lsn"], event["place"]) for event in told] == [(event.lsn, event.place) for event in whole]
