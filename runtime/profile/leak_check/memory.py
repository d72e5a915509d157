"""Whose memory grows: what code takes and keeps, by the line that took it, for some seconds in which somebody looks.

That a process grows is seen from outside, for nothing (`bounds`: its resident set). Who it is says `tracemalloc`: it is
on while somebody asks, and only then, because it makes each allocation two to four times as long. What was there before
is not counted. At each look the bytes that are still held are added up by stack; what grows at all looks
(`grading.theil_sen`, its interval above 0) by more than `GROWN_MIN` is a finding of kind "bytes", with the stack of the
handler's code. It is never worse than "suspect": a cache that fills grows as well, and only its owner knows.

    answer("memory")     look · look · look ...  seconds   ─►  findings of this process
    growth(STATE)        all processes at once

Safety: it ends early, with a note, when its own books take more than `OWN_BYTES_MAX`. Where the program traces by
    itself, nothing is switched on or off.
Concurrency: any thread; those who ask at the same time share one tracer.
Known limits: what is in cycles and outlived a look is found by the collector's full runs only, and grows until then.
    Memory of C libraries that do not take it from Python (`malloc` of their own) has no line; then growth of
    the resident set is all that is known. One look at 100,000 blocks holds the interpreter for some 50 ms.
"""

from __future__ import annotations

import gc
import linecache
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import CodeType
from typing import Any, Final

import orjson

from runtime.profile.leak_check.findings import build
from runtime.profile.leak_check.grading import SUSPECT, Facts, Finding, Series, Signature, order
from runtime.profile.leak_check.survey import Report
from runtime.profile.model import Frame, Process, dumped
from runtime.profile.presence.control import ask
from runtime.profile.presence.here import Request
from runtime.profile.turns import TURNS

KIND: Final = "bytes"
SECONDS: Final = 5.0
LOOKS: Final = 8
"""At least six are needed for an interval of a slope."""
FRAMES: Final = 24
GROWN_MIN: Final = 64 << 10
"""Bytes in the time of the looks."""
OWN_BYTES_MAX: Final = 64 << 20
_FINDINGS_MAX: Final = 20
_STACKS_MAX: Final = 4_096
_SOURCE_MAX: Final = 1 << 20
_TIMEOUT_S: Final = 5.0
_ENGINE: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "")
_SUGGESTION: Final = (
    "let go of it when the task ends, or bound what is kept (a cache: `maxsize`); until then, recycle the worker at a "
    "size (`NodeType(recycle_rss_bytes=...)`)"
)
_OWN: Final = (tracemalloc.__file__, os.path.join(_ENGINE, "profile", ""))

Stack = tuple[tuple[str, int], ...]
"""File and line, the outermost first."""


def _is_ours(stack: Stack) -> bool:
    """Whether this module or others of the profiler took it; code that was made of text, as a named tuple's, is of the
    file that called it."""
    return next((file for file, _ in reversed(stack) if not file.startswith("<")), "").startswith(_OWN)


class _Tracer:
    """`tracemalloc`, for as long as somebody needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._ours = False

    @contextmanager
    def on(self) -> Iterator[None]:
        """It traces within."""
        with self._lock:
            self._users += 1
            if not tracemalloc.is_tracing():
                self._ours = True
                tracemalloc.start(FRAMES)
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._ours and not self._users:
                    self._ours = False
                    tracemalloc.stop()


# global: of this process, as its allocator is
TRACER: Final = _Tracer()


class MemoryGrowth:
    """What grows here, look by look.

    Args:
        process: Who this is, for the findings.
    """

    def __init__(self, process: Process | None = None) -> None:
        self._process = process
        self._series: dict[Stack, Series] = {}
        self._blocks: dict[Stack, int] = {}
        self._times: list[int] = []
        self.notes: list[str] = []

    def look(self, now_ns: int | None = None) -> None:
        """Add up what is held now. A time of one's own is for tests."""
        if gc.isenabled():
            gc.collect(1)  # what was made since the last look and is garbage would grow until it is collected
        self._look(now_ns)

    @TURNS.shortly
    def _look(self, now_ns: int | None) -> None:
        now_ns = time.monotonic_ns() if now_ns is None else now_ns
        held: dict[Stack, tuple[int, int]] = {}
        # As `tracemalloc.take_snapshot().traces` has them, without an object for each.
        for trace in tracemalloc._get_traces():  # type: ignore[attr-defined]
            stack = trace[2]  # the innermost first
            size, blocks = held.get(stack, (0, 0))
            held[stack] = (size + trace[1], blocks + 1)
        found: dict[Stack, tuple[int, int]] = {}
        for stack, (size, blocks) in held.items():
            own = tuple(reversed(stack))
            if own and not _is_ours(own):
                before = found.get(own, (0, 0))
                found[own] = (before[0] + size, before[1] + blocks)
        self._add(now_ns, found)

    def _add(self, now_ns: int, found: dict[Stack, tuple[int, int]]) -> None:
        """What came later was nothing before; what is gone is nothing now."""
        for stack in found:
            if stack not in self._series and len(self._series) < _STACKS_MAX:
                series = self._series[stack] = Series(0)
                for before_ns in self._times:
                    series.look(before_ns, (), 0)
        self._times.append(now_ns)
        for stack, series in self._series.items():
            size, self._blocks[stack] = found.get(stack, (0, 0))
            series.look(now_ns, (), size)

    def findings(self) -> list[Finding]:
        """What grew at all looks, the most first."""
        grown: list[tuple[float, Stack, Facts]] = []
        for stack, series in self._series.items():
            facts = series.facts()
            seconds = (self._times[-1] - self._times[0]) / 1e9
            if facts.grows and facts.slope.value * seconds >= GROWN_MIN:
                grown.append((facts.slope.value, stack, facts))
        names = _Names()
        return [self._finding(stack, facts, names) for _, stack, facts in sorted(grown, reverse=True)[:_FINDINGS_MAX]]

    def _finding(self, stack: Stack, facts: Facts, names: _Names) -> Finding:
        # From the handler on; what the engine itself has below its code, such as a pickler, is the handler's.
        engines = [at for at, (file, _) in enumerate(stack) if file.startswith(_ENGINE)]
        own = next((at for at in range(min(engines, default=0), len(stack)) if at not in engines), 0)
        site = tuple(Frame(names.name(file, line), file, line) for file, line in stack[own:])
        process, size = self._process, self._series[stack].windows[-1].number
        node_type = process.node_type if process is not None else ""
        mib = 1 << 20
        why = (
            f"{size / mib:,.1f} MiB in {self._blocks[stack]:,} blocks that {site[0].name} took are kept, and it grows "
            f"by {facts.slope.value * 60 / mib:,.1f} MiB a minute"
        )
        return Finding(
            grade=SUSPECT,
            kind=KIND,
            count=size,
            slope_per_min=round(facts.slope.value * 60, 3),
            oldest_s=0.0,
            signature=Signature(KIND, site, (), node_type).id,
            site=site,
            wait=(),
            labels=(("node_type", node_type),) if node_type else (),
            owner=process.title if process is not None else "",
            proof=why,
            exemplars=(),
            suggestion=_SUGGESTION,
            build=build(),
            process=process,
        )


