"""This process among those of a state folder: its slot in the page, what it shows there, and how it answers.

`begin` takes a slot and, where nobody else has the signal, a handler for it; `end` gives both back. The handler does as
little as can be: it looks which requests are new, notes where the main thread is, and has a thread of the name
"mainspring-answer" do the rest, so that whatever the main thread was at, nothing waits for a lock that it holds. It
runs at the main thread's next bytecode: also in a loop that never comes back to its event loop, and not in a C
function that does not return. For that there is a second signal, whose handler is C (`faulthandler`): it writes the
stacks of all threads into an anonymous file of this process, which whoever asks reads through /proc.

The program itself is the user's: no handler in Python is installed there, whatever is asked. The spawner, when it hears
the signal, tells the face over their socket (`relayed`), and the thread that reads it, or its event loop, sees to an
answer.

What is asked: `answers.ANSWERS`, by name. The answer is one file or several in the folder of the request, each put in
place whole, as often as there is something new; then the slot says that it is done. Who is born meanwhile looks when it
begins.

States of a request here: new -> SEEN -> DONE or FAILED.

Invariants: who has no slot has no use for a signal, and nothing is sent to a process without a handler (`control`). A
    forked child has no slot, whatever it inherits.
Concurrency: `begin`, `end` and `beat` by the main thread, or by whichever thread opens a runtime; then there is
    only the handler in C. A process that must not have threads (the spawner) answers within the handler.
Known limits: a handler that Python runs later than the signal came is one bytecode late at least; where user code took
    the signal over, or the platform has no signals to spare, the process shows its books and does not answer.
"""

from __future__ import annotations

import _thread
import faulthandler
import fcntl
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from types import FrameType
from typing import Any, Final

import orjson

from runtime.host import kernel
from runtime.mail.blocks import create_block
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.gauges import gauge_process
from runtime.profile.ledger.kinds import DESCRIPTOR
from runtime.profile.ledger.sites import HANDLERS, Places, places_of
from runtime.profile.model import Process, dumped
from runtime.profile.presence import answers
from runtime.profile.presence.page import (
    DONE,
    FAILED,
    HEARS_C,
    HEARS_PYTHON,
    HEARS_RELAY,
    REQUESTS,
    SEEN,
    Page,
    PageSlot,
    RequestRow,
)
from runtime.profile.sampling.self_cost import SELF_COST
from runtime.profile.turns import TURNS

SIGNAL: Final[int] = signal.SIGRTMIN + 11 if hasattr(signal, "SIGRTMIN") else signal.SIGURG
"""Asks for a look at the page. Real-time signals are nobody's; where there are none, one that is ignored by default."""
C_SIGNAL: Final[int] = signal.SIGRTMIN + 12 if hasattr(signal, "SIGRTMIN") else getattr(signal, "SIGINFO", 0)
"""Asks the C handler for the stacks."""
STACKS: Final = "mainspring-stacks"
"""Label of the anonymous file into which that handler writes."""
FOLDER: Final = "profile"
"""Of a state folder: where answers and bundles are."""
BEAT_NS: Final = 1_000_000_000
"""Between two times that a process which is busy anyway writes its books."""
AGAIN_S: Final = 0.02
"""A signal that comes when a thread is about to sleep is noted and does not wake it: after so long it is sent again,
and then at twice the time, up to `AGAIN_MOST_S`."""
AGAIN_MOST_S: Final = 0.2
_BEGINS_S: Final = 0.005
"""For a thread of ours to have the interpreter for the first time."""
_NEVER: Final = 1 << 63


