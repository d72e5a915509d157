"""`py-spy`: the real one on all processes at once, with flags that fit an engine, merged into one profile.

Each process is recorded by a py-spy of its own, at the same time: `--subprocesses` follows children of the one that is
named, and stops at the first that is no Python. Flags: `--nonblocking`, because stopping a process of many threads
hundreds of times a second slows it down; `--threads` for their names; raw output. What py-spy calls running may wait in
a C library: leaves that are known to wait are dropped (`--idle` keeps them), as their CPU clock cannot be seen from
outside.

Needs py-spy, and the right to look into the processes (`doctor` says whether that is given).
"""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from actors.protocol.profile_errors import ProfileUnavailable
from runtime.cli.console import Console
from runtime.profile.captures.capture import pass_time
from runtime.profile.cli.doctor import py_spy
from runtime.profile.cli.recorded import check_output, finish
from runtime.profile.cli.shared import state_of, until_interrupted
from runtime.profile.model import CPU, NANOSECONDS, Frame, Process, Profile, StackSample
from runtime.profile.presence.control import seen_page

IDLE: Final = frozenset(
    "select poll epoll wait _wait wait_for_tstate_lock acquire _recv recv recv_into accept read readinto sleep get "
    "kevent Housekeeper.run _doze _sleep_until _try_wait pause sigwait __enter__ join flock lockf".split()
)
"""Functions that wait whenever they are innermost."""
_FRAME: Final = re.compile(r"(.*) \((.*?)(?::(\d+))?\)")
_THREAD: Final = re.compile(r"thread \((.*)\): (.*)|thread \((.*)\)")
_PATIENCE_S: Final = 10.0
_STEP_S: Final = 0.05


def run_py_spy(arguments: Namespace, console: Console) -> int:
    """The command `py-spy`."""
    check_output(arguments)
    program = py_spy()
    if program is None:
        raise ProfileUnavailable("py-spy is not installed").hinting("pip install py-spy; `cpu` needs nothing else")
    processes = processes_of(state_of(arguments, console))
    with tempfile.TemporaryDirectory(prefix="mainspring-py-spy-") as folder, until_interrupted() as stop:
        found = spy(program, processes, arguments.duration, arguments.hz, Path(folder), stop, idle=arguments.idle)
    if not found.samples and found.notes:
        console.note(f"note: {note}" for note in found.notes)
        raise ProfileUnavailable("py-spy could not look into any process").hinting("`doctor` says what ptrace permits")
    return finish(found, arguments, console, interrupted=stop())


def processes_of(state: str) -> list[Process]:
    """Who is to be looked at. Raises ProfileUnavailable."""
    with seen_page(state) as page:
        return [row.process for row in page.processes()]


def spy(
    program: str,
    processes: list[Process],
    seconds: float,
    hz: float,
    folder: Path,
    stop: Callable[[], bool],
    *,
    idle: bool = False,
) -> Profile:
    """Record all of them at once.

    Args:
        program: The place of py-spy.
        processes: Of whom.
        seconds: How long.
        hz: Samples a second.
        folder: For its files.
        stop: Whether what is there is enough.
        idle: Keep leaves that only wait.

    Returns:
        One profile; in the notes who could not be recorded, and why.
    """
    begun_ns, begun_s = time.time_ns(), time.monotonic()
    running = {process: _start(program, process, seconds, hz, folder) for process in processes}
    left_s = seconds + _PATIENCE_S
    while any(child.poll() is None for child in running.values()) and left_s > 0 and not stop():
        pass_time(_STEP_S)
        left_s -= _STEP_S
    merged = Profile(CPU, NANOSECONDS, begun_ns, int(min(seconds, time.monotonic() - begun_s) * 1e9), hz)
    for process, child in running.items():
        if child.poll() is None:
            child.send_signal(signal.SIGINT)  # it writes what it has
        try:
            _, said = child.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            _, said = child.communicate()
        try:
            text = _file(folder, process).read_text("utf-8", "replace")
        except OSError:
            text = ""
        if child.returncode not in (0, None, -signal.SIGINT) and not text:
            merged.notes.append(f"{process.named}: {said.strip().splitlines()[-1] if said.strip() else 'no samples'}")
        for sample, number in read_raw(text, process, idle=idle):
            merged.add(sample, round(number * 1e9 / hz), number)
    return merged


def _file(folder: Path, process: Process) -> Path:
    return folder / f"{process.pid}.raw"


def _start(program: str, process: Process, seconds: float, hz: float, folder: Path) -> subprocess.Popen[str]:
    command = [program, "record", "--pid", str(process.pid), "--nonblocking", "--threads", "--format", "raw"]
    command += ["--rate", str(round(hz)), "--duration", str(max(1, round(seconds)))]
    command += ["--output", str(_file(folder, process))]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def read_raw(text: str, process: Process, *, idle: bool = False) -> Iterator[tuple[StackSample, int]]:
    """What `py-spy record --format raw --threads` wrote.

    Args:
        text: The file: a line for each stack, "thread (0x12): name;outer (file:1);inner (file:2) 17".
        process: Whose.
        idle: Keep stacks whose leaf only waits.

    Yields:
        Samples, with how often each was seen.
    """
    for line in text.splitlines():
        stack_text, _, number = line.rpartition(" ")
        if not number.isdigit():
            continue
        thread, frames = "", list[Frame]()
        for part in stack_text.split(";"):
            of_thread = _THREAD.fullmatch(part)
            if of_thread:
                thread = of_thread[2] or of_thread[3] or ""
                continue
            place = _FRAME.fullmatch(part)
            frames.append(Frame(place[1], place[2], int(place[3] or 0)) if place else Frame(part))
        leaf = frames[-1].name if frames else ""
        if frames and (idle or not IDLE & {leaf, leaf.rpartition(".")[2]}):
            yield StackSample(tuple(frames), (), process, thread), int(number)
