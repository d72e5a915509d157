"""The asyncio face: the same answers, awaited, under asyncio's loop and uvloop, without a thread and without a hang."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime import AsyncRuntime, Flow, RunState
from runtime.errors import (
    CallerError,
    ConfigurationError,
    DuplicateRun,
    EngineUnavailable,
    KeyConflict,
    MissingNode,
    PayloadError,
    QueueFull,
    RuntimeClosed,
    TaskFailed,
    UnknownRun,
    WaitTimeout,
)
from runtime.mail.blobs import BlobStore
from runtime.mail.codec import Codec
from runtime.mail.link import LinkEnds
from runtime.testing import InlineStarter
from runtime.views import Progress
from tests.unit.runtime import handlers
from tests.unit.runtime.fake_engine import FakeEngine
from tests.unit.runtime.handlers import add_one, echo, fail, odd_only, through_gate


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[AsyncRuntime]:
    starter = InlineStarter(folder, ["default"])
    async with AsyncRuntime(folder, handlers.tasks, durability="none", starter=starter) as rt:
        yield rt


def play(folder: Path, scene: Callable[[AsyncRuntime], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with opened(folder) as rt:
            return await scene(rt)

    return asyncio.run(main())


UNDER_UVLOOP = """
import asyncio, sys, uvloop
from pathlib import Path
from tests.unit.runtime.test_aio import add_one, opened

async def main():
    async with opened(Path(sys.argv[1])) as rt:
        values = [value async for value in rt.map(add_one, range(100))]
        print(await (await rt.submit(add_one, 1)), sum(values))

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""
"""In a process of its own, because uvloop keeps a pipe once it was used."""


