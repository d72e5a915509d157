"""A state folder as an engine leaves it: finished and open runs, small and large values, a flow, a failure."""

from __future__ import annotations

from pathlib import Path

from runtime import Flow, NodeType, Runtime
from tests.scenarios.handlers_payloads import echo, echo_all
from tests.scenarios.handlers_payloads import raise_long as fail

LARGE = b"x" * 200_000
FLOW_RUN = "flow"


def make(path: Path, *, runs: int = 3) -> None:
    """Fill a new folder and close it in good order."""
    with Runtime(path, node_types=[NodeType("default", workers=1)], durability="os") as rt:
        for number in range(runs):
            assert rt.submit(echo, number).result(timeout=30) == number
        assert rt.submit(echo, LARGE).result(timeout=30) == LARGE
        assert rt.submit(echo, [LARGE, ({1, 2}, LARGE)]).result(timeout=30)
        assert rt.submit(fail).exception(timeout=30) is not None
        flow = Flow("flow")
        first = flow.add(echo, LARGE, id="first")
        second = flow.add(echo_all, first, [1, first], id="second")
        flow.add(echo_all, second, id="third")
        rt.run(flow, run_id=FLOW_RUN).wait(timeout=30)
        rt.submit(echo, LARGE, delay=7200)
        rt.submit(echo, "later", delay=7200)
        rt.close(drain=False)
