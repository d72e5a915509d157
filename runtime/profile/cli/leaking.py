"""`leaks` and `watch`: what is held though nothing can finish or release it, and what goes beyond its bounds.

Both end with a code that a build can act upon, see `app`. Ctrl-C ends a search early: what was found by then is
shown, and where that is nothing the exit code is 130 and not that of clean.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final

import orjson

from actors.protocol.errors import CallerError
from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.outputs import check_writable, write_output
from runtime.cli.report import duration_text
from runtime.profile.captures import capture
from runtime.profile.cli.app import ProfileExit
from runtime.profile.cli.shared import frame_text, note_all, pids_of, state_of, until_interrupted
from runtime.profile.cli.stacks import as_json
from runtime.profile.cli.watching import bounds_of, slos_of
from runtime.profile.formats import leak_page
from runtime.profile.formats.plain import plain, plain_report
from runtime.profile.leak_check.grading import GRADES, worst
from runtime.profile.ledger.kinds import NAMES
from runtime.profile.model import Frame

CODES: Final = {"leak": ProfileExit.LEAK, "suspect": ProfileExit.SUSPECT, "info": ProfileExit.SUSPECT}
CLEAN: Final = "clean: nothing is held that nobody could release"


def show_leaks(arguments: Namespace, console: Console) -> int:
    """The command `leaks`."""
    if arguments.output is not None and arguments.output.suffix not in (".html", ".json"):
        raise CallerError(f"{arguments.output}: findings are written as .html or .json")
    check_writable(arguments.output)
    state = state_of(arguments, console)
    pids, begun_ns = pids_of(arguments, state), time.monotonic_ns()
    with until_interrupted() as stop:
        report = capture.leaks(state, seconds=arguments.duration, prove=arguments.prove, pids=pids, stop=stop)
    if stop():
        took = duration_text(time.monotonic_ns() - begun_ns)
        report.notes.append(f"interrupted after {took}: what takes longer to show itself is not among the findings")
    if arguments.output is not None:
        as_page = not arguments.output.name.endswith(".json")
        page = leak_page.page(report.findings, notes=report.notes) if as_page else report_json(report).encode()
        write_output(arguments.output, page)
        console.note(f"written: {arguments.output}")
    if arguments.json:
        console.say(report_json(report))
    else:
        none = "nothing was found by then" if stop() else CLEAN
        console.say(finding_lines(report.findings, arguments.all, none=none))
        note_all(console, report.notes)
    code = exit_code(report.findings, arguments.fail_on)
    return ProfileExit.INTERRUPTED if stop() and code == ProfileExit.OK else code


def exit_code(findings: Sequence[Any], fail_on: str) -> int:
    """4 for a leak, 3 for what is suspect, 0 where the worst is less than what was asked for.

    Args:
        findings: Those that were found.
        fail_on: The least grade that counts; "never": none does.
    """
    if fail_on == "never":
        return ProfileExit.OK
    grade = worst(findings)
    return CODES[grade] if grade and GRADES.index(grade) <= GRADES.index(fail_on) else ProfileExit.OK


def report_json(report: Any) -> str:
    """All findings as one JSON object."""
    return as_json(plain_report(report))


def finding_lines(findings: Sequence[Any], every: bool = False, *, none: str = CLEAN) -> Iterator[str]:
    """Findings as text, the worst first; `every`: also those that are only to be watched; `none`: if there are none."""
    shown = [one for one in findings if every or str(one.grade) != GRADES[-1]]
    if not shown:
        yield none
    for one in shown:
        facts = [f"{one.count:,} × {one.kind}"]
        facts += [f"{one.slope_per_min:+.1f} a minute"] if one.slope_per_min else []
        facts += [f"the oldest for {duration_text(round(one.oldest_s * 1e9))}"] if one.oldest_s else []
        yield f"{str(one.grade).upper():<8} {', '.join(facts)}"
        for name, value in (
            ("created", _place(one.site)),
            ("waits", _place(one.wait)),
            ("labels", ", ".join(f"{label}={text}" for label, text in one.labels)),
            ("tenants", _tenants(getattr(one, "tenants", ()))),
            ("owner", leak_page.text_of(one.owner)),
            ("why", leak_page.text_of(one.proof)),
            ("such as", ", ".join(map(leak_page.text_of, one.exemplars or ()))),
            ("do", leak_page.text_of(one.suggestion)),
        ):
            if value:
                yield f"         {name:<8} {value}"
        yield ""
    sums = {grade: sum(str(one.grade) == grade for one in findings) for grade in GRADES}
    yield ", ".join(
        counted(count, grade) if grade != "info" else f"{count} to be watched" for grade, count in sums.items()
    )


def _place(stack: Sequence[Frame]) -> str:
    return frame_text(stack[-1]) if stack else ""


def _tenants(tenants: Any) -> str:
    pairs = tenants.items() if isinstance(tenants, dict) else tenants
    return ", ".join(f"{name} {count:,}" for name, count in pairs or ())


# --- watch ------------------------------------------------------------------------------------------------------------


def show_watch(arguments: Namespace, console: Console) -> int:
    """The command `watch`: says each breach when it comes, and where its bundle is."""
    watch = import_module("runtime.profile.monitor.watching").watch
    state = state_of(arguments)

    def tell(breach: Any) -> None:
        data = plain(breach._asdict() if hasattr(breach, "_asdict") else vars(breach))
        console.say(orjson.dumps(data).decode() if arguments.json else str(breach))

    bounds, slos = bounds_of(arguments), slos_of(arguments, state)
    for kind in sorted({*bounds.ceilings, *bounds.slope_per_min} - {*NAMES}):
        console.note(f"note: {kind!r} is no kind unless a process registers it; there are {', '.join(NAMES)}")
    console.note(f"watching {state}; Ctrl-C ends it")
    with until_interrupted() as stop:
        breaches = watch(
            state,
            seconds=arguments.duration,
            tell=tell,
            stop=lambda: stop() or console.gone,
            bounds=bounds,
            slos=slos,
            save=arguments.save,
        )
    return ProfileExit.SUSPECT if breaches else ProfileExit.OK
