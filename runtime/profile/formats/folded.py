r"""Folded stacks ("collapsed"): a stack and its weight a line, the form that every flame graph tool reads.

    process 4711: worker 3 [http];thread: MainThread;main (app.py:12);fetch (app.py:40) 30000000

The first line is a stack as well, of weight 0, so that no tool stumbles over it; it keeps what the others cannot say:

    # mainspring kind=cpu unit=nanoseconds hz=99.0 begun_ns=... duration_ns=... seen=2512 0

In a file with that line, `;`, `\` and all that could break a line are written as `\x3b` or `\u2028`, and are read back;
files of others are taken as they are, their weights as numbers of samples. Lines are sorted: equal profiles are equal
files. Labels are lost unless they are asked for as frames; how often a stack was seen is kept in sum, and divided by
weight when read. Notes are lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from actors.protocol.profile_errors import ProfileUnreadable
from runtime.profile.formats.roots import root_of, roots, unrooted
from runtime.profile.model import COUNT, CPU, NANOSECONDS, Frame, Profile, StackSample

_HEAD: Final = re.compile(
    r"# mainspring kind=(\S*) unit=(nanoseconds|count) hz=(\S+) begun_ns=(\d+) duration_ns=(\d+) seen=(\d+) 0"
)
_LINE: Final = re.compile(r"(.*) (\d+)(?:\.\d*)?", re.DOTALL)
_FRAME: Final = re.compile(r"(.*) \((.*):(0|[1-9]\d{0,8})\)", re.DOTALL)
_UNSAFE: Final = re.compile(r"[;\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|e)")
_EMPTY: Final = r"\e"


def escaped(text: str) -> str:
    """Text without anything that ends a frame or a line."""
    return _UNSAFE.sub(lambda found: _code(found[0]), text)


def _code(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def unescaped(text: str) -> str:
    """What `escaped` was given."""
    return _ESCAPE.sub(lambda found: chr(int(found[1] or found[2], 16)) if found[1] or found[2] else "", text)


def frame_text(frame: Frame, *, own: bool = False) -> str:
    """A frame as it is written.

    Args:
        frame: The frame.
        own: It is one of `roots`; one that only reads like it is written otherwise.
    """
    name = escaped(frame.name)
    if frame.file or frame.line:
        file = escaped(frame.file).replace(" (", " \\x28")
        return f"{name} ({file}:{frame.line})"
    if _FRAME.fullmatch(name):
        name = f"{name[:-1]}\\x29"
    elif not name:
        name = _EMPTY
    elif not own and root_of(frame):
        name = _code(frame.name[0]) + escaped(frame.name[1:])
    return name


def frame_of(text: str, *, escapes: bool = True) -> Frame:
    """The frame that a text is for."""
    back = unescaped if escapes else str
    found = _FRAME.fullmatch(text)
    if found and (found[2] or found[3] != "0"):
        return Frame(back(found[1]), back(found[2]), int(found[3]))
    return Frame(back(text))


def encode(profile: Profile, by: Sequence[str] = ()) -> Iterator[bytes]:
    """The lines of a profile.

    Args:
        profile: What is written.
        by: Names of labels that become frames, between the thread and the stack.
    """
    kind = escaped(profile.kind).replace(" ", "\\x20")
    facts = f"kind={kind} unit={profile.unit} hz={profile.hz} begun_ns={profile.begun_ns}"
    seen = profile.total().seen
    yield f"# mainspring {facts} duration_ns={profile.duration_ns} seen={seen} 0\n".encode("utf-8", "backslashreplace")
    lines: Counter[str] = Counter()
    for sample, weight in profile:
        parts = [frame_text(frame, own=True) for frame in roots(sample, by)]
        parts += [frame_text(frame) for frame in sample.stack]
        lines[";".join(parts)] += weight.value
    for line in sorted(lines):
        yield f"{line} {lines[line]}\n".encode("utf-8", "backslashreplace")


def decode(content: bytes) -> Profile:
    """Read folded stacks, ours or others'.

    Raises:
        ProfileUnreadable: A line is no stack with a weight.
    """
    text = content.decode("utf-8", "replace")
    head = _HEAD.fullmatch(text.partition("\n")[0])
    profile = Profile(CPU, COUNT)
    if head is not None:
        kind, unit, hz, begun_ns, duration_ns, _ = head.groups()
        try:
            profile = Profile(unescaped(kind), unit, int(begun_ns), int(duration_ns), float(hz))
        except ValueError as strange:
            raise ProfileUnreadable(f"its first line says {hz} samples a second") from strange
    rows = list(_rows(text, ours=head is not None))
    if not rows and head is None:
        raise ProfileUnreadable("there is no stack in it")
    total = sum(value for _, value in rows)
    seen = total if head is None or profile.unit != NANOSECONDS else int(head[6])
    so_far = before = 0
    for sample, value in rows:
        so_far += value
        upto = so_far * seen // total if total else seen
        profile.add(sample, value, upto - before)
        before = upto
    return profile


def _rows(text: str, *, ours: bool) -> Iterator[tuple[StackSample, int]]:
    frames: dict[str, Frame] = {}
    for number, line in enumerate(text.split("\n")):
        line = line.removesuffix("\r")
        if not line.strip() or (number == 0 if ours else line.startswith("#")):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise ProfileUnreadable(f"line {number + 1} is no stack with a weight: {line[:80]!r}")
        texts = found[1].split(";") if found[1] else []
        for part in texts:
            if part not in frames:
                frames[part] = frame_of(part, escapes=ours)
        stack = tuple(frames[part] for part in texts)
        if ours:  # a frame that only reads like a root has its first character escaped
            roots_most = next((at for at, part in enumerate(texts) if part.startswith("\\")), len(texts))
            yield unrooted(stack, roots_most), int(found[2])
        else:
            yield StackSample(stack), int(found[2])
