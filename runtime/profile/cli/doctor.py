"""`doctor`: what this machine and this Python permit, what is missing for what, and what looking costs here.

Nothing is changed, and nothing but this process is looked at, unless a folder is open: then each of its processes is
asked whether it answers, and what the profiler took there so far.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

from actors.protocol.profile_errors import ProfileUnavailable
from runtime.cli.console import Console
from runtime.cli.report import align, duration_text
from runtime.profile.captures.snapshot import snapshot
from runtime.profile.cli.app import ProfileExit
from runtime.profile.cli.shared import state_of
from runtime.profile.cli.stacks import as_json
from runtime.profile.ledger.books import Ledger
from runtime.profile.model import Process
from runtime.profile.presence.control import ask, rows_of
from runtime.profile.presence.here import C_SIGNAL, SIGNAL
from runtime.profile.presence.page import LETS_ATTACH
from runtime.profile.presence.processes import looked

GOOD: Final = "ok"
LESS: Final = "less"
"""Works, with a part missing, which is said."""
YAMA: Final = "/proc/sys/kernel/yama/ptrace_scope"
_PAIRS: Final = 20_000
_TICKS: Final = 20
_TICK_S: Final = 0.005
_YAMA: Final = {
    "0": (GOOD, "any process of this user"),
    "1": (LESS, "only children; run py-spy as root, or as the parent, or use Profiling(allow_attach=True)"),
    "2": (LESS, "administrators only"),
    "3": (LESS, "nobody"),
}


class Fact(NamedTuple):
    """One line: what was looked at, how it is, and what that means."""

    name: str
    verdict: str
    text: str


def show_doctor(arguments: Namespace, console: Console) -> int:
    """The command `doctor`. Ends with 0 whatever it found: what is missing is said, and the rest works."""
    facts = [*machine(), *interpreter(), *outside(), *costs()]
    try:
        state = state_of(arguments)
        facts += of_folder(state)
    except ProfileUnavailable as nobody:
        facts.append(Fact("processes", LESS, nobody.message))
    if arguments.json:
        console.say(as_json([fact._asdict() for fact in facts]))
    else:
        console.say(line.rstrip() for line in align([tuple(fact) for fact in facts], left=3))
    return ProfileExit.OK


# --- the machine ------------------------------------------------------------------------------------------------------


def machine() -> Iterator[Fact]:
    """Kernel, /proc, signals, timers, clocks."""
    yield Fact("system", GOOD, f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores")
    proc = os.path.isdir("/proc/self/fd")
    yield Fact("/proc", GOOD if proc else LESS, "is there" if proc else "none: other programs' folders are not found")
    memfd = hasattr(os, "memfd_create")
    yield Fact("memfd", GOOD if memfd else LESS, "is there" if memfd else "none: blocks are unlinked files")
    if hasattr(signal, "SIGRTMIN"):
        names = f"SIGRTMIN+{SIGNAL - signal.SIGRTMIN} and +{C_SIGNAL - signal.SIGRTMIN}"
        pending = hasattr(os, "pidfd_open")
        yield Fact("signals", GOOD if pending else LESS, names + ("" if pending else "; no pidfd: nobody is asked"))
    else:
        yield Fact("signals", LESS, "no real-time signals: processes show their books, and are not asked")
    yield _timer()
    tick_ns = time.get_clock_info("thread_time").resolution * 1e9
    yield Fact("thread clock", GOOD, f"resolution {duration_text(round(tick_ns))}")
    waits = os.path.exists("/proc/self/schedstat")
    yield Fact("run-queue delay", GOOD if waits else LESS, "from schedstat" if waits else "no schedstat: not known")


def _timer() -> Fact:
    """How often SIGPROF comes: the kernel looks at CPU timers at its ticks, and no more often."""
    if not hasattr(signal, "setitimer"):
        return Fact("SIGPROF", LESS, "no interval timers: no CPU profile of the main thread")
    seen: list[int] = []
    before = signal.signal(signal.SIGPROF, lambda *_: seen.append(time.process_time_ns()))
    try:
        signal.setitimer(signal.ITIMER_PROF, _TICK_S / 5, _TICK_S / 5)
        until = time.process_time_ns() + int(_TICKS * _TICK_S * 1e9)
        while time.process_time_ns() < until:
            sum(range(500))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before if before is not None else signal.SIG_DFL)
    if len(seen) < 2:
        return Fact("SIGPROF", LESS, "the timer does not fire: no CPU profile of the main thread")
    gap_ns = (seen[-1] - seen[0]) // (len(seen) - 1)
    return Fact("SIGPROF", GOOD, f"fires each {duration_text(gap_ns)} at most: up to {1e9 / max(1, gap_ns):.0f} Hz")


# --- the interpreter --------------------------------------------------------------------------------------------------


def interpreter() -> Iterator[Fact]:
    """Versions, and the attributes that are private to CPython, tried and not believed."""
    supported = (3, 11) <= sys.version_info[:2] <= (3, 13)
    text = f"{platform.python_implementation()} {platform.python_version()}"
    yield Fact("Python", GOOD if supported else LESS, text + ("" if supported else ": not among those that are tested"))
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    yield Fact(
        "interpreter lock", GOOD if locked else LESS, "there" if locked else "none: only main threads are sampled"
    )
    for name in ("uvloop", "rich", "psutil"):
        yield _version(name, LESS)
    frames = hasattr(sys, "_current_frames")
    yield Fact("threads' frames", GOOD if frames else LESS, "seen" if frames else "not seen: main threads only")
    waits = private_attributes()
    lacks = [name for name, there in waits.items() if not there]
    yield Fact("tasks' insides", LESS if lacks else GOOD, f"lacks {', '.join(lacks)}" if lacks else "all there")


def _version(name: str, without: str) -> Fact:
    try:
        return Fact(name, GOOD, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Fact(name, without, "not installed")


def private_attributes() -> dict[str, bool]:
    """What await chains and proofs read that no documentation promises, and whether this Python has it."""
    import asyncio  # lazy: nothing else here needs it

    async def outer() -> dict[str, bool]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        event = asyncio.Event()

        async def inner() -> None:
            event.set()
            await future

        task = asyncio.create_task(inner())
        await event.wait()
        coro: Any = task.get_coro()
        found = {
            "_fut_waiter": getattr(task, "_fut_waiter", None) is future,
            "cr_await": getattr(coro, "cr_await", None) is not None,
            "_callbacks": hasattr(future, "_callbacks"),
            "_current_tasks": hasattr(asyncio.tasks, "_current_tasks"),
        }
        future.set_result(None)
        await task
        return found

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(outer())
    finally:
        loop.close()


# --- profilers from outside -------------------------------------------------------------------------------------------


def outside() -> Iterator[Fact]:
    """What py-spy and perf would be permitted."""
    scope = _read(YAMA)
    verdict, text = _YAMA.get(scope, (GOOD, "no Yama: as users are told apart"))
    if _has_capability(_CAP_SYS_PTRACE):
        verdict, text = GOOD, "this user may (CAP_SYS_PTRACE)"
    seccomp = _status("Seccomp") not in ("", "0")
    yield Fact("ptrace", verdict, text + ("; a seccomp filter may refuse it" if seccomp else ""))
    paranoid = _read("/proc/sys/kernel/perf_event_paranoid")
    permitted = paranoid.lstrip("-").isdigit() and int(paranoid) <= 2
    yield Fact(
        "perf", GOOD if permitted else LESS, f"perf_event_paranoid {paranoid or 'not there'}; nothing here needs it"
    )
    found = py_spy()
    yield Fact("py-spy", GOOD if found else LESS, found or "not installed: pip install py-spy; nothing else needs it")
    shown = shutil.which("go")
    yield Fact("go tool pprof", GOOD if shown else LESS, shown or "not installed; any reader of pprof files will do")


def py_spy() -> str | None:
    """The place of py-spy: beside this Python, or on the path."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if beside.exists() else shutil.which("py-spy")


