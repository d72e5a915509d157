"""What a bridge publishes, and how it is read again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.event_kinds import Event
from actors.protocol import limits
from runtime.bridges.wire import CAUSE_CHARS, BridgeSource, StreamPosition, messages_of, read_message_id, read_position

positions = st.builds(StreamPosition, st.integers(1, 10**18), st.integers(0, 10**9))
names = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", fullmatch=True)


@pytest.mark.slow
@given(positions, names)
def test_positions_and_message_ids_come_back(at: StreamPosition, name: str) -> None:
    source = BridgeSource("6f1a2c9e-0000-4000-8000-000000000000", name)
    assert read_position(at.text) == at
    assert read_message_id(f"{source.text}/{at.text}") == (source, at)


@pytest.mark.parametrize("text", ["", "1", "1-", "-1", "1-2-3", "a-b", "1-2\n", "99999999999999999999-0"])
def test_what_is_no_position(text: str) -> None:
    assert read_position(text) is None
    assert read_message_id(f"folder/bridge/{text}") is None
    assert read_message_id(text) is None


def test_a_message_is_the_event_as_json() -> None:
    event = Event(7, 2, 5, "node.failed", "r-1", 3, "b", "load", "ValueError", {"attempt": 1})
    (message,) = messages_of([event])
    assert message.at == (7, 2)
    assert message.kind == "node.failed"
    assert json.loads(message.body) == event._asdict()


def test_what_json_libraries_differ_about_is_published_all_the_same() -> None:
    event = Event(7, 2, 5, "node.failed", "r-1", 3, "b", "load", "\ud800", {"due_ns": 1 << 70})
    (message,) = messages_of([event])
    assert json.loads(message.body) == event._asdict()


def test_an_event_that_is_too_large_goes_without_its_details() -> None:
    event = Event(7, 2, 5, "policy.changed", cause="c" * 5000, data={"x": "y" * limits.BRIDGE_EVENT_BYTES})
    (message,) = messages_of([event])
    facts = json.loads(message.body)
    assert facts["cause"] == "c" * CAUSE_CHARS
    assert facts["data"]["left_out_bytes"] > limits.BRIDGE_EVENT_BYTES
    assert facts["kind"] == "policy.changed"
