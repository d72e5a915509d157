"""EngineClient: one program's side of its engine. Numbers submissions, keeps them until they are durable, reads
what the engine says, restarts it when it dies, and asks questions.

Threads: any. `lock` covers outbox, intake and the sending side of the link; it is never held while sleeping,
    writing files or calling hooks. Who reads, and when, is the business of `reader`.
Restart of the engine (rule R4): everything unacknowledged waits, a new link is made, H says which outcomes are
still wanted, the engine answers with the last number it has, delivers outcomes again, and the rest is sent. More
restarts than the intensity allows, or a fault that a restart does not mend, fail all that is open.

Frames that this side sends (the rest of them is in `actors.protocol`):

    H {"session": str, "open_seq": int}      G + seq as 8 bytes little-endian + container, or + "@" + blob name
    Q [query, what, args]                    C [query, run, node number | null] -> true: recorded, false: had ended
    Z {"drain": bool, "timeout_s": float}    W 1 | 0: tell, or not, how far the log is written (L lsn)

Questions: `run` is a run id, `node` a number or an id; replies come on either lane. Times are wall clock ns or null.

    status {run, watch}    -> {run, name, state, counts[7], created_ns, ended_ns}; counts as `runtime.views.Counts`,
                                              frames that come by themselves count what is leased as running;
                                              watch: N is sent here when the run ends
    nodes  {run, node, from, limit}        -> {rows: [[number, id, parents, state, attempts, started_ns, ended_ns,
                                              pid, task name, [done, total, text] | null]], next}
    result {run, node, which, from, limit} -> {rows: [[number, id, state, value, failure | null]], next}
                                              which: "all", "final" (no other node depends on it), "failed"
    story  {run, node}     -> {events: [[at_ns, number | -1, event, text]]}
    why    {run, node}     -> {text}
    runs   {from, limit}   -> {rows: [[run, name, state, counts, created_ns, ended_ns]], next}, latest first
    engine {}              -> {state, log, runs_live, nodes_live, dead_letters, pools}
    dead, letter, replay, discard, rerun, held: see `actors.dead`; scale: see `runtime.host.scaling`
    policy {change}        -> {policy, waiting: {class: nodes}}; change, or null to look: see `actors.policy.policy`
    error: [query, null, {code, message}]
"""

from __future__ import annotations

import logging
import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from actors.policy.restart import RestartIntensity
from actors.protocol import limits
from actors.protocol.errors import (
    DiskFull,
    EngineUnavailable,
    EnvironmentFault,
    HandlerMissing,
    InternalError,
    LogFailed,
    MainspringError,
    RuntimeClosed,
    WaitTimeout,
)
from runtime.errors import error_of
from runtime.host.forks import call_in_forks
from runtime.host.horizon import Horizon
from runtime.host.pending import ERROR, VALUE, Pending, Query
from runtime.host.reader import SPIN_NS, Reader, call_hooks
from runtime.host.refusals import obituary, unavailable
from runtime.host.scaling import SCALED, ScaleDesk, announce_scaled
from runtime.host.submissions import Submissions, fresh
from runtime.mail.blobs import BlobStore
from runtime.mail.link import LinkEnds

if TYPE_CHECKING:
    import asyncio

_LOG: Final = logging.getLogger("mainspring")
_ENDED: Final = frozenset({"engine_exited", "spawner_exited", "refused"})
EXIT_S: Final = 5.0
"""How long an engine that was told to stop may take beyond its time."""


class EngineStarter(Protocol):
    """Starts engine processes. `runtime.host.starter.ProcessStarter` for real, a thread in tests."""

    def start(self) -> LinkEnds:
        """Start an engine that is side b of a new link; the ends are the caller's.

        Raises:
            EngineUnavailable: It cannot be started.
        """

    def fileno(self) -> int:
        """Descriptor that is readable when there is news; -1 when there is none."""

    def news(self) -> list[dict[str, Any]]:
        """What happened to the process: `{"did": "engine_exited", "status": ...}` and the like."""

    def stop(self) -> None:
        """End everything that was started. Idempotent."""


