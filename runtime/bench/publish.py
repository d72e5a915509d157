"""Puts what a scenario has printed into a document, between `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""

from __future__ import annotations

import os
from pathlib import Path

from runtime.bench.figures import BenchError, ScenarioResult


def publish(path: Path, result: ScenarioResult, machine: str) -> None:
    """Write the lines of the latest sample, and what machine that was, into the place of this scenario.

    A scenario that failed or shows no lines changes nothing, and neither does one without a place in the document. The
    new text is put in its place by a rename.

    Raises:
        BenchError: A place has a beginning and no end.
    """
    lines = result.ours[-1].lines if result.ours and not result.error else ()
    begin, end = (f"<!-- {result.scenario}: {what} -->" for what in ("begin", "end"))
    before, found, rest = path.read_text(encoding="utf-8").partition(begin)
    if not lines or not found:
        return
    _, closed, after = rest.partition(end)
    if not closed:
        raise BenchError(f"{path} has {begin} and no {end}")
    head = f"Printed by `python -m runtime.bench {result.scenario}`, on {machine}."
    aside = path.with_name(path.name + ".new")
    aside.write_text("\n".join((before + begin, head, "", *lines, end + after)), encoding="utf-8")
    os.replace(aside, path)