class Request:
    """A question, as it is answered here.

    Attributes:
        what: Its name.
        options: As `ask` was given them.
        until_ns: When whoever asks stops waiting (monotonic ns).
        seconds: How long it shall be looked, for what takes time.
        main: Where the main thread was when the signal came: (code, line), the outermost first; empty when this process
            was born after the question, or asks itself.
        threads: Whether this process may have threads; else the answer is made within a handler and must be quick.
        process, late: This process, and whether it was born after the question.
    """

    def __init__(self, presence: Presence, row: RequestRow, main: Places) -> None:
        body = row.body
        self.number: int = row.number
        self.what: str = body["what"]
        self.options: dict[str, Any] = body.get("options") or {}
        self.begun_ns: int = body["begun_ns"]
        self.until_ns: int = body["until_ns"]
        self.seconds: float = body.get("seconds", 0.0)
        self.process = presence.process
        self.presence = presence
        self.main = main
        self.threads, self.late = presence.threads, presence.begun_ns > self.begun_ns
        self._looks_from_ns = self.begun_ns if self.late else time.monotonic_ns()
        self._block = row.block
        self._folder = os.path.join(presence.page.state_dir, FOLDER, body["folder"])

    def left_s(self) -> float:
        """Seconds of those asked for that are left; of a process that was born meanwhile, until the others end."""
        return max(self._looks_from_ns / 1e9 + self.seconds - time.monotonic(), 0.0)

    def over(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return time.monotonic_ns() >= self.until_ns or self.presence.page.number(self._block) != self.number

    def put(self, content: answers.Content, part: int = 0) -> None:
        """Put an answer in place whole, instead of what was put as the same part before. Raises OSError."""
        pieces = [content] if isinstance(content, bytes) else content
        place = os.path.join(self._folder, f"{self.process.pid}-{self.process.start_time}.{part}")
        fd = os.open(f"{place}~", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            for piece in (orjson.dumps([*self.process]) + b"\n", *pieces):
                left = memoryview(piece)
                while left:
                    left = left[os.write(fd, left) :]
        finally:
            os.close(fd)
        os.rename(f"{place}~", place)

    def done(self, failed: bool = False) -> None:
        """There will be no more. Called for whoever returns from an answer; for None by whoever put it."""
        self.presence.slot.ack(self._block, self.number, FAILED if failed else DONE)


class Presence:
    """This process in one page. Made by `begin`."""

    def __init__(self, page: Page, slot: PageSlot, threads: bool) -> None:
        self.page, self.slot, self.process, self.threads = page, slot, slot.process, threads
        self.seen, self.begun_ns = [0] * REQUESTS, time.monotonic_ns()

    def end(self) -> None:
        """Give the slot back. Again is harmless."""
        HERE.end(self)

    def look(self) -> None:
        """Somebody said that there is a request. Any thread."""
        HERE.hear_here(self)

    def fresh(self) -> list[int]:
        """Blocks of requests that this process has not seen."""
        return [block for block in range(REQUESTS) if self.page.number(block) != self.seen[block]]


class Here:
    """All of this process: the pages that it stands in, one for each runtime that it has open, and the handlers."""

    def __init__(self) -> None:
        self.presences: list[Presence] = []
        self._errands: deque[Callable[[], None]] = deque()
        self._hang_fd = -1
        self._hears = 0
        self.heard = 0
        """How often the signal came."""
        self._pid = os.getpid()
        self.due_ns = _NEVER
        """When some presence shall write its books: a comparison with it is all that a busy process pays."""
        os.register_at_fork(after_in_child=self._forked)

    # --- beginning and end ----------------------------------------------------------------------------------------

    def begin(
        self,
        page: Page,
        role: str,
        number: int = 0,
        node_type: str = "",
        *,
        threads: bool = True,
        relayed: bool = False,
    ) -> Presence:
        """Take a slot in a page, answer from now on, and look at what is asked already.

        Args:
            page: The page.
            role: What this process is.
            number: Of a worker.
            node_type: Of a worker.
            threads: Whether it may have threads.
            relayed: It is told by the spawner, and has no handler in Python.

        Raises:
            OSError: There is no room.
        """
        self._pid = os.getpid()
        process = Process(self._pid, kernel.start_time(self._pid), role, number, node_type)
        self._listen(relayed)
        slot = page.take_slot(process, self._hears | (HEARS_RELAY if relayed else 0), self._hang_fd)
        if slot is None:
            raise OSError("there is no room in the page of processes")
        presence = Presence(page, slot, threads)
        self.presences.append(presence)
        if not LEDGER.book(DESCRIPTOR).gauges:
            gauge_process()
        self.due_ns = 0
        self._hear_one(presence, ())
        return presence

    def end(self, presence: Presence) -> None:
        """Give the slot back, and with the last one the handlers. Again is harmless."""
        if presence not in self.presences:
            return
        self.presences.remove(presence)
        if os.getpid() != presence.process.pid:
            return
        presence.slot.release()
        if not self.presences:
            self.due_ns = _NEVER
            self._stop_listening()

    def beat(self, now_ns: int) -> None:
        """Write the books. Called when `due_ns` has come, where a process comes by anyway."""
        self.due_ns = now_ns + BEAT_NS
        begun_ns = time.thread_time_ns()
        for presence in list(self.presences):
            with suppress(ValueError):  # its page was closed meanwhile
                presence.slot.publish(now_ns)
                presence.slot.show_cost(SELF_COST.total_ns())
        SELF_COST.books_ns += time.thread_time_ns() - begun_ns

    def _listen(self, relayed: bool) -> None:
        """Handlers for what nobody else has a handler for."""
        if not (relayed or self._hears & HEARS_PYTHON) and threading.current_thread() is threading.main_thread():
            with suppress(OSError, ValueError):
                if signal.getsignal(SIGNAL) == signal.SIG_DFL and not kernel.catches(self._pid, SIGNAL):
                    signal.signal(SIGNAL, self._hear)
                    self._hears |= HEARS_PYTHON
        if not self._hears & HEARS_C and C_SIGNAL and kernel.LINUX:
            with suppress(OSError, ValueError, RuntimeError):
                if not kernel.catches(self._pid, C_SIGNAL):
                    self._hang_fd = create_block(0, label=STACKS)
                    fcntl.fcntl(self._hang_fd, fcntl.F_SETFL, os.O_APPEND)
                    faulthandler.register(C_SIGNAL, file=self._hang_fd, all_threads=True)
                    self._hears |= HEARS_C

    def _stop_listening(self) -> None:
        """The handler in Python stays and does nothing: a signal may be on its way, and its default is death."""
        hears, self._hears = self._hears, self._hears & ~HEARS_C
        if hears & HEARS_C:
            with suppress(Exception):
                faulthandler.unregister(C_SIGNAL)
        if self._hang_fd >= 0:
            os.close(self._hang_fd)
            self._hang_fd = -1

    def _forked(self) -> None:
        """In a forked child: the slots are the parent's, and what a C handler writes, too."""
        self.presences.clear()
        self.due_ns = _NEVER
        self._errands.clear()
        self._hears &= ~HEARS_C
        if self._hang_fd >= 0:
            with suppress(Exception):
                faulthandler.unregister(C_SIGNAL)
            with suppress(OSError):
                os.close(self._hang_fd)
            self._hang_fd = -1

    # --- hearing --------------------------------------------------------------------------------------------------

    def _hear(self, signum: int, frame: FrameType | None) -> None:
        """SIGNAL, on the main thread, between two bytecodes of whatever it runs."""
        self.heard += 1
        try:
            while self._errands:
                self._errands.popleft()()
            if self.presences and os.getpid() == self._pid:
                main = places_of(frame)
                for presence in list(self.presences):
                    self._hear_one(presence, main)
        except Exception:  # noqa: S110, BLE001, RUF100 - whatever goes wrong here is not the interrupted code's
            pass  # but what the handler of another signal raises meanwhile is, such as AttemptCancelled

    def _hear_one(self, presence: Presence, main: Places) -> None:
        for block in presence.fresh():
            number = presence.seen[block] = presence.page.number(block)
            if not number:
                continue
            presence.slot.ack(block, number, SEEN)
            if presence.threads:
                begun = _thread.allocate_lock()
                begun.acquire()
                _thread.start_new_thread(self._have_answered, (presence, block, number, main, begun))
                begun.acquire(timeout=_BEGINS_S)  # it has to have the interpreter once, which may take long; see TURNS
            else:
                _answer(presence, block, number, main)

    def hear_here(self, presence: Presence) -> None:
        """Answer without a signal: this process itself asks, or was told."""
        self._hear_one(presence, ())

    def _have_answered(
        self, presence: Presence, block: int, number: int, main: Places, begun: _thread.LockType
    ) -> None:
        """In a thread without a name, which is all that a handler may start: have one with a name answer."""
        with suppress(RuntimeError), TURNS.short(begun.release):  # RuntimeError: the interpreter ends
            threading.Thread(
                target=_answer, args=(presence, block, number, main), name="mainspring-answer", daemon=True
            ).start()

    def on_main_thread(self, call: Callable[[], None], timeout: float = 1.0) -> bool:
        """Have the main thread call something at its next bytecode, as a handler of a signal must be installed there.

        Args:
            call: Must be quick, and may not wait for a lock.
            timeout: Seconds to wait.

        Returns:
            Whether it was called and raised nothing. False when this process has no handler, or the main thread does
            not come to it; then it is not called later.
        """
        done, state = threading.Event(), [0]

        def once() -> None:
            if not state[0]:
                state[0] = 1
                call()
                state[0] = 2
                done.set()

        if threading.current_thread() is threading.main_thread():
            once()
            return True
        if not self._hears & HEARS_PYTHON:
            return False
        self._errands.append(once)
        until, gap_s = time.monotonic() + timeout, AGAIN_S
        while not state[0] and (left := until - time.monotonic()) > 0:
            signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)
            done.wait(min(gap_s, left))
            gap_s = min(gap_s * 2, AGAIN_MOST_S)
        done.wait(max(until - time.monotonic(), 0) if state[0] else 0)
        if not state[0]:
            state[0] = -1
        return state[0] == 2


def _answer(presence: Presence, block: int, number: int, main: Places) -> None:
    """Answer a request, in a thread of its own or, in a process without, within the handler."""
    begun_ns, pid = time.thread_time_ns(), presence.process.pid
    with suppress(ValueError):  # the page is closed: this runtime ends
        row = presence.page.request(block)
        if row is None or row.number != number or pid not in (row.body.get("only") or [pid]):
            return
        request = Request(presence, row, main)
        try:
            content = answers.answer(request)
            if content is not None:
                with TURNS.short() if presence.threads else nullcontext():
                    request.put(content)
                    request.done()
        except Exception as broken:  # noqa: BLE001, RUF100 - said to who asks, not to this process
            with suppress(OSError):
                request.put(dumped({"failed": f"{type(broken).__name__}: {broken}"}), part=-1)
            request.done(failed=True)
        SELF_COST.answers_ns += time.thread_time_ns() - begun_ns
        presence.slot.show_cost(SELF_COST.total_ns())


# global: of this process, as its signal handlers are
HERE: Final = Here()
HANDLERS.add(Here._hear.__code__)
