"""The table of what changed, for the page that compares two profiles: functions with the interval of each.

It is made without scripts, from `runtime.profile.diff`; where there is too little to compare, it says that instead.
"""

from __future__ import annotations

from html import escape
from typing import Final

from actors.protocol.errors import CallerError
from actors.protocol.profile_errors import ProfileTooSmall
from runtime.cli.pages import shown
from runtime.profile.diff import DiffRow, diff
from runtime.profile.formats.figures import rate_text
from runtime.profile.model import NANOSECONDS, Profile

ROWS_LISTED: Final = 40
_CLASSES: Final = {"grew": "up", "new": "up", "shrank": "down", "vanished": "down"}


def table(profile: Profile, before: Profile) -> str:
    """The section's content.

    Args:
        profile: What is.
        before: What was.
    """
    try:
        found = diff(before, profile, unit="function")
    except (ProfileTooSmall, CallerError) as refused:
        return f"<p>What changed cannot be told from chance: {shown(refused.message)}.</p>"
    changed = found.changed()
    if not changed:
        return f"<p>Nothing changed more than by chance ({found.confidence:.0%} that no row is wrong).</p>"
    sampled = found.unit == NANOSECONDS
    heads = ["Function", "Label set", "", "Before", "After", "Change"]
    heads += ["Share", "Interval, points"] if sampled else []
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    body = "".join(_row(row, found.unit) for row in changed[:ROWS_LISTED])
    more = f"<p>… and {len(changed) - ROWS_LISTED:,} more.</p>" if len(changed) > ROWS_LISTED else ""
    same = f"<p>{len(found.rows) - len(changed):,} others are the same, or differ by what may be chance.</p>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}{same}"


def _row(row: DiffRow, unit: str) -> str:
    frame = row.stack[-1]
    labels = ", ".join(f"{name}={text}" for name, text in row.labels) or "all"
    change = f"{row.change / row.before:+.1%}" if row.before and row.after else "–"
    cells = [
        f"<td>{shown(labels)}</td>",
        f'<td class="{_CLASSES.get(row.verdict, "")}">{escape(row.verdict)}</td>',
        f"<td>{rate_text(row.before, unit)}</td><td>{rate_text(row.after, unit)}</td><td>{change}</td>",
    ]
    if unit == NANOSECONDS and row.low is not None and row.high is not None:
        cells.append(f"<td>{row.share_before:.1%} → {row.share_after:.1%}</td>")
        cells.append(f"<td>{row.low * 100:+.1f} to {row.high * 100:+.1f}</td>")
    place = f" <small>{shown(frame.file)}</small>" if frame.file else ""
    return f'<tr><th scope="row">{shown(frame.name)}{place}</th>{"".join(cells)}</tr>'
