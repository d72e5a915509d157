"""Findings and the like as data that JSON has: frames and processes as objects, what nobody knows as text."""

from __future__ import annotations

from typing import Any

from runtime.profile.model import Frame, Process


def plain(value: Any) -> Any:
    """A value as JSON data."""
    if isinstance(value, Frame | Process):
        return value._asdict()
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def plain_report(report: Any) -> dict[str, Any]:
    """A `runtime.profile.leak_check.survey.Report` as JSON data."""
    return {"findings": [plain(one._asdict()) for one in report.findings], "notes": list(report.notes)}
