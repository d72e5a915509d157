"""A program that calls the runtime where a loop is running already: in a coroutine, and in cells as of a notebook.

Arguments: state folder, event loop ("asyncio" or "uvloop"). Prints `done`.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
from typing import Any

import uvloop

from runtime import AsyncRuntime, NodeType, Runtime
from tests.scenarios import handlers_hygiene as hygiene

POOL = [NodeType("cpu", workers=1)]
SLOW_S = 600.0
CELLS = (
    "import math",
    "from runtime import AsyncRuntime, Flow, NodeType, Runtime",
    "rt = Runtime(state, node_types=[NodeType('cpu', workers=1)], durability='os')",
    "assert rt.submit(math.sqrt, 4.0).result(timeout=60) == 2.0",
    "assert list(rt.map(math.floor, [1.5, 2.5])) == [1, 2]",
    "flow = Flow('cell'); node = flow.add(math.sqrt, 16.0); flow.add(math.sqrt, node)",
    "assert rt.run(flow, timeout=60).result() == 2.0",
    "art = AsyncRuntime(state + '-async', node_types=[NodeType('cpu', workers=1)], durability='os')",
    "await art.open()",
    "handle = await art.submit(math.sqrt, 9.0)",
    "assert await handle == 3.0",
    "assert [root async for root in art.map(math.sqrt, [1.0, 4.0])] == [1.0, 2.0]",
    "await art.close()",
    "rt.close()",
)


async def blocking_calls(state: str) -> None:
    """The blocking face in the thread of a running loop: it blocks, and works."""
    with Runtime(state, node_types=POOL, durability="os") as rt:
        assert rt.submit(hygiene.same, 1).result(timeout=60) == 1
        assert sum(rt.map(hygiene.same, [1] * 100)) == 100
        handle = rt.submit(hygiene.same_async, 2)
        assert await asyncio.to_thread(handle.result, 60) == 2


async def side_by_side(state: str) -> None:
    """Both faces at once, on two folders; the loop stays free while tasks run."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.ensure_future(tick())
    async with AsyncRuntime(state + "-a", node_types=POOL, durability="os") as art:
        with Runtime(state + "-b", node_types=POOL, durability="os") as rt:
            other = rt.submit_nowait(hygiene.same, 3)
            found = await asyncio.gather(*[(await art.submit(hygiene.take, 0.01)) for _ in range(10)])
            assert len(found) == 10
            assert other.result(timeout=60) == 3
    assert ticks > 20
    ticking.cancel()


async def cells(state: str) -> None:
    """Cells one after the other, each with `await` at its top level, as IPython runs them."""
    namespace: dict[str, Any] = {"state": state}
    for cell in CELLS:
        code = compile(cell, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        found = eval(code, namespace)
        if inspect.isawaitable(found):
            await found


async def main(state: str) -> None:
    """All of it, in one loop."""
    asyncio.get_running_loop().slow_callback_duration = SLOW_S
    await blocking_calls(state + "-1")
    await side_by_side(state + "-2")
    await cells(state + "-3")
    print("done", flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if sys.argv[2] == "uvloop" else None) as runner:
        runner.run(main(sys.argv[1]))
