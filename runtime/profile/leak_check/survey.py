"""Leaks of this process: what is there (`detectors`, `machine`), looked at several times, and graded (`grading`).

An `Investigation` looks, as often as it is told, and has it proved which tasks nothing alive can wake (`proof`, which
marks twice in a forked child). Tasks that could only wake each other are one finding. `answer` does that when all
processes are asked; `survey` asks them.

How many there were when a process was warm need not have been noted: it is how many of those that live now were born
within its first `WARM_NS`.

Known limits: signatures beyond `SIGNATURES_MAX` are graded together.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, Self

import orjson

from actors.protocol.profile_errors import ProfileUnavailable
from runtime.profile.leak_check.detectors import CONFIRM_NS, BooksLook, EvidenceLook, Seen
from runtime.profile.leak_check.findings import finding_of
from runtime.profile.leak_check.grading import (
    INFO,
    LEAK,
    Facts,
    Finding,
    Series,
    Signature,
    at_least,
    check_grade,
    order,
)
from runtime.profile.leak_check.machine import ProcessThings
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import BOOKS, TASK
from runtime.profile.model import Frame, Labels, Process, dumped
from runtime.profile.presence.control import Answers, ask
from runtime.profile.presence.here import Request
from runtime.profile.turns import TURNS

SECONDS: Final = 5.0
"""Of a look at growth; the windows of RabbitMQ's `maybe_stuck`."""
WINDOW_S: Final = 0.5
WARM_NS: Final = 10_000_000_000
SIGNATURES_MAX: Final = 4_096
PROOF_S: Final = 10.0
"""Beyond the time of the look: two marks, a second between them, one process of a machine after the other."""
_UNPROVED: Final = "it did not end in time to search what nothing can wake, so this is what grew"
_PROVE: Final = "runtime.profile.proof.prove:examine"
_FINDINGS_MAX: Final = 2_000
_HELD: Final = "only tasks that nothing can wake refer to it"


class Report(NamedTuple):
    """What was found, the worst first, and what could not be seen."""

    findings: list[Finding]
    notes: list[str]

    @classmethod
    def of(cls, answers: Answers, rank: Callable[[Finding], Any] = order) -> Self:
        """What processes answered, as one; `rank`: a key, the worst first."""
        findings: list[Finding] = []
        notes: list[str] = []
        for process, content in answers.rows:
            row = orjson.loads(content)
            findings += map(Finding.of_json, row["findings"])
            notes += [f"{process.named}: {note}" for note in row["notes"]]
        notes += [f"{process.named}: {why}" for process, why in answers.failed]
        notes += [f"{process.named} did not answer" for process in answers.missing]
        return cls(sorted(findings, key=rank), notes)


class _Group:
    """What is alike, as of the last look."""

    def __init__(self, series: Series) -> None:
        self.series = series
        self.now: list[Seen] = []
        self.counted: int | None = None


