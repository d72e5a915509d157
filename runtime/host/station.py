"""A worker's place of work: its queue to the engine, its lease table, what it knows of kinds, and what it has to say.

Shared by both modes (`worker_process`, `worker_async`), which differ in how handlers are run. What to do next is
decided by `actors.worker.WorkerDesk`; here its decisions become claims and frames.

Concurrency: the main thread receives and claims. Sending, and everything in the pile but the columns of an open span,
is under `lock`, because the housekeeper and threads of handlers (progress, log) send too.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

import orjson

from actors.protocol.control_signals import AttemptCancelled, AttemptTimeout, ControlSignal, SkipNode, WaitsForCalls
from actors.protocol.errors import CallerError, PayloadError, ProtocolError
from actors.protocol.places import unpacked
from actors.protocol.states import FailureKind
from actors.worker import STOP_KINDS, WorkerDesk, WorkGroup
from runtime.host.handlers import Handler, load
from runtime.host.housekeeping import DeadChildren, ResidentMemory
from runtime.host.output import CapturedStreams
from runtime.host.results import Place, ResultPile, ResultSpan
from runtime.mail.codec import Codec
from runtime.mail.failure import failure_of
from runtime.mail.lease_table import LeaseTable, WorkerPulse
from runtime.mail.link import Link
from runtime.mail.pieces import PieceJoiner
from runtime.profile.ledger.origins import ORIGINS
from runtime.profile.presence.here import HERE
from runtime.profile.sampling.labels import AttemptLabels

PULSE_NS: Final = 100_000_000
"""Between two looks at the own memory."""
_ROOM_S: Final = 1.0
"""A sender that waits for room looks again after this time, whatever it heard."""
_WAITS: Final = {"kind": str(FailureKind.WAITS), "type": "", "message": "", "traceback": ""}
_STOP_SIGNALS: Final[dict[int, tuple[type[ControlSignal], str]]] = {
    1: (AttemptCancelled, "the attempt was cancelled"),
    2: (AttemptTimeout, "the attempt ran over its timeout"),
    3: (AttemptTimeout, "the attempt ran over the deadline of its task"),
}


def stop_signal(reason: int) -> ControlSignal:
    """What is raised in a handler, by the reason of the stop request."""
    kind, text = _STOP_SIGNALS.get(reason, _STOP_SIGNALS[1])
    return kind(text)


class PayloadRefused(Exception):
    """Arguments cannot be read or a result cannot be stored; its cause says why. Never leaves the worker."""


class Station:
    """See the head of the file."""

    def __init__(
        self, config: dict[str, Any], link: Link, table: LeaseTable, streams: CapturedStreams, codec: Codec
    ) -> None:
        self.config = config
        self.link = link
        self.table = table
        self.streams = streams
        self.codec = codec
        self.lock = threading.Lock()
        self.desk = WorkerDesk()
        self.pid = os.getpid()
        self.pile = ResultPile(self.pid, codec)
        self.open_span: ResultSpan | None = None
        self.tasks_done = 0
        self.busy_ns = 0
        self.dead_children = DeadChildren()
        self._memory = ResidentMemory()
        self._rss_bytes = 0
        self._pulse_ns = 0
        self._is_measured = config["node_type"].get("recycle_rss_bytes") is not None
        self._joiner = PieceJoiner()
        self._kinds: dict[int, dict[str, Any]] = {}
        self._handlers: dict[int, Handler] = {}

    # --- what arrives ---------------------------------------------------------------------------------------------

    def take_mail(self) -> list[tuple[int, int]]:
        """Take in what has arrived, without waiting. Returns stop requests (serial, reason)."""
        control, work = self.link.receive()
        for frame in work:
            self._work(frame)
        stops: list[tuple[int, int]] = []
        for frame in control:
            letter, body = frame[:1], orjson.loads(frame[1:])
            if letter == b"C":
                stops.append((body[0], body[1]))
                self.desk.stop(*body)
            elif letter == b"X":
                self.desk.drain()
            else:
                raise ProtocolError(f"unknown control frame {letter!r} from the engine")
        return stops

    def _work(self, frame: bytes) -> None:
        message = self._joiner.whole(frame)
        if message is None:
            return
        letter, body = message[:1], orjson.loads(memoryview(message)[1:])
        if letter == b"L":
            plain, accept = Codec.plain(message), self.desk.accept
            for serial, run_no, run_key, kind_no, nodes, attempts, items, lane, *ends in body:
                nodes = unpacked(nodes, len(items))
                group = WorkGroup(serial, run_no, run_key, kind_no, nodes, attempts or None, items, plain, lane)
                for more in ends:
                    if type(more) is str:
                        group.workflow = more
                    else:
                        group.ends_ns = more
                accept(group)
        elif letter == b"G":
            self.desk.accept(gathered(body, Codec.plain(message)))
        elif letter == b"K":
            self._kinds[body[0]] = body[1]
            self._handlers.pop(body[0], None)
        else:
            raise ProtocolError(f"unknown work frame {letter!r} from the engine")

    # --- handlers -------------------------------------------------------------------------------------------------

    def known_handler(self, kind_no: int) -> Handler | None:
        """The handler of a kind, if it was found before."""
        return self._handlers.get(kind_no)

    def find_handler(self, kind_no: int) -> Handler:
        """Find the handler of a kind, importing its module. Runs user code; raises what that raises."""
        modules = len(sys.modules)
        handler = self._handlers[kind_no] = load(self._kinds[kind_no])
        if len(sys.modules) != modules:
            gc.freeze()  # what an import made stays: no collection looks at it again
            ORIGINS.look()
        return handler

    def scope(self, group: WorkGroup, at: int) -> AttemptLabels:
        """What the code of an attempt is labelled with."""
        number: Any = group.attempts[at] if group.attempts else 1
        attempt: int = number[0] if type(number) is list else number
        scope: AttemptLabels | None = group.scope
        if scope is None or scope.attempt != attempt:
            kind, node_type = self._kinds[group.kind_no], self.config["node_type"].get("name", "")
            scope = group.scope = AttemptLabels(kind, group.workflow, node_type, attempt)
        return scope

    # --- what is said ---------------------------------------------------------------------------------------------

    def hello(self, booted_ns: int) -> None:
        """First words."""
        self.tell(b"H", [self.pid, booted_ns])

    def tell(self, letter: bytes, body: list[Any]) -> None:
        """Send on the control lane; waits for room."""
        with self.lock:
            self._send([letter + orjson.dumps(body)], control=True)

    def flush(self, now_ns: int) -> None:
        """Send all results. Waits for room: a worker that is faster than the engine is held here."""
        self.show_pulse(now_ns)
        with self.lock:
            self.send_results()
        self.desk.flushed(now_ns)

    def send_results(self) -> None:
        """Send what waits in the pile, the open span's results included. Under the lock."""
        frames = self.pile.frames(self.open_span)
        if frames:
            self._send(frames)

    def _send(self, frames: Sequence[bytes], control: bool = False) -> None:
        while frames:
            taken = int(self.link.send(frames[0], control=True)) if control else self.link.send_many(frames)
            frames = frames[taken:]
            if frames:
                self.link.wait_room(_ROOM_S)

    def show_pulse(self, now_ns: int) -> None:
        """Show counters and memory in the lease table, before the results that made them so are sent.

        Memory now and then; each time where it decides how long the worker lives.
        """
        if now_ns >= HERE.due_ns:
            HERE.beat(now_ns)
            ORIGINS.look()
        if now_ns - self._pulse_ns >= PULSE_NS or self._is_measured:
            self._pulse_ns = now_ns
            self._rss_bytes = self._memory.bytes()
        self.table.show_pulse(WorkerPulse(self.tasks_done, self._rss_bytes, self.busy_ns))

    # --- failures -------------------------------------------------------------------------------------------------

    def fail(
        self, at: Place, started_ns: int, exc: BaseException, *, stopped: int = 0, handler: Handler | None = None
    ) -> None:
        """Enter the failure of an attempt.

        Args:
            at: Which attempt.
            started_ns: When it started.
            exc: What ended it.
            stopped: Reason of the stop request that was delivered to it; 0 for none.
            handler: Its handler; None when it was not found.
        """
        if type(exc) is WaitsForCalls and not stopped and exc.frame:
            with self.lock:
                self.pile.spawned(exc.frame)
                self.pile.failure(at, started_ns, time.monotonic_ns(), _WAITS)
            return
        failure = self.failure(exc, stopped, handler)
        with self.lock:
            self.pile.failure(at, started_ns, time.monotonic_ns(), failure)

    def failure(self, exc: BaseException, stopped: int, handler: Handler | None) -> dict[str, Any]:
        """What is said of an exception; see `fail`."""
        kind = _kind_of(exc, stopped, handler is not None)
        cause = exc.__cause__ if type(exc) is PayloadRefused and exc.__cause__ is not None else exc
        if stopped:
            _cut_our_end(cause.__traceback__)
            if type(cause).__name__ == "CancelledError":  # how asyncio delivers it
                cause = stop_signal(stopped).with_traceback(cause.__traceback__)
        return failure_of(cause, kind, self.codec, handler is not None and handler.pickle)


