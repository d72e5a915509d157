"""Documents and code agree: drawings are those of the tables, the README lists the errors that there are."""

from __future__ import annotations

import pytest

from actors.protocol import states
from tests.tidy import generate
from tests.tidy.tree import ROOT


@pytest.mark.parametrize("document", list(generate.parts()))
def test_the_document_is_as_generated(document: str) -> None:
    assert (ROOT / document).read_text(encoding="utf-8") == generate.expected(document), "run: make docs"


def test_every_table_is_complete() -> None:
    for name, table in generate.state_tables().items():
        kind = type(next(iter(table)))
        assert set(table) == set(kind), f"the {name} table has a row for each state"
        reached = {outcome for arrows in table.values() for outcome in arrows.values()} | {next(iter(table))}
        assert reached == set(kind), f"every {name} state can be reached"


def test_terminal_states_are_those_without_a_way_out() -> None:
    again = {states.NodeEvent.REPLAYED}
    assert {state for state, arrows in states.NODE_TABLE.items() if arrows.keys() <= again} == set(states.TERMINAL)


def test_a_drawing_shows_each_transition() -> None:
    text = generate.drawing({states.LeaseState.LEASED: {states.NodeEvent.DUE: states.LeaseState.FREE}})
    assert "leased --> free: due" in text


def test_a_missing_part_is_an_error() -> None:
    with pytest.raises(LookupError):
        generate.filled("no parts here", "errors", "x")
