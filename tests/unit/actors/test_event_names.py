"""Which nodes changed, found in steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.event_names import STEP_NODES, changed


@given(st.binary(max_size=40), st.binary(max_size=60), st.integers(0, 2 * STEP_NODES))
def test_changed_nodes_are_those_that_differ(before: bytes, more: bytes, gap: int) -> None:
    old = before + b"\1" * gap
    new = bytearray(before[::-1] + b"\1" * gap + more)
    expected = [node for node, state in enumerate(new) if state != (old[node] if node < len(old) else 0)]
    assert list(changed(old, new)) == expected
