"""Steps in the size of a pool, on the program's side: a line in its log, and its own function, which may say otherwise.

Frame from the engine, among its announcements: Y [reason, "scaled", [node type, before, after, number, figures]]. With
a number other than 0 it is a question, answered by Q "scale" {node_type, number, size | null} -> {heard}; else the step
was taken.

Concurrency: `announce_scaled` runs under the client's lock. The function is called by a thread of its own, one step
after the other; the thread is there only while there are steps to ask about. What the function raises, or answers that
is no answer, is logged, and the step goes ahead.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from actors.protocol.errors import MainspringError
from actors.protocol.words import counted

_LOG: Final = logging.getLogger("mainspring")
SCALED: Final = "scaled"
"""In the place of an error's code: it is no trouble."""
CLOSE_S: Final = 1.0
"""For so long a function that is just being asked may keep its runtime from closing."""


@dataclass(frozen=True, slots=True)
class ScaleFigures:
    """What a step was decided by.

    Args:
        waiting: Tasks that no place is free for.
        oldest_s: For how long one of them has waited behind tasks that take long.
        held: Tasks at workers.
        starting: Workers that do not serve yet.
        task_s: Usual duration of a task; 0 where none was measured.
        rate_per_s: Tasks that come in a second.
        cpu_busy: Busy part of the machine's processors; None where nobody looked.
        memory_free: Free part of its memory; None where nobody looked.
        smallest: Workers at least, by configuration.
        largest: Workers at most.
    """

    waiting: int
    oldest_s: float
    held: int
    starting: int
    task_s: float
    rate_per_s: float
    cpu_busy: float | None
    memory_free: float | None
    smallest: int
    largest: int


@dataclass(frozen=True, slots=True)
class ScaleStep:
    """A step in the size of a pool that is about to be taken.

    Args:
        node_type: Of the pool.
        before: Workers that serve or start.
        after: Workers there should be.
        reason: Why, in words.
        figures: What it was decided by.
    """

    node_type: str
    before: int
    after: int
    reason: str
    figures: ScaleFigures


OnScale = Callable[[ScaleStep], int | bool | None]
"""Answers a step: None or True as it is, False for the size before, or another number of workers."""


def can_be_asked(on_scale: object) -> bool:
    """Whether it is a function that answers at once, or None."""
    return on_scale is None or (callable(on_scale) and not inspect.iscoroutinefunction(on_scale))


def figures_of(wire: dict[str, Any]) -> ScaleFigures:
    """As the engine sent them."""
    return ScaleFigures(
        wire["waiting"],
        wire["oldest_ns"] / 1e9,
        wire["held"],
        wire["starting"],
        wire["service_ns"] / 1e9,
        wire["rate_per_s"],
        wire["cpu_busy"],
        wire["memory_free"],
        *wire["workers_range"],
    )


def announce_scaled(reason: str, step: tuple[str, int, int, int, Any], desk: ScaleDesk) -> None:
    """Log a step that was taken; have the program's function asked about one that is about to be."""
    node_type, before, after, number, figures = step
    if not number:
        _LOG.info("node type %s: %d -> %s: %s", node_type, before, counted(after, "worker"), reason)
    else:
        desk.ask(ScaleStep(node_type, before, after, reason, figures_of(figures)), number)


class ScaleDesk:
    """Asks the program's function, `on_scale`, if there is one.

    Args:
        answer: Asks the engine a question; here it carries an answer.
    """

    def __init__(self, answer: Callable[[str, dict[str, Any]], object]) -> None:
        self.on_scale: OnScale | None = None
        self._answer = answer
        self._lock = threading.Lock()
        self._steps: deque[tuple[ScaleStep, int]] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False

    def ask(self, step: ScaleStep, number: int) -> None:
        """Have the function called soon."""
        with self._lock:
            if self._closed:
                return
            self._steps.append((step, number))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mainspring-on-scale", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Ask nothing more. One call that is under way is waited for, but not for long."""
        with self._lock:
            self._closed = True
            self._steps.clear()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSE_S)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._steps:
                    self._thread = None
                    return
                step, number = self._steps.popleft()
            size = self._size(step)
            try:
                self._answer("scale", {"node_type": step.node_type, "number": number, "size": size})
            except MainspringError:
                _LOG.debug("on_scale: its answer comes too late, the runtime is closed")

    def _size(self, step: ScaleStep) -> int | None:
        """What the function wants; None: as decided."""
        try:
            answer = None if self.on_scale is None else self.on_scale(step)
        except Exception:
            _LOG.exception("on_scale failed; the step is taken")
            return None
        if answer is None or answer is True:
            return None
        if answer is False:
            return step.before
        if isinstance(answer, int):
            return min(step.figures.largest, max(step.figures.smallest, answer))
        _LOG.error("on_scale answered %.60r, which is no number of workers; the step is taken", answer)
        return None
