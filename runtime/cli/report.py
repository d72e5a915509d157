"""What a run's trace says: makespan, critical path, lower bound, efficiency, and figures per node type.

All durations are measured ones (end minus start of the last attempt). Words:

- makespan: last end minus first start.
- critical path: the chain of nodes along edges whose durations add up to most. No number of workers is quicker.
- lower bound: max(critical path, total work / slots). No schedule on these workers is quicker; it may be out of reach.
- efficiency: lower bound / makespan. 100 % means that nothing could have been scheduled better.
- wait: from the end of a node's last parent (for a node without parents, from the first start of the run) to its start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from actors.protocol.words import counted
from runtime.cli.order import topological
from runtime.cli.trace import Trace

PATH_SHOWN_MAX: Final = 12
"""Nodes of the critical path named in the text report; a longer one is cut in the middle. The page lists more."""
GROUPS_SHOWN_MAX: Final = 40
"""Lines of the table in the text report."""
FAILURES_SHOWN_MAX: Final = 5
"""Failed nodes named in the text report."""
TRACEBACK_LINES_MAX: Final = 14
"""Last lines of the first failure's traceback in the text report; the page has it all."""


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """Figures of one node type or task. Durations and waits in nanoseconds, over the nodes that ran."""

    name: str
    nodes: int
    failed: int
    attempts: int
    work_ns: int
    p50_ns: int
    p95_ns: int
    max_ns: int
    wait_p50_ns: int

    def times(self) -> list[str]:
        """Total, p50, p95, max and wait as text; dashes when none of the nodes ran."""
        times = (self.work_ns, self.p50_ns, self.p95_ns, self.max_ns, self.wait_p50_ns)
        return [duration_text(ns) if self.attempts else "–" for ns in times]


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one run; `path` holds row numbers from first to last."""

    makespan_ns: int
    work_ns: int
    path: tuple[int, ...]
    path_ns: int
    bound_ns: int
    efficiency: float
    peak: int
    counts: dict[str, int]
    attempts: int
    groups: tuple[GroupFigures, ...]
    pools: tuple[GroupFigures, ...]
    waits: tuple[int, ...]


def analyse(trace: Trace) -> Figures:
    """All figures of a trace, in O(nodes + edges)."""
    rows = range(len(trace))
    ran = [row for row in rows if trace.ran(row)]
    origin = trace.origin()
    makespan = max((trace.ends[row] for row in ran), default=origin) - origin
    work = sum(map(trace.duration, ran))
    path, path_ns = critical_path(trace)
    bound = max(path_ns, -(-work // max(1, trace.slots)))
    waits = tuple(_waits(trace, origin))
    return Figures(
        makespan_ns=makespan,
        work_ns=work,
        path=path,
        path_ns=path_ns,
        bound_ns=bound,
        efficiency=min(1.0, bound / makespan) if makespan else 1.0,
        peak=_peak(trace, ran),
        counts=dict(Counter(trace.states)),
        attempts=sum(trace.attempts),
        groups=_groups(trace, trace.groups, waits),
        pools=_groups(trace, [trace.pools.get(name, "") for name in trace.groups], waits) if trace.pools else (),
        waits=waits,
    )


def critical_path(trace: Trace) -> tuple[tuple[int, ...], int]:
    """Rows of the heaviest chain, first to last, and its total in nanoseconds."""
    best = [0] * len(trace)
    before = [-1] * len(trace)
    last, total = -1, -1
    for row in topological(trace.parents):
        longest = 0
        for parent in trace.parents[row]:
            if before[row] < 0 or best[parent] > longest:
                longest, before[row] = best[parent], parent
        best[row] = longest + trace.duration(row)
        if best[row] > total:
            last, total = row, best[row]
    path: list[int] = []
    while last >= 0:
        path.append(last)
        last = before[last]
    return tuple(reversed(path)), max(total, 0)


def percentile(ordered: Sequence[int], percent: int) -> int:
    """Nearest-rank percentile of ascending values; 0 of none."""
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)] if ordered else 0


def _waits(trace: Trace, origin: int) -> list[int]:
    """Per row: how long it waited after its last parent ended; -1 if it did not run."""
    found = []
    for row, parents in enumerate(trace.parents):
        ready = max((trace.ends[parent] for parent in parents), default=0) or origin
        found.append(max(0, trace.starts[row] - ready) if trace.ran(row) else -1)
    return found


def _peak(trace: Trace, ran: list[int]) -> int:
    """Most nodes running at one time. An end sorts before a start at the same time."""
    moments = sorted([(trace.starts[row], 1) for row in ran] + [(trace.ends[row], -1) for row in ran])
    now = most = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def _groups(trace: Trace, groups: Sequence[str], waits: Sequence[int]) -> tuple[GroupFigures, ...]:
    """Figures per group, most work first."""
    rows_of: dict[str, list[int]] = {}
    for row, name in enumerate(groups):
        rows_of.setdefault(name, []).append(row)
    found = []
    for name, rows in rows_of.items():
        durations = sorted(trace.duration(row) for row in rows if trace.ran(row))
        found.append(
            GroupFigures(
                name=name,
                nodes=len(rows),
                failed=sum(trace.states[row] == "failed" for row in rows),
                attempts=sum(trace.attempts[row] for row in rows),
                work_ns=sum(durations),
                p50_ns=percentile(durations, 50),
                p95_ns=percentile(durations, 95),
                max_ns=durations[-1] if durations else 0,
                wait_p50_ns=percentile(sorted(waits[row] for row in rows if waits[row] >= 0), 50),
            )
        )
    return tuple(sorted(found, key=lambda group: (-group.work_ns, group.name)))


# --- as text ----------------------------------------------------------------------------------------------------


def duration_text(ns: int) -> str:
    """A duration for people: three significant digits and a unit."""
    if ns >= 99_950_000_000:
        minutes, seconds = divmod(round(ns / 1e9), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)):
        value = ns / size
        if value >= 0.9995:  # what rounds to a thousand of one unit is one of the next
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
    return f"{ns} ns"


def time_text(wall_ns: int | None) -> str:
    """A time of the wall clock, in this machine's zone; a dash when there is none."""
    return datetime.fromtimestamp(wall_ns / 1e9).strftime("%Y-%m-%d %H:%M:%S") if wall_ns else "–"