class Investigation:
    """Looks at this process.

    Args:
        process: Who it is, for the findings.
        ttl: Seconds, in place of what the kinds say.
        kinds: Of interest; None: all.
        keeps: Says of labels and birth (monotonic ns) whether a thing is of interest.
        machine: Whether threads, children and descriptors are looked at, too; a `ProcessThings` to look with.
    """

    def __init__(
        self,
        process: Process | None = None,
        *,
        ttl: float | None = None,
        kinds: Iterable[str] | None = None,
        keeps: Callable[[Labels, int], bool] | None = None,
        machine: bool | ProcessThings = True,
    ) -> None:
        ttl_ns = None if ttl is None else int(ttl * 1e9)
        self._process, self._kinds = process, None if kinds is None else frozenset(kinds)
        self._books = BooksLook(process, ttl_ns, keeps)
        self._machine = ProcessThings(process, ttl_ns, keeps) if machine is True else machine or None
        self.evidence = EvidenceLook()
        self._groups: dict[Signature, _Group] = {}
        self._gauged: dict[str, Series] = {}
        self._proved: dict[int, ProvedTask] = {}
        self._held: frozenset[int] = frozenset()
        self.notes: list[str] = []
        self._at_ns = 0

    # --- looking --------------------------------------------------------------------------------------------------

    @TURNS.shortly
    def look(self, now_ns: int | None = None) -> None:
        """Add a window to what is known. A time of one's own is for tests."""
        self._forget()
        warm_ns = LEDGER.born_ns + WARM_NS
        if warm_ns > time.monotonic_ns():  # it is not warm yet, so there is nothing to compare with
            warm_ns = 0
        for seen in self._seen(now_ns):
            if self._kinds is not None and seen.signature.kind not in self._kinds:
                continue
            if not seen.proof and seen.ident in self._held and seen.signature.kind != TASK:
                seen = seen._replace(proof=_HELD)
            self._group(seen).now.append(seen)
        at_ns = self._at_ns = time.monotonic_ns() if now_ns is None else now_ns
        for group in self._groups.values():
            group.series.warm = sum(0 < seen.since_ns < warm_ns for seen in group.now)
            group.series.look(at_ns, [seen.since_ns for seen in group.now if seen.since_ns], len(group.now))
        self._look_at_gauges(at_ns)

    def _forget(self) -> None:
        """What the last look saw, one by one: see `turns`."""
        for group in self._groups.values():
            while group.now:
                group.now.pop()
                TURNS.breathe()

    @TURNS.shortly
    def let_go(self) -> None:
        """After the last word: free what was seen bit by bit, because all of it at once holds others up."""
        self._forget()
        self._books.forget()
        while self._proved:
            self._proved.popitem()

    def _seen(self, now_ns: int | None) -> Iterable[Seen]:
        yield from self._books.seen()
        yield from self.evidence.seen(now_ns)
        if self._machine is not None:
            yield from self._machine.seen()

    def pending_s(self) -> float:
        """When one more look may prove what looks like a leak, in seconds; 0.0: nothing does."""
        due_ns = self._machine.pending_ns - time.monotonic_ns() if self._machine is not None else 0
        return max(due_ns, CONFIRM_NS if self.evidence.pending else 0, 0) / 1e9

    def _group(self, seen: Seen) -> _Group:
        signature = seen.signature
        found = self._groups.get(signature)
        if found is None:
            if len(self._groups) >= SIGNATURES_MAX:
                signature = Signature(signature.kind, (Frame("(others)"),))
                found = self._groups.get(signature)
            if found is None:
                found = self._groups[signature] = _Group(Series(seen.ttl_ns))
        found.series.ttl_ns = max(found.series.ttl_ns, seen.ttl_ns)
        return found

    def _look_at_gauges(self, at_ns: int) -> None:
        """What is counted elsewhere and has no rows: how many, and since when the oldest."""
        for kind in LEDGER.kinds():
            book = LEDGER.book(kind.name)
            if kind.name == BOOKS or not book.gauges or (self._kinds is not None and kind.name not in self._kinds):
                continue
            if any(signature.kind == kind.name for signature in self._groups):
                continue
            count = LEDGER.count(book)
            live = count.live - len(book.live)
            series = self._gauged.setdefault(kind.name, Series(int(kind.ttl_s * 1e9), live))
            series.look(at_ns, [count.oldest_ns] if count.oldest_ns and not book.live else [], live)

    def prove(self) -> None:
        """Have it proved which tasks nothing alive can wake. Takes some seconds where there are any."""
        try:
            found, notes, *more = proofs()
        except Exception as broken:  # noqa: BLE001, RUF100 - growth is graded all the same
            self.notes.append(f"no proof of reachability: {type(broken).__name__}: {broken}")
            return
        self._proved, self._held = found, more[0] if more else frozenset()
        self.notes += notes

    # --- what was found -------------------------------------------------------------------------------------------

    def findings(self, min_grade: str = INFO) -> list[Finding]:
        """What is there as of the last look, the worst first."""
        found = list(self._rings())
        suspects = {one.signature for one in found if one.grade != LEAK}
        ringed = {one.signature for one in found} - suspects
        for signature, group in self._groups.items():
            if not group.now or signature.id in ringed:
                continue
            proved = [seen for seen in group.now if seen.proof]
            facts = group.series.facts()
            if proved:
                found.append(self._finding(LEAK, signature, proved, facts, proved[0].proof, proved=True))
            elif (grade := facts.grade()) and (grade == LEAK or signature.id not in suspects):
                found.append(self._finding(grade, signature, group.now, facts, facts.said()))
        for kind, series in self._gauged.items():
            facts = series.facts()
            if grade := facts.grade():
                found.append(self._counted(grade, kind, series, facts))
        self.notes += [note for note in self._books.notes if note not in self.notes]
        return sorted(at_least(found, min_grade), key=order)

    def _rings(self) -> Iterable[Finding]:
        """Tasks of which it is proved, or nearly, that nothing wakes them; all that wait for each other at the place of
        the first of them."""
        there = {
            seen.ident: seen for group in self._groups.values() for seen in group.now if seen.signature.kind == TASK
        }
        found: dict[tuple[str, Signature], list[Seen]] = {}
        whys: dict[tuple[str, Signature], str] = {}
        for ident, proved in self._proved.items():
            seen, first = there.get(ident), there.get(proved.first)
            if seen is not None:
                key = (proved.grade, (first or seen).signature)
                found.setdefault(key, []).append(seen)
                whys.setdefault(key, proved.why)
        for (grade, signature), ones in found.items():
            group = self._groups.get(signature)
            facts = Series(0).facts() if group is None else group.series.facts()
            yield self._finding(grade, signature, ones, facts, whys[grade, signature], proved=grade == LEAK)

    def _finding(
        self, grade: str, signature: Signature, seen: Sequence[Seen], facts: Facts, why: str, *, proved: bool = False
    ) -> Finding:
        return finding_of(grade, signature, seen, facts, why, self._at_ns, self._process, proved=proved)

    def _counted(self, grade: str, kind: str, series: Series, facts: Facts) -> Finding:
        last = series.windows[-1]
        seen = Seen(Signature(kind), 0, last.oldest_ns, series.ttl_ns, "", "", ())
        return self._finding(grade, seen.signature, [seen], facts, facts.said())._replace(count=last.number)


