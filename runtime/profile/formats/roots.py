"""Process, thread and labels as frames below a stack, and back.

Formats that know only stacks show so whose they are:

    process 4711: worker 3 [http] ▸ thread: MainThread ▸ tenant=acme ▸ <module> ▸ main

What is lost is the start time of the process, which no one reads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from runtime.profile.model import LABELS, Frame, Labels, Process, Profile, StackSample

_PROCESS: Final = re.compile(r"process (\d+): (.*)", re.DOTALL)
_TITLE: Final = re.compile(r"(.*?)(?: ([1-9]\d*))?(?: \[(.*)\])?", re.DOTALL)
_LABEL: Final = re.compile(r"([^=\s]+)=(.*)", re.DOTALL)
_THREAD: Final = "thread: "


def process_frame(process: Process) -> Frame:
    """A process as a frame."""
    return Frame(f"process {process.pid}: {process.title}")


def process_of(pid: int, title: str, start_time: int = 0) -> Process:
    """The process that has this title, see `Process.title`."""
    found = _TITLE.fullmatch(title)
    role, number, node_type = found.groups() if found else (title, None, None)
    return Process(pid, start_time, role, int(number or 0), node_type or "")


def roots(sample: StackSample, by: Sequence[str] = ()) -> tuple[Frame, ...]:
    """Frames that say whose this sample is: its process, its thread, and those of its labels that are named in `by`."""
    frames: list[Frame] = []
    if sample.process is not None:
        frames.append(process_frame(sample.process))
    if sample.thread:
        frames.append(Frame(_THREAD + sample.thread))
    if by:
        labels = dict(sample.labels)
        frames += [Frame(f"{name}={labels[name]}") for name in by if name in labels]
    return tuple(frames)


def root_of(frame: Frame) -> bool:
    """Whether a frame reads like one that `roots` makes."""
    name = frame.name
    plain = not frame.file and not frame.line
    return plain and bool(name.startswith(_THREAD) or _PROCESS.fullmatch(name) or _LABEL.fullmatch(name))


def unrooted(stack: tuple[Frame, ...], most: int | None = None) -> StackSample:
    """The sample whose roots and stack these are.

    Args:
        stack: Frames, root first.
        most: How many of them may be roots; None: all that read like it.
    """
    at, process, thread = 0, None, ""
    labels: dict[str, str] = {}
    end = len(stack) if most is None else most

    def name_at() -> str:
        return stack[at].name if at < end and root_of(stack[at]) else ""

    if found := _PROCESS.fullmatch(name_at()):
        process = process_of(int(found[1]), found[2])
        at += 1
    if name_at().startswith(_THREAD):
        thread = name_at().removeprefix(_THREAD)
        at += 1
    while found := _LABEL.fullmatch(name_at()):
        labels[found[1]] = found[2]
        at += 1
    return StackSample(stack[at:], tuple(sorted(labels.items())), process, thread)


def label_names(labels: Collection[Labels]) -> list[str]:
    """Names of labels that occur: the engine's in their order, then those of users."""
    found = {name for pairs in labels for name, _ in pairs}
    return [name for name in LABELS if name in found] + sorted(found - set(LABELS))


def label_names_of(profile: Profile) -> list[str]:
    """Names of labels that occur in a profile, see `label_names`."""
    return label_names({sample.labels for sample in profile.samples})
