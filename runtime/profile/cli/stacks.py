"""`ps` and `dump`: who is there, and what every thread and task is at; equal stacks as one, or one by one.

Like Go's goroutine profile: merged stacks are counted, the most frequent first, with where they were created and in
which processes; one by one they have name, state, age, labels, and what they wait for.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from actors.protocol.errors import CallerError
from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.report import align, duration_text
from runtime.cli.status import bytes_text
from runtime.profile.captures import capture
from runtime.profile.captures.snapshot import OWN_LABELS
from runtime.profile.cli.app import ProfileExit
from runtime.profile.cli.shared import note_all, pids_of, stack_lines, state_of
from runtime.profile.formats.plain import plain
from runtime.profile.ledger.kinds import DESCRIPTOR, LEASE, NAMES, RUN, TASK
from runtime.profile.model import Frame, Profile, StackSample
from runtime.profile.presence.processes import Looked, looked

PROCESSES_NAMED: Final = 4
STATES: Final = {"R": "runs", "S": "", "D": "in the kernel", "T": "stopped", "t": "traced", "Z": "zombie"}


class MergedStack(NamedTuple):
    """Equal stacks: how many, where, in which processes, since when the oldest."""

    number: int
    stack: tuple[Frame, ...]
    state: str
    awaits: str
    created: str
    processes: tuple[str, ...]
    oldest_s: float
    labels: tuple[tuple[str, str], ...]


def show_merged(arguments: Namespace, console: Console) -> int:
    """The command `ps`."""
    state = state_of(arguments, console)
    pids = pids_of(arguments, state)
    rows = [row for row in looked(state) if pids is None or row.process.pid in pids]
    if arguments.kind:
        check_kind(arguments.kind, rows)
        profile = capture.held(state, arguments.kind, pids=pids)
    else:
        profile = capture.live(state, pids=pids)
    found = merge(profile)
    if arguments.json:
        console.say(
            as_json({"processes": [process_json(row) for row in rows], "stacks": [one._asdict() for one in found]})
        )
    else:
        console.say(process_lines(rows))
        console.say(merged_lines(found, arguments.limit))
        note_all(console, profile.notes)
    return ProfileExit.OK


def check_kind(kind: str, rows: Sequence[Looked]) -> None:
    """Refuse a kind that is neither built in nor registered by a process that is there. Raises CallerError."""
    known = dict.fromkeys([*NAMES, *(name for row in rows for name in row.counts)])
    if kind not in known:
        raise CallerError(f"there is no kind {kind!r}; there are {', '.join(known)}")


def show_dump(arguments: Namespace, console: Console) -> int:
    """The command `dump`."""
    state = state_of(arguments, console)
    profile = capture.live(state, pids=pids_of(arguments, state))
    if arguments.output is not None or arguments.format:
        from runtime.profile.cli.recorded import save  # lazy: formats are needed for a file only

        save(profile, arguments, console)
        return ProfileExit.OK
    if arguments.json:
        console.say(profile.to_json().decode())
    else:
        console.say(dump_lines(profile))
        note_all(console, profile.notes)
    return ProfileExit.OK


def as_json(data: Any) -> str:
    """Data as indented JSON, tuples with names as objects."""
    return orjson.dumps(plain(data), option=orjson.OPT_INDENT_2).decode()


# --- processes --------------------------------------------------------------------------------------------------------


def process_lines(rows: Sequence[Looked]) -> list[str]:
    """A table of processes."""
    now_ns = time.monotonic_ns()
    head = ("pid", "process", "age", "cpu", "memory", "threads", "files", "tasks", "runs", "leases", "profiler", "")
    cells = [
        (
            str(row.process.pid),
            row.process.title,
            duration_text(max(0, now_ns - row.since_ns)),
            duration_text(row.cpu_ns),
            bytes_text(row.rss_bytes),
            str(row.threads),
            *(f"{row.live(kind):,}" if row.counts else "–" for kind in (DESCRIPTOR, TASK, RUN, LEASE)),
            f"{duration_text(row.self_ns)} {row.self_cpu_ratio:.2%}",
            STATES.get(row.state, row.state) + ("" if row.answers else " does not answer"),
        )
        for row in rows
    ]
    return align([head, *cells], left=2)


def process_json(row: Looked) -> dict[str, Any]:
    """A process as data."""
    found = row._asdict() | {"process": row.process._asdict() | {"title": row.process.title}}
    found["profiler_self_cpu_ratio"] = row.self_cpu_ratio
    found["counts"] = {kind: count._asdict() for kind, count in row.counts.items() if any(count)}
    return found


# --- merged -----------------------------------------------------------------------------------------------------------


def merge(profile: Profile) -> list[MergedStack]:
    """Equal stacks as one, whichever process and name they have; the most frequent first."""
    groups: dict[tuple[Any, ...], list[tuple[StackSample, int]]] = {}
    for sample, weight in profile:
        facts = dict(sample.labels)
        key = (sample.stack, facts.get("state", ""), facts.get("created", ""), facts.get("awaits", ""))
        groups.setdefault((*key, _user_labels(sample)), []).append((sample, weight.value))
    found = []
    for (stack, state, created, awaits, labels), members in groups.items():
        titles = tuple(dict.fromkeys(sample.process.title for sample, _ in members if sample.process is not None))
        oldest_s = max(float(dict(sample.labels).get("age_s", -1)) for sample, _ in members)
        count = sum(value for _, value in members)
        found.append(MergedStack(count, stack, state, awaits, created, titles, oldest_s, labels))
    return sorted(found, key=lambda one: (-one.number, -one.oldest_s, one.stack))


def _user_labels(sample: StackSample) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in sample.labels if pair[0] not in OWN_LABELS)


def merged_lines(found: Sequence[MergedStack], limit: int) -> Iterator[str]:
    """Merged stacks as text."""
    for one in found[:limit]:
        several = len(one.processes) > PROCESSES_NAMED
        where = f"{len(one.processes)} processes" if several else ", ".join(one.processes)
        parts = [one.state, f"awaits {one.awaits}" if one.awaits else ""]
        parts += [f"oldest {duration_text(round(one.oldest_s * 1e9))}" if one.oldest_s >= 0 else ""]
        parts += [f"in {where}" if where else "", *(f"{name}={text}" for name, text in one.labels)]
        yield ""
        yield f"{one.number:,} × {', '.join(filter(None, parts))}"
        yield from stack_lines(one.stack)
        if one.created:
            yield f"    created at {_place(one.created)}"
    if len(found) > limit:
        rest = sum(one.number for one in found[limit:])
        yield ""
        yield f"… and {counted(len(found) - limit, 'stack')} more, of {rest:,}"


def _place(created: str) -> str:
    where, _, function = created.rpartition(" ")
    return f"{function}  {where}" if where else created


# --- one by one -------------------------------------------------------------------------------------------------------


def dump_lines(profile: Profile) -> Iterator[str]:
    """Everything one by one, by process: threads by name, then tasks, the oldest first."""
    samples = sorted(profile.samples, key=_order)
    process = None
    for sample in samples:
        if sample.process != process and sample.process is not None:
            process = sample.process
            yield ""
            yield f"=== {process.named} ==="
        facts = dict(sample.labels)
        name = f"task {facts.get('task', '')}" if sample.thread == "tasks" else f"thread {sample.thread}"
        parts = [facts.get("state", ""), f"awaits {facts['awaits']}" if "awaits" in facts else ""]
        parts += [f"for {duration_text(round(float(facts['age_s']) * 1e9))}" if "age_s" in facts else ""]
        parts += [f"{label}={text}" for label, text in _user_labels(sample)]
        yield ""
        said = ", ".join(filter(None, parts))
        yield f"{name} [{said}]" if said else name
        yield from stack_lines(sample.stack)
        if "created" in facts:
            yield f"    created at {_place(facts['created'])}"


def _order(sample: StackSample) -> tuple[Any, ...]:
    process = sample.process
    where = ("", 0, 0) if process is None else (process.role, process.number, process.pid)
    age_s = float(dict(sample.labels).get("age_s", -1))
    return where, sample.thread == "tasks", sample.thread, -age_s, sample.labels
