"""Whether a profile says what the clocks say: a load of three kinds, whose thread reads its CPU clock around each.

Pure Python, C that keeps the interpreter and C that lets it go, one after the other on the main thread, each under a
label; and a thread that compresses beside it. The load samples its own process while it runs, so that the profile and
the clocks are of the same time, and the sum can be compared, too.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from runtime.profile.model import Profile
from runtime.profile.sampling.labels import labels
from runtime.profile.sampling.sampler import CpuSampler
from runtime.profile.sampling.ticks import SELF

DATA: Final = bytes(range(256)) * 1_500
LONG_DATA: Final = DATA * 16
"""Of the thread: 20 ms, or it would mostly wait for the interpreter lock."""
TEXT: Final = json.dumps([{"n": n, "text": "x" * 20} for n in range(800)])
LABEL: Final = "workflow"
OTHER: Final = "(other)"
READ_NS: Final = 5_000_000_000
"""A sampler is read more often than its ring can be full; captures do each second."""


def in_python() -> None:
    """Pure Python."""
    total = 0
    for number in range(30_000):
        total += number * number


def in_json() -> None:
    """C that keeps the interpreter."""
    for _ in range(4):
        json.loads(TEXT)


def in_zlib(data: bytes = DATA) -> None:
    """C that lets the interpreter go."""
    zlib.compress(data, 6)


KINDS: Final[tuple[tuple[Callable[[], None], str, int], ...]] = (
    (in_python, "checkout", 2),
    (in_json, "refund", 3),
    (in_zlib, "report", 1),
)
"""What is run, under which label, and how often in a turn."""
WORK: Final = tuple(work.__name__ for work, _, _ in KINDS)


class Shares(NamedTuple):
    """Nanoseconds by name, as the clocks of threads say and as was sampled."""

    true: dict[str, int]
    found: dict[str, int]

    def error(self) -> float:
        """The largest difference of two shares."""
        return apart(self.true, self.found)[1]


class Found(NamedTuple):
    """What a load found out about the sampler.

    Attributes:
        functions: Of all threads, by which of `WORK` it is in.
        workflows: Of the main thread, by label.
        cpu_ns: Of the process, by its clock.
        sum_ns: Of the profile.
        seen: Ticks that saw the main thread.
        leaves: Of all threads, by the innermost function.
    """

    functions: Shares
    workflows: Shares
    cpu_ns: int
    sum_ns: int
    seen: int
    leaves: dict[str, int]

    @classmethod
    def of_json(cls, row: list[Any]) -> Found:
        """As it comes from a worker."""
        return cls(Shares(*row[0]), Shares(*row[1]), *row[2:])

    def sum_error(self) -> float:
        """Of the sum, as a part."""
        return abs(self.sum_ns / self.cpu_ns - 1)


def compute(seconds: float, hz: float) -> Found:
    """Run the load for so much CPU time of this thread, which is the main thread, and sample it."""
    true, by_label = Counter[str](), Counter[str]()
    stop, used = threading.Event(), list[int]()
    thread = threading.Thread(target=_pack_on, args=(stop, used), name="packs")
    before_ns, profile = time.process_time_ns(), Profile()
    sampler = CpuSampler(hz).start()
    try:
        thread.start()
        read_ns = time.thread_time_ns() + READ_NS
        until_ns = read_ns - READ_NS + int(seconds * 1e9)
        while (now_ns := time.thread_time_ns()) < until_ns:
            if now_ns >= read_ns:
                profile.merge(sampler.flush()).notes.clear()
                read_ns += READ_NS
            for work, workflow, turns in KINDS:
                with labels(**{LABEL: workflow}):
                    begun_ns = time.thread_time_ns()
                    for _ in range(turns):
                        work()
                    took_ns = time.thread_time_ns() - begun_ns
                true[work.__name__] += took_ns
                by_label[workflow] += took_ns
    finally:
        stop.set()
        thread.join()
        profile.merge(sampler.stop())
    cpu_ns = time.process_time_ns() - before_ns
    true[in_zlib.__name__] += used[0]
    functions, workflows = Counter[str](), Counter[str]()
    seen = 0
    for sample, weight in profile:
        if sample.stack[-1].name == SELF:
            continue
        functions[work_of(sample.stack)] += weight.value
        if sample.thread == "MainThread":
            workflows[dict(sample.labels).get(LABEL, OTHER)] += weight.value
            seen += weight.seen
    return Found(
        Shares(dict(true), dict(functions)),
        Shares(dict(by_label), dict(workflows)),
        cpu_ns,
        profile.total().value,
        seen,
        leaves_of(profile),
    )


def load(seconds: float, hz: float) -> list[Any]:
    """`compute` as a task of mode "process"."""
    found = compute(seconds, hz)
    return [list(found.functions), list(found.workflows), *found[2:]]


def _pack_on(stop: threading.Event, used: list[int]) -> None:
    while not stop.is_set():
        in_zlib(LONG_DATA)
    used.append(time.thread_time_ns())


def work_of(stack: Any) -> str:
    """Which of the three kinds a stack is in."""
    return next((name for frame in reversed(stack) if (name := short(frame.name)) in WORK), OTHER)


def leaves_of(profile: Profile) -> dict[str, int]:
    """By the innermost function, whatever its line, but for the sampler itself."""
    found = Counter[str]()
    for sample, weight in profile:
        if sample.stack and sample.stack[-1].name != SELF:
            found[short(sample.stack[-1].name)] += weight.value
    return dict(found)


def short(name: str) -> str:
    """Without the class: not all profilers have it."""
    return name.rpartition(".")[2]


def apart(one: Mapping[str, float], other: Mapping[str, float], least: float = 0.0) -> tuple[float, float]:
    """How far apart two distributions are.

    Args:
        one: Weights by name.
        other: The same, in any unit.
        least: For the second figure: only names with at least such a share in one of them.

    Returns:
        The total variation distance, and the largest difference of two shares of a name.
    """
    totals = sum(one.values()) or 1, sum(other.values()) or 1
    pairs = [(one.get(name, 0) / totals[0], other.get(name, 0) / totals[1]) for name in {*one, *other}]
    differences = [abs(first - second) for first, second in pairs]
    large = [abs(first - second) for first, second in pairs if max(first, second) >= least]
    return sum(differences) / 2, max(large, default=0.0)
