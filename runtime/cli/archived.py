"""What commands that read the log say of a run that is not in it: whether the archive has it, and what it knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors.protocol.errors import EnvironmentFault
from runtime.storage.past_runs import past_of


def story_in_archive(state: Path, key: str) -> list[list[Any]]:
    """The story of an archived run, or of one on its way there; empty: there is none, or it cannot be read."""
    found = _answer(state, "story", key)
    return [] if found is None else list(found["events"])


def is_in_archive(state: Path, key: str) -> bool:
    """Whether the archive has this run, or it is on its way there."""
    return _answer(state, "status", key) is not None


def _answer(state: Path, what: str, key: str) -> Any:
    try:
        reply, error = past_of(state).answer(what, {"run": key}) or (None, None)
    except EnvironmentFault:
        return None
    return None if error is not None else reply
