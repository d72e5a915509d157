"""CPU shares against the truth of threads' clocks, and against py-spy.

Acceptance tests 6 and 7: pure Python, C that keeps the interpreter and C that lets it go, by function and by label. In
full, with the figures of the specification, they are marked `soak`; `python -m runtime.bench profile-truth` prints
them.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from runtime import NodeType, Runtime
from runtime.bench.truth import Found, apart, compute, leaves_of
from runtime.bench.workloads.profile_truth import HZ, LARGE, measured
from runtime.host import kernel
from runtime.profile.cli.doctor import py_spy
from tests.scenarios.processes import is_denied

pytestmark = pytest.mark.slow
SHORT_S = 2.0
FULL_S = 30.0
DEVIATIONS = 5.0
"""Of a share that n ticks found, whose standard deviation is at most sqrt(p (1 - p) / n), for p = 1/2: six shares are
within five of them but for one run in 300,000."""
CLOCKS = 0.01
"""What reading the clocks around each stretch is off by itself."""


def check(found: Found, function: float, label: float) -> None:
    assert found.sum_error() <= 0.01, found
    assert found.functions.error() <= function, found
    assert found.workflows.error() <= label, found


def test_shares_are_those_of_the_clocks() -> None:
    """Acceptance test 6, as closely as so few ticks can tell."""
    found = compute(SHORT_S, HZ)
    assert found.seen > SHORT_S * 50
    bound = DEVIATIONS * math.sqrt(0.25 / found.seen) + CLOCKS
    check(found, bound, bound)


@pytest.mark.soak
def test_shares_are_those_of_the_clocks_in_full() -> None:
    """Acceptance test 6."""
    found = compute(FULL_S, HZ)
    assert found.seen >= 2_500
    check(found, 0.03, 0.02)


@pytest.mark.soak
@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
def test_py_spy_agrees_in_full(state_dir: Path) -> None:
    """Acceptance test 7, of a worker, with the same load and the same seconds. The clocks are asked above, where no
    third process wants one of two cores."""
    if py_spy() is None:
        pytest.skip("py-spy is not installed (it comes with the extra 'test')")
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt:
        found, spied = measured(rt, FULL_S)
    if not spied.samples and is_denied(str(spied.notes)):
        pytest.skip(f"this system does not let py-spy look at processes: {spied.notes}")
    distance, worst = apart(found.leaves, leaves_of(spied), LARGE)
    assert distance <= 0.10, (found.leaves, leaves_of(spied))
    assert worst <= 0.06, (found.leaves, leaves_of(spied))