class _Names:
    """Functions by file and line, from their source: code objects are not kept with what they allocate."""

    def __init__(self) -> None:
        self._files: dict[str, list[tuple[int, int, str]]] = {}

    def name(self, file: str, line: int) -> str:
        """Qualified name of the innermost function there."""
        known = self._files.get(file)
        if known is None:
            known = self._files[file] = list(self._read(file))
        around = [(last - first, name) for first, last, name in known if first <= line <= last]
        return min(around)[1] if around else "<module>"

    @staticmethod
    def _read(file: str) -> Iterator[tuple[int, int, str]]:
        with suppress(SyntaxError, ValueError, OSError, RecursionError):
            source = "".join(linecache.getlines(file))
            if len(source) > _SOURCE_MAX:
                return
            left: list[CodeType] = [compile(source, file, "exec", dont_inherit=True)]
            while left:
                code = left.pop()
                left += [one for one in code.co_consts if isinstance(one, CodeType)]
                lines = [line for _, _, line in code.co_lines() if line]
                if lines and code.co_name != "<module>":
                    yield min(code.co_firstlineno, *lines), max(lines), code.co_qualname


def growth_here(seconds: float = SECONDS, process: Process | None = None, over: Any = None) -> Report:
    """What grows in this process; takes `seconds`.

    Args:
        seconds: How long it is looked at.
        process: Who this is.
        over: Asked now and then; True ends it.
    """
    growth = MemoryGrowth(process)
    with TRACER.on():
        begun_s = time.monotonic()
        for number in range(LOOKS):
            time.sleep(max(0.0, begun_s + number * seconds / (LOOKS - 1) - time.monotonic()))
            if over is not None and over():
                break
            if tracemalloc.get_tracemalloc_memory() > OWN_BYTES_MAX:
                growth.notes.append("too much was allocated to be looked at for longer; ask for fewer seconds")
                break
            growth.look()
    with TURNS.short():
        return Report(growth.findings(), growth.notes)


def answer(request: Request) -> bytes:
    """The answer to "memory"; a process that may have no thread, the spawner, allocates nothing for others."""
    if not request.threads:
        return orjson.dumps({"findings": [], "notes": []})
    report = growth_here(request.left_s(), request.process, request.over)
    return dumped({"findings": [one.as_json() for one in report.findings], "notes": report.notes})


def growth(
    state_dir: str | os.PathLike[str], *, seconds: float = SECONDS, pids: frozenset[int] | None = None
) -> Report:
    """Whose memory grows, in all processes of a state folder; they are slower meanwhile, see the module.

    Args:
        state_dir: The folder.
        seconds: How long it is looked at.
        pids: Only in these processes.

    Returns:
        Findings of kind "bytes", what grows most first, and notes.

    Raises:
        ProfileUnavailable: No process of this folder can be seen, or none answered.
        StateFolderError: It is no state folder.
    """
    answers = ask(state_dir, "memory", seconds=seconds, timeout=_TIMEOUT_S, only=pids).heard()
    return Report.of(answers, lambda one: (-one.slope_per_min, order(one)))
