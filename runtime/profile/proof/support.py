"""Whether this Python lets itself be looked into as the proof needs it: tried once, on things made for that."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import sys
from functools import cache
from typing import Any

from runtime.profile.proof.kin import callbacks_of, chain_of, waiter_of
from runtime.profile.proof.roots import tasks_there


@cache
def lacking() -> tuple[str, ...]:
    """What is missing for a proof, in words; empty where all is there."""
    found = []
    if platform.python_implementation() != "CPython":
        found.append("this Python is no CPython")
    if not hasattr(os, "fork") or not hasattr(os, "getuid"):
        found.append("this system cannot copy a process (fork)")
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        found.append("this Python has no interpreter lock, and threads cannot be looked at")
    if found:
        return tuple(found)
    for tried in (_lists_tasks, _shows_waits):
        try:
            if said := tried():
                found.append(said)
        except Exception as strange:  # noqa: BLE001, RUF100 - any of these is a difference that matters
            found.append(f"asyncio of this Python shows other things than known ({type(strange).__name__}: {strange})")
    return tuple(found)


def _lists_tasks() -> str:
    tasks_there()
    return ""


class _Loop:
    """As little of an event loop as a task needs."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def get_debug(self) -> bool:
        return False

    def call_soon(self, call: Any, *args: Any, context: Any = None) -> None:
        self.calls.append((call, args))

    def run(self) -> None:
        calls, self.calls = self.calls, []
        for call, args in calls:
            call(*args)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Nothing is to be said of this task."""


async def _waits(future: Any, marker: object) -> object:
    await future
    return marker


def _shows_waits() -> str:
    """A task that waits shows what it waits for, its coroutine what it has at hand, its future whom it wakes."""
    loop, marker = _Loop(), object()
    future: asyncio.Future[None] = asyncio.Future(loop=loop)  # type: ignore[arg-type]
    coroutine = _waits(future, marker)
    task = asyncio.Task(coroutine, loop=loop)  # type: ignore[arg-type]
    try:
        running = asyncio.events._get_running_loop()
        asyncio.events._set_running_loop(None)
        try:
            loop.run()
        finally:
            asyncio.events._set_running_loop(running)
        shown = gc.get_referents(coroutine)
        wakes = [getattr(call, "__self__", None) for call in callbacks_of(future)]
        if waiter_of(task) is not future:
            return "a task does not show what it waits for (_fut_waiter)"
        if not any(one is marker for one in shown) or chain_of(task)[0] is not coroutine:
            return "a coroutine does not show what it has at hand"
        if not any(one is task for one in wakes):
            return "a future does not show whom it wakes (_callbacks)"
        return ""
    finally:
        future.cancel()
        loop.run()
        loop.run()
