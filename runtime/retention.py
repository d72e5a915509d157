"""How long finished runs are kept, in memory and in the archive, as it is asked for and as it travels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from actors.archived import STATE_SCOPE, TYPE_SCOPE, ArchiveRule
from actors.protocol import limits
from actors.protocol.states import RunState
from actors.protocol.words import is_name
from runtime.checks import BYTES_MAX, is_number, is_whole, refuse
from runtime.times import WAIT_S_MAX
from runtime.units import seconds_to_ns

ARCHIVE_S: Final = 7 * 86_400.0
ARCHIVE_BYTES: Final = 10 << 30
"""Of the archive, unless something else is said: thousands of runs of some hundred thousand tasks each."""
ENDS: Final = tuple(str(state) for state in RunState if state is not RunState.RUNNING)


@dataclass(frozen=True, slots=True)
class Retention:
    """How many finished runs are kept for their results, stories and `rt.handle()`, and how long.

    In memory, over any bound the oldest are forgotten, a sixteenth of the room at once. Besides these two there is one
    in bytes, `limits.BYTES_FINISHED_MAX` of encoded arguments and results. Never forgotten is the latest finished run,
    whatever its size, nor one whose end its program was not yet told.

    With checkpoints (`checkpoint_bytes`), what memory forgets goes to the archive, `archive.db` in the state folder,
    and is found there by its id as long as it stays.

    Args:
        runs: Finished runs kept in memory, at most `limits.RUNS_FINISHED_MAX`; the oldest go first.
        nodes: Nodes of finished runs kept in memory, at most `limits.NODES_FINISHED_MAX`.
        archive: Seconds from its end for which a run stays in the archive; None: for ever; 0: it does not go there.
        archive_by: The same for some: "state:failed" ("succeeded", "cancelled") or "type:gpu", a node type that
            it used. Of those that apply the longest counts, instead of `archive`.
        archive_bytes: Of the archive; over it the runs that ended first go. None: no bound.

    Raises:
        ConfigurationError: A value is out of range.
    """

    runs: int = limits.RUNS_FINISHED_MAX
    nodes: int = limits.NODES_FINISHED_MAX
    archive: float | None = ARCHIVE_S
    archive_by: Mapping[str, float | None] = field(default_factory=dict, hash=False)
    archive_bytes: int | None = ARCHIVE_BYTES

    def __post_init__(self) -> None:
        given: Any = self.archive_by
        by = given if isinstance(given, Mapping) else {"": -1.0}
        refuse(
            "Retention",
            (is_whole(self.runs, 1, limits.RUNS_FINISHED_MAX), f"runs must be 1 to {limits.RUNS_FINISHED_MAX}"),
            (is_whole(self.nodes, 1, limits.NODES_FINISHED_MAX), f"nodes must be 1 to {limits.NODES_FINISHED_MAX}"),
            (_is_stay(self.archive), f"archive must be {_STAY_RULE}, not {self.archive!r:.60}"),
            *((_is_scope(scope), f"archive_by names {scope!r:.60}; {_SCOPE_RULE}") for scope in by),
            *((_is_stay(stay), f"archive_by[{scope!r:.60}] must be {_STAY_RULE}") for scope, stay in by.items()),
            (
                self.archive_bytes is None or is_whole(self.archive_bytes, 0, BYTES_MAX),
                f"archive_bytes must be 0 or more, or None, not {self.archive_bytes!r:.60}",
            ),
        )

    def archive_rule(self) -> ArchiveRule:
        """The part that concerns the archive."""
        by = {scope: seconds_to_ns(stay) for scope, stay in self.archive_by.items()}
        return ArchiveRule(seconds_to_ns(self.archive), by, self.archive_bytes)


_STAY_RULE: Final = f"0 to {WAIT_S_MAX:,.0f} seconds, or None"
_SCOPE_RULE: Final = f"it can be {', '.join(STATE_SCOPE + end for end in ENDS)}, or {TYPE_SCOPE}NAME"


def _is_stay(value: object) -> bool:
    return value is None or is_number(value, 0, WAIT_S_MAX)


def _is_scope(scope: Any) -> bool:
    if not isinstance(scope, str):
        return False
    if scope.startswith(STATE_SCOPE):
        return scope.removeprefix(STATE_SCOPE) in ENDS
    return scope.startswith(TYPE_SCOPE) and is_name(scope.removeprefix(TYPE_SCOPE))
