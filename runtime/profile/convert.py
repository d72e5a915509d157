"""Profiles in files, turned into other formats and compared: what `python -m runtime.profile convert` and `diff` do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

from actors.protocol.errors import EnvironmentFault
from actors.protocol.profile_errors import ProfileUnreadable
from runtime.cli.outputs import check_writable, write_output
from runtime.cli.report import align
from runtime.profile.diff import BY, Diff, DiffRow, Unit, diff
from runtime.profile.formats import files, flame
from runtime.profile.formats.figures import rate_text
from runtime.profile.model import NANOSECONDS, Labels, Profile

ROWS_SHOWN: Final = 40
STACK_SHOWN_CHARS: Final = 110


def load(path: Path) -> Profile:
    """Read a profile.

    Raises:
        EnvironmentFault: The file cannot be read.
        ProfileUnreadable: It is no profile.
    """
    try:
        with path.open("rb") as file:
            return files.read(file)
    except OSError as refused:
        raise EnvironmentFault(f"{path} cannot be read: {refused.strerror}") from refused
    except ProfileUnreadable as strange:
        raise ProfileUnreadable(f"{path}: {strange.message}") from strange


def save(profile: Profile, path: Path, fmt: str = "", *, by: Sequence[str] = ()) -> None:
    """Write a profile into a file, whole or not at all.

    Args:
        profile: What is written.
        path: Where to.
        fmt: See `files.FORMATS`; empty: as the name of the file asks.
        by: Names of labels that stacks are grouped by.

    Raises:
        CallerError: There is no such format.
        EnvironmentFault: It cannot be written.
    """
    fmt = files.known_format(fmt) if fmt else files.format_of(path.name)
    check_writable(path)
    content = BytesIO()
    files.write(profile, content, fmt, by=by)
    write_output(path, content.getvalue())


def convert(source: Path, target: Path, fmt: str = "", *, by: Sequence[str] = ()) -> Profile:
    """Turn a file into one of another format.

    Returns:
        What was in it.
    """
    profile = load(source)
    save(profile, target, fmt, by=by)
    return profile


def compare(
    before: Path,
    after: Path,
    *,
    by: Sequence[str] = BY,
    unit: Unit = "stack",
    report: Path | None = None,
) -> Diff:
    """Compare two files.

    Args:
        before: What was.
        after: What is.
        by: Names of labels that make label sets.
        unit: What a row is, see `diff`.
        report: Where a flame graph of both goes, a page.

    Raises:
        ProfileTooSmall: There are too few samples.
    """
    check_writable(report)
    was, now = load(before), load(after)
    found = diff(was, now, by=by, unit=unit)
    if report is not None:
        write_output(report, flame.page(now, was))
    return found


def diff_lines(found: Diff, rows_max: int = ROWS_SHOWN) -> Iterator[str]:
    """A comparison as text: label sets, then what changed, then notes.

    Args:
        found: The comparison.
        rows_max: How many rows are shown.
    """
    if len(found.sets) > 1:
        head = ("label set", "before", "after", "change", "samples")
        rows = [
            (
                _labels(row.labels) + ("" if row.compared else " *"),
                rate_text(row.before, found.unit),
                rate_text(row.after, found.unit),
                _ratio(row.before, row.after),
                f"{row.seen_before:,} / {row.seen_after:,}",
            )
            for row in found.sets[:rows_max]
        ]
        yield from align([head, *rows])
        if any(not row.compared for row in found.sets):
            yield "* too few samples to be compared"
        yield ""
    changed = found.changed()
    if not changed:
        yield f"nothing changed more than by chance ({found.confidence:.0%})"
    else:
        sampled = found.unit == NANOSECONDS
        head = ("", "before", "after", "change", *(("share", f"{found.confidence:.0%} of all rows") if sampled else ()))
        yield from align([head, *(_cells(row, found.unit, sampled) for row in changed[:rows_max])])
        if len(changed) > rows_max:
            yield f"... and {len(changed) - rows_max:,} more"
    same = len(found.rows) - len(changed)
    if same:
        yield f"{same:,} rows are the same, or differ by what may be chance"
    yield from (f"note: {note}" for note in found.notes)


def _cells(row: DiffRow, unit: str, sampled: bool) -> tuple[str, ...]:
    stack = " > ".join(frame.name for frame in row.stack) or "(no stack)"
    if len(stack) > STACK_SHOWN_CHARS:
        stack = "..." + stack[3 - STACK_SHOWN_CHARS :]
    labels = f"[{_labels(row.labels)}] " if row.labels else ""
    what = f"{row.verdict:<8} {labels}{stack}"
    cells = (what, rate_text(row.before, unit), rate_text(row.after, unit), _ratio(row.before, row.after))
    if not sampled or row.low is None or row.high is None:
        return cells
    share = f"{row.share_before:.1%} > {row.share_after:.1%}"
    return (*cells, share, f"{row.low * 100:+.1f} to {row.high * 100:+.1f}")


def _labels(labels: Labels) -> str:
    return ", ".join(f"{name}={text}" for name, text in labels) or "no labels"


def _ratio(before: float, after: float) -> str:
    if not before or not after:
        return "new" if after else "gone"
    return f"{(after - before) / before:+.1%}"