def gathered(groups: list[list[Any]], plain: bool) -> WorkGroup:
    """A batch as one group of leases."""
    first = groups[0]
    whole = WorkGroup(first[0], first[1], first[2], first[3], [], [], [], plain, first[7])
    nodes: list[int] = []
    attempts: list[int] = []
    runs: list[tuple[int, str]] = []
    for _, run_no, run_key, _, packed_nodes, tries, items, *_ in groups:
        nodes += unpacked(packed_nodes, len(items))
        attempts += tries or [1] * len(items)
        whole.items += items
        runs += [(run_no, run_key)] * len(items)
    whole.nodes, whole.attempts, whole.runs = nodes, attempts, runs
    whole.workflow = next((more for more in first[8:] if type(more) is str), "")
    return whole


def _kind_of(exc: BaseException, stopped: int, found: bool) -> FailureKind:
    """How an exception counts. By its type, because `isinstance` would ask it for its `__class__`, which may raise."""
    if stopped:
        return STOP_KINDS.get(stopped, FailureKind.CANCELLED)
    kind = type(exc)
    if kind is PayloadRefused:
        return FailureKind.PAYLOAD if issubclass(type(exc.__cause__), PayloadError) else FailureKind.ERROR
    if issubclass(kind, SkipNode):
        return FailureKind.SKIPPED
    if issubclass(kind, AttemptTimeout):
        return FailureKind.TIMEOUT
    if issubclass(kind, AttemptCancelled):
        return FailureKind.CANCELLED
    if issubclass(kind, MemoryError):
        return FailureKind.MEMORY
    if issubclass(kind, KeyboardInterrupt):  # whoever ends all processes with SIGINT does not mean that the task failed
        return FailureKind.CRASH
    return FailureKind.ERROR if found or issubclass(kind, CallerError) else FailureKind.NO_HANDLER


def _cut_our_end(trace: TracebackType | None) -> None:
    """Let the traceback of a stopped attempt end in the handler's line, not in how the signal was delivered."""
    theirs: TracebackType | None = None
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).startswith("runtime.host."):
            if theirs is not None:
                theirs.tb_next = None
                return
        else:
            theirs = trace
        trace = trace.tb_next


def signal_handler(number: int) -> object:
    """What is installed for a signal. `signal.getsignal` would try to make an enum of it, which costs 3 us a batch."""
    return _signal.getsignal(number)


def default_signals() -> None:
    """Put back what handlers may have changed and what the engine relies on: SIGTERM ends the process."""
    if signal_handler(signal.SIGTERM) != signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
