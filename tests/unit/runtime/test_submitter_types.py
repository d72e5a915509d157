"""Type checkers see the handler's own signature: a program is checked, right calls pass and wrong ones are found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from __future__ import annotations
import math
from runtime import AsyncRuntime, Batch, Failed, Flow, Priority, Rate, Retry, Runtime, Scheduling, Share
from runtime import TaskContext, TaskRegistry

tasks = TaskRegistry()

@tasks.task(node_type="cpu", timeout=30.0, retry=Retry(max_attempts=3))
def transform(rows: list[int]) -> int: ...

@tasks.task
async def fetch(url: str, context: TaskContext | None = None) -> str: ...

def plain(a: int, b: str = "") -> float: ...

@tasks.task
def asking(context: TaskContext, words: list[str]) -> int: ...

async def asking_async(context: TaskContext, words: list[str], most: int = 5) -> str: ...

@tasks.task(batch=Batch(max_size=8), retry=3)
def embed(texts: list[str]) -> list[float]: ...

@tasks.task(batch=Batch())
async def lookup(keys: list[int], context: TaskContext | None = None) -> list[str | Failed]: ...

def program(rt: Runtime, flow: Flow) -> None:
    reveal_type(rt.submit(transform, [1]))                       # TaskHandle[int]
    reveal_type(rt.submit(transform, [1], priority=Priority.HIGH))  # TaskHandle[int]
    reveal_type(rt.submit(fetch, "x"))                           # TaskHandle[str]
    reveal_type(rt.submit_nowait(fetch, "x", timeout=1.0))       # TaskHandle[str]
    reveal_type(rt.submit_nowait(plain, 1, b="x"))               # TaskHandle[float]
    reveal_type(rt.submit(fetch, "x", delay=1.0))                # TaskHandle[str]
    reveal_type(rt.submit_nowait(plain, 1, expires=5, delay=1))  # TaskHandle[float]
    reveal_type(rt.submit_nowait(plain, 1, deadline=5))          # TaskHandle[float]
    reveal_type(rt.submit(fetch, "x", unique=True))              # TaskHandle[str]
    reveal_type(rt.submit_nowait(plain, 1, unique="a", deadline=5))  # TaskHandle[float]
    reveal_type(rt.submit(plain, 1, debounce=5, debounce_key="a", debounce_max=60))  # TaskHandle[float]
    reveal_type(rt.options(retry=Retry(lower_class=2), deadline=5).submit(plain, 1))  # TaskHandle[float]
    reveal_type(rt.submit(fetch, "x", idempotency_key="a"))      # TaskHandle[str]
    reveal_type(rt.submit_nowait(plain, 1, idempotency_key="a", idempotency_window=5))  # TaskHandle[float]
    reveal_type(rt.options(priority="low").submit_nowait(flow))  # RunHandle
    reveal_type(rt.submit(plain, 1, tenant="acme"))              # TaskHandle[float]
    reveal_type(rt.submit(fetch, "x", rate_key="api", rate_cost=2.0))  # TaskHandle[str]
    reveal_type(rt.submit_nowait(plain, 1, concurrency_key="a"))  # TaskHandle[float]
    reveal_type(rt.options(tenant="acme", rate_cost=0.5).submit(plain, 1))  # TaskHandle[float]
    reveal_type(rt.set_quota("key:printer", 1).waiting["low"])   # int
    reveal_type(rt.pause("tenant:acme", "class:low"))            # SchedulingStatus
    reveal_type(rt.set_rate("api", Rate(10, per=1.0, burst=5)).rates["api"].per_s)  # float
    reveal_type(rt.submit(plain, 1, b="x").result())             # float
    reveal_type(rt.submit(asking, ["a"]))                        # TaskHandle[int]
    reveal_type(rt.submit(asking_async, ["a"], most=3))          # TaskHandle[str]
    reveal_type(rt.submit_nowait(asking, words=["a"]))           # TaskHandle[int]
    reveal_type(rt.submit_nowait(asking_async, ["a"]))           # TaskHandle[str]
    reveal_type(rt.options(priority="high").submit(plain, 1))    # TaskHandle[float]
    reveal_type(rt.map(math.sqrt, [1.0]))                        # MapIterator[float]
    reveal_type(rt.map(fetch, ["x"], ordered=False))             # MapIterator[str]
    reveal_type(rt.submit(flow, run_id="x"))                     # RunHandle
    page = flow.add(fetch, "x")
    reveal_type(page)                                            # Node[str]
    reveal_type(rt.run(flow).result(page))                       # str
    reveal_type(transform([1]))                                  # int
    reveal_type(rt.submit(embed, "x"))                           # TaskHandle[float]
    reveal_type(rt.submit(lookup, 1))                            # TaskHandle[str]
    reveal_type(rt.map(embed, ["x"]))                            # MapIterator[float]
    reveal_type(flow.add(embed, "x"))                            # Node[float]
    reveal_type(embed("x"))                                      # float
    rt.submit(embed, ["x"])                                      # error
    rt.submit(plain, "wrong")                                    # error
    rt.submit(transform, 1)                                      # error
    rt.submit(plain)                                             # error
    rt.submit(asking, "words")                                   # error
    rt.submit(asking_async, ["a"], most="all")                   # error
    rt.submit_nowait(plain, "wrong")                             # error
    rt.map(math.sqrt, [1.0], windows=3)                          # error
    rt.map(math.sqrt, [1.0], window="wide")                      # error
    rt.options(priority="high").submit(plain, "wrong")           # error
    rt.options(colour="red")                                     # error
    rt.options(tenant=5)                                         # error
    rt.submit(plain, 1, tenant=5)                                # error
    rt.set_quota("key:printer", "many")                          # error
    rt.set_rate("api", 10)                                       # error
    transform("wrong")                                           # error

async def asynchronous(rt: AsyncRuntime) -> None:
    handle = await rt.submit(fetch, "x")
    reveal_type(handle)                                          # AsyncTaskHandle[str]
    reveal_type(await handle)                                    # str
    reveal_type(rt.submit_nowait(plain, 1))                      # AsyncTaskHandle[float]
    async for root in rt.map(math.sqrt, [1.0]):
        reveal_type(root)                                        # float
    reveal_type(rt.map(fetch, ["x"], window=None, chunk=4))      # AsyncMapIterator[str]
    reveal_type(await rt.submit(plain, 1, tenant="acme"))        # AsyncTaskHandle[float]
    reveal_type((await rt.set_weight("acme", 2.0)).weights["acme"])  # float
    reveal_type((await rt.scheduling()).paused[0])               # str
    rt.map(fetch, ["x"], windows=3)                              # error
    await rt.submit(plain, "wrong")                              # error
    reveal_type(await rt.submit(asking_async, ["a"]))            # AsyncTaskHandle[str]
    reveal_type(rt.submit_nowait(asking, ["a"]))                 # AsyncTaskHandle[int]
    await rt.submit(asking, 1)                                   # error
"""


@pytest.mark.slow
def test_types_of_a_program(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(file)]
    env = {**os.environ, "MYPYPATH": os.getcwd()}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    found: dict[int, str] = {}
    for line in done.stdout.splitlines():
        if told := re.search(
            r"program\.py:(\d+): (?:note: Revealed type is \"(.*)\"|(error): (?!Missing return))", line
        ):
            name = (told[2] or "error").replace("builtins.", "")
            found[int(told[1])] = re.sub(r"[\w.]+\.(\w+)", r"\1", name)
    wanted = {
        number: line.rpartition("# ")[2]
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        if re.search(r"# [\w\[\]]+$", line)
    }
    assert found == wanted
