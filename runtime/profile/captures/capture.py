"""Captures: one picture of all processes of a state folder, from any process of the same user.

    profile = cpu("state/", seconds=30, hz=99)
    write(profile, file, "html")

`where` is a `Runtime`, an `AsyncRuntime`, a path, or None for the only folder that is open on this machine. Each
process answers for itself (see `control`), what is born meanwhile included; of one that is killed meanwhile there is
what it had put last, a second earlier at most. Processes that are none of ours (what handlers started) have no Python
to be looked at, or none that answers: their CPU time is read from the kernel and stands as one frame (`others`).

What could not be seen is in the notes of each profile, by name.

Concurrency: any thread; blocks for as long as it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from importlib import import_module
from typing import Any, Final

from actors.protocol.errors import CallerError
from runtime.checks import is_number
from runtime.host.kernel import is_alive
from runtime.profile.captures.graph import Graph
from runtime.profile.captures.live import PATIENCE_S, dump
from runtime.profile.captures.others import FACE, OtherProcesses
from runtime.profile.captures.snapshot import merged as merged_stacks
from runtime.profile.model import AWAIT, COUNT, CPU, NANOSECONDS, Profile, StackSample
from runtime.profile.presence.control import Answers, ask
from runtime.profile.presence.find import state_dir_of

HZ: Final = 99.0
"""Of `cpu`; not 100, which would beat time with what programs do at round intervals."""
HZ_MIN: Final = 1.0
HZ_MAX: Final = 1_000.0
AWAIT_HZ: Final = 5.0
AWAIT_HZ_MIN: Final = 0.1
AWAIT_HZ_MAX: Final = 10.0
"""What samplers take, see `sampler`: who asks for more is refused here, and not by each process."""
SECONDS: Final = 10.0
SECONDS_MAX: Final = 3_600.0
FLIGHT_S: Final = 60.0
_STEP_S: Final = 0.1


def cpu(
    where: Any = None,
    seconds: float = SECONDS,
    *,
    hz: float = HZ,
    by: Iterable[str] = (),
    pids: Collection[int] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Profile:
    """Where CPU time goes.

    Args:
        where: See the module.
        seconds: How long is recorded.
        hz: Samples for each second of CPU time of a thread.
        by: Only these labels are kept; empty: all.
        pids: Only of these processes.
        stop: Asked now and then; when it says True, what was recorded so far is returned.

    Returns:
        A profile of kind CPU, in nanoseconds.

    Raises:
        CallerError: A figure is out of range.
        ProfileUnavailable: No process of this folder can be seen. StateFolderError: it is no state folder.
    """
    _check("seconds", seconds, SECONDS_MAX)
    _check("hz", hz, HZ_MAX, HZ_MIN)
    state_dir = state_dir_of(where)
    others = OtherProcesses(state_dir, pids)
    answers = ask(state_dir, "cpu", seconds=seconds, only=_set(pids), stop=others.stepped(stop), hz=hz)
    faces = [process for process, _ in answers.failed if process.role == FACE]
    answers = answers._replace(failed=[one for one in answers.failed if one[0] not in faces])
    profile = merged_answers(answers, Profile(CPU, NANOSECONDS, hz=hz))
    profile.notes += [f"{face.named} is not sampled: its signals are the program's own" for face in faces]
    others.add_to(profile)
    return kept(profile, by)


def awaits(
    where: Any = None,
    seconds: float = SECONDS,
    *,
    hz: float = AWAIT_HZ,
    by: Iterable[str] = (),
    pids: Collection[int] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Profile:
    """What suspended tasks wait for, weighed by how long they do.

    Args:
        where: See the module.
        seconds: How long is recorded.
        hz: Looks a second.
        by: Only these labels are kept; empty: all.
        pids: Only of these processes.
        stop: As in `cpu`.

    Returns:
        A profile of kind AWAIT, in nanoseconds of waiting: a hundred tasks that wait a second are a hundred seconds.

    Raises:
        CallerError: A figure is out of range. ProfileUnavailable, StateFolderError: as in `cpu`.
    """
    _check("seconds", seconds, SECONDS_MAX)
    _check("hz", hz, AWAIT_HZ_MAX, AWAIT_HZ_MIN)
    answers = ask(state_dir_of(where), "await", seconds=seconds, only=_set(pids), stop=stop, hz=hz)
    return kept(merged_answers(answers, Profile(AWAIT, NANOSECONDS, hz=hz)), by)


def live(
    where: Any = None, *, merge: bool = False, pids: Collection[int] | None = None, patience: float = PATIENCE_S
) -> Profile:
    """The stacks of all threads and tasks of all processes, as they are now.

    Args:
        where: See the module.
        merge: Equal stacks as one, without names and ages.
        pids: Only of these processes.
        patience: Seconds to wait for an answer, before the handler in C is asked.

    Returns:
        A profile of kind LIVE; see `runtime.profile.captures` for its labels.

    Raises:
        CallerError: `patience` is out of range.
        ProfileUnavailable: No process of this folder can be seen. StateFolderError: it is no state folder.
    """
    _check("patience", patience, SECONDS_MAX)
    found = dump(state_dir_of(where), pids=_set(pids), patience=patience)
    return merged_stacks(found) if merge else found


def held(where: Any = None, kind: str = "", *, pids: Collection[int] | None = None) -> Profile:
    """What of a kind of the ledger lives, by where it was created.

    Args:
        where: See the module.
        kind: A name of `runtime.profile.ledger`, or one that a user registered.
        pids: Only of these processes.

    Returns:
        A profile of that kind, in numbers.

    Raises:
        ProfileUnavailable: No process of this folder can be seen. StateFolderError: it is no state folder.
    """
    answers = ask(state_dir_of(where), "held", only=_set(pids), kind=kind)
    return merged_answers(answers, Profile(kind, COUNT))


def graph(where: Any = None) -> tuple[Graph, list[str]]:
    """Who waits for whom, over all processes.

    Args:
        where: See the module.

    Returns:
        The graph, and notes on who is not in it.

    Raises:
        ProfileUnavailable: No process of this folder can be seen. StateFolderError: it is no state folder.
    """
    answers = ask(state_dir_of(where), "tree")
    return Graph.merged(content for _, content in answers.rows), _silent(answers)


def flight(
    where: Any = None, seconds: float = FLIGHT_S, *, pids: Collection[int] | None = None, kind: str = CPU
) -> Profile:
    """What the samplers that are always on have seen in the last seconds.

    Args:
        where: See the module.
        seconds: How far back; a minute is kept, by the second, and a second that is cut is whole.
        pids: Only of these processes.
        kind: CPU or AWAIT.

    Returns:
        A profile of that kind, in nanoseconds.

    Raises:
        CallerError: There is no such kind, or a figure is out of range.
        ProfileUnavailable: No process of this folder can be seen. StateFolderError: it is no state folder.
    """
    _check("seconds", seconds, SECONDS_MAX)
    if kind not in (CPU, AWAIT):
        raise CallerError(f"kind must be {CPU!r} or {AWAIT!r}, not {kind!r}")
    answers = ask(state_dir_of(where), "flight", only=_set(pids), back_s=seconds, kind=kind)
    return merged_answers(answers, Profile(kind, NANOSECONDS))


def pass_time(seconds: float, stop: Callable[[], bool] | None = None) -> None:
    """Let time pass, until asked to stop."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not (stop is not None and stop()):
        time.sleep(min(left, _STEP_S))


