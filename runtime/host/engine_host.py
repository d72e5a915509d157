"""EngineHost: makes the effects of `EngineCore` real, on one uvloop loop.

A turn: take what arrived on all links (control lanes first), let the core decide who works on what and send each worker
its part as one frame, then log and tell. Then the next turn follows (something is left, or comes while the engine
lingers), or every link is armed and the loop sleeps. Work per turn is bounded by `RECEIVE_BYTES_PER_TURN_MAX` for each
link, and by `TURN_NS` for what the face submits (rule R5).

Concurrency: everything here runs in the loop's thread, except `LogThread`, whose answers come in by
`call_soon_threadsafe`. Nothing is decided here: who waits, who runs and what is told is the core's.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from actors.core import EngineCore
from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import log_messages as log
from actors.protocol import messages as msg
from actors.protocol.errors import ProtocolError
from runtime.host import decode
from runtime.host.blob_reclaimer import BlobReclaimer
from runtime.host.checkpointing import Checkpointing
from runtime.host.clock import WallClock
from runtime.host.face_mail import FaceMail
from runtime.host.launch import WorkerStarter
from runtime.host.linger import LINGER_NS, linger
from runtime.host.log_thread import LogThread
from runtime.host.machine_look import MachineLook
from runtime.host.observe import described, is_stopped, observed, running
from runtime.host.output import open_output_pipe
from runtime.host.outputs import Outputs
from runtime.host.post import Post, WorkerPost
from runtime.host.progress_publisher import ProgressPublisher
from runtime.host.teller import Teller
from runtime.mail.blobs import BlobStore
from runtime.mail.lease_table import LeaseTable
from runtime.mail.link import RECHECK_NS, Link, cores, create_link
from runtime.mail.ring import ORDERED_MACHINE

_STOPPED_EVERY_NS: Final = 1_000_000_000
"""Between two looks at the process state of busy workers (25 us each)."""
_REVOKE_RETRY_S: Final = 0.001


class EngineHost:
    """See the module."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        core: EngineCore,
        face: Link,
        starter: WorkerStarter,
        blobs: BlobStore,
        log_of: Callable[[Callable[[Any], None]], LogThread],
        node_types: list[dict[str, Any]],
        worker_config: dict[str, Any],
        recovery: dict[str, Any],
        state_dir: str,
        reclaimer: BlobReclaimer,
    ) -> None:
        self.loop = loop
        self.core = core
        self.progress = ProgressPublisher(core, lambda due_ns: self._wake_at(fx.WakeAt(due_ns)))
        self.stopped = loop.create_future()
        self.turns, self._cores = 0, cores()
        self._clock, self._machine = WallClock(), MachineLook()
        self._face = Post(face)
        self._mail = FaceMail(self._face, blobs.open)
        self._starter = starter
        self._log = log_of(self._log_said)
        self._checkpointing = Checkpointing(state_dir, starter, self._happened, reclaimer)
        core.facts["archive"] = self._checkpointing.archive
        self._node_types = {n["name"]: n for n in node_types}
        self._worker_config = worker_config
        self._workers: dict[int, WorkerPost] = {}
        self._leased: list[WorkerPost] = []
        self._events: list[Any] = []
        self._turn_asked = self._recheck_planned = False
        self._timer: asyncio.TimerHandle | None = None
        self._wake_ns = self._timer_ns = self._stopped_looked_ns = self._armed_ns = self._told_lsn = self._told_said = 0
        self._outputs = Outputs(core, self._workers)
        self.teller = Teller(self._face, recovery)
        self._reclaimer = reclaimer
        self._refused: tuple[str, str] | None = None
        loop.add_reader(face.fileno(), self._bell, face)
        loop.add_reader(starter.fileno(), self._starter_said)

    def begin(self, effects: Sequence[Any]) -> None:
        """First turn, with what the recovery asked for."""
        now = time.monotonic_ns()
        self._carry_out(self.core.start(effects, now, self._clock.wall_ns(now)))
        self._ask_turn()

    def close(self) -> None:
        """Flush the log and release everything but the face's link, in which there may be last words to be said."""
        self._log.close()
        self.progress.close()
        self._checkpointing.close()
        for post in self._workers.values():
            post.close()

    # --- turns ----------------------------------------------------------------------------------------------------

    def _bell(self, link: Link) -> None:
        link.drain_bell()
        self._ask_turn()

    def _ask_turn(self) -> None:
        if not self._turn_asked:
            self._turn_asked = True
            self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        """One turn, and for a while those that follow at once, without the loop's own round in between."""
        until_ns, self._turn_asked = time.monotonic_ns() + limits.TURN_NS, False
        while (more := self._one_turn()) and time.monotonic_ns() < until_ns:
            pass
        if more:
            self._ask_turn()
        self._plan_timer()

    def _one_turn(self) -> bool:
        """True: there is more to do at once."""
        self.turns += 1
        now = time.monotonic_ns()
        events, self._events = self._events, []
        for post in self._workers.values():
            control, work = post.link.receive()
            if control or work:
                events += self._decoded(post, control, work)
        self._receive_face(events)
        if self._wake_ns and now >= self._wake_ns:
            self._wake_ns = 0
            self._observe(events, now)
            events.append(msg.TimePassed())
        if self._must_say_told():
            self._told_said = self._told_lsn
            events.append(msg.Told(self._told_lsn))
        if events or self.core.unfinished:
            self._carry_out(self.core.advance(events, now, self._clock.wall_ns(now)))
            self._send_leases()  # workers begin while the rest is logged and told
            self._carry_out(self.progress.before(self.core.commit()))
        for peer in (*self._workers.values(), self._face):
            if peer.backlog_bytes:
                peer.flush()
        self.teller.written(self.core.persister.written_lsn, self._mail)
        if self._face.clear:
            self._told_lsn = self.core.persister.durable_lsn
        self._mail.listen(intake_open=self.core.intake_open)
        more = self._events or self._mail.unfinished or self.core.unfinished or self._must_say_told()
        if self.progress.turn(now) or more or self._lingered() or self.progress.turn(now, idle=True) or not self._arm():
            return True
        self._armed_ns = time.monotonic_ns()
        if not (ORDERED_MACHINE or self._recheck_planned):
            self._recheck_planned = True
            self.loop.call_later(RECHECK_NS / 1e9, self._recheck)
        return False

    def _must_say_told(self) -> bool:
        """Whether the core can let go of runs now: nothing else may come that would make a turn of it."""
        return self._told_lsn > self._told_said and self.core.wants_told

    def _lingered(self) -> bool:
        spoken, self.teller.spoken = self.teller.spoken, False
        if self.core.busy_workers() >= self._cores or not (spoken or self.core.answers_within(LINGER_NS)):
            return False
        return linger([self._face.link, *(post.link for post in self._workers.values())], LINGER_NS)

    def _arm(self) -> bool:
        """Arm every link; False when one of them has something."""
        return self._face.link.arm() and all(post.link.arm() for post in self._workers.values())

    def _recheck(self) -> None:
        """The net under the wake-ups: one look, `RECHECK_NS` after the loop went to sleep; see `runtime.mail.link`."""
        left_ns = self._armed_ns + RECHECK_NS - time.monotonic_ns()
        if left_ns > 0:
            self.loop.call_later(left_ns / 1e9, self._recheck)
            return
        self._recheck_planned = False
        if self._face.link.pending() or any(post.link.pending() for post in self._workers.values()):
            self._ask_turn()

    def _send_leases(self) -> None:
        while self._leased:
            self._leased.pop().send_leases()

    def _receive_face(self, events: list[Any]) -> None:
        asked, submitted = self._mail.receive()
        for message in asked:
            if isinstance(message, msg.SessionOpened):
                self.teller.session = message.session
            elif isinstance(message, msg.Queried):
                if message.what == "output":
                    self._face.send(b"Q" + orjson.dumps(self._outputs.answer(message)))
                    continue
                self._observe(events, time.monotonic_ns())
            events.append(message)
        events += submitted

    def _decoded(self, post: WorkerPost, control: list[bytes], work: list[bytes]) -> list[Any]:
        try:
            messages = decode.worker_messages(post.worker, control, work, post.table.passed())
            if post.has_printed():
                self._outputs.collect(post, messages)
            if post.node_type["recycle_rss_bytes"] is not None:  # its size counts after each task, also when it idles
                messages.append(observed(post, self.core.open_serials(post.worker)))
            return messages
        except ProtocolError as broken:
            self.teller.announce("MS903", f"worker {post.worker} was ended: {broken.message}")
            self._starter.kill(post.worker, signal.SIGKILL, True)
            return []

    def _plan_timer(self) -> None:
        """A timer that is due before it is needed stays: it plans the next one."""
        if self._wake_ns and (self._timer is None or self._wake_ns < self._timer_ns):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ns = self._wake_ns
            delay = max(0, self._wake_ns - time.monotonic_ns()) / 1e9
            self._timer = self.loop.call_later(delay, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._ask_turn()

    # --- workers --------------------------------------------------------------------------------------------------

    def _observe(self, events: list[Any], now: int) -> None:
        events += self._machine.look(now, (w.pid for w in self._workers.values())) if self.core.wants_machine else ()
        look = now - self._stopped_looked_ns >= _STOPPED_EVERY_NS
        if look:
            self._stopped_looked_ns = now
        for worker in self.core.watched():
            if (post := self._workers.get(worker)) is not None:
                stopped = is_stopped(post.pid) if look and post.pid > 0 else None
                events.append(observed(post, self.core.open_serials(worker), stopped))

    def _starter_said(self) -> None:
        for said in self._starter.receive():
            if self._checkpointing.takes(said):
                continue
            match said["did"]:
                case "spawned":
                    if (post := self._workers.get(said["worker"])) is not None:
                        post.pid = said["pid"]
                    self._events.append(msg.WorkerStarted(said["worker"], said["pid"]))
                case "exited":
                    self._worker_exited(said["worker"], said["status"])
                case "refused":
                    self._worker_exited(said["worker"], 0, said["text"])
        if self._starter.closed and not self.stopped.done():
            self.stopped.set_result("the spawner is gone")
        self._ask_turn()

    def _worker_exited(self, worker: int, status: int, refusal: str = "") -> None:
        """The last words of a worker are still in its ring: they count before its death does."""
        post = self._workers.pop(worker, None)
        if post is None:
            return
        self.loop.remove_reader(post.link.fileno())
        self.loop.remove_reader(post.output_fd)
        while True:
            control, work = post.link.receive()
            if not control and not work:
                break
            self._events += self._decoded(post, control, work)
        outputs = self._outputs.last_words(post)
        serial, started_ns = post.table.current()
        claimed = running(post, self.core.open_serials(worker))
        text, number = (refusal, 0) if refusal else described(status)
        self._events.append(msg.WorkerExited(worker, text, number, serial, started_ns, claimed, outputs))
        post.close()

    def _start_worker(self, effect: fx.StartWorker) -> None:
        node_type = self._node_types[effect.node_type]
        ends = create_link()
        table_fd = LeaseTable.create()
        read_fd, write_fd = open_output_pipe()
        config = {**self._worker_config, "worker": effect.worker, "node_type": node_type}
        post = WorkerPost(effect.worker, node_type, Link(ends.dup(), "a"), LeaseTable(table_fd), read_fd)
        self._workers[effect.worker] = post
        self.loop.add_reader(post.link.fileno(), self._bell, post.link)
        self.loop.add_reader(read_fd, post.output_came)
        try:
            self._starter.spawn(effect.worker, config, [*ends.fds(), table_fd, write_fd])
        except OSError as gone:
            self._worker_exited(effect.worker, 0, f"cannot start: {gone}")
        ends.close()
        os.close(write_fd)

    def _ask_cancel(self, effect: fx.AskCancel) -> None:
        if (post := self._workers.get(effect.worker)) is not None:
            post.table.ask_cancel(effect.serial, effect.reason)
            post.send(b"C" + orjson.dumps([effect.serial, effect.reason]), control=True)
            self._starter.kill(effect.worker, signal.SIGUSR1)

    def _revoke(self, effect: fx.Revoke) -> None:
        post = self._workers.get(effect.worker)
        if post is None:
            return
        try:
            won = post.table.revoke(effect.serials)
        except BlockingIOError:
            self.loop.call_later(_REVOKE_RETRY_S, self._revoke, effect)
            return
        self._events.append(msg.LeasesRevoked(effect.worker, tuple(won), effect.serials))
        self._ask_turn()

    def _say(self, effect: fx.AskResults | fx.DrainWorker) -> None:
        if (post := self._workers.get(effect.worker)) is not None:
            post.say(effect)

    def _signal_worker(self, effect: fx.SignalWorker) -> None:
        number = signal.SIGKILL if effect.signal == "KILL" else signal.SIGTERM
        self._starter.kill(effect.worker, number, number == signal.SIGKILL)

    def _lease(self, effect: fx.LeaseWork) -> None:
        if (post := self._workers.get(effect.worker)) is not None:
            if not post.leases:
                self._leased.append(post)
            post.lease(effect)

    # --- effects --------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Any]) -> None:
        if self.progress.held:
            self.progress.flush()
        for effect in effects:
            self._does[type(effect)](self, effect)
        self.teller.send()

    def _write_log(self, effect: log.WriteLog) -> None:
        event = self._log.write(effect.records, sync=effect.sync)
        now = time.monotonic_ns()
        if event is not None:
            self._carry_out(self.core.receive_log(event, now, self._clock.wall_ns(now)))

    def _log_said(self, event: Any) -> None:
        self.loop.call_soon_threadsafe(self.take_event, event)

    def take_event(self, event: Any) -> None:
        """Something happened outside of the links: a turn follows. Who asks is told what runs now."""
        if isinstance(event, msg.Queried):
            self._observe(self._events, time.monotonic_ns())
        self._events.append(event)
        if not self._turn_asked:
            self._turn()

    def _happened(self, event: Any) -> None:
        self._events.append(event)
        self._ask_turn()

    def _wake_at(self, effect: fx.WakeAt) -> None:
        if not self._wake_ns or effect.due_ns < self._wake_ns:
            self._wake_ns = effect.due_ns

    def _refuse(self, effect: fx.Refuse) -> None:
        self._refused = (effect.code, effect.text)
        self.teller.announce(*self._refused)

    def _stop(self, effect: fx.StopEngine) -> None:
        if not self.stopped.done():
            self.loop.call_soon(self._stop_when_settled, effect.reason)

    def _stop_when_settled(self, reason: str) -> None:
        if self.core.persister.settled or self._refused or self.core.persister.back_pressure:
            if not self.stopped.done():
                self.stopped.set_result(reason)
        else:
            self.loop.call_later(0.001, self._stop_when_settled, reason)

    _does: Final[dict[type, Callable[[Any, Any], None]]] = {
        fx.LeaseWork: _lease,
        fx.Tell: lambda self, effect: self.teller.take(effect),
        fx.WakeAt: _wake_at,
        fx.StartWorker: _start_worker,
        fx.AskCancel: _ask_cancel,
        fx.AskResults: _say,
        fx.Revoke: _revoke,
        fx.DrainWorker: _say,
        fx.SignalWorker: _signal_worker,
        fx.ForgetRun: lambda self, effect: self._reclaimer.add(effect.run_key, self.core.scheduler.lsn),
        fx.Announce: lambda self, effect: self.teller.announce(effect.code, effect.text),
        fx.Scaled: lambda self, effect: self.teller.scaled(effect),
        fx.Refuse: _refuse,
        fx.StopEngine: _stop,
        log.TakeCheckpoint: lambda self, effect: self._checkpointing.take(effect),
        log.WriteLog: _write_log,
        log.RemoveSegments: lambda self, effect: self._log.remove_below(effect.below),
    }