@pytest.mark.slow
def test_under_uvloop(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNDER_UVLOOP, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (["2", "5050"], "")


def test_tasks(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        handle = await rt.submit(add_one, 1)
        assert await handle == await handle.result(10) == 2
        assert await handle.exception() is None
        assert await (await rt.submit(echo, "x" * 300_000)) == "x" * 300_000
        assert await rt.submit_nowait(add_one, 5) == 6
        assert await (await rt.submit(add_one, 1, priority="high")) == 2
        assert await (await rt.options(timeout=5.0).submit(add_one, 3)) == 4
        assert (await handle.status()).attempts == 1
        assert await handle.progress() == Progress(1, 1)
        assert (await handle.story())[0].event == "submitted"
        assert "succeeded" in await handle.why()
        assert await handle.cancel() is False
        with pytest.raises(TaskFailed, match="oops"):
            await (await rt.submit(fail, "oops"))
        assert isinstance(await (await rt.submit(fail, "oops")).exception(), TaskFailed)
        with pytest.raises(PayloadError):
            await rt.submit(echo, object())
        with pytest.raises(CallerError, match="small values"):
            rt.submit_nowait(echo, "x" * 300_000)

    play(tmp_path, scene)


def test_many_at_once(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> int:
        handles = await asyncio.gather(*(rt.submit(add_one, i) for i in range(500)))
        return sum(await asyncio.gather(*handles))

    assert play(tmp_path, scene) == sum(range(1, 501))


def test_a_task_has_times(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        delayed = await rt.submit(add_one, 1, delay=0.05, expires=60)
        nowait = rt.submit_nowait(add_one, 1, delay=0.05)
        tomorrow = await rt.submit(add_one, 1, due=datetime.now(UTC) + timedelta(days=1))
        assert (await tomorrow.why()).startswith("it waits for its time: ")
        assert await tomorrow.set_priority("high")
        assert await rt.set_priority(tomorrow, "low")
        assert await rt.set_priority(tomorrow.run_id, "realtime")
        with pytest.raises(ConfigurationError):
            await tomorrow.set_priority("urgent")
        assert [event.text[:4] for event in await tomorrow.story() if event.event == "priority set"] == [
            "high",
            "low,",
            "real",
        ]
        assert await tomorrow.cancel()
        assert (await delayed, await nowait) == (2, 2)

    play(tmp_path, scene)


def test_the_end_of_a_task_is_awaited_whatever_it_is(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        waiting = await rt.submit(through_gate, 5)
        with pytest.raises(WaitTimeout, match=waiting.run_id):
            await waiting.wait(0.001)
        handlers.GATE.set()
        assert await waiting.wait(30) == RunState.SUCCEEDED
        assert await (await rt.submit(fail, "no")).wait() == RunState.FAILED

    play(tmp_path, scene)


def test_what_takes_long_to_encode_is_encoded_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what has to go to a file is written there: with a run id of one's own, too."""
    long, large = [[number, str(number)] for number in range(9_000)], b"x" * 1_000_000
    threads: list[bool] = []
    for name in ("encode", "write"):
        owner: Any = Codec if name == "encode" else BlobStore
        real = getattr(owner, name)

        def spy(self: Any, value: Any, *args: Any, real: Any = real, name: str = name, **kwargs: Any) -> Any:
            if name == "write" or value is long:
                threads.append(threading.current_thread() is threading.main_thread())
            return real(self, value, *args, **kwargs)

        monkeypatch.setattr(owner, name, spy)

    async def scene(rt: AsyncRuntime) -> None:
        assert len(await (await rt.submit(echo, long))) == 9_000
        assert threads
        assert not any(threads)
        threads.clear()
        assert await (await rt.submit(echo, large)) == large
        assert await (await rt.submit(echo, large, run_id="mine")) == large
        with pytest.raises(CallerError, match="small values only"):
            rt.submit_nowait(echo, large, run_id="other")
        by_caller = [own for own in threads if own]
        assert len(threads) >= 2
        assert not by_caller

    play(tmp_path, scene)


def test_a_repeated_submission_is_the_first_one(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        sent = [await rt.submit(add_one, 1, idempotency_key="a"), rt.submit_nowait(add_one, 1, idempotency_key="a")]
        assert await asyncio.gather(*sent) == [2, 2]
        assert sent[0].run_id == sent[1].run_id
        with pytest.raises(KeyConflict):
            await rt.submit(add_one, 2, idempotency_key="a")

    play(tmp_path, scene)


def test_runs(tmp_path: Path) -> None:
    flow = Flow("f")
    top = flow.add(add_one, 0, id="top")
    flow.add(add_one, top, id="end")

    async def scene(rt: AsyncRuntime) -> None:
        run = await rt.run(flow, run_id="one")
        assert await run.wait() == RunState.SUCCEEDED
        assert await run == await run.result() == await run.result("end") == 2
        assert await run.results() == {"top": 1, "end": 2}
        assert [n.id for n in await run.nodes()] == ["top", "end"]
        assert (await run.node("top")).index == 0
        assert (await run.status()).counts.total == 2
        assert await run.progress() == Progress(2, 2)
        assert await run.exception() is None
        with pytest.raises(MissingNode):
            await run.result("nowhere")
        with pytest.raises(DuplicateRun):
            await rt.submit(flow, run_id="one")
        found = await rt.handle("one")
        assert await found == 2
        assert await found.exception() is None
        with pytest.raises(UnknownRun):
            await rt.handle("two")
        assert [r.run_id async for r in rt.runs()] == ["one"]
        named = await rt.submit(add_one, 1, run_id="named")
        assert await named == 2
        sad = Flow("sad")
        sad.add(fail, "broken")
        with pytest.raises(TaskFailed, match="broken"):
            await rt.run(sad)

    play(tmp_path, scene)


def test_a_run_that_is_going_on_is_found(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        flow = Flow()
        flow.add(through_gate, 3)
        run = await rt.submit(flow)
        found = await rt.handle(run.run_id)
        with pytest.raises(WaitTimeout):
            await found.wait(0.01)
        with pytest.raises(WaitTimeout):
            await run.wait(0.01)
        handlers.GATE.set()
        assert await found.result(timeout=10) == 3

    play(tmp_path, scene)


def test_map(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        assert [v async for v in rt.map(add_one, range(3000))] == list(range(1, 3001))
        assert sorted([v async for v in rt.map(add_one, range(300), ordered=False)]) == list(range(1, 301))
        assert [v async for v in rt.map(echo, ["x" * 100_000, 1])] == ["x" * 100_000, 1]
        with pytest.raises(TaskFailed, match="2 is even"):
            _ = [v async for v in rt.map(odd_only, [1, 2])]
        taken = 0
        async with rt.map(add_one, itertools.count(), window=1000) as results:
            async for _ in results:
                taken += 1
                if taken == 100:
                    break
        assert await anext(rt.map(add_one, [1])) == 2

    play(tmp_path, scene)


def test_as_they_end(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        slow = await rt.submit(through_gate, 99)
        fast = await rt.submit(add_one, 1)
        seen = []
        handlers.GATE.set()
        async for handle in rt.as_completed([slow, fast]):
            seen.append(await handle)
        assert sorted(seen) == [2, 99]

    play(tmp_path, scene)


def test_a_cancelled_wait_leaves_the_task(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        handle = await rt.submit(through_gate, 5)
        waiting = asyncio.create_task(handle.result())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not handle._hooks
        with pytest.raises(WaitTimeout):
            await handle.result(0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await handle
        handlers.GATE.set()
        assert await handle == 5

    play(tmp_path, scene)


def test_a_cancelled_wait_loses_nothing_of_what_is_iterated(tmp_path: Path) -> None:
    async def cut(items: AsyncIterator[Any]) -> None:
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    async def scene(rt: AsyncRuntime) -> None:
        mapped = rt.map(through_gate, range(3), chunk=1)
        ending = rt.as_completed([await rt.submit(through_gate, 9)])
        await cut(mapped)
        await cut(ending)
        handlers.GATE.set()
        assert [value async for value in mapped] == [0, 1, 2]
        assert [await handle async for handle in ending] == [9]
        assert [value async for value in mapped] == []
        for listed in (rt.runs(), rt.dead()):
            await cut(listed)
        listed = rt.runs()
        await cut(listed)
        assert len([run async for run in listed]) == 4

    play(tmp_path, scene)


def test_a_cancelled_wait_loses_nothing_of_a_map_with_large_values(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        texts = [str(i) * 100_000 for i in range(5)]
        mapped = rt.map(echo, texts)
        found = []
        for _ in range(100):
            waiting = asyncio.ensure_future(anext(mapped))
            await asyncio.sleep(0)
            if not waiting.done():
                waiting.cancel()
            with suppress(asyncio.CancelledError):
                found.append(await waiting)
        found += [value async for value in mapped]
        assert found == texts

    play(tmp_path, scene)


def test_a_map_that_was_cut_off_and_dropped_is_cancelled(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        mapped = rt.map(through_gate, range(3), chunk=1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(mapped)
        del mapped
        for question in itertools.count():
            states = {run.state async for run in rt.runs()}
            if RunState.RUNNING not in states:
                break
            if question > 3:  # the engine has the cancel, which the loop had to send first
                handlers.GATE.set()
        assert RunState.CANCELLED in states

    play(tmp_path, scene)


def test_a_full_engine_makes_wait(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        outbox = rt._client.outbox
        held, outbox.bytes_held = outbox.bytes_held, 1 << 40
        with pytest.raises(QueueFull):
            rt.submit_nowait(add_one, 1)
        outbox.bytes_held = held
        assert await rt.submit_nowait(add_one, 1) == 2

    play(tmp_path, scene)


def test_the_engine_is_restarted_in_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        starter = InlineStarter(tmp_path, ["default"])
        async with AsyncRuntime(tmp_path, durability="none", starter=starter) as rt:
            assert await (await rt.submit(add_one, 1)) == 2
            await asyncio.get_running_loop().run_in_executor(None, starter.crash)
            assert await (await rt.submit(add_one, 2)) == 3

    asyncio.run(main())


def test_no_thread_reads(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> list[str]:
        await (await rt.submit(add_one, 1))
        return [t.name for t in threading.enumerate()]

    assert "mainspring-pump" not in play(tmp_path, scene)


def test_opening_and_closing(tmp_path: Path) -> None:
    async def main() -> None:
        rt = AsyncRuntime(tmp_path, durability="none", starter=InlineStarter(tmp_path, ["default"]))
        with pytest.raises(RuntimeClosed, match="not open"):
            await rt.submit(add_one, 1)
        await rt.close()
        await rt.open()
        with pytest.raises(RuntimeClosed, match="once"):
            await rt.open()
        open_handle = await rt.submit(through_gate, 1)
        handlers.GATE.set()
        await open_handle
        handlers.GATE.clear()
        await rt.close()
        await rt.close()
        with pytest.raises(RuntimeClosed):
            await rt.submit(add_one, 1)
        assert rt.recovery == {}

    asyncio.run(main())


def test_opening_that_is_given_up_ends_the_engine(tmp_path: Path) -> None:
    started = threading.Event()

    class Slow(InlineStarter):
        def start(self) -> LinkEnds:
            ends = super().start()
            started.set()
            return ends

    async def main(cancels: int) -> list[InlineStarter]:
        starter = Slow(tmp_path, ["default"])
        rt = AsyncRuntime(tmp_path, durability="none", starter=starter)
        opening = asyncio.ensure_future(rt.open())
        await asyncio.sleep(0)
        for _ in range(cancels):
            opening.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await opening
        await rt.close()
        return [starter]

    for cancels in (1, 2, 3):
        started.clear()
        asyncio.run(main(cancels))  # waits for the threads of its executor
        assert started.is_set()
        play(tmp_path, _one_task)


async def _one_task(rt: AsyncRuntime) -> None:
    assert await (await rt.submit(add_one, 1)) == 2


def test_closing_that_is_given_up_twice_ends_what_waits(tmp_path: Path) -> None:
    async def main() -> None:
        starter = InlineStarter(tmp_path, ["default"])
        rt = await AsyncRuntime(tmp_path, handlers.tasks, durability="none", starter=starter).open()
        waiting = asyncio.ensure_future((await rt.submit(through_gate, 1)).result())
        closing = asyncio.ensure_future(rt.close())
        await asyncio.sleep(0)
        for _ in range(2):
            closing.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await closing
        handlers.GATE.set()
        with pytest.raises(RuntimeClosed):
            await asyncio.wait_for(waiting, 10)

    asyncio.run(main())


def test_after_its_loop_was_closed_the_next_one_goes_on(tmp_path: Path) -> None:
    rt = AsyncRuntime(tmp_path, handlers.tasks, durability="none", starter=InlineStarter(tmp_path, ["default"]))

    async def first() -> Any:
        await rt.open()
        return await rt.submit(through_gate, 5)

    async def second(handle: Any) -> None:
        waiting = asyncio.ensure_future(handle.result())
        await asyncio.sleep(0)
        handlers.GATE.set()
        assert await asyncio.wait_for(waiting, 10) == 5
        assert await (await asyncio.wait_for(rt.submit(add_one, 1), 10)) == 2
        await rt.close()

    asyncio.run(second(asyncio.run(first())))


def test_two_loops_at_once_are_refused(tmp_path: Path) -> None:
    async def elsewhere() -> None:
        with pytest.raises(CallerError, match="another event loop"):
            await asyncio.wait_for(rt.submit(add_one, 1), 10)
        with pytest.raises(CallerError, match="another event loop"):
            await rt.close()

    rt = AsyncRuntime(tmp_path, durability="none", starter=InlineStarter(tmp_path, ["default"]))
    with asyncio.Runner() as runner:
        runner.run(rt.open())
        other = threading.Thread(target=asyncio.run, args=(elsewhere(),))
        other.start()
        other.join()
        runner.run(_one_task(rt))
        runner.run(rt.close())


def test_an_engine_that_cannot_start(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.refuse_start = EngineUnavailable("no processes left")

    async def main() -> None:
        async with AsyncRuntime(tmp_path, starter=engine):
            pytest.fail("it opened")

    with pytest.raises(EngineUnavailable):
        asyncio.run(main())

    async def closed() -> None:
        rt = AsyncRuntime(tmp_path, starter=engine)
        with pytest.raises(EngineUnavailable):
            await rt.open()
        await rt.close()

    asyncio.run(closed())


def test_what_failed_is_listed_replayed_and_rerun(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        handle = await rt.submit(handlers.mendable, 4)
        assert isinstance(await handle.exception(), TaskFailed)
        (letter,) = [letter async for letter in rt.dead(kind="error", run=handle)]
        details = await rt.dead_letter(letter)
        assert (details.args, details.kwargs) == ((4,), {})
        assert isinstance(await (await handle.rerun()).exception(30), TaskFailed)
        handlers.MENDED.set()
        assert await rt.replay(letter) == 1
        assert await (await rt.handle(handle.run_id)).result(timeout=30) == 4
        assert [letter async for letter in rt.dead()] == []
        flow = Flow("broken")
        flow.add(fail, "no")
        run = await rt.submit(flow)
        assert await run.wait(30) == RunState.FAILED
        assert await (await run.rerun()).wait(30) == RunState.FAILED
        assert await (await rt.rerun(run.run_id)).wait(30) == RunState.FAILED
        assert await rt.discard(everything=True) == 1
        with pytest.raises(ConfigurationError, match="one of the three"):
            await rt.replay()

    play(tmp_path, scene)


def test_a_scope_is_drained(tmp_path: Path) -> None:
    async def scene(rt: AsyncRuntime) -> None:
        running = await rt.submit(through_gate, 1, tenant="b")
        with pytest.raises(WaitTimeout, match="still ran"):
            await rt.drain("tenant:b", timeout=0.05)
        handlers.GATE.set()
        assert (await rt.drain("tenant:b")).paused == ("tenant:b",)
        assert await running == 1

    play(tmp_path, scene)
