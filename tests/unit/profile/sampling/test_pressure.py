"""What a process waits for without being asked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.host import kernel
from runtime.profile.sampling.pressure import LAGS_MAX, LoopLag, RunQueue, run_queue_ns


def test_run_queue_delay_never_falls() -> None:
    assert (run_queue_ns() is not None) == kernel.LINUX
    queue = RunQueue()
    sum(range(100_000))
    assert queue.delay_ns() >= 0


@given(st.lists(st.integers(-5, 1_000), min_size=1, max_size=2 * LAGS_MAX))
def test_the_last_lags_are_ranked(lags: list[int]) -> None:
    lag = LoopLag()
    for late_ns in lags:
        lag.add(late_ns)
    kept = [max(late_ns, 0) for late_ns in lags[-LAGS_MAX:]]
    assert lag.quantile_ns(1.0) == max(kept)
    assert lag.quantile_ns(0.0) == min(kept)
    assert min(kept) <= lag.quantile_ns(0.5) <= max(kept)


def test_without_looks_there_is_no_lag() -> None:
    assert LoopLag().quantile_ns(0.99) == 0
