"""A program is replaced by a newer one whose types have changed: what the old one stored is read by the new one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.tidy.tree import ROOT

pytestmark = pytest.mark.slow

OLD: Final = """
from dataclasses import dataclass

@dataclass
class Order:
    number: str
    note: str = ""

def make(number):
    return Order(number)

def ship(order):
    return [order, str(order)]
"""
STEPS: Final = """
from runtime import upcast, versioned

@upcast("order", "1.0", to="1.1")
def renamed(order):
    order["remark"] = order.pop("note")
    return order

@upcast("order", "1.1", to="2.0")
def converted(order):
    return {**order, "number": int(order["number"]), "currency": "EUR"}
"""
NEW: Final = OLD.replace(
    '    number: str\n    note: str = ""', "    number: int\n    remark: str\n    currency: str"
).replace("@dataclass", '@versioned("order", "2.0")\n@dataclass')
BEFORE: Final = """
from runtime import NodeType, Runtime
from shop import Order, make, ship

if __name__ == "__main__":
    with Runtime("state", node_types=[NodeType("default", workers=1)], durability="os") as rt:
        rt.submit(make, "7", run_id="made").result(timeout=30)
        rt.submit(ship, Order("8", "soon"), run_id="shipped", delay=2)
        rt.close(drain=False)
"""
AFTER: Final = """
import json
from runtime import NodeType, Runtime
from runtime.errors import MainspringError

def told(handle):
    try:
        return str(handle.result(timeout=30))
    except MainspringError as error:
        return f"{type(error).__name__}: {error.message}"

if __name__ == "__main__":
    with Runtime("state", node_types=[NodeType("default", workers=1)], durability="os") as rt:
        print(json.dumps([told(rt.handle("made")), told(rt.handle("shipped"))]))
"""


def program(folder: Path, shop: str, main: str) -> str:
    """Run a program with this module; returns what it prints."""
    (folder / "shop.py").write_text(shop)
    (folder / "main.py").write_text(main)
    path = os.pathsep.join([str(folder), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_handlers_and_the_program_read_what_the_old_one_stored(tmp_path: Path) -> None:
    program(tmp_path, OLD, BEFORE)
    made, shipped = json.loads(program(tmp_path, STEPS + NEW, AFTER))
    assert "Order(number=7, remark='', currency='EUR')" in made
    assert shipped.count("Order(number=8, remark='soon', currency='EUR')") == 2


def test_without_a_step_the_task_fails_and_the_way_is_named(tmp_path: Path) -> None:
    program(tmp_path, OLD, BEFORE)
    found: list[Any] = json.loads(program(tmp_path, STEPS.replace('"1.1", to="2.0"', '"1.2", to="2.0"') + NEW, AFTER))
    for told in found:
        assert "order 1.0 cannot be read as 2.0: there is no step from 1.1" in told
        assert "1.0 -> 1.1 -> ? -> 2.0" in told
