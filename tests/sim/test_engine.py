"""Simulated lives of the engine. `SIM_SEEDS=1000 pytest tests/sim/test_engine.py` (or `make sim SEEDS=1000`) runs more.

A seed that fails is added to `FAILED_ONCE` with a word about what it found.
"""

from __future__ import annotations

import os

import pytest

from actors.protocol import limits
from tests.sim.world import World

SEEDS = int(os.environ.get("SIM_SEEDS", "60"))
FIRST = int(os.environ.get("SIM_FIRST", "0"))
BLOCK = 20
FAILED_ONCE: dict[int, str] = {
    279: "a checkpoint for which no run had changed kept none of them (the simulator's)",
    105: "nodes 5, 9, 7 were taken for three consecutive ones",
    40747: "places were counted for what was being cancelled when the engine died",
    791: "a map item that failed while being cancelled was told as failed and logged as cancelled",
    1174: "a batched call that was cancelled when its batch broke ran in company again when it was rerun",
    2167: "a node that had given way was replayed, and gave way again, which the oracle did not allow",
    2652: "as 1174",
    2724: "as 1174",
    8264: "as 2167",
}


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, BLOCK))
def test_worlds(first: int) -> None:
    for seed in range(first, min(first + BLOCK, FIRST + SEEDS)):
        try:
            World(seed).run()
        except Exception as broken:
            raise AssertionError(f"seed {seed}: {broken!r}") from broken


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS // 3, BLOCK))
def test_worlds_whose_lease_tables_are_lapped(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few tasks come round the table several times, overtaken and hanging ones in between."""
    monkeypatch.setattr(limits, "LEASE_SLOTS", 16)
    monkeypatch.setattr(limits, "CLAIM_MAX", 4)
    test_worlds(first)


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_seed_that_failed_once(seed: int) -> None:
    World(seed).run()