def leaks(
    where: Any = None,
    *,
    seconds: float | None = None,
    prove: bool = True,
    min_grade: str = "info",
    pids: Collection[int] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Any:
    """What is held though nothing can finish or release it, in all processes; see `leak_check.survey`.

    Args:
        where: See the module.
        seconds: How long growth is looked at; None: as long as it takes to tell it.
        prove: Whether it is searched what nobody can reach any more, in a fork of each process.
        min_grade: "leak", "suspect" or "info": what is less is left out.
        pids: Only of these processes.
        stop: Asked now and then; when it says True, what was found so far is returned.

    Returns:
        A `runtime.profile.leak_check.survey.Report`: findings, the worst first, and notes.

    Raises:
        ValueError: There is no such grade. CallerError: `seconds` is out of range.
        ProfileUnavailable: No process of this folder can be seen. StateFolderError: it is no state folder.
    """
    more = {} if seconds is None else {"seconds": seconds}
    if seconds is not None:
        _check("seconds", seconds, SECONDS_MAX, 0)
    survey = import_module("runtime.profile.leak_check.survey").survey
    return survey(state_dir_of(where), prove=prove, min_grade=min_grade, pids=_set(pids), stop=stop, **more)


# --- answers as one profile -------------------------------------------------------------------------------------------


def merged_answers(answers: Answers, into: Profile) -> Profile:
    """All answers as one profile, with notes on who is not in it, or not to the end."""
    for process, content in answers.rows:
        try:
            into.merge(Profile.from_json(content))
        except ValueError as strange:
            into.notes.append(f"{process.named}: {strange}")
    for process in dict.fromkeys(process for process, _ in answers.rows):
        if not is_alive(process.pid, process.start_time):
            into.notes.append(f"{process.named} ended meanwhile; up to a second of it is missing")
    into.notes += _silent(answers)
    return into


def _silent(answers: Answers) -> list[str]:
    """Notes on who has nothing in them."""
    notes = [f"{process.named} could not answer: {why}" for process, why in answers.failed]
    return notes + [f"{process.named} could not be seen" for process in answers.missing]


def kept(profile: Profile, by: Iterable[str]) -> Profile:
    """Only labels of these names; all where none is named."""
    names = frozenset(by)
    if not names:
        return profile

    def fewer(sample: StackSample) -> StackSample:
        return sample._replace(labels=tuple(pair for pair in sample.labels if pair[0] in names))

    return profile.map(fewer)


def delta(before: Profile, after: Profile) -> Profile:
    """What a count became more, or less: `after` minus `before`, without what stayed."""
    made = Profile(after.kind, after.unit, after.begun_ns, after.duration_ns, after.hz)
    made.notes = list(dict.fromkeys([*before.notes, *after.notes]))
    for sample in dict.fromkeys([*before.samples, *after.samples]):
        was, now = before.samples.get(sample, (0, 0)), after.samples.get(sample, (0, 0))
        if was[0] != now[0]:
            made.add(sample, now[0] - was[0], abs(now[1] - was[1]))
    return made


def _set(pids: Collection[int] | None) -> frozenset[int] | None:
    return None if pids is None else frozenset(pids)


def _check(name: str, value: float, most: float, least: float | None = None) -> None:
    """Refuse what is not a number from `least` (None: above 0) to `most`. Raises CallerError."""
    if not is_number(value, least or 0, most, above=least is None):
        bounds = f"above 0 and at most {most:g}" if least is None else f"{least:g} to {most:g}"
        raise CallerError(f"{name} must be {bounds}, not {value!r}")
