"""Boot of a worker process: from descriptors to a running mode.

Entered by the spawner's fork as `run(config, fds, lifeline)`.

Config keys: `worker` (id), `node_type` (wire form: `name`, `mode`, `slots`, `niceness`), `blobs` (folder for large
values, or None), `fsync` (whether they are made durable), `node_type_names` (all of the runtime; the first stands in
for the default one), `main` (path of the host's main script, or None). Descriptors: those of the link, then the lease
table, then the write end of the output pipe.

A boot that fails says so with a W frame and ends; the handlers' modules are not part of it (see `handlers`).
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import orjson

from runtime.host import kernel
from runtime.host.handlers import ROLE, LazyMain
from runtime.host.output import CapturedStreams
from runtime.host.station import Station
from runtime.host.worker_process import ProcessWorker
from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec
from runtime.mail.lease_table import CURRENT, LeaseTable
from runtime.mail.link import Link, LinkEnds
from runtime.profile.ledger.origins import ORIGINS
from runtime.profile.sampling import always

GC_THRESHOLD: Final = (10_000, 10, 10)
"""A collection for each 10,000 new objects that are still there, in place of 700: some hundred tasks of a loop, while
they wait, have as many, and each collection in between looks at them and finds nothing."""


def run(config: dict[str, Any], fds: list[int], lifeline: int) -> None:
    """Serve until told to drain. Returns after the last word was said."""
    entered_ns = time.monotonic_ns()
    ROLE.worker = True
    link = Link(LinkEnds.from_fds(fds[:-2]), "b")
    try:
        station = _station(config, link, fds[-2], fds[-1])
    except BaseException as broken:
        link.send(b"W" + orjson.dumps([f"{type(broken).__name__}: {broken}"]), control=True)
        raise
    _settle_memory()
    kernel.step_back(config["node_type"].get("niceness", 0))
    kernel.adopt_orphans()
    always.begin(signal=config["node_type"].get("profile_signal", True))
    ORIGINS.install()
    if config.get("main"):
        LazyMain.install(config["main"])
    booted_ns = time.monotonic_ns() - entered_ns
    if config["node_type"]["mode"] == "asyncio":
        from runtime.host.worker_async import AsyncWorker  # lazy: brings asyncio, which mode "process" does without

        AsyncWorker(station, lifeline).run(booted_ns)
    else:
        ProcessWorker(station, lifeline).run(booted_ns)
    _leave(station)


def _settle_memory() -> None:
    """Collector settings of this role. What is there now was frozen before the fork."""
    gc.set_threshold(*GC_THRESHOLD)


def _station(config: dict[str, Any], link: Link, table_fd: int, output_fd: int) -> Station:
    table = LeaseTable(table_fd)
    streams = CapturedStreams(output_fd, _serial_now(config, table))
    with suppress(OSError, ValueError):
        faulthandler.enable(file=sys.__stderr__ or 2)
    folder = config.get("blobs")
    blobs = BlobStore(folder, fsync=bool(config.get("fsync", True))) if folder else None
    return Station(config, link, table, streams, Codec(blobs))


def _serial_now(config: dict[str, Any], table: LeaseTable) -> Callable[[], int]:
    """How to know whose output it is: by context variable in mode "asyncio", else by what runs."""
    if config["node_type"]["mode"] == "asyncio":
        from runtime.host.worker_async import SERIAL  # lazy: brings asyncio, which mode "process" does without

        return SERIAL.get
    words = table.words
    return lambda: words[CURRENT]


def _leave(station: Station) -> None:
    """Orderly end: what user code registered with `atexit` runs, then the engine is told, then the process is gone.

    Threads that handlers left behind are not waited for.
    """
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    with suppress(BaseException):
        getattr(atexit, "_run_exitfuncs", lambda: None)()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()
    station.tell(b"B", [])
    os._exit(0)
