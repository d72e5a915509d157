"""All scenarios, in the order in which they run and are reported.

Those before `MixedScenario` are about speed, those from `CheckpointScenario` on about the log.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from runtime.bench.figures import BenchError
from runtime.bench.workloads.base import Scenario
from runtime.bench.workloads.chain import ChainScenario
from runtime.bench.workloads.checkpoint import CheckpointScenario
from runtime.bench.workloads.coldstart import ColdStartScenario
from runtime.bench.workloads.compress import CompressScenario
from runtime.bench.workloads.dag import DagScenario
from runtime.bench.workloads.events import EventsScenario
from runtime.bench.workloads.fair import FairScenario
from runtime.bench.workloads.gc import GcScenario
from runtime.bench.workloads.headofline import HeadOfLineScenario
from runtime.bench.workloads.mail import MailScenario
from runtime.bench.workloads.map import MapScenario
from runtime.bench.workloads.memory import MemoryScenario
from runtime.bench.workloads.metg import MetgScenario
from runtime.bench.workloads.mixed import MixedScenario
from runtime.bench.workloads.openruns import OpenRunsScenario
from runtime.bench.workloads.policy_cost import PolicyCostScenario
from runtime.bench.workloads.polling import PollingScenario
from runtime.bench.workloads.pool import PoolScenario
from runtime.bench.workloads.profile_cost import ProfileCostScenario
from runtime.bench.workloads.profile_truth import ProfileTruthScenario
from runtime.bench.workloads.recovery import RecoveryScenario
from runtime.bench.workloads.retention import RetentionScenario
from runtime.bench.workloads.roundtrip import RoundtripScenario
from runtime.bench.workloads.scale import ScaleScenario
from runtime.bench.workloads.soak import SoakScenario
from runtime.bench.workloads.starvation import StarvationScenario
from runtime.bench.workloads.submit import SubmitScenario
from runtime.bench.workloads.wfformat import WfFormatScenario

SCENARIOS: Final[tuple[Scenario, ...]] = (
    MapScenario(),
    SubmitScenario(),
    ChainScenario(),
    DagScenario(),
    RoundtripScenario(),
    WfFormatScenario(),
    MemoryScenario(),
    ColdStartScenario(),
    RecoveryScenario(),
    EventsScenario(),
    RetentionScenario(),
    MailScenario(),
    MetgScenario(),
    MixedScenario(),
    FairScenario(),
    StarvationScenario(),
    HeadOfLineScenario(),
    PolicyCostScenario(),
    PollingScenario(),
    PoolScenario(),
    GcScenario(),
    ProfileCostScenario(),
    ProfileTruthScenario(),
    ScaleScenario(),
    CheckpointScenario(),
    CompressScenario(),
    OpenRunsScenario(),
    SoakScenario(),
)
NEXT: Final = "next"
LOG: Final = "log"
ALL: Final = "all"


def groups() -> dict[str, tuple[Scenario, ...]]:
    """All scenarios by the name that stands for those of one group; those about speed have none: ""."""
    first, behind = _place(MixedScenario), _place(CheckpointScenario)
    return {"": SCENARIOS[:first], NEXT: SCENARIOS[first:behind], LOG: SCENARIOS[behind:]}


def named(names: list[str]) -> list[Scenario]:
    """The scenarios of these names, in the order given; for an empty list those about speed, which take about a minute.

    Three names stand for several: "next" for those about who runs next, "log" for those about the log, "all" for all.

    Raises:
        BenchError: A name is unknown; says which are known, and which was probably meant.
    """
    by_name = {scenario.name: scenario for scenario in SCENARIOS}
    known = {**groups(), ALL: SCENARIOS}
    if not names:
        return list(known[""])
    names = [each for name in names for each in ([s.name for s in known[name]] if name in known else [name])]
    for name in names:
        if name not in by_name:
            close = get_close_matches(name, by_name, n=1)
            meant = f", did you mean {close[0]}?" if close else ";"
            raise BenchError(f"unknown scenario {name!r}{meant} known: {', '.join(by_name)}")
    return [by_name[name] for name in dict.fromkeys(names)]


def _place(kind: type[Scenario]) -> int:
    return next((at for at, scenario in enumerate(SCENARIOS) if isinstance(scenario, kind)), len(SCENARIOS))