class ProvedTask(NamedTuple):
    """A task that nothing wakes: `first` is the `id` of the first of those that wait for each other."""

    first: int
    why: str
    grade: str


def proofs() -> tuple[dict[int, ProvedTask], list[str], frozenset[int]]:
    """Tasks that nothing alive can wake, by their `id`; what could not be seen; tokens of things that only they have.

    See `runtime.profile.proof`.
    """
    module, _, function = _PROVE.partition(":")
    proof = getattr(import_module(module), function)()
    found: dict[int, ProvedTask] = {}
    for proved in proof.findings:
        for task in proved.ring or (proved.task,):
            found[id(task)] = ProvedTask(id(proved.task), proved.why, proved.grade)
    return found, list(proof.notes), frozenset(proof.things)


# --- asked from elsewhere ---------------------------------------------------------------------------------------------


def answer(request: Request) -> bytes:
    """The answer to "leaks"; the options are those of `survey`."""
    options = request.options
    inquiry = Investigation(request.process, ttl=options.get("ttl"), kinds=options.get("kinds"))
    try:
        return _investigated(request, inquiry)
    finally:
        inquiry.let_go()


def _investigated(request: Request, inquiry: Investigation) -> bytes:
    options, begun_s = request.options, time.monotonic()
    inquiry.look()
    if request.threads:
        _look_on(request, inquiry, begun_s, request.left_s() if request.late else request.seconds)
        # Proofs take turns, and what was just born has leaked nothing.
        if options.get("prove") and not (request.late or request.over()):
            request.put(_said(request, inquiry, _UNPROVED))
            inquiry.prove()
            inquiry.look()
            if (pause_s := inquiry.pending_s()) and not request.over():
                time.sleep(pause_s)
                inquiry.look()
    return _said(request, inquiry)


@TURNS.shortly
def _said(request: Request, inquiry: Investigation, *more: str) -> bytes:
    found = inquiry.findings(request.options.get("min_grade", INFO))
    notes = [*inquiry.notes, *more]
    if len(found) > _FINDINGS_MAX:
        notes = [*notes, f"{len(found) - _FINDINGS_MAX:,} findings that weigh less were left out"]
    return dumped({"findings": [one.as_json() for one in found[:_FINDINGS_MAX]], "notes": notes})


def _look_on(request: Request, inquiry: Investigation, begun_s: float, seconds: float) -> None:
    step_s = max(WINDOW_S, seconds / 32)
    due_s = begun_s + step_s
    while due_s <= begun_s + seconds + 0.001 and not request.over():
        if (left_s := due_s - time.monotonic()) > 0:
            time.sleep(min(left_s, WINDOW_S))  # who asks may have enough
        else:
            inquiry.look()
            due_s += step_s


def survey(
    state_dir: str | os.PathLike[str],
    *,
    seconds: float = SECONDS,
    prove: bool = True,
    min_grade: str = INFO,
    ttl: float | None = None,
    kinds: Sequence[str] | None = None,
    timeout: float = PROOF_S,
    pids: frozenset[int] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Report:
    """Leaks of all processes of a state folder.

    Args:
        state_dir: The folder.
        seconds: How long growth is looked at; 0.0: not at all, which leaves proofs and events.
        prove: Whether it is searched which tasks nobody can reach any more, in a forked child of each process.
        min_grade: LEAK, SUSPECT or INFO: what is less is left out.
        ttl: Seconds from which a thing is old, in place of what its kind says.
        kinds: Of interest; None: all.
        timeout: Seconds to wait for answers beyond `seconds`.
        pids: Of these processes only.
        stop: Says when what was found by then is enough.

    Returns:
        Findings, the worst first, each with its process, and who could not be seen.

    Raises:
        ProfileUnavailable: No process can be seen, none answered, or nothing was found and the program ended.
        StateFolderError: It is no state folder.
        ValueError: There is no such grade.
    """
    check_grade(min_grade)
    options: dict[str, Any] = {"prove": prove, "min_grade": min_grade, "ttl": ttl, "kinds": kinds and list(kinds)}
    answers = ask(state_dir, "leaks", seconds=seconds, timeout=timeout, only=pids, stop=stop, **options)
    if stop is None or not stop():  # who stopped it at once knows that nobody could answer
        answers.heard()
    found = Report.of(answers)
    faces = [f"{one.named}: {why}" for one, why in answers.failed if one.role == "face"]
    if faces and not found.findings:
        raise ProfileUnavailable(f"nothing can be said of a program that does not answer: {faces[0]}")
    return found
