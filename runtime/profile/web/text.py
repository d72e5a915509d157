"""Profiles as text, in the form that Go's have, so that what reads those reads these: `?debug=1` and `?debug=2`.

Go's addresses of instructions are places here that are numbered in the order in which they appear; names, files and
lines stand beside them. Nothing but names, places and labels is shown: no local variables.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from runtime.profile.captures.snapshot import OWN_LABELS
from runtime.profile.model import Frame, Profile, StackSample

_FIRST: int = 0x1000


def merged_text(profile: Profile, name: str) -> str:
    """Equal stacks as one, the most frequent first, each with its labels."""
    places: dict[Frame, int] = {}
    total = profile.total()
    lines = [f"{name} profile: total {total.value}"]
    for sample, weight in sorted(profile, key=lambda one: (-one[1].value, one[0].stack, one[0].labels)):
        stack = sample.stack[::-1]
        numbers = [places.setdefault(frame, _FIRST + 16 * len(places)) for frame in stack]
        lines.append(f"{weight.value} @ {' '.join(map(hex, numbers))}")
        if labels := _labels(sample):
            lines.append(f"# labels: {orjson.dumps(labels).decode()}")
        lines += (f"#\t{number:#x}\t{_place(frame)}" for number, frame in zip(numbers, stack, strict=True))
        lines.append("")
    lines += (f"# note: {note}" for note in profile.notes)
    return "\n".join(lines) + "\n"


def single_text(profile: Profile, name: str) -> str:
    """One by one: state, how long, labels, where it is and where it was created."""
    return "".join(_single(profile)) or f"no {name}\n"


def _single(profile: Profile) -> Iterator[str]:
    for number, sample in enumerate(profile.samples, 1):
        facts = dict(sample.labels)
        title = sample.process.title if sample.process is not None else ""
        what = f"task {facts['task']}" if "task" in facts else f"thread {sample.thread}"
        state = [facts.get("state") or "unknown", *([f"awaits {facts['awaits']}"] if "awaits" in facts else [])]
        state += [f"{float(facts['age_s']):.1f} seconds"] if "age_s" in facts else []
        yield f"goroutine {number} [{', '.join(state)}]: {_one_line(what)} in {_one_line(title)}\n"
        labels = {label: text for label, text in sample.labels if label not in OWN_LABELS}
        if labels:
            yield f"labels: {orjson.dumps(labels).decode()}\n"
        for frame in reversed(sample.stack):
            yield f"{_one_line(frame.name)}(...)\n\t{_one_line(frame.file)}:{frame.line}\n"
        if created := facts.get("created"):
            where, _, function = created.rpartition(" ")
            yield f"created by {_one_line(function)}\n\t{_one_line(where)}\n"
        yield "\n"
    yield from (f"# note: {note}\n" for note in profile.notes)


def _labels(sample: StackSample) -> dict[str, str]:
    found = dict(sample.labels)
    if sample.process is not None:
        found["process"] = sample.process.title
    if sample.thread:
        found["thread"] = sample.thread
    return found


def _place(frame: Frame) -> str:
    where = f"\t{_one_line(frame.file)}:{frame.line}" if frame.file else ""
    return f"{_one_line(frame.name)}{where}"


def _one_line(text: str) -> str:
    """Whatever users call their functions, a line stays one."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
