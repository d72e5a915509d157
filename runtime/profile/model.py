"""What a profile is: weights of stacks, by process, thread and labels, whatever measured them and however it is shown.

    StackSample(stack, labels, process, thread) ──► Weight(nanoseconds, how often seen)

A stack is root first. A label set is sorted by name. Weights are times in nanoseconds, never samples times a rate, so
that merging profiles of different rates, or changing the rate in the middle, changes no time; where things are counted
(what is alive, what leaks) the weight is their number, see `Profile.unit`.

Profiles of several processes, and of the same process at several times, are merged by `Profile.merge`; stacks, labels
and threads that are equal become one. What could not be seen is in `Profile.notes`, for whoever reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, Self

import orjson

from runtime.profile.turns import TURNS

FORMAT: Final = 1
"""Of `to_json`."""
LABELS: Final = ("tenant", "workflow", "node_type", "actor", "attempt")
"""Names of labels that the engine gives; users may add some."""
CPU: Final = "cpu"
AWAIT: Final = "await"
LIVE: Final = "live"
LEAKS: Final = "leaks"
NANOSECONDS: Final = "nanoseconds"
COUNT: Final = "count"
_PIECE: Final = 128

Labels = tuple[tuple[str, str], ...]


class Frame(NamedTuple):
    """A place in a program. `line` is where it is, 0 where that is not known; a frame that stands for something else
    than a function (a process, a task, a handler) has no file."""

    name: str
    file: str = ""
    line: int = 0


class Process(NamedTuple):
    """A process: its role ("face", "spawner", "engine", "worker", ...), and the number and node type of a worker.

    `start_time` tells it from one that gets the same pid later, see `runtime.host.kernel.start_time`.
    """

    pid: int
    start_time: int
    role: str
    number: int = 0
    node_type: str = ""

    @property
    def title(self) -> str:
        """As a frame, and for people: "worker 3 [http]"."""
        number = f" {self.number}" if self.number else ""
        return f"{self.role}{number}" + (f" [{self.node_type}]" if self.node_type else "")

    @property
    def named(self) -> str:
        """In a note: "worker 3 [http] (pid 12)"."""
        return f"{self.title} (pid {self.pid})"


class StackSample(NamedTuple):
    """What is weighed."""

    stack: tuple[Frame, ...]
    labels: Labels = ()
    process: Process | None = None
    thread: str = ""


class Weight(NamedTuple):
    """How much, in the profile's unit, and how often it was seen."""

    value: int
    seen: int


