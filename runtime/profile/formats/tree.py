"""Profiles as the page gets them: a tree of stacks and rows of weights, as numbers of seven bits a byte, in base64.

    nodes     levels to go up, frame      each a child of the one before it, after going up; by stack, so that
                                          what has the same beginning is there once
    samples   node (difference), labels, process, thread, value, seen [, value before, seen before]

A hundred thousand stacks of twenty frames are 3 to 4 MB so, and are read in a pass without a parser.

With a profile from before, its times are made those of a recording as long as the one after it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any, Final

from runtime.profile.formats.roots import label_names_of, process_frame
from runtime.profile.formats.wire import varint
from runtime.profile.model import NANOSECONDS, Frame, Labels, Process, Profile

ROWS_MAX: Final = 300_000
"""A page has no more rows: with those it is some 10 MB, which every browser opens."""
LIGHTER: Final = Frame("(lighter stacks)")
_SMALL: Final = tuple(bytes((value,)) for value in range(128))


class _Numbered(dict[Any, int]):
    """Numbers of things, in the order in which they are first seen."""

    def of(self, thing: Any) -> int:
        return self.setdefault(thing, len(self))


def scale(before: Profile, after: Profile) -> float:
    """By what a weight from before is multiplied to be compared with one after it.

    Times are compared as if both had been recorded for as long as the second; numbers as they are.
    """
    if after.unit != NANOSECONDS:
        return 1.0
    if before.duration_ns and after.duration_ns:
        return after.duration_ns / before.duration_ns
    was = before.total().value
    return after.total().value / was if was else 1.0


def bounded(profile: Profile, most: int | None = None) -> Profile:
    """A profile with so many rows at most: of those that weigh least, only the sums by labels, process and thread are
    kept.

    Args:
        profile: It stays as it is.
        most: How many; None: `ROWS_MAX`.
    """
    most = ROWS_MAX if most is None else most
    if len(profile) <= most:
        return profile
    least = sorted((weight.value for _, weight in profile), reverse=True)[most]
    heavy = {sample for sample, weight in profile if weight.value > least}
    return profile.map(lambda one: one if one in heavy else one._replace(stack=(LIGHTER,)))


def columns(profile: Profile, before: Profile | None = None, *, lines: bool = False) -> dict[str, Any]:
    """What the scripts of the page read.

    Args:
        profile: What is shown.
        before: What it is compared with.
        lines: Whether lines of one function are frames of their own.
    """
    frames, processes, threads, sets, rows = _rows(profile, before, lines=lines)
    nodes, numbers = _tree(sorted({row[0] for row in rows}))
    samples = sorted((numbers[row[0]], *row[1:]) for row in rows)
    at = 0
    out = []
    for node, *rest in samples:
        out.append(node - at)
        out += rest
        at = node
    names, files = _Numbered(), _Numbered()
    places = [value for frame in frames for value in (names.of(frame.name), files.of(frame.file), frame.line)]
    labels = label_names_of(profile) if before is None else sorted({*label_names_of(profile), *label_names_of(before)})
    return {
        "kind": profile.kind,
        "unit": profile.unit,
        "diff": before is not None,
        "names": list(names),
        "files": list(files),
        "frames": packed(places),
        "nodes": packed(nodes),
        "nodeCount": len(nodes) // 2,
        "labels": labels,
        "sets": [[[labels.index(name), text] for name, text in pairs] for pairs in sets],
        "processes": [process_frame(one).name if one else "" for one in processes],
        "threads": list(threads),
        "samples": packed(out),
        "sampleCount": len(samples),
    }


def _rows(
    profile: Profile, before: Profile | None, *, lines: bool
) -> tuple[list[Frame], list[Process | None], list[str], list[Labels], list[tuple[Any, ...]]]:
    """Tables, and weights by what they are of: stack, labels, process, thread, then two or four numbers.

    Two processes that have the same pid and title in both profiles are one; so are worker 3 before and worker 3 after.
    """
    frames, processes, threads, sets = _Numbered(), _Numbered(), _Numbered(), _Numbered()
    stacks: dict[tuple[Frame, ...], tuple[int, ...]] = {}
    numbers: dict[Frame, int] = {}
    sums: dict[tuple[Any, ...], list[float]] = {}
    by_title: dict[str, Process] = {}
    profiles = [(profile, 0, 1.0)] + ([(before, 2, scale(before, profile))] if before is not None else [])
    for one, column, factor in profiles:
        for sample, weight in one:
            stack = stacks.get(sample.stack)
            if stack is None:
                for frame in sample.stack:
                    if frame not in numbers:
                        numbers[frame] = frames.of(frame if lines else Frame(frame.name, frame.file))
                stack = stacks[sample.stack] = tuple([numbers[frame] for frame in sample.stack])
            process = sample.process
            if before is not None and process is not None:
                process = by_title.setdefault(process.title, process)
            key = (stack, sets.of(sample.labels), processes.of(process), threads.of(sample.thread))
            values = sums.setdefault(key, [0.0] * (2 * len(profiles)))
            values[column] += weight.value * factor
            values[column + 1] += weight.seen
    rows = [(*key, *map(round, values)) for key, values in sums.items()]
    return list(frames), list(processes), list(threads), list(sets), rows


def _tree(stacks: Sequence[tuple[int, ...]]) -> tuple[list[int], dict[tuple[int, ...], int]]:
    """Nodes of sorted stacks, two numbers each, and the node of each stack; 0 is the root."""
    nodes: list[int] = []
    numbers: dict[tuple[int, ...], int] = {}
    path: list[int] = []
    last: tuple[int, ...] = ()
    for stack in stacks:
        same = 0
        for one, other in zip(stack, last, strict=False):
            if one != other:
                break
            same += 1
        up = len(last) - same
        del path[same:]
        for frame in stack[same:]:
            nodes += (up, frame)
            up = 0
            path.append(len(nodes) // 2)
        numbers[stack] = path[-1] if path else 0
        last = stack
    return nodes, numbers


def packed(values: Iterable[int]) -> str:
    """Numbers as text, see `runtime.profile.formats.wire.varint`."""
    return b64encode(b"".join([_SMALL[value] if value < 128 else varint(value) for value in values])).decode()
