"""Speedscope's file format, one profile a thread: see github.com/jlfwong/speedscope, `file-format-spec.ts`.

Samples are laid side by side in the order of their stacks, so that what is equal is one block in the view by time, too:
when something happened is not known. The time line of a recording is in `chrome`. Labels are lost unless they are asked
for as frames. Of files of others, sampled and evented ones are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from actors.protocol.profile_errors import ProfileUnreadable
from runtime.profile.formats.roots import process_of, roots, unrooted
from runtime.profile.model import COUNT, CPU, NANOSECONDS, Frame, Process, Profile, StackSample, dumped

SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
_UNITS: Final = {
    "none": (COUNT, 1.0),
    "bytes": (COUNT, 1.0),
    "nanoseconds": (NANOSECONDS, 1.0),
    "microseconds": (NANOSECONDS, 1e3),
    "milliseconds": (NANOSECONDS, 1e6),
    "seconds": (NANOSECONDS, 1e9),
}


def encode(profile: Profile, by: Sequence[str] = ()) -> bytes:
    """A profile as a file.

    Args:
        profile: What is written.
        by: Names of labels that become frames, below the stack.
    """
    frames: dict[Frame, int] = {}
    threads: dict[tuple[Process | None, str], dict[tuple[int, ...], list[int]]] = {}
    for sample, weight in profile:
        stack = roots(sample._replace(process=None, thread=""), by) + sample.stack
        places = tuple([frames.setdefault(frame, len(frames)) for frame in stack])
        sums = threads.setdefault((sample.process, sample.thread), {}).setdefault(places, [0, 0])
        sums[0] += weight.value
        sums[1] += weight.seen
    texts = [(frame.name, frame.file, frame.line) for frame in frames]
    profiles = [
        _thread(profile, process, thread, sorted(rows.items(), key=lambda row: [texts[at] for at in row[0]]))
        for (process, thread), rows in sorted(threads.items(), key=lambda one: _order(*one[0]))
    ]
    facts = {name: getattr(profile, name) for name in ("kind", "begun_ns", "duration_ns", "hz", "notes")}
    return dumped(
        {
            "$schema": SCHEMA,
            "version": "0.0.1",
            "exporter": "mainspring",
            "name": f"mainspring {profile.kind}",
            "activeProfileIndex": 0,
            "shared": {"frames": [_frame(frame) for frame in frames]},
            "profiles": profiles or [_thread(profile, None, "", [])],
            "mainspring": facts,
        }
    )


def _thread(
    profile: Profile, process: Process | None, thread: str, rows: list[tuple[tuple[int, ...], list[int]]]
) -> dict[str, Any]:
    whose = [process.title, f"pid {process.pid}"] if process else []
    return {
        "type": "sampled",
        "name": " · ".join([*whose, *([thread] if thread else [])]) or profile.kind,
        "unit": "nanoseconds" if profile.unit == NANOSECONDS else "none",
        "startValue": 0,
        "endValue": sum(sums[0] for _, sums in rows),
        "samples": [places for places, _ in rows],
        "weights": [sums[0] for _, sums in rows],
        "mainspring": {
            "process": process and [process.pid, process.title, process.start_time],
            "thread": thread,
            "seen": [sums[1] for _, sums in rows],
        },
    }


def _order(process: Process | None, thread: str) -> tuple[str, int, int, str]:
    return (process.role, process.number, process.pid, thread) if process else ("", 0, 0, thread)


def _frame(frame: Frame) -> dict[str, Any]:
    place = {"file": frame.file} if frame.file else {}
    return {"name": frame.name, **place, **({"line": frame.line} if frame.line else {})}


def decode(found: Mapping[str, Any]) -> Profile:
    """The profile in a file.

    Args:
        found: The file, parsed.

    Raises:
        ProfileUnreadable: It is not in speedscope's format.
    """
    try:
        frames = [Frame(one["name"], one.get("file") or "", one.get("line") or 0) for one in found["shared"]["frames"]]
        unit = _UNITS[found["profiles"][0]["unit"]][0] if found["profiles"] else NANOSECONDS
        ours = found.get("mainspring") or {}
        kind, hz = ours.get("kind", CPU), float(ours.get("hz", 0))
        made = Profile(kind, unit, ours.get("begun_ns", 0), ours.get("duration_ns", 0), hz)
        made.notes = list(ours.get("notes", ()))
        for one in found["profiles"]:
            for sample, value, seen in _rows(one, frames):
                made.add(sample, value, seen)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as strange:
        raise ProfileUnreadable(f"this is not in speedscope's format: {strange!r}") from strange
    return made


def _rows(one: Mapping[str, Any], frames: Sequence[Frame]) -> Iterator[tuple[StackSample, int, int]]:
    factor = _UNITS[one["unit"]][1]
    ours = one.get("mainspring")
    process, thread = None, one.get("name") or ""
    if ours:
        pid, title, start_time = ours["process"] or (0, "", 0)
        process, thread = (process_of(pid, title, start_time) if title else None), ours["thread"]
    rows = zip(one["samples"], one["weights"], strict=True) if one["type"] == "sampled" else _events(one["events"])
    seen = iter(ours["seen"]) if ours else None
    for places, weight in rows:
        stack = tuple(frames[at] for at in places)
        sample = unrooted(stack) if ours else StackSample(stack)
        yield sample._replace(process=process, thread=thread), round(weight * factor), next(seen) if seen else 1


def _events(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Stacks between the openings and closings of frames."""
    open_frames: list[int] = []
    since = 0.0
    for event in events:
        if open_frames and event["at"] > since:
            yield tuple(open_frames), event["at"] - since
        since = event["at"]
        if event["type"] == "O":
            open_frames.append(event["frame"])
        elif not open_frames or open_frames.pop() != event["frame"]:
            raise ValueError(f"frame {event['frame']} closes and is not the last one")
