"""The watch over a real runtime: a node type that becomes slow burns an objective, and the evidence is there.

Acceptance test 13.
"""

from __future__ import annotations

import time
from pathlib import Path

import orjson
import pytest

from runtime import NodeType, Runtime
from runtime.host import kernel
from runtime.profile.bundle import Evidence
from runtime.profile.burn import Slo, SloMeter
from runtime.profile.model import LIVE, Profile
from runtime.profile.watch import Bounds, Watching
from tests.scenarios import handlers
from tests.scenarios.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")]
PATIENCE_S = 120.0


def test_a_slow_node_type_burns_its_budget_and_leaves_evidence(state_dir: Path, tmp_path: Path) -> None:
    """Slow is what takes longer than the limit of the meter, which here is any time at all: no clock decides."""
    meter = SloMeter(within=0.0)
    slo = Slo("orders", meter, target=0.9, fast=1.0, slow=2.0, burn=5.0)
    bounds = Bounds(silence=PATIENCE_S)
    with (
        Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt,
        Watching(state_dir, slos=[slo], bounds=bounds, evidence=Evidence(seconds=0.5)) as watching,
    ):
        number = 0

        def breached() -> bool:
            nonlocal number
            begun_s = time.monotonic()
            rt.submit(handlers.mark, str(tmp_path / "runs"), "slow").result(timeout=PATIENCE_S)
            meter.add(time.monotonic() - begun_s)
            number += 1
            return bool(watching.breaches)

        until(breached, "the objective to be breached", PATIENCE_S)
        (breach,) = watching.breaches
        assert breach.trigger == "slo-orders"
        bundle = Path(breach.bundle)
        assert bundle.parent == state_dir / "profile" / "bundles"
        facts = orjson.loads((bundle / "trigger.json").read_bytes())
        assert facts["trigger"] == "slo-orders"
        assert "burns its budget" in facts["text"]
        stacks = Profile.from_json((bundle / "stacks.json").read_bytes())
        assert stacks.kind == LIVE
        assert {"engine", "face", "worker"} <= {sample.process.role for sample, _ in stacks if sample.process}
        assert "findings" in orjson.loads((bundle / "leaks.json").read_bytes())
    with (
        Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]),
        Watching(state_dir, slos=[slo], bounds=bounds) as again,
    ):

        def told() -> bool:
            meter.add(1.0)
            return bool(again.breaches)

        until(told, "the objective to be breached again", PATIENCE_S)
        assert [one.bundle for one in again.breaches] == [""], "the last bundle is less than ten minutes old"
