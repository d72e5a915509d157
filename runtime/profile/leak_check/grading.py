"""Is it a leak? Grades what is there by how it grows and ages; nothing here looks at a process or a clock.

What is alike is looked at together: of one kind, created and waiting at the same place, for the same node type and
workflow (`Signature`). Each look at it is a `Window`: how many there are, and since when. Four facts speak for a leak:

    grows   Theil-Sen slope of the number, whose 95 % interval lies above 0, over six windows or more
    stays   the same ones stay: the tenth that was oldest at the first window ages by a second a second
    many    more than 16, and more than four times as many as when the process was warm
    old     the oldest is older than its kind may become (`ttl`)

All four, or a proof that nothing live can end it: LEAK. Two or three: SUSPECT. One: INFO. None: no finding.

A backlog grows, too, and its head is old; but its head is taken, and then the oldest are others. So "stays" is not the
10th percentile of all ages, which a steady leak raises by a tenth of a second a second only (ages of what leaks once a
second are spread from 0 to now): it follows the items that were oldest when it began to look.

The interval is Sen's (Journal of the American Statistical Association 63, 1379-1389, 1968), from the variance of
Kendall's S with ties, as in Hollander and Wolfe, Nonparametric Statistical Methods, 9.3: no distribution is assumed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from xxhash import xxh3_64_hexdigest

from runtime.profile.model import Frame, Labels, Process

LEAK: Final = "leak"
SUSPECT: Final = "suspect"
INFO: Final = "info"
GRADES: Final = (LEAK, SUSPECT, INFO)
"""The worst first."""
WINDOWS_MIN: Final = 6
"""With fewer the interval of a slope is nearly everything."""
WINDOWS_MAX: Final = 64
MANY: Final = 16
TIMES_WARM: Final = 4
STAYS_SLOPE: Final = 0.9
"""Seconds a second. A head of which something is taken stands still or falls back; 0.1 for looks that come late."""
_Z_95: Final = 1.959964
EXEMPLARS: Final = 3


class Signature(NamedTuple):
    """What is alike. Stacks are root first."""

    kind: str
    site: tuple[Frame, ...] = ()
    wait: tuple[Frame, ...] = ()
    node_type: str = ""
    workflow: str = ""

    @property
    def id(self) -> str:
        """The same for the same code in every process and after a restart: lines of a changed file change it."""
        return xxh3_64_hexdigest(repr(tuple(self)).encode("utf-8", "surrogatepass"))[:12]


class Window(NamedTuple):
    """One look. Times are monotonic (ns); `oldest_ns` and `head_ns` are since when they live, 0: not known."""

    at_ns: int
    number: int
    oldest_ns: int = 0
    head_ns: int = 0


class Trend(NamedTuple):
    """Of values by time, and where it lies with 95 %."""

    value: float
    low: float
    high: float


class Facts(NamedTuple):
    """What speaks for a leak, see the head of the file; `slope` is of the number, by second."""

    grows: bool
    stays: bool
    many: bool
    old: bool
    slope: Trend

    def said(self) -> str:
        """For people."""
        names = ("it grows", "the same ones stay", "there are many", "the oldest is old")
        return ", ".join(name for name, holds in zip(names, self, strict=False) if holds is True)

    def grade(self) -> str:
        """LEAK, SUSPECT, INFO, or "" for none."""
        held = self.grows + self.stays + self.many + self.old
        return LEAK if held == 4 else SUSPECT if held >= 2 else INFO if held else ""


class Finding(NamedTuple):
    """What is found, as people, pages and programs get it.

    Attributes:
        grade: LEAK, SUSPECT or INFO.
        kind: Of `kinds`.
        count: How many there are.
        slope_per_min: By how many they become more in a minute.
        oldest_s: Age of the oldest; 0.0 where it is not known.
        signature: Names it: the same in other processes and later.
        site: Where they were created, root first: the last is the line.
        wait: Where they wait, root first.
        labels: What they have in common.
        owner: Who has them.
        proof: Why nothing can end it; without a proof, what speaks for it.
        exemplars: Names of three of them.
        suggestion: What to do.
        proved: Whether `proof` is one.
        tenants: How many there are of each tenant, the ten with most.
        first_seen_ns: Since when the oldest lives, on the wall clock (ns).
        build: Of the code that is running, see `leaks.build`.
        process: Where; None: of no single process.
    """

    grade: str
    kind: str
    count: int  # type: ignore[assignment]  # a tuple's method that nobody asks a finding for
    slope_per_min: float
    oldest_s: float
    signature: str
    site: tuple[Frame, ...]
    wait: tuple[Frame, ...]
    labels: Labels
    owner: str
    proof: str
    exemplars: tuple[str, ...]
    suggestion: str
    proved: bool = False
    tenants: tuple[tuple[str, int], ...] = ()
    first_seen_ns: int = 0
    build: str = ""
    process: Process | None = None

    def line(self) -> str:
        """In one line, for people."""
        site = f", created at {place(self.site[-1])}" if self.site else ""
        wait = f", waits at {place(self.wait[-1])}" if self.wait else ""
        who = f" in {self.process.named}" if self.process else ""
        named = f" [{', '.join(self.exemplars)}]" if self.exemplars else ""
        return f"{self.grade}: {self.count} x {self.kind}{site}{wait}{who}: {self.proof}{named}"

    def as_json(self) -> dict[str, Any]:
        """As plain data; `of_json` reads it."""
        row = self._asdict()
        row |= {name: [[*frame] for frame in row[name]] for name in ("site", "wait")}
        return row | {"process": None if self.process is None else [*self.process]}

    @classmethod
    def of_json(cls, row: Mapping[str, Any]) -> Finding:
        """Read what `as_json` gave, after JSON made lists of tuples; names that are not known are left out."""
        known = {name: row[name] for name in cls._fields if name in row}
        for name in ("site", "wait"):
            known[name] = tuple(Frame(*frame) for frame in known.get(name, ()))
        for name in ("labels", "tenants"):
            known[name] = tuple((pair[0], pair[1]) for pair in known.get(name, ()))
        known["exemplars"] = tuple(known.get("exemplars", ()))
        process = known.get("process")
        known["process"] = None if process is None else Process(*process)
        return cls(**known)


class Series:
    """The windows of one signature.

    Args:
        ttl_ns: Older than this is old.
        warm: How many there were when the process was warm.
    """

    def __init__(self, ttl_ns: int, warm: int = 0, windows_max: int = WINDOWS_MAX) -> None:
        self.ttl_ns, self.warm = ttl_ns, warm
        self.windows: deque[Window] = deque(maxlen=windows_max)
        self._head = 0

    def look(self, at_ns: int, since_ns: Sequence[int], count: int | None = None) -> Window:
        """Add a window.

        Args:
            at_ns: When.
            since_ns: Since when each lives, in any order; of some only, where `count` says how many there are.
            count: How many there are; None: as many as have a time.
        """
        times = sorted(since_ns)
        if not self._head and times:
            self._head = max(1, math.ceil(len(times) / 10))
        head_ns = times[self._head - 1] if len(times) >= self._head > 0 else at_ns
        window = Window(at_ns, len(times) if count is None else count, times[0] if times else 0, head_ns)
        self.windows.append(window)
        return window

    def facts(self) -> Facts:
        """What speaks for a leak."""
        windows = list(self.windows)
        if not windows:
            return Facts(False, False, False, False, Trend(0.0, -math.inf, math.inf))
        last = windows[-1]
        enough = len(windows) >= WINDOWS_MIN
        seconds = [(window.at_ns - windows[0].at_ns) / 1e9 for window in windows]
        slope = theil_sen(seconds, [float(window.number) for window in windows])
        stays = False
        if enough and last.number and all(window.oldest_ns for window in windows):
            ages = [(window.at_ns - window.head_ns) / 1e9 for window in windows]
            stays = theil_sen(seconds, ages).value >= STAYS_SLOPE
        many = last.number > max(MANY, TIMES_WARM * self.warm)
        old = bool(last.number and last.oldest_ns) and last.at_ns - last.oldest_ns > self.ttl_ns
        return Facts(enough and slope.low > 0, stays, many, old, slope)


def theil_sen(times: Sequence[float], values: Sequence[float]) -> Trend:
    """The median of the slopes between all pairs, and its interval (95 %).

    Args:
        times: In any unit; pairs of the same time say nothing.
        values: As many.
    """
    slopes = sorted(
        (values[j] - values[i]) / (times[j] - times[i])
        for i in range(len(times))
        for j in range(i + 1, len(times))
        if times[j] != times[i]
    )
    if not slopes:
        return Trend(0.0, -math.inf, math.inf)
    pairs, middle = len(slopes), len(slopes) // 2
    value = slopes[middle] if pairs % 2 else (slopes[middle - 1] + slopes[middle]) / 2
    n = len(times)
    variance = (n * (n - 1) * (2 * n + 5) - _ties(times) - _ties(values)) / 18
    width = _Z_95 * math.sqrt(max(0.0, variance))
    first, last = math.floor((pairs - width) / 2) - 1, math.ceil((pairs + width) / 2)
    return Trend(value, slopes[first] if first >= 0 else -math.inf, slopes[last] if last < pairs else math.inf)


def _ties(values: Sequence[float]) -> int:
    """What equal values take from the variance of Kendall's S."""
    counts: dict[float, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return sum(n * (n - 1) * (2 * n + 5) for n in counts.values())


def place(frame: Frame) -> str:
    """A frame for people: "name (file:line)"."""
    return f"{frame.name} ({frame.file}:{frame.line})" if frame.file else frame.name


def worst(findings: Sequence[Finding]) -> str:
    """The worst grade of all; "" where there is none."""
    return next((grade for grade in GRADES if any(found.grade == grade for found in findings)), "")


def order(finding: Finding) -> tuple[int, bool, int, str]:
    """For sorting: the worst first, proofs before what grows, many before few."""
    return GRADES.index(finding.grade), not finding.proved, -finding.count, finding.signature


def check_grade(grade: str) -> str:
    """The grade, if it is one. Raises ValueError, which names all."""
    if grade not in GRADES:
        raise ValueError(f"a grade is {', '.join(map(repr, GRADES))}, not {grade!r}")
    return grade


def at_least(findings: Sequence[Finding], grade: str) -> list[Finding]:
    """Those of this grade or a worse one. Raises ValueError when there is no such grade."""
    most = GRADES.index(check_grade(grade))
    return [found for found in findings if GRADES.index(found.grade) <= most]
