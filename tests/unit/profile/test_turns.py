"""Turns: the longest of several counts, and what was set before comes back."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from runtime.profile import turns as turns_module
from runtime.profile.turns import COLLECTS, LONG_S, SHORT_S, ThreadTurns


@pytest.fixture(autouse=True)
def interval() -> Iterator[float]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield 0.005
    sys.setswitchinterval(before)


def test_turns_are_short_in_a_block_and_as_before_behind_it() -> None:
    turns = ThreadTurns()
    with turns.short():
        assert sys.getswitchinterval() == pytest.approx(SHORT_S)
        with turns.short():
            assert sys.getswitchinterval() == pytest.approx(SHORT_S)
        assert sys.getswitchinterval() == pytest.approx(SHORT_S)
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_the_longest_counts_in_whatever_order_they_end() -> None:
    turns = ThreadTurns()
    short, long = turns.short(), turns.long()
    short.__enter__()
    long.__enter__()
    assert sys.getswitchinterval() == pytest.approx(LONG_S)
    short.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(LONG_S)
    long.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_shorter_turns_of_the_program_stay() -> None:
    sys.setswitchinterval(0.0001)  # 99 us: it is cut
    before = sys.getswitchinterval()
    for _ in range(3):
        with ThreadTurns().short():
            assert sys.getswitchinterval() == before
        assert sys.getswitchinterval() == before


def test_what_the_program_sets_meanwhile_is_left_alone() -> None:
    with ThreadTurns().short():
        sys.setswitchinterval(0.02)
    assert sys.getswitchinterval() == pytest.approx(0.02)


def test_the_collector_looks_at_little_at_once() -> None:
    """What an answer is made of is not looked at in one go, within the block or after it."""
    sizes, living = list[int](), list[list[int]]()

    def looked(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            sizes.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))

    before = gc.get_threshold()
    gc.set_threshold(100_000, 10, 10)
    gc.collect()
    gc.callbacks.append(looked)
    try:
        with ThreadTurns().short(keeps=True):
            living += ([number] for number in range(20_000))
        assert gc.get_threshold() == (100_000, 10, 10)
        living += ([number] for number in range(100_000 - 1_000))
        assert len(sizes) > 20
        assert max(sizes) < 20 * COLLECTS[0]
    finally:
        gc.callbacks.remove(looked)
        gc.set_threshold(*before)


def test_the_collector_is_as_the_program_has_it() -> None:
    turns = ThreadTurns()
    with turns.short():
        assert not gc.isenabled()
        with turns.short(keeps=True):
            assert gc.isenabled()
            assert gc.get_threshold() == COLLECTS
            with turns.long():
                assert not gc.isenabled()
            gc.set_threshold(123)  # the program's own doing
        assert gc.get_threshold()[0] == 123
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.set_threshold(0)
    with turns.short(keeps=True):
        assert gc.get_threshold()[0] == 0
    gc.set_threshold(700, 10, 10)
    gc.disable()
    with turns.short(keeps=True), turns.long():
        assert not gc.isenabled()
    assert not gc.isenabled()
    gc.enable()


def test_what_raises_leaves_nothing_behind() -> None:
    turns = ThreadTurns()

    @turns.shortly
    def fails() -> None:
        assert sys.getswitchinterval() == pytest.approx(SHORT_S)
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert sys.getswitchinterval() == pytest.approx(0.005)


def test_a_forked_child_has_its_own() -> None:
    turns = ThreadTurns()
    entered, leave = threading.Event(), threading.Event()

    def another() -> None:
        with turns.long():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=another)
    thread.start()
    entered.wait()
    pid = os.fork()
    if pid == 0:
        fine = abs(sys.getswitchinterval() - 0.005) < 1e-6
        with turns.short():
            fine = fine and abs(sys.getswitchinterval() - SHORT_S) < 1e-6
        os._exit(0 if fine else 1)
    leave.set()
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0


def test_who_computes_for_long_lets_go_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at each call."""
    turns, slept = ThreadTurns(), list[float]()
    monkeypatch.setattr(turns_module.time, "sleep", slept.append)
    monkeypatch.setattr(turns_module.time, "monotonic_ns", iter(range(1, 10**9, 200_000)).__next__)
    for _ in range(10):
        turns.breathe()
    assert len(slept) in (3, 4)
    assert set(slept) == {0}, "nobody asked for more than a chance"
    with turns.short():
        del slept[:]
        for _ in range(10):
            turns.breathe()
    assert len(slept) in (3, 4)
    assert min(slept) > 0, "for so long that others have woken up"


def test_who_waits_long_for_his_turn_computes_before_he_lets_go_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a thread that computes, each time takes a millisecond until the interpreter is ours again."""
    turns, now, slept = ThreadTurns(), [1], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += 5_000_000

    monkeypatch.setattr(turns_module.time, "sleep", sleep)
    monkeypatch.setattr(turns_module.time, "monotonic_ns", lambda: now[0])
    for _ in range(100):
        now[0] += 100_000
        turns.breathe()
    assert len(slept) == 20, "half a millisecond of computing for each"


def test_who_is_interrupted_at_the_door_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, before = ThreadTurns(), sys.getswitchinterval()

    def interrupted(*, often: bool, off: bool) -> None:
        if off:
            raise KeyboardInterrupt

    monkeypatch.setattr(turns, "_collect", interrupted)
    with pytest.raises(KeyboardInterrupt), turns.short():
        pass
    assert not turns._asked
    assert sys.getswitchinterval() == pytest.approx(before)
