"""What the engine says of its runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runtime.profile.captures.graph import WaitNode
from runtime.profile.captures.graph_engine import _run
from runtime.profile.cli.tree import node_text


@pytest.mark.parametrize(("nodes", "said"), [(1, "1 node"), (2, "2 nodes")])
def test_a_run_waits_for_the_end_of_its_nodes(nodes: int, said: str) -> None:
    run: Any = SimpleNamespace(key="s-1", name="etl", open=nodes, no=1, rare=SimpleNamespace(calls=()))
    (found,) = _run(run, "engine", 7)
    assert isinstance(found, WaitNode)
    assert node_text(found) == f"run s-1 (etl), running, awaits the end of {said}  (engine)"