_CAP_SYS_PTRACE: Final = 19


def _has_capability(number: int) -> bool:
    with suppress(ValueError):
        return bool(int(_status("CapEff") or "0", 16) >> number & 1)
    return False


def _status(name: str) -> str:
    for line in _read("/proc/self/status").splitlines():
        if line.startswith(f"{name}:"):
            return line.partition(":")[2].strip()
    return ""


def _read(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text().strip()
    return ""


# --- what it costs ----------------------------------------------------------------------------------------------------


def costs() -> Iterator[Fact]:
    """Measured here, now, in this process; on a busy machine the best of several is nearest to the truth."""
    ledger = Ledger()

    def pairs() -> None:
        track, release = ledger.track, ledger.release
        for _ in range(_PAIRS):
            release(track("task"))

    yield Fact("entry of the books", GOOD, f"{duration_text(best(pairs) // _PAIRS)} for track and release")
    yield Fact("snapshot", GOOD, f"{duration_text(best(snapshot))} for this process")


def best(call: Callable[[], Any], tries: int = 5) -> int:
    """The shortest CPU time of some calls."""
    found = []
    for _ in range(tries):
        begun = time.thread_time_ns()
        call()
        found.append(time.thread_time_ns() - begun)
    return min(found)


def _attachable(state: str) -> Fact:
    """Whether `Profiling(allow_attach=True)` is in force."""
    rows = rows_of(state)
    count = sum(bool(row.hears & LETS_ATTACH) for row in rows)
    if count:
        return Fact("allow_attach", GOOD, f"{count} of {len(rows)} processes let any process of this user attach")
    if not os.path.exists(YAMA):
        return Fact("allow_attach", GOOD, "there is no Yama here (prctl says EINVAL), and nothing to be allowed")
    return Fact("allow_attach", GOOD, "not asked for: Profiling(allow_attach=True) lets py-spy of this user attach")


def of_folder(state: str) -> Iterator[Fact]:
    """Whether the processes of a folder answer, and what the profiler took there."""
    begun_ns = time.monotonic_ns()
    answers = ask(state, "count")
    took_ns = time.monotonic_ns() - begun_ns
    silent: list[Process] = [*answers.missing, *(process for process, _ in answers.failed)]
    text = f"{len(answers.rows)} of {state} answered in {duration_text(took_ns)}"
    text += f"; not: {', '.join(process.title for process in silent)}" if silent else ""
    yield Fact("processes", LESS if silent else GOOD, text)
    yield _attachable(state)
    rows = looked(state, fresh=False)
    cpu_ns, self_ns = sum(row.cpu_ns for row in rows), sum(row.self_ns for row in rows)
    ratio = self_ns / cpu_ns if cpu_ns else 0.0
    each = ", ".join(f"{row.process.title} {row.self_cpu_ratio:.2%}" for row in rows if row.self_ns)
    text = f"{duration_text(self_ns)} of {duration_text(cpu_ns)} since they began, with all that was asked, {ratio:.2%}"
    yield Fact("profiler's own CPU", GOOD, text + (f": {each}" if each else ""))
