"""Rows of the archive, and how long they stay."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from actors.archived import ArchivedRun, ArchiveRule, archived_run
from tests.unit.actors.rig import Rig

DAY = 86_400 * 10**9
TTLS = st.one_of(st.none(), st.integers(0, 100 * DAY))
SCOPES = st.sampled_from(["state:failed", "state:succeeded", "type:a", "type:b", "type:c"])


def finished() -> tuple[Rig, ArchivedRun]:
    rig = Rig(wall_ns=10**18)
    rig.let_hold(9)
    rig.submit(2, tenant="acme", priority="high")
    (first, second) = rig.leases()
    rig.succeed(*first)
    rig.fail(*second)
    (run,) = rig.core.scheduler.book.finished.values()
    return rig, archived_run(run, rig.core.scheduler.ended_ns[run.no])


def test_a_row_says_what_is_searched() -> None:
    rig, row = finished()
    assert row[:10] == (1, "s-1", "f", "task", "acme", "high", "failed", "s", 1, 2)
    assert row.node_types == ("default",)
    assert row.counts == [0, 0, 0, 1, 1, 0, 0]
    assert row.nodes == 2
    assert row.started_ns is not None
    assert row.submitted_ns <= row.ended_ns <= rig.wall_ns


def test_an_end_that_nobody_knows_is_the_beginning() -> None:
    rig, _ = finished()
    (run,) = rig.core.scheduler.book.finished.values()
    assert archived_run(run, None).ended_ns == run.created_ns


def test_graphs_and_bundles_cover_what_they_stand_for() -> None:
    rig = Rig()
    rig.submit_graph([[], [0]])
    for node in (0, 1):
        ((worker, serial, _),) = rig.leases()
        rig.succeed(worker, serial, node)
    (run,) = rig.core.scheduler.book.finished.values()
    row = archived_run(run, None)
    assert (row.name, row.covers, row.nodes) == ("graph", 1, 2)


def test_the_longest_that_applies() -> None:
    rule = ArchiveRule(7 * DAY, {"state:failed": 30 * DAY, "type:gpu": DAY, "type:audit": None})
    assert rule.stay_ns("succeeded", ["cpu"]) == 7 * DAY
    assert rule.stay_ns("succeeded", ["gpu"]) == DAY
    assert rule.stay_ns("failed", ["gpu"]) == 30 * DAY
    assert rule.stay_ns("failed", ["gpu", "audit"]) is None


def test_when_there_is_no_archive() -> None:
    assert not ArchiveRule(0).keeps
    assert not ArchiveRule(DAY, {}, 0).keeps
    assert ArchiveRule(0, {"state:failed": DAY}).keeps
    assert ArchiveRule(None).keeps


@given(TTLS, st.dictionaries(SCOPES, TTLS), st.sampled_from(["failed", "succeeded"]), st.sets(st.sampled_from("abc")))
def test_a_stay_is_one_of_those_that_were_set(
    ttl: int | None, by: dict[str, int | None], state: str, types: set[str]
) -> None:
    rule = ArchiveRule(ttl, by)
    applies = [stay for scope, stay in by.items() if scope == f"state:{state}" or scope[5:] in types]
    stay = rule.stay_ns(state, types)
    assert stay in (applies or [ttl])
    assert all(stay is None or (other is not None and stay >= other) for other in applies)
    assert ArchiveRule.of(orjson.loads(orjson.dumps(rule.to_json()))) == rule
