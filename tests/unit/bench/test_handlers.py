"""Handlers: what they return follows from their arguments; gates hold and open."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from runtime.bench import handlers


def test_mix_sees_order_and_number_of_parents() -> None:
    assert handlers.mix(1, 2) != handlers.mix(2, 1)
    assert handlers.mix(1) != handlers.mix(1, 1)
    assert handlers.mix() == 1


def test_mix_stays_small() -> None:
    value = 0
    for _ in range(1000):
        value = handlers.mix(value, value, value)
    assert 0 <= value < handlers.MODULUS


def test_burn_uses_cpu_time_of_this_thread() -> None:
    before = time.thread_time_ns()
    handlers.burn(2_000_000)
    assert time.thread_time_ns() - before >= 2_000_000


def test_burning_changes_no_result() -> None:
    assert handlers.burn_mix(1, 4, 5) == handlers.mix(4, 5)
    assert handlers.burn_level(1, 3, 7) == 8
    assert handlers.burn_level(1) == 1


def test_a_closed_gate_holds_until_it_is_opened(tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    handlers.make_gate(gate)
    passed: list[int] = []
    threads = [threading.Thread(target=lambda: passed.append(handlers.hold(gate, 7))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert passed == []
    handlers.open_gate(gate)
    for thread in threads:
        thread.join(10)
    assert passed == [7, 7, 7]


def test_an_opened_gate_stays_open(tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    handlers.make_gate(gate)
    handlers.open_gate(gate)
    assert handlers.hold(gate, 3) == 3
