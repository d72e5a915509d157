"""How events are put together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.event_kinds import Event
from actors.protocol.errors import ConfigurationError
from runtime.event_batches import Batching

Events = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=12).map(
    lambda rows: [Event(lsn, 0, 0, "node.succeeded", run, node) for lsn, (run, node) in enumerate(rows, 1)]
)


@pytest.mark.slow
@given(Events, st.sampled_from([None, "run", "node"]), st.booleans())
def test_groups_hold_what_they_are_of_in_order(events: list[Event], by: Any, latest: bool) -> None:
    groups = Batching(by=by, latest=latest).groups(events)
    flat = [event for group in groups for event in group]
    assert all(groups)
    assert all(group == sorted(group) for group in groups)
    if by is not None:
        keys = [{event.run if by == "run" else (event.run, event.node) for event in group} for group in groups]
        assert all(len(key) == 1 for key in keys)
        assert len({*map(frozenset, keys)}) == len(keys)
    if latest:
        last = {event.run if by == "run" else (event.run, event.node): event for event in events}
        assert sorted(flat) == sorted(last.values())
    else:
        assert sorted(flat) == events


def test_all_that_is_wrong_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"most .*; window .*; a key"):
        Batching(0, -1.0, "colour")  # type: ignore[arg-type]
