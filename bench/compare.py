"""`python -m bench.compare OLD.json NEW.json`: two recorded runs side by side, ratios to the standard library first.

Absolute figures are compared only when both runs say they come from the same processor and Python; otherwise the ratios
against the baseline are all that can be compared. Exit code 1 when a ratio fell out of the spread of the old run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

FIGURES: Final = (
    "ratio",
    "ratio_p50",
    "ratio_p99",
    "tasks_per_second",
    "p50_us",
    "p99_us",
    "bytes_per_task",
    "metg_us",
    "share_error_percent",
    "low_wait_s",
    "last_ms",
    "pop_1M_us",
)
HIGHER_IS_BETTER: Final = frozenset({"ratio", "ratio_p50", "ratio_p99", "tasks_per_second"})
SAME_MACHINE: Final = ("cpu", "cores", "python", "file_system")

Row = dict[str, Any]


def comparable(old: Row, new: Row) -> bool:
    """Whether two runs were made on the same kind of machine with the same Python."""
    return all(old["machine"].get(name) == new["machine"].get(name) for name in SAME_MACHINE)


def changes(old: Row, new: Row, *, absolute: bool) -> list[tuple[str, float, float, float]]:
    """Figure, old value, new value and improvement (above 1 = better now) of one scenario."""
    found = []
    for name in FIGURES:
        before, after = old.get(name), new.get(name)
        if not before or not after or not (absolute or name.startswith("ratio")):
            continue
        found.append((name, before, after, after / before if name in HIGHER_IS_BETTER else before / after))
    return found


def regressions(old: Row, new: Row) -> list[str]:
    """Ratios of one scenario that are now below everything the old run saw."""
    names = [name for name in FIGURES if name.startswith("ratio") and new.get(name) and old.get(f"{name}_spread")]
    return [name for name in names if new[name] < old[f"{name}_spread"][0]]


def compare(old: Row, new: Row) -> tuple[list[str], bool]:
    """Lines of the comparison, and whether nothing became worse."""
    absolute = comparable(old, new)
    lines = [f"{'scenario':<11} {'figure':<17} {'old':>12} {'new':>12} {'better by':>9}"]
    if not absolute:
        lines.insert(0, "different machines or Pythons: only ratios against the standard library are compared")
    good = True
    before = {row["scenario"]: row for row in old["results"]}
    for row in new["results"]:
        earlier = before.get(row["scenario"])
        if earlier is None:
            continue
        if earlier.get("durability") != row.get("durability"):
            lines.append(
                f"{row['scenario']:<11} not compared: durability {earlier['durability']} and {row['durability']}"
            )
            continue
        worse = regressions(earlier, row)
        good = good and not worse
        for name, was, now, gain in changes(earlier, row, absolute=absolute):
            mark = "  worse than all of the old run" if name in worse else ""
            lines.append(f"{row['scenario']:<11} {name:<17} {was:>12,.4g} {now:>12,.4g} {gain:>8.2f}x{mark}")
    return lines, good


def main(arguments: Sequence[str]) -> int:
    """Compare two files; returns the exit code."""
    if len(arguments) != 2:
        print("usage: python -m bench.compare OLD.json NEW.json", file=sys.stderr)
        return 2
    try:
        old, new = (json.loads(Path(name).read_text(encoding="utf-8")) for name in arguments)
    except (OSError, ValueError) as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    lines, good = compare(old, new)
    print("\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
