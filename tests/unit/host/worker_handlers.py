"""Handlers for the tests of workers."""

from __future__ import annotations


def add_one(x: int) -> int:
    return x + 1


def add(x: int, y: int) -> int:
    return x + y


async def add_one_async(x: int) -> int:
    return x + 1
