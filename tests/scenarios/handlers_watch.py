"""What workers run while somebody watches them."""

from __future__ import annotations

import os
import time


def show(number: int) -> int:
    """Work that stays as it is."""
    return sum(1 for _ in range(number))


def pay(slow: str, end: str) -> str:
    """Work that takes as long as the other, until something goes wrong: then until it is told to end."""
    count_coins(200)
    while os.path.exists(slow) and not os.path.exists(end):
        count_coins(20_000)
    return "paid"


def count_coins(number: int) -> int:
    """Who is to blame."""
    coins = 0
    for coin in range(number):
        coins += coin
    return coins


async def forget_to_await(gate: str) -> str:
    """A blocking call in a coroutine."""
    return read_file(gate)


def read_file(path: str) -> str:
    """It waits for a file, and everybody else with it."""
    while not os.path.exists(path):
        time.sleep(0.01)
    return "done"
