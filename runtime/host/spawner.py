"""The spawner: a small single-threaded process that imports the runtime once and forks engine and workers quickly.

Purpose: the one parent of all our processes. Because it has no threads, `fork` is safe; because it is the parent, it
knows who is alive without a pid race; because it does nothing else, it answers at once.

Started by `launch.Launcher` as `python -c BOOTSTRAP FD PATH`. Talks with the face and with the engine over `channel`.

    face    -> spawner  start_engine {config} + fds       stop
    spawner -> face     engine_started {pid, start_time}  engine_exited {pid, status}  refused {text}  look
    engine  -> spawner  spawn_worker {worker, config, imports} + fds      kill {worker, signal, group}
    spawner -> engine   spawned {worker, pid, start_time}  refused {worker, text}  exited {worker, pid, status}

Invariants:
- The face is gone (its socket ends, or its process, watched by pidfd because a fork of the host may hold the socket):
  all children are killed and reaped, then the spawner exits.
- The engine is gone: its workers are killed and reaped before the face hears of it, so that a new engine never meets
  old workers.
- Never a zombie, never an orphan (see `children`).
Signals: SIGTERM, SIGINT and SIGHUP are ignored; the face decides. Children start with default actions.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any, Final

from runtime.host import kernel
from runtime.host.channel import Channel, Message
from runtime.host.children import Child, ChildTable
from runtime.profile.presence.appear import appear, let_attach
from runtime.profile.presence.here import HERE
from runtime.profile.presence.page import Page
from runtime.profile.presence.titles import show_title

KILL_TIMEOUT_S: Final = 1.0
"""Longest wait for killed children; SIGKILL takes milliseconds unless the kernel itself is stuck."""
_AT_ONCE: Final = ("runtime.host.worker_main",)
"""Imported as soon as the engine was forked: while it boots on one core, this is done on another."""
_WHEN_QUIET: Final = ("uvloop", "runtime.host.worker_async", "runtime.host.engine_process")
"""Imported when nothing was asked for `_QUIET_MS` and the engine has little to do, so that the next engine and workers
are forked ready to run. It takes 100 ms, which work that comes right after the start does not wait for."""
_QUIET_MS: Final = 500
_QUIET_CPU_NS: Final = 25_000_000
"""CPU time that an engine with little to do takes meanwhile: a twentieth of it."""


class Spawner:
    """See the head of the file."""

    def __init__(self, face: Channel, face_pid: int) -> None:
        self._face = face
        self._face_pidfd = _pidfd(face_pid)
        self._children = ChildTable()
        self._engine: Child | None = None
        self._engine_channel: Channel | None = None
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        self._engine_cpu_ns: int | None = 0
        self._page: Page | None = None
        self._heard = 0
        self._imports = deque(_AT_ONCE + _WHEN_QUIET)
        self._stopping = os.getppid() != face_pid
        for fd in (self._wake_read, self._wake_write):
            os.set_blocking(fd, False)

    def run(self) -> None:
        """Serve until the face is gone or asks to stop; afterwards no child is left."""
        signal.signal(signal.SIGCHLD, _noticed)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        try:
            while not self._stopping:
                self._turn()
        finally:
            self._children.kill_all(KILL_TIMEOUT_S)

    def _turn(self) -> None:
        ready = self._wait()
        if not ready and self._is_quiet():
            _import(self._imports.popleft())
        for fd in ready:
            if fd == self._wake_read:
                with suppress(BlockingIOError):
                    os.read(fd, 4096)
            elif fd == self._face_pidfd:
                self._stopping = True
        for message in self._face.receive():
            self._from_face(message)
        self._stopping = self._stopping or self._face.closed
        if self._engine_channel is not None:
            for message in self._engine_channel.receive():
                self._from_engine(message)
            self._engine_channel.flush()
        self._face.flush()
        self._bury(self._children.reap())
        if HERE.heard != self._heard:
            self._heard = HERE.heard
            self._face.post({"did": "look"})
        if (now_ns := time.monotonic_ns()) >= HERE.due_ns:
            HERE.beat(now_ns)

    def _wait(self) -> list[int]:
        poller = select.poll()
        poller.register(self._wake_read, select.POLLIN)
        if self._face_pidfd >= 0:
            poller.register(self._face_pidfd, select.POLLIN)
        for channel in (self._face, self._engine_channel):
            if channel is not None and not channel.closed:
                poller.register(channel.fileno(), select.POLLIN | (select.POLLOUT if channel.wants_write else 0))
        return [fd for fd, _ in poller.poll(self._patience_ms())]

    def _patience_ms(self) -> int | None:
        """How long to wait for requests before the next import; None when all is imported."""
        if not self._imports:
            return None
        return 0 if self._imports[0] in _AT_ONCE and self._engine is not None else _QUIET_MS

    def _is_quiet(self) -> bool:
        """Whether the engine used little CPU time since it was looked at before."""
        if self._engine is None or self._imports[0] in _AT_ONCE:
            return True
        before, self._engine_cpu_ns = self._engine_cpu_ns, kernel.cpu_time_ns(self._engine.pid)
        now = self._engine_cpu_ns
        return now is None or before is None or now - before < _QUIET_CPU_NS

    # --- what is asked --------------------------------------------------------------------------------------------

    def _from_face(self, message: Message) -> None:
        match message.body.get("do"):
            case "start_engine":
                self._start_engine(message)
            case "stop":
                self._stopping = True
            case _:
                _close(message.fds)

    def _from_engine(self, message: Message) -> None:
        match message.body.get("do"):
            case "spawn_worker":
                self._spawn_worker(message)
            case "kill":
                child = self._children.worker(int(message.body["worker"]))
                if child is not None:
                    self._children.signal(child, int(message.body["signal"]), bool(message.body.get("group")))
            case _:
                _close(message.fds)

    def _start_engine(self, message: Message) -> None:
        if self._engine is not None:
            _close(message.fds)
            self._face.post({"did": "refused", "text": "an engine is running already"})
            return
        self._take_page(message)
        ours, theirs = socket.socketpair()
        try:
            body = partial(_enter, message.body, message.fds, theirs, self._page)
            self._engine = self._children.fork(
                "engine", 0, body, [*self._private_fds(), ours.fileno(), self._lifeline_read]
            )
        except OSError as refusal:
            ours.close()
            self._face.post({"did": "refused", "text": f"cannot start the engine process: {refusal}"})
        else:
            self._engine_channel = Channel(ours)
            self._face.post({"did": "engine_started", "pid": self._engine.pid, "start_time": self._engine.start_time})
        theirs.close()
        _close(message.fds)
        if self._page is not None and not HERE.presences:
            with suppress(OSError):
                presence = HERE.begin(self._page, "spawner", threads=False)
                show_title(presence.process)
                let_attach(presence, message.body["config"])

    def _take_page(self, message: Message) -> None:
        """The page of all processes comes last, with each engine; the first one is kept."""
        if message.body["config"].get("page"):
            fd = message.fds.pop()
            try:
                self._page = self._page or Page(os.dup(fd))
            except ValueError:
                self._page = None
            os.close(fd)

    def _spawn_worker(self, message: Message) -> None:
        worker = int(message.body["worker"])
        assert self._engine_channel is not None
        for name in message.body.get("imports", ()):
            _import(name)
        body = partial(_enter, message.body, message.fds, self._lifeline_read, self._page)
        try:
            child = self._children.fork("worker", worker, body, [*self._private_fds(), self._engine_channel.fileno()])
        except OSError as refusal:
            self._engine_channel.post({"did": "refused", "worker": worker, "text": f"cannot start a worker: {refusal}"})
        else:
            said = {"did": "spawned", "worker": worker, "pid": child.pid, "start_time": child.start_time}
            self._engine_channel.post(said)
        _close(message.fds)

    def _private_fds(self) -> list[int]:
        private = [self._face.fileno(), self._wake_read, self._wake_write, self._lifeline_write]
        return [*private, self._face_pidfd] if self._face_pidfd >= 0 else private

    # --- what happened --------------------------------------------------------------------------------------------

    def _bury(self, ended: list[tuple[Child, int]]) -> None:
        engine_status: int | None = None
        for child, status in ended:
            if child.role == "engine":
                engine_status = status
            elif self._engine_channel is not None:
                said = {"did": "exited", "worker": child.worker, "pid": child.pid, "status": status}
                self._engine_channel.post(said)
        if engine_status is not None:
            self._bury_engine(engine_status)

    def _bury_engine(self, status: int) -> None:
        assert self._engine is not None
        assert self._engine_channel is not None
        pid, self._engine = self._engine.pid, None
        self._engine_channel.close()
        self._engine_channel = None
        self._children.kill_all(KILL_TIMEOUT_S)
        self._face.post({"did": "engine_exited", "pid": pid, "status": status})


def _enter(asked: dict[str, Any], fds: list[int], parent: socket.socket | int, page: Page | None) -> None:
    """In the child: call the entry, `module:function`, as it was asked for."""
    if page is not None:
        appear(page, asked["entry"], asked["config"])
    module, _, function = asked["entry"].partition(":")
    getattr(importlib.import_module(module), function)(asked["config"], fds, parent)


def _noticed(signum: int, frame: object) -> None:
    """SIGCHLD needs a Python handler for its byte to reach the wake-up pipe."""


def _pidfd(pid: int) -> int:
    """A descriptor that becomes readable when the process ends; -1 where there is none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def _close(fds: list[int]) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)


def _import(name: str) -> None:
    """Import once what children need. What cannot be imported is reported by the child that needs it."""
    with suppress(Exception):
        importlib.import_module(name)


def main(fd: int, face_pid: int) -> None:
    """Entry of the spawner process; `fd` is its end of the face's socket."""
    os.set_inheritable(fd, False)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    kernel.adopt_orphans()
    kernel.name_process("ms-spawner")
    gc.disable()
    spawner = Spawner(Channel(socket.socket(fileno=fd)), face_pid)
    spawner.run()
    sys.stdout.flush()  # and `spawner` with its sockets lives to the end: development mode would complain of them
    os._exit(0)