def path_text(trace: Trace, path: Sequence[int]) -> str:
    """The names along a path; the middle of a long one is left out."""
    names = [trace.label(row) for row in path]
    if len(names) > PATH_SHOWN_MAX:
        half = PATH_SHOWN_MAX // 2
        names = [*names[:half], f"… {len(names) - 2 * half} more …", *names[-half:]]
    return " → ".join(names)


def bound_text(trace: Trace, figures: Figures) -> str:
    """Which of its two terms the lower bound is."""
    if figures.bound_ns == figures.path_ns:
        return "the critical path; more workers cannot help"
    return f"total work {duration_text(figures.work_ns)} / {counted(trace.slots, 'slot')}"


def counts_text(counts: dict[str, int]) -> str:
    """Counts by state, the usual states first."""
    usual = ("succeeded", "failed", "cancelled", "skipped", "running", "ready", "pending")
    return ", ".join(
        f"{counts[state]:,} {state}" for state in (*usual, *sorted(set(counts) - set(usual))) if counts.get(state)
    )


def text_report(trace: Trace, figures: Figures) -> list[str]:
    """The report as lines of plain text."""
    average = figures.work_ns / figures.makespan_ns if figures.makespan_ns else 0.0
    makespan, elapsed = duration_text(figures.makespan_ns), duration_text(trace.elapsed_ns)
    on_path = f"{len(figures.path):,} of {counted(len(trace), 'node')}"
    head = [
        ("run", f"{trace.title}  ({trace.run_id})" if trace.title != trace.run_id else trace.title),
        ("state", f"{trace.state}: {counts_text(figures.counts)}"),
        ("makespan", f"{makespan}, first start to last end; {elapsed} as submitted"),
        ("critical path", f"{duration_text(figures.path_ns)}, {on_path}: {path_text(trace, figures.path)}"),
        ("lower bound", f"{duration_text(figures.bound_ns)}: {bound_text(trace, figures)}"),
        ("efficiency", f"{figures.efficiency:.1%}, lower bound / makespan"),
        ("at once", f"{average:.1f} nodes on average, {figures.peak:,} at most"),
        ("attempts", f"{figures.attempts:,}" + _again_text(trace)),
        ("workers", f"{trace.workers}: {trace.mode}" if trace.mode else str(trace.workers)),
        ("durability", trace.durability),
        *trace.facts,
    ]
    lines = [f"{name:<14} {text}" for name, text in head]
    if figures.pools:
        lines += ["", *group_table(figures.pools, "node type")]
    return [*lines, "", *group_table(figures.groups, group_word(trace)), *_failure_lines(trace)]


def _again_text(trace: Trace) -> str:
    again = sum(attempts > 1 for attempts in trace.attempts)
    return f"; {counted(again, 'node')} ran more than once" if again else ""


def group_word(trace: Trace) -> str:
    """What a group is: the task of a node type, or what stands for the node type itself."""
    return "task" if trace.pools else "node type"


def group_table(groups: Sequence[GroupFigures], word: str) -> list[str]:
    """The groups as an aligned table, most work first."""
    header = (word, "nodes", "failed", "attempts", "total", "p50", "p95", "max", "wait p50")
    rows = [
        (
            _cut_middle(group.name, 48),
            f"{group.nodes:,}",
            f"{group.failed:,}",
            f"{group.attempts:,}",
            *group.times(),
        )
        for group in groups[:GROUPS_SHOWN_MAX]
    ]
    lines = align([header, *rows])
    if len(groups) > GROUPS_SHOWN_MAX:
        lines.append(f"… and {len(groups) - GROUPS_SHOWN_MAX:,} more")
    return lines


def align(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Rows of cells as lines: the first columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        lines.append("  ".join(c.ljust(w) if at < left else c.rjust(w) for at, (c, w) in enumerate(cells)).rstrip())
    return lines


def _failure_lines(trace: Trace) -> list[str]:
    failed = [row for row, state in enumerate(trace.states) if state == "failed"]
    if not failed:
        return []
    lines = ["", f"failed: {counted(len(failed), 'node')}"]
    lines += [
        f"  {_cut(trace.label(row), 60)}: {_cut(trace.errors.get(row, 'no message'), 200)}"
        for row in failed[:FAILURES_SHOWN_MAX]
    ]
    if len(failed) > FAILURES_SHOWN_MAX:
        lines.append(f"  … and {len(failed) - FAILURES_SHOWN_MAX:,} more")
    _, _, trace_text = trace.errors.get(failed[0], "").partition("\nTraceback ")
    if trace_text:
        first = f"Traceback {trace_text}".rstrip().split("\n")[-TRACEBACK_LINES_MAX:]
        lines += ["", f"the first, {_cut(trace.label(failed[0]), 60)}:", *(f"  {line}" for line in first)]
    return lines


def _cut(text: str, width: int) -> str:
    first = text.strip().split("\n", 1)[0]
    return first if len(first) <= width else f"{first[: width - 1]}…"


def _cut_middle(text: str, width: int) -> str:
    """Long names often differ at their end."""
    return text if len(text) <= width else f"{text[: width // 3]}…{text[len(text) - width + width // 3 + 1 :]}"
