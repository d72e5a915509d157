"""Go's profile format: protocol buffers, gzipped, as `go tool pprof`, Pyroscope, Parca and Alloy read them.

See github.com/google/pprof, `proto/profile.proto`. What is written:

- sample types `samples`/count and `cpu`/nanoseconds for CPU, `contentions` and `delay` for waits, one type for what is
  counted: the names that Go's own profiles have, so that scrapers find them;
- the process and the thread as frames, and as labels `pid`, `process`, `start_time` and `thread` besides, for
  `-tagroot` and filters; the reader takes the frames away again;
- the labels of a sample as they are. One of a user's that is named like one of those is written as `label.pid`;
- one mapping that says that names, files and lines are known, or the tools would look for a binary.

Nothing is lost, but that how often something was seen is its number where things are counted. The same profile is the
same bytes. Reads what other programs write, too: of several sample types the default one, else the last.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from actors.protocol.profile_errors import ProfileUnreadable
from runtime.profile.formats.roots import process_of, roots
from runtime.profile.formats.wire import blob, fields, number, numbers, packed, signed, varint
from runtime.profile.model import (
    AWAIT,
    COUNT,
    CPU,
    LEAKS,
    LIVE,
    NANOSECONDS,
    Frame,
    Labels,
    Process,
    Profile,
    StackSample,
)

TYPES: Final = {CPU: ("samples", "cpu"), AWAIT: ("contentions", "delay")}
"""Names of the sample types of times: how often, how long."""
COUNTED: Final = {LIVE: "goroutine", LEAKS: "goroutineleak"}
"""Names of sample types of numbers, where Go has another one."""
FACTS: Final = ("pid", "process", "start_time", "thread")
OWN: Final = "label."
NOTE: Final = "note: "
EXPANDED_BYTES_MAX: Final = 1 << 31
"""A file that is larger when unpacked is no profile, but an attack."""
_SECONDS: Final = {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": 1_000_000, "seconds": 1_000_000_000}


class _Strings(dict[str, int]):
    """The table of texts; the empty one is the first."""

    def __init__(self) -> None:
        super().__init__({"": 0})

    def at(self, text: str) -> int:
        return self.setdefault(text, len(self))


def type_names(kind: str, unit: str) -> tuple[tuple[str, str], ...]:
    """Sample types: name and unit."""
    if unit == COUNT:
        return ((COUNTED.get(kind, kind), COUNT),)
    seen, value = TYPES.get(kind, ("samples", kind))
    return (seen, COUNT), (value, unit)


def encode(profile: Profile, *, rooted: bool = True) -> bytes:
    """A profile as a file.

    Args:
        profile: What is written.
        rooted: Whether the process and the thread are frames, too.
    """
    return gzip.compress(b"".join(_parts(profile, rooted)), 6, mtime=0)


def _parts(profile: Profile, rooted: bool) -> Iterator[bytes]:
    strings = _Strings()
    types = type_names(profile.kind, profile.unit)
    for name, unit in types:
        yield blob(1, number(1, strings.at(name)) + number(2, strings.at(unit)))
    locations: dict[Frame, bytes] = {}
    frames_of: dict[tuple[Frame, ...], bytes] = {}
    labels_of: dict[tuple[Labels, Process | None, str], bytes] = {}
    for sample, weight in profile:
        stack = (roots(sample) if rooted else ()) + sample.stack
        if stack not in frames_of:
            for frame in stack:
                if frame not in locations:
                    locations[frame] = varint(len(locations) + 1)
            ids = b"".join([locations[frame] for frame in reversed(stack)])
            frames_of[stack] = blob(1, ids) if ids else b""
        key = (sample.labels, sample.process, sample.thread)
        if key not in labels_of:
            labels_of[key] = _labels(sample, strings)
        values = weight[:1] if len(types) == 1 else (weight.seen, weight.value)
        yield blob(2, frames_of[stack] + packed(2, values) + labels_of[key])
    yield blob(3, number(1, 1) + number(5, strings.at("python")) + number(7, 1) + number(8, 1) + number(9, 1))
    yield from _places(locations, strings)
    comments = [strings.at(f"kind: {profile.kind}"), strings.at(f"hz: {profile.hz}")]
    comments += [strings.at(NOTE + note) for note in profile.notes]
    name, unit = types[-1]
    tail = number(9, profile.begun_ns) + number(10, profile.duration_ns)
    tail += blob(11, number(1, strings.at(name)) + number(2, strings.at(unit)))
    tail += number(12, 1 if unit == COUNT else round(1e9 / profile.hz) if profile.hz else 0)
    tail += packed(13, comments) + number(14, strings.at(name))
    yield from (blob(6, text.encode("utf-8", "backslashreplace")) for text in strings)
    yield tail


def _labels(sample: StackSample, strings: _Strings) -> bytes:
    """Labels of a sample, those of its process and thread first."""
    texts: list[tuple[str, str]] = []
    out = []
    if sample.process is not None:
        texts.append(("process", sample.process.title))
        for name in ("pid", "start_time"):
            unit = number(4, strings.at("id"))  # without a unit, tools take numbers for bytes
            out.append(number(1, strings.at(name)) + number(3, getattr(sample.process, name)) + unit)
    if sample.thread:
        texts.append(("thread", sample.thread))
    texts += [(OWN + name if name in FACTS or name.startswith(OWN) else name, text) for name, text in sample.labels]
    out += [number(1, strings.at(name)) + number(2, strings.at(text)) for name, text in texts]
    return b"".join(blob(3, one) for one in out)


def _places(locations: Iterable[Frame], strings: _Strings) -> Iterator[bytes]:
    functions: dict[tuple[str, str], int] = {}
    for at, frame in enumerate(locations, 1):
        function = functions.setdefault(frame[:2], len(functions) + 1)
        yield blob(4, number(1, at) + number(2, 1) + blob(4, number(1, function) + number(2, frame.line)))
    for (name, file), at in functions.items():
        text = number(2, strings.at(name)) + number(3, strings.at(name)) + number(4, strings.at(file))
        yield blob(5, number(1, at) + text)


# --- reading ----------------------------------------------------------------------------------------------------------


def unpacked(content: bytes) -> bytes:
    """What is in a gzipped file.

    Raises:
        ProfileUnreadable: It is damaged, or too large.
    """
    reader = zlib.decompressobj(31)
    try:
        found = reader.decompress(content, EXPANDED_BYTES_MAX)
    except zlib.error as damaged:
        raise ProfileUnreadable(f"it cannot be unpacked: {damaged}") from damaged
    if not reader.eof:
        larger = f"it has more than {EXPANDED_BYTES_MAX:,} bytes" if reader.unconsumed_tail else "its end is missing"
        raise ProfileUnreadable(larger)
    return found


def decode(content: bytes) -> Profile:
    """Read a profile, gzipped or not.

    Raises:
        ProfileUnreadable: It is none, or damaged.
    """
    if content[:2] == b"\x1f\x8b":
        content = unpacked(content)
    try:
        return _Reader(content).profile()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as strange:
        raise ProfileUnreadable(f"this is no profile of pprof: {strange}") from strange


class _Reader:
    """The tables of a profile, and the samples by them."""

    def __init__(self, content: bytes) -> None:
        self.texts: list[str] = []
        self.parts: dict[int, list[dict[int, list[int | bytes]]]] = {1: [], 2: [], 4: [], 5: [], 11: []}
        self.facts: dict[int, list[int]] = {}
        self.whose: dict[tuple[int | bytes, ...], tuple[StackSample, tuple[Frame, ...]]] = {}
        for field, shape, value in fields(content):
            if field == 6 and isinstance(value, bytes):
                self.texts.append(value.decode("utf-8", "replace"))
            elif field in self.parts and isinstance(value, bytes):
                self.parts[field].append(_message(value))
            elif field in (9, 10, 12, 13, 14):
                self.facts.setdefault(field, []).extend(map(signed, numbers(shape, value)))
        if not self.texts or not self.parts[1]:
            raise ValueError("it has no texts or no sample types")

    def text(self, message: dict[int, list[int | bytes]], field: int) -> str:
        return self.texts[_int(message, field)]

    def profile(self) -> Profile:
        comments = [self.texts[at] for at in self.facts.get(13, ())]
        said = dict(line.split(": ", 1) for line in comments if line.startswith(("kind: ", "hz: ")))
        types = [(self.text(one, 1), self.text(one, 2)) for one in self.parts[1]]
        default = self.texts[self.facts.get(14, [0])[-1]]
        value_at = max((at for at, (name, _) in enumerate(types) if name == default), default=len(types) - 1)
        name, unit = types[value_at]
        factor = _SECONDS.get(unit, 1)
        kind = said.get("kind") or self.kind(name)
        period = self.facts.get(12, [0])[-1] * factor
        hz = float(said["hz"]) if "hz" in said else 1e9 / period if period and unit in _SECONDS else 0.0
        begun, took = (self.facts.get(field, [0])[-1] for field in (9, 10))
        profile = Profile(kind, NANOSECONDS if unit in _SECONDS else COUNT, begun, took, hz)
        profile.notes = [line.removeprefix(NOTE) for line in comments if line.startswith(NOTE)]
        seen_at = next((at for at, one in enumerate(types) if one[1] == COUNT), None)
        frames = self.frames()
        for part in self.parts[2]:
            values = [signed(one) for one in _ints(part, 2)]
            if len(values) != len(types):
                raise ValueError(f"a sample with {len(values)} values")
            seen = 1 if seen_at is None else values[seen_at]
            profile.add(self.sample(part, frames), values[value_at] * factor, seen)
        return profile

    def kind(self, name: str) -> str:
        by_name = {names[1]: kind for kind, names in TYPES.items()} | {go: kind for kind, go in COUNTED.items()}
        return by_name.get(name, name)

    def frames(self) -> dict[int, list[Frame]]:
        """Frames of each location, the caller first: what was inlined is a frame as well."""
        functions = {_int(one, 1): (self.text(one, 2) or self.text(one, 3), self.text(one, 4)) for one in self.parts[5]}
        found: dict[int, list[Frame]] = {}
        for place in self.parts[4]:
            lines = [_message(line) for line in place.get(4, ()) if isinstance(line, bytes)]
            frames = [Frame(*functions[_int(line, 1)], signed(_int(line, 2))) for line in reversed(lines)]
            found[_int(place, 1)] = frames or [Frame(f"0x{_int(place, 3):x}")]
        return found

    def sample(self, part: dict[int, list[int | bytes]], frames: dict[int, list[Frame]]) -> StackSample:
        key = tuple(part.get(3, ()))
        known = self.whose.get(key)
        if known is None:  # hundreds of stacks have the same labels
            bare = self.bare(key)
            known = self.whose[key] = bare, roots(bare)
        bare, own = known
        stack = tuple([frame for at in reversed(_ints(part, 1)) for frame in frames[at]])
        stack = stack[len(own) :] if own and stack[: len(own)] == own else stack
        return StackSample(stack, bare.labels, bare.process, bare.thread)

    def bare(self, parts: Iterable[int | bytes]) -> StackSample:
        """Whose a sample with these labels is, without its stack."""
        labels: dict[str, str] = {}
        facts: dict[str, str] = {}
        for one in parts:
            label = _message(one) if isinstance(one, bytes) else {}
            name = self.text(label, 1)
            text = self.text(label, 2) or (str(signed(_int(label, 3))) if 3 in label else "")
            if name in FACTS:
                facts[name] = text
            else:
                labels[name.removeprefix(OWN)] = text
        process = None
        if "process" in facts:
            process = process_of(int(facts.get("pid") or 0), facts["process"], int(facts.get("start_time") or 0))
        elif "pid" in facts:
            labels["pid"] = facts["pid"]
        return StackSample((), tuple(sorted(labels.items())), process, facts.get("thread", ""))


def _message(content: bytes) -> dict[int, list[int | bytes]]:
    """Values of a message by field; packed numbers stay as they are."""
    found: dict[int, list[int | bytes]] = {}
    for field, _, value in fields(content):
        found.setdefault(field, []).append(value)
    return found


def _int(message: dict[int, list[int | bytes]], field: int) -> int:
    value = message.get(field, [0])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {field} is no number")
    return value


def _ints(message: dict[int, list[int | bytes]], field: int) -> list[int]:
    found: list[int] = []
    for value in message.get(field, ()):
        found += [value] if isinstance(value, int) else numbers(2, value)
    return found
