"""What the archive knows of a run without reading it, and for how long it is kept there.

A run goes to the archive when the engine's memory lets go of it (`actors.books`), and stays by an `ArchiveRule`: so
long after its end, by how it ended and on which node types it ran, the longest that applies; and the oldest go when all
of them take more than so many bytes. A rule that gives a run no time keeps it from the archive altogether.

Pure: times are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

from actors.protocol.kinds import PRIORITIES
from actors.run import Run
from actors.timing import first_start_ns

CLOCK_LOST_NS: Final = 86_400 * 1_000_000_000
"""Who ended so long before it was submitted did not: the clock that would say when is lost."""
STATE_SCOPE: Final = "state:"
TYPE_SCOPE: Final = "type:"


class ArchivedRun(NamedTuple):
    """One row: what is listed and searched. `covers` is how many submissions of its session it stands for; `form` what
    was submitted, a "flow", a "map" or a "task" (also several, or one that added others)."""

    no: int
    run_id: str
    name: str
    form: str
    tenant: str
    priority: str
    state: str
    session: str
    seq: int
    covers: int
    submitted_ns: int
    started_ns: int | None
    ended_ns: int
    nodes: int
    succeeded: int
    failed: int
    cancelled: int
    skipped: int
    node_types: tuple[str, ...]

    @property
    def counts(self) -> list[int]:
        """As `Run.counts`: by state, those first that no archived run has."""
        return [0, 0, 0, self.succeeded, self.failed, self.cancelled, self.skipped]


def credible(run: Run, ended_ns: int | None) -> int | None:
    """When a run ended; None where that is not known, or cannot be, since it was submitted long after."""
    return None if ended_ns is None or ended_ns < run.created_ns - CLOCK_LOST_NS else ended_ns


def archived_run(run: Run, ended_ns: int | None) -> ArchivedRun:
    """The row of a finished run.

    Args:
        run: Finished.
        ended_ns: Wall clock; None where nobody knows: then it ended when it was submitted, as far as anybody can tell.
    """
    first = run.kinds[0] if run.kinds else None
    ended_ns = credible(run, ended_ns)
    *_, succeeded, failed, cancelled, skipped = run.counts()
    return ArchivedRun(
        no=run.no,
        run_id=run.key,
        name=run.name or ("" if first is None else first.name),
        form=form_of(run),
        tenant="" if first is None else first.tenant,
        priority="" if first is None else PRIORITIES[first.priority],
        state=str(run.run_state()),
        session=run.session,
        seq=run.seq,
        covers=1 if run.is_graph or run.is_map else run.base_size,
        submitted_ns=run.created_ns,
        started_ns=first_start_ns(run),
        ended_ns=run.created_ns if ended_ns is None else ended_ns,
        nodes=run.size,
        succeeded=succeeded,
        failed=failed,
        cancelled=cancelled,
        skipped=skipped,
        node_types=tuple(sorted({kind.node_type for kind in run.kinds})),
    )


def form_of(run: Run) -> str:
    """What was submitted: "map", "flow" or "task"."""
    return "map" if run.is_map else "flow" if run.is_graph else "task"


class ArchiveRule(NamedTuple):
    """How long archived runs stay.

    Args:
        ttl_ns: After the end; None: for ever; 0: they do not go there.
        by: The same for "state:failed", "type:gpu" and the like; the longest of those that apply counts instead.
        bytes_max: Of all of them; None: no bound.
    """

    ttl_ns: int | None
    by: Mapping[str, int | None] = {}
    bytes_max: int | None = None

    @property
    def keeps(self) -> bool:
        """Whether any run would go to the archive."""
        return any(ttl is None or ttl > 0 for ttl in (self.ttl_ns, *self.by.values())) and self.bytes_max != 0

    def stay_ns(self, state: str, node_types: Iterable[str]) -> int | None:
        """How long a run stays that ended so and ran on these; None: for ever."""
        scopes = [STATE_SCOPE + state, *(TYPE_SCOPE + name for name in node_types)]
        found = [self.by[scope] for scope in scopes if scope in self.by] or [self.ttl_ns]
        known = [ttl for ttl in found if ttl is not None]
        return max(known) if len(known) == len(found) else None

    def expires_ns(self, run: ArchivedRun) -> int | None:
        """When a run goes; None: never."""
        stay = self.stay_ns(run.state, run.node_types)
        return None if stay is None else run.ended_ns + stay

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {"ttl_ns": self.ttl_ns, "by": dict(self.by), "bytes_max": self.bytes_max}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """From what `to_json` made."""
        return cls(data["ttl_ns"], data["by"], data["bytes_max"])
