"""The command line: `python -m runtime.bench [SCENARIO...] [options]`.

Exit codes: 0 all measured, 1 a scenario failed or gave wrong results, 2 the call was wrong, 130 interrupted.
The table goes to standard output, unless the JSON goes there; then it goes to standard error, where notices go always.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from runtime.bench import catalogue, machine, report, runner
from runtime.bench.figures import BenchError, ScenarioResult
from runtime.bench.publish import publish
from runtime.bench.workloads.base import Scenario, Setup

TASKS_MAX: Final = 4_000_000
WORKERS_MAX: Final = 512
REPEAT_MAX: Final = 1_000
SECONDS_LONGEST: Final = 86_400
REPEAT_AGAINST: Final = 3
"""Samples of each side with --against: the fewest that have a median and a spread."""
STDOUT: Final = "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Wrong arguments end the process with code 2, as argparse does."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        chosen = catalogue.named(options.scenarios)
        plan = [(scenario, _setup(scenario, options)) for scenario in chosen]
    except BenchError as wrong:
        parser.error(str(wrong))
    for problem in filter(None, (scenario.refusal(setup) for scenario, setup in plan)):
        parser.error(problem)
    if options.json not in (None, STDOUT):
        _refuse_unwritable(parser, Path(options.json))
    repeat = options.repeat or (REPEAT_AGAINST if options.against else 1)
    table = sys.stderr if options.json == STDOUT else sys.stdout
    facts = machine.facts(plan[0][1].folder)
    for problem in machine.warnings(facts, any(setup.durability == "fsync" for _, setup in plan)):
        print(f"warning: {problem}", file=sys.stderr)
    results: list[ScenarioResult] = []
    try:
        _run(plan, repeat, options.against, table, facts, results)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        _write_json(options.json, report.document(machine.version(), facts, results))
    if options.publish is not None:
        for result in results:
            publish(options.publish, result, report.machine_line(facts))
    return 1 if any(result.error or result.missed for result in results) else 0


def _run(
    plan: list[tuple[Scenario, Setup]],
    repeat: int,
    against: bool,
    table: TextIO,
    facts: dict[str, Any],
    results: list[ScenarioResult],
) -> None:
    print(report.machine_line(facts), file=table)
    print(report.header(), file=table, flush=True)
    for scenario, setup in plan:
        result = runner.measure(scenario, setup, repeat=repeat, against=against, notice=_notice)
        results.append(result)
        _notice("")
        print("\n".join(report.lines(result)), file=table, flush=True)


def _notice(text: str) -> None:
    """Show what is running on the last line of a terminal; the next one overwrites it. Nothing elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _setup(scenario: Scenario, options: argparse.Namespace) -> Setup:
    size = scenario.tasks_smoke if options.smoke else scenario.tasks_default
    return Setup(
        tasks=options.tasks if options.tasks is not None else size,
        workers=options.workers or machine.cores(),
        durability=scenario.durability_default and (options.durability or scenario.durability_default),
        folder=options.folder or machine.state_folder(),
        file=options.file,
        smoke=options.smoke,
        seconds=options.seconds,
    )


def _write_json(target: str | None, document: dict[str, Any]) -> None:
    if target == STDOUT:
        print(json.dumps(document, indent=2), flush=True)
    elif target is not None:
        Path(target).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m runtime.bench",
        description="Measure Mainspring, alone or next to the standard library. Without arguments: all scenarios.",
        epilog=_scenarios(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help="scenarios; next: those about who runs next; log: those about the log; all (default: those about speed)",
    )
    parser.add_argument("--tasks", type=_whole(TASKS_MAX), metavar="N", help="size; what it counts is said below")
    parser.add_argument(
        "--workers", type=_whole(WORKERS_MAX), metavar="W", help="worker processes (default: one per core)"
    )
    parser.add_argument(
        "--durability",
        choices=("fsync", "os", "none"),
        help=f"survive power loss, kill -9 of everything, or nothing (default: {_durabilities()})",
    )
    parser.add_argument(
        "--repeat",
        type=_whole(REPEAT_MAX),
        metavar="R",
        help=f"samples; figures are their medians (default: 1, with --against {REPEAT_AGAINST} of each side)",
    )
    parser.add_argument(
        "--against", action="store_true", help="alternate with the standard library and print the ratio"
    )
    parser.add_argument(
        "--json", nargs="?", const=STDOUT, metavar="FILE", help="write one JSON object (default: standard output)"
    )
    parser.add_argument("--file", type=_existing_file, metavar="FILE", help="WfFormat file for the scenario wfformat")
    parser.add_argument(
        "--folder", type=_existing_folder, metavar="DIR", help="where state folders are made (default: a disk)"
    )
    parser.add_argument(
        "--seconds", type=_whole(SECONDS_LONGEST), metavar="S", help="how long, for the scenario soak (default: 10)"
    )
    parser.add_argument(
        "--publish", type=_existing_file, metavar="FILE", help="write the tables of scenarios into a document, too"
    )
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does it run, are the results right")
    return parser


def _scenarios() -> str:
    """What there is, by group, and what a group is called."""
    about = {
        "": "scenarios about speed, which run when none is named:",
        catalogue.NEXT: f"scenarios about who runs next; {catalogue.NEXT} stands for all of them:",
        catalogue.LOG: f"scenarios about the log; {catalogue.LOG} stands for all of them:",
    }
    lines: list[str] = []
    for group, scenarios in catalogue.groups().items():
        lines += ["", about[group], *(f"  {scenario.name:<10} {scenario.title}" for scenario in scenarios)]
    return "\n".join(lines[1:])


def _durabilities() -> str:
    """Which scenario has which by default."""
    by_default: dict[str | None, list[str]] = {}
    for scenario in catalogue.SCENARIOS:
        by_default.setdefault(scenario.durability_default, []).append(scenario.name)
    by_default.pop("fsync", None)
    nowhere = by_default.pop(None, [])
    some = [f"{durability}: {', '.join(names)}; " for durability, names in by_default.items()]
    return f"{''.join(some)}else fsync" + (f"; {', '.join(nowhere)} store nothing" if nowhere else "")


def _whole(largest: int) -> Any:
    def whole_number(text: str) -> int:
        try:
            value = int(text.replace("_", "").replace(",", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not 1 <= value <= largest:
            raise argparse.ArgumentTypeError(f"{text} is not between 1 and {largest:,}")
        return value

    return whole_number


def _existing_file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return path


def _existing_folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    try:
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as refused:
        raise argparse.ArgumentTypeError(f"cannot write to {text}: {refused.strerror}") from None


def _refuse_unwritable(parser: argparse.ArgumentParser, path: Path) -> None:
    """Find out now, not after a minute of measuring."""
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as refused:
        parser.error(f"cannot write {path}: {refused.strerror}")
