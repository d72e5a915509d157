"""What a subscriber holds under each policy, against a model that holds everything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.event_kinds import Event
from actors.protocol.errors import ConfigurationError
from actors.protocol.event_errors import SubscriberTooSlow
from runtime.event_buffer import EventBuffer, key_of


class Source:
    """A reader whose events are put there by the test."""

    def __init__(self) -> None:
        self.next_lsn = 1
        self.coming: list[list[Event]] = []

    def put(self, *nodes: int) -> list[Event]:
        made = [Event(self.next_lsn + n, 0, 0, "node.succeeded", "r", node) for n, node in enumerate(nodes)]
        self.next_lsn += len(nodes)
        if made:
            self.coming.append(made)
        return made

    def read(self, upto_lsn: int | None = None) -> list[Event]:
        return self.coming.pop(0) if self.coming else []


def buffer(source: Source, *policy: Any) -> EventBuffer:
    return EventBuffer(source, *policy)  # type: ignore[arg-type]


Steps = st.lists(st.one_of(st.lists(st.integers(0, 5), max_size=6), st.integers(1, 4)), max_size=30)


@given(Steps, st.sampled_from(["block", "drop_oldest", "latest"]), st.integers(1, 5))
def test_policies_are_what_they_say(steps: list[Any], policy: str, holds: int) -> None:
    source = Source()
    held = buffer(source, policy, holds)
    model: list[Event] = []
    dropped = 0
    for step in steps:
        if isinstance(step, list):
            model += source.put(*step)
            continue
        kept = model
        if policy == "drop_oldest":
            kept = model[-holds:]
        elif policy == "latest":
            last = {event.node: event for event in model}
            kept = sorted(last.values())[-holds:]
        dropped += len(model) - len(kept)
        assert held.fill(None) == bool(kept)
        taken = held.take(step)
        assert taken == kept[: len(taken)]
        assert bool(taken) == bool(kept)
        if policy != "block":
            assert len(taken) == min(step, len(kept))
        model = kept[len(taken) :]
    figures = held.statistics()
    assert figures.dropped == dropped
    assert figures.read == figures.delivered + figures.dropped + figures.held


def test_a_subscriber_that_is_cut_off() -> None:
    source = Source()
    held = buffer(source, "disconnect", 3)
    source.put(1, 2, 3)
    assert held.fill(None)
    source.put(4)
    with pytest.raises(SubscriberTooSlow, match="4 events wait, and 3 are held"):
        held.fill(None)


@pytest.mark.parametrize("policy", [("drop",), ("latest", 0), ("latest", True), ("latest", 5, "colour")])
def test_policies_that_cannot_be(policy: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError):
        buffer(Source(), *policy)


def test_all_that_is_wrong_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"when_full .*; holds .*; a key"):
        buffer(Source(), "drop", 0, 7)


def test_keys() -> None:
    event = Event(1, 0, 0, "run.failed", "r", 3, "3", "etl")
    assert [key_of(key)(event) for key in ("run", "node", "kind", "name", lambda e: e.lsn)] == [
        "r",
        ("r", 3),
        "run.failed",
        "etl",
        1,
    ]