class EngineClient(Submissions):
    """See the module. One session; a new one for every runtime that is opened.

    Args:
        starter: Starts the engine process.
        session: Its name, unique in the state folder.
        blobs: The state folder's store for large values.
        spin_ns: How long a waiting caller looks at the rings before it sleeps.
    """

    def __init__(self, starter: EngineStarter, session: str, blobs: BlobStore | None, spin_ns: int = SPIN_NS) -> None:
        super().__init__(session, blobs)
        self._last_words: MainspringError | None = None
        self._starter = starter
        self._spin_ns = spin_ns
        self._intensity = RestartIntensity()
        self._connected = Pending()
        self._exited = Pending()
        self.scale_desk = ScaleDesk(self.ask)
        self.horizon = Horizon(self._watch_log)
        self.reader: Reader

    # --- life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the engine and wait until it has recovered. Blocking; `attach_thread` or `attach_loop` comes next.

        Raises:
            MainspringError: What the engine said when it could not open the folder, or EngineUnavailable.
        """
        try:
            self.reader = Reader(self, self._starter.start(), self._spin_ns)
        except OSError as refused:
            self._starter.stop()
            raise unavailable("no link to an engine can be made", refused) from refused
        except BaseException:
            self._starter.stop()
            raise
        self.link, self.board = self.reader.link, getattr(self._starter, "board", None)
        try:
            with self.lock:
                self._say_hello()
            self._await_hello()
        except BaseException:
            self.stop_engine()
            self.settle_all()
            raise
        self.refusal = None
        call_in_forks(self.forget)

    def attach_thread(self) -> None:
        """For blocking callers: a daemon thread reads what no waiting caller reads."""
        self.reader.attach_thread()

    def attach_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """For one event loop, in whose thread everything is then called."""
        self.reader.attach_loop(loop)

    def close(self, drain: bool, timeout: float) -> None:
        """Stop the engine and everything it started. Blocking; again is harmless.

        Args:
            drain: Wait until what was submitted is durable, and let running attempts finish.
            timeout: Seconds for that in all.
        """
        deadline = time.monotonic() + timeout
        flushed = self.begin_close(drain)
        if flushed is None:
            return
        try:
            self.wait(flushed, max(0.0, deadline - time.monotonic()))
            left = max(0.0, deadline - time.monotonic())
            self.wait(self.say_stop(drain, left), left + EXIT_S)
        finally:
            self.stop_engine()
            self.settle_all()

    def begin_close(self, drain: bool) -> Pending | None:
        """First step: nothing more is taken. Returns what to wait for, None when it was closed already."""
        if self.closing:
            return None
        self.closing = True
        with self.lock:
            lost, self.refusal = self.refusal, self.refusal or RuntimeClosed("the runtime is closed")
            if drain and lost is None and self.trouble is None:
                return self._ack_wait(self.outbox.last_to_wait_for())
            flushed = Pending()
            flushed.settle(VALUE, None, [])
            if lost is not None:
                self._exited.settle(VALUE, None, [])
            return flushed

    def say_stop(self, drain: bool, timeout: float) -> Pending:
        """Second step: tell the engine. Returns the cell that is settled when it has ended."""
        with self.lock:
            if not self._exited.done():
                self.outbox.say(b"Z" + orjson.dumps({"drain": drain, "timeout_s": timeout}), self.link)
        return self._exited

    def stop_engine(self) -> None:
        """Third step: end what is still there. Blocking."""
        self.closing = True
        self.scale_desk.close()
        self.reader.stop()
        self._starter.stop()

    def settle_all(self) -> None:
        """Last step: let go of everything, and settle what is still open."""
        woken: list[Pending] = []

        def let_go() -> None:
            with self.lock:
                self.refusal = self.refusal or RuntimeClosed("the runtime is closed")
                self.intake.fail_all(_open_lost(self.refusal), woken)
                self.closed = True
                self.reader.close()
                self.horizon.close()

        self.reader.with_role(let_go)
        call_hooks(*woken)

    def forget(self) -> None:
        """In a fork of the program: nothing here works any more, and nothing of the parent's is touched.

        A fork has neither the threads nor the link: it must say so instead of hanging.
        """
        self.lock = threading.Lock()
        self.closing = self.closed = self.reader.stopped = True
        self.refusal = RuntimeClosed(f"this runtime belongs to another process; this is its fork {os.getpid()}")
        self.intake.fail_all(self.refusal, [])

    def _await_hello(self) -> None:
        """Read until the engine says hello. Its last words, if it ends instead, are in the ring."""
        limit_s = limits.ENGINE_START_NS / 1e9
        deadline = time.monotonic() + limit_s
        while not self._connected.done():
            if self.reader.read():
                if self.trouble is not None:  # it cannot write that it was opened
                    raise fresh(self.trouble)
                deadline = time.monotonic() + limit_s
                continue
            for news in self._starter.news():
                if news["did"] in _ENDED:
                    while self.reader.read():
                        pass
                    raise self._last_words or EngineUnavailable(obituary(news))
            if time.monotonic() > deadline:
                raise EngineUnavailable(f"the engine process said nothing for {limit_s:.0f} s")
            self.link.wait(0.02, alternate=True)

    # --- waiting --------------------------------------------------------------------------------------------------

    def wait(self, cell: Pending, timeout: float | None = None) -> bool:
        """Wait until a cell is settled. False: the time is over."""
        return cell._state != 0 or self.reader.wait(cell, timeout)

    def settle(self, cell: Pending, state: int, value: Any) -> None:
        """Settle a cell of this side's own making."""
        woken: list[Pending] = []
        with self.lock:
            cell.settle(state, value, woken)
        call_hooks(*woken)

    def answer_of(self, query: Query, timeout: float | None = None) -> Any:
        """The answer to a question.

        Raises:
            MainspringError: What the engine answered. WaitTimeout: no answer in time.
        """
        if not self.wait(query, timeout):
            raise WaitTimeout("the engine did not answer in time")
        return read_answer(query)

    # --- reading --------------------------------------------------------------------------------------------------

    def take(self, control: list[bytes], work: list[bytes], woken: list[Pending]) -> None:
        """Apply what the engine said, and send what found room. Called by the reader, under the lock."""
        for frame in control:
            self._control(frame, woken)
        if work:
            self.intake.work(work, woken)
        if self.outbox.unsent or self.outbox.control:
            self.outbox.flush(self.link)

    def give_up(self, bug: Exception, woken: list[Pending]) -> None:
        """Frames that make no sense end it: better an error for everybody than results that never come."""
        _LOG.error("what the engine said cannot be read", exc_info=bug)
        self.refusal = InternalError(f"what the engine said cannot be read: {bug!r}")
        self.intake.fail_all(self.refusal, woken)

    def _control(self, frame: bytes, woken: list[Pending]) -> None:
        letter, body = frame[:1], orjson.loads(memoryview(frame)[1:])
        if letter == b"H":
            self.intake.recovery = body.get("recovery") or {}
            self.intake.acknowledge(body["acked_seq"], woken)
            self.outbox.resume(self.link)
            self.horizon.ask_again()
            self._connected.settle(VALUE, None, woken)
        elif letter == b"Q":
            self.intake.answer(body, woken)
        elif letter == b"L":
            self.horizon.told(body)
        elif letter == b"Y":
            self._announced(body, woken)

    def _announced(self, body: list[Any], woken: list[Pending]) -> None:
        text, code, *more = body
        if code == SCALED:
            announce_scaled(text, more[0], self.scale_desk)
            return
        if not code:
            self.trouble = self._last_words = None
            _LOG.warning("engine: %s", text)
            return
        error = error_of({"code": code, "message": text, "args": more[0] if more else ()})
        if isinstance(error, HandlerMissing):  # the engine itself is well
            _LOG.warning("%s", error)
            return
        self._last_words = error
        if self._connected.done():  # else `start` raises it
            _LOG.warning("engine: %s", error)
        if isinstance(error, (DiskFull, LogFailed)):
            self.trouble = error
            self.intake.fail_waiting(error, woken)

    # --- the engine dies ------------------------------------------------------------------------------------------

    def news_fd(self) -> int:
        """See `EngineStarter.fileno`."""
        return self._starter.fileno()

    def hear_news(self) -> None:
        """Look at what happened to the engine process."""
        for news in self._starter.news():
            if news["did"] in _ENDED:
                woken: list[Pending] = []
                self.reader.with_role(partial(self._engine_ended, news, woken))
                call_hooks(*woken)

    def _engine_ended(self, news: dict[str, Any], woken: list[Pending]) -> None:
        """Its last words are still in the ring; then start again, or give up. With the role."""
        while self.reader.read():
            pass
        if self.reader.stopped:
            return
        if self.closing:
            with self.lock:
                self._exited.settle(VALUE, None, woken)
            return
        words, self._last_words = self._last_words, None
        error = words if words is not None and not _may_pass(words) else None
        if error is None and not self._intensity.failed(time.monotonic_ns()):
            error = EngineUnavailable(f"the engine ended too often; the last time: {obituary(news)}")
        if error is None:
            _LOG.warning("%s; it is started again", obituary(news))
            self.reader.unwatch()
            try:
                self._continue_with(self._starter.start())
            except MainspringError as failed:
                error = failed
            except OSError as refused:
                error = unavailable("no link to an engine can be made", refused)
        if error is not None:
            with self.lock:
                self.refusal = error
                self._exited.settle(VALUE, None, woken)
                self.intake.fail_all(error, woken)

    def _continue_with(self, ends: LinkEnds) -> None:
        """A new engine: say hello and ask again what was not answered; the rest waits for its answer."""
        with self.lock:
            self.outbox.pause()
            self.reader.replace(ends)
            self.link = self.reader.link
            self.trouble = None
            self._say_hello()
            for query in self.intake.queries.values():
                self.outbox.say(query.frame, self.link)

    def _watch_log(self, watched: bool) -> None:
        self.outbox.say(b"W1" if watched else b"W0", self.link)

    def _say_hello(self) -> None:
        hello = {"session": self.session, "open_seq": self.intake.open_seq()}
        self.outbox.say(b"H" + orjson.dumps(hello), self.link)


def _may_pass(error: MainspringError) -> bool:
    """Whether a new engine may do better than the one that ended with these words."""
    return error.family == "bug" or (isinstance(error, EnvironmentFault) and error.retryable)


def read_answer(query: Query) -> Any:
    """The answer in a settled cell; raises what the engine answered."""
    if query._state == ERROR:
        raise fresh(query._value)
    return query._value


def _open_lost(error: MainspringError) -> MainspringError:
    if isinstance(error, RuntimeClosed):
        return RuntimeClosed("the runtime was closed; what is unfinished goes on when the state folder is opened again")
    return error
