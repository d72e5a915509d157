"""Fixtures of the face's tests: a runtime whose engine is a thread of this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime import NodeType, Runtime
from runtime.testing import inline_runtime
from tests.unit.runtime import handlers


@pytest.fixture
def rt() -> Iterator[Runtime]:
    with inline_runtime(handlers.tasks, node_types=(NodeType("default"), NodeType("cpu"))) as found:
        yield found
        handlers.GATE.set()


@pytest.fixture(autouse=True)
def gate_is_closed() -> Iterator[None]:
    handlers.GATE.clear()
    handlers.FLAKY.clear()
    handlers.CALLS.clear()
    handlers.MENDED.clear()
    yield
    handlers.GATE.set()