class Profile:
    """Weighted stacks.

    Args:
        kind: CPU, AWAIT, LIVE or LEAKS, or a kind of the ledger.
        unit: NANOSECONDS or COUNT.
        begun_ns: When it begins, on the wall clock (ns since 1970).
        duration_ns: How long it took; of several, the longest.
        hz: Samples a second that were asked for; 0: not sampled.

    Attributes:
        samples: The weights.
        notes: What whoever reads it must know: what was lost, which process could not be seen, what it cost.
    """

    def __init__(
        self, kind: str = CPU, unit: str = NANOSECONDS, begun_ns: int = 0, duration_ns: int = 0, hz: float = 0.0
    ) -> None:
        self.kind, self.unit, self.begun_ns, self.duration_ns, self.hz = kind, unit, begun_ns, duration_ns, hz
        self.samples: dict[StackSample, Weight] = {}
        self.notes: list[str] = []

    def add(self, sample: StackSample, value: int, seen: int = 1) -> None:
        """Add to the weight of a sample."""
        before = self.samples.get(sample)
        self.samples[sample] = Weight(value, seen) if before is None else Weight(before[0] + value, before[1] + seen)

    def __repr__(self) -> str:
        return f"<Profile {self.kind}: {len(self)} stacks, {self.total().value:,} {self.unit}>"

    def total(self) -> Weight:
        """The sum of all."""
        weights = self.samples.values()
        return Weight(sum(weight.value for weight in weights), sum(weight.seen for weight in weights))

    def __iter__(self) -> Iterator[tuple[StackSample, Weight]]:
        return iter(self.samples.items())

    def __len__(self) -> int:
        return len(self.samples)

    def without_samples(self) -> Profile:
        """Its kind, times and notes."""
        return self._made(())

    def let_go(self) -> None:
        """Forget the samples one by one: a dictionary of many is freed in one go, while nobody else runs."""
        while self.samples:
            self.samples.popitem()
            TURNS.breathe()

    # --- several --------------------------------------------------------------------------------------------------

    def merge(self, *others: Profile) -> Self:
        """Add other profiles to this one.

        Raises:
            ValueError: One of them has another unit.
        """
        for other in others:
            if other.unit != self.unit:
                raise ValueError(f"a profile in {other.unit} cannot be added to one in {self.unit}")
            for sample, weight in other:
                self.add(sample, *weight)
            self.begun_ns = min(filter(None, (self.begun_ns, other.begun_ns)), default=0)
            self.duration_ns = max(self.duration_ns, other.duration_ns)
            self.hz = max(self.hz, other.hz)
            self.notes += [note for note in other.notes if note not in self.notes]
        return self

    def filter(self, keeps: Callable[[StackSample], bool] | None = None, /, **labels: str) -> Profile:
        """Those samples only that `keeps` wants, and that have these labels."""
        wanted = labels.items()
        return self._made(
            (sample, weight)
            for sample, weight in self
            if wanted <= dict(sample.labels).items() and (keeps is None or keeps(sample))
        )

    def map(self, change: Callable[[StackSample], StackSample]) -> Profile:
        """Each sample changed; those that become equal are one."""
        return self._made((change(sample), weight) for sample, weight in self)

    def by(self, *names: str) -> dict[tuple[str, ...], Weight]:
        """Sums by labels, in the order of these names; "" where a sample lacks one."""
        sums: dict[tuple[str, ...], Weight] = {}
        for sample, weight in self:
            labels = dict(sample.labels)
            key = tuple(labels.get(name, "") for name in names)
            before = sums.get(key, Weight(0, 0))
            sums[key] = Weight(before.value + weight.value, before.seen + weight.seen)
        return sums

    def _made(self, pairs: Iterable[tuple[StackSample, Weight]]) -> Profile:
        made = Profile(self.kind, self.unit, self.begun_ns, self.duration_ns, self.hz)
        made.notes = list(self.notes)
        for sample, weight in pairs:
            made.add(sample, *weight)
        return made

    # --- as data --------------------------------------------------------------------------------------------------

    def to_json(self) -> bytes:
        """As JSON, frames and processes in tables; `from_json` reads it."""
        return b"".join(self.json_pieces())

    def json_pieces(self) -> list[bytes]:
        """The same, to be joined or written one by one: joining megabytes takes its time, too."""
        frames: dict[Frame, int] = {}
        processes: dict[Process | None, int] = {}
        rows = (
            [
                [frames.setdefault(frame, len(frames)) for frame in sample.stack],
                sample.labels,
                processes.setdefault(sample.process, len(processes)),
                sample.thread,
                *weight,
            ]
            for sample, weight in self
        )
        samples = in_pieces(rows)  # which fills the tables
        facts = {name: getattr(self, name) for name in ("kind", "unit", "begun_ns", "duration_ns", "hz", "notes")}
        facts["processes"] = [process and [*process] for process in processes]
        head = dumped({"format": FORMAT, **facts})[:-1]
        places = in_pieces([*frame] for frame in frames)
        return [head, b',"frames":', *places, b',"samples":', *samples, b"}"]

    @classmethod
    def from_json(cls, content: bytes) -> Profile:
        """Read what `to_json` wrote.

        Raises:
            ValueError: It is no profile, or of a newer format.
        """
        try:
            found: Mapping[str, Any] = orjson.loads(content)
            if found["format"] > FORMAT:
                raise ValueError(f"a profile of format {found['format']}; this version reads up to {FORMAT}")
            made = cls(found["kind"], found["unit"], found["begun_ns"], found["duration_ns"], found["hz"])
            made.notes = list(found["notes"])
            frames = [Frame(*row) for row in found["frames"]]
            processes = [None if row is None else Process(*row) for row in found["processes"]]
            for stack, labels, process, thread, value, seen in found["samples"]:
                pairs = tuple((name, text) for name, text in labels)
                made.add(StackSample(tuple(frames[at] for at in stack), pairs, processes[process], thread), value, seen)
        except (KeyError, TypeError, IndexError) as strange:
            raise ValueError(f"this is no profile: {strange!r}") from strange
        return made


def dumped(data: Any) -> bytes:
    """Data as JSON. Names of files, tasks and threads may have characters that are none (lone surrogates): written as
    Python writes them, `\\ud800`."""
    try:
        return orjson.dumps(data)
    except TypeError:
        return orjson.dumps(_written(data))


def _written(data: Any) -> Any:
    if isinstance(data, str):
        return data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, Mapping):
        return {_written(name): _written(one) for name, one in data.items()}
    return [_written(one) for one in data] if isinstance(data, list | tuple) else data


def in_pieces(rows: Iterable[Any]) -> list[bytes]:
    """A JSON array, to be joined: a few items at a time, because nobody else has the interpreter while they are written
    or freed."""
    rest, pieces = iter(rows), [b"["]
    while piece := list(islice(rest, _PIECE)):
        TURNS.breathe()
        pieces += (dumped(piece)[1:-1], b",")
    pieces[max(1, len(pieces) - 1) :] = [b"]"]
    return pieces
