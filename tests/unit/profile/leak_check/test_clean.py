"""What is left is named, what is about to end gets a moment, and what was there before is left out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from actors.protocol.profile_errors import ProfileUnavailable
from runtime.errors import LeaksFound
from runtime.host import kernel
from runtime.profile.leak_check import clean
from runtime.profile.leak_check.clean import Baseline, assert_clean, await_clean, created_by, labelled, top_function
from runtime.profile.ledger.books import LEDGER
from runtime.profile.model import Process
from runtime.profile.presence.control import Answers
from tests.unit.profile.garden import Garden, garden
from tests.unit.profile.leak_seeds import leak_descriptor, leak_process, leak_task, leak_thread

pytestmark = pytest.mark.slow
LONG_S = 60.0
"""Never reached where something ends."""


@pytest.fixture
def made() -> Iterator[Garden]:
    with garden("asyncio") as found:
        yield found


def test_nothing_is_left(made: Garden) -> None:
    LEDGER.release(LEDGER.track("checkout", "session"))
    LEDGER.track("subscription", "of the engine", daemon=True)
    assert_clean(0.0)


def test_what_is_left_is_named_with_its_line(made: Garden) -> None:
    made.run(leak_task)
    with pytest.raises(LeaksFound, match=r"MS176") as raised:
        assert_clean(0.0)
    text = str(raised.value)
    assert "1 x task (waits)" in text
    assert "created at leak_task (" in text
    assert "waits at waiting (" in text


def test_what_was_there_before_is_left_out(made: Garden) -> None:
    made.run(leak_task)
    LEDGER.track("lock", "before")
    baseline = Baseline()
    assert_clean(0.0, baseline=baseline)
    LEDGER.track("lock", "after")
    with pytest.raises(LeaksFound, match=r"1 x lock \(after\)"):
        assert_clean(0.0, baseline=baseline)


def test_tests_that_run_at_the_same_time_are_told_apart(made: Garden) -> None:
    """Another one, in another thread, leaves a task of its own loop and an entry; what has no label is everybody's."""
    ours, theirs = Baseline("ours"), Baseline("theirs")
    kept: list[object] = []

    async def starts() -> None:
        future = asyncio.get_running_loop().create_future()
        kept.append((future, asyncio.create_task(waits(future), name="theirs")))
        await asyncio.sleep(0)

    async def waits(future: asyncio.Future[None]) -> None:
        await future

    def other_test() -> None:
        loop = asyncio.new_event_loop()
        kept.append(loop)
        with labelled("theirs"):
            LEDGER.track("lock", "of theirs")
            loop.run_until_complete(starts())

    thread = threading.Thread(target=other_test)
    thread.start()
    thread.join()
    try:
        with labelled("ours"):
            assert_clean(0.0, baseline=ours, ignore=["descriptor"])
            with pytest.raises(LeaksFound, match=r"1 x task \(theirs\)") as raised:
                assert_clean(0.0, baseline=theirs, ignore=["descriptor"])
            assert "1 x lock (of theirs)" in str(raised.value)
            LEDGER.track("lock", "of ours")
        with pytest.raises(LeaksFound, match="of ours") as raised:
            assert_clean(0.0, baseline=ours, ignore=["descriptor"])
        assert "of theirs" not in str(raised.value)
    finally:
        loop = next(one for one in kept if isinstance(one, asyncio.AbstractEventLoop))
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
@pytest.mark.parametrize("plant", [leak_thread, leak_process, leak_descriptor])
def test_what_a_process_has_of_the_machine_counts_since_a_baseline(made: Garden, plant: object) -> None:
    baseline = Baseline()
    made.run(plant)  # type: ignore[arg-type]
    with pytest.raises(LeaksFound, match=plant.__name__.removeprefix("leak_")):  # type: ignore[attr-defined]
        assert_clean(0.0, baseline=baseline)


def test_what_is_about_to_end_gets_a_moment(made: Garden) -> None:
    baseline = Baseline()
    token = LEDGER.track("checkout", "session")
    timer = threading.Timer(0.05, LEDGER.release, (token,))
    timer.start()
    assert_clean(LONG_S, baseline=baseline)
    timer.join()


def test_a_coroutine_may_wait_while_its_loop_goes_on(made: Garden) -> None:
    async def run() -> None:
        tasks = [asyncio.create_task(asyncio.sleep(0.02)) for _ in range(3)]  # sleep: it ends while it is looked
        await await_clean(LONG_S)
        assert all(task.done() for task in tasks)

    made.loop.run_until_complete(run())


@pytest.mark.parametrize(
    "ignore", ["task", "waiting", "leak_task", top_function("waiting"), created_by("leak_task"), lambda found: True]
)
def test_what_is_named_may_stay(made: Garden, ignore: object) -> None:
    made.run(leak_task)
    assert_clean(0.0, [ignore])  # type: ignore[list-item]


@pytest.mark.parametrize("ignore", ["lock", "wait", top_function("leak_task"), created_by("waiting")])
def test_what_is_not_named_may_not(made: Garden, ignore: object) -> None:
    made.run(leak_task)
    with pytest.raises(LeaksFound):
        assert_clean(0.0, [ignore])  # type: ignore[list-item]


def test_tests_are_told_apart_by_their_label(made: Garden) -> None:
    baseline = Baseline("test_one")
    LEDGER.label_set = lambda: (("test", "test_two"),)
    try:
        token = LEDGER.track("lock", "of another test")
        assert_clean(0.0, baseline=baseline)
        LEDGER.label_set = lambda: (("test", "test_one"),)
        LEDGER.track("lock", "of this one")
        with pytest.raises(LeaksFound, match=r"1 x lock \(of this one\)"):
            assert_clean(0.0, baseline=baseline)
    finally:
        LEDGER.label_set = None
    LEDGER.release(token)


@pytest.mark.parametrize("said", [[], [(Process(8, 1, "engine", 0, ""), b"[]")]])
def test_of_a_process_that_is_silent_nothing_is_asserted(
    monkeypatch: pytest.MonkeyPatch, said: list[tuple[Process, bytes]]
) -> None:
    silent = Answers(said, [Process(7, 1, "worker", 1, "io")], [])
    monkeypatch.setattr(clean, "ask", lambda *_, **__: silent)
    with pytest.raises(ProfileUnavailable, match=r"worker 1 \[io\] \(pid 7\)"):
        assert_clean(state_dir="state")
