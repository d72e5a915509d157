"""The long log of the scenario `events`: a record each, all of which are told."""

from __future__ import annotations

from pathlib import Path

from actors.event_kinds import Event
from runtime.bench.workloads.events import NODES_EACH, WALL_NS, long_log
from runtime.event_filter import Since, filter_of
from runtime.event_reader import EventReader
from runtime.event_stream import EventStream


def told(folder: Path, since: Since = "begin") -> list[Event]:
    with EventStream(EventReader(folder, filter_of("node.succeeded"), since), follow=False) as events:
        return list(events)


def test_the_long_log_is_one_that_can_be_read_from_anywhere(tmp_path: Path) -> None:
    records = 3 * NODES_EACH
    with long_log(tmp_path, records) as folder:
        whole = told(folder)
        assert len(whole) == records - 1 - 3, "but for the opening and the submissions"
        assert len({event.run for event in whole}) == len(whole)
        for lsn in (3, NODES_EACH, records - 2):
            assert told(folder, lsn) == [event for event in whole if event.lsn >= lsn]
        assert whole[0].at_ns > WALL_NS
