"""Questions with anything for an argument: they are answered or refused, and the engine goes on."""

from __future__ import annotations

from typing import Any, Final

import pytest

from actors import asked, dead
from actors.protocol import messages as msg
from actors.protocol.errors import CallerError
from actors.queries import Queries
from tests.unit.actors.rig import Rig

ANYTHING: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 1, 10**30, 1.5, float("nan"), "", "x", "s-1", "0", "\ud800", "tenant:x",
    [], [1], [[]], [None], ["x"], ["s-1"], [1, 2], [10**30, -1], ["tenant:x"], {}, {"x": 1}, {"run": []},
    {"since": []}, {"kind": []}, {"handler": 5}, {"pause": 5}, {"pause": [[]]}, {"pause": {"tenant:x": []}},
    {"resume": 5}, {"quotas": 5}, {"quotas": {"tenant:x": []}}, {"weights": {"x": {}}}, {"rates": {"x": [[], []]}},
    {"shares": {"low": [[], {}]}}, {"name": []}, {"name": "x", "plan": 5, "graph": [], "handler": {}, "ends": 3},
)  # fmt: skip
ARGUMENTS: Final = (
    "change", "filter", "from", "letter", "letters", "limit", "node", "node_type", "number", "priority", "put",
    "remove", "run", "scopes", "size", "take_back", "watch", "which",
)  # fmt: skip
QUESTIONS: Final = sorted({*Queries._on, *dead.QUESTIONS})


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_argument_ends_the_engine(question: str) -> None:
    rig = Rig()
    rig.submit(2)
    for run in ({"run": "s-1"}, {}):
        for name in ARGUMENTS:
            for value in ANYTHING:
                said = {**run, "number": 1, "size": 1, name: value}
                rig.core.queries.answer(msg.Queried("s", 0, question, said), rig.now_ns, rig.wall_ns)
    assert rig.ask("status", run="s-2")["state"] == "running"


@pytest.mark.parametrize(
    ("what", "args"),
    [
        ("schedules", {"remove": []}),
        ("runs", {"from": "x"}),
        ("dead", {"filter": True}),
        ("dead", {"from": [1]}),
        ("nodes", {"run": "s-1", "node": [1]}),
        ("held", {"scopes": True}),
        ("status", {}),
        ("why", {"run": None}),
    ],
)
def test_what_is_malformed_is_named(what: str, args: dict[str, Any]) -> None:
    with pytest.raises(CallerError, match=f"the question '{what}'"):
        asked.refuse_malformed(what, args)
