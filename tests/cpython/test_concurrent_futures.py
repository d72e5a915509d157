"""CPython's `test.test_concurrent_futures` against `runtime.Executor`: one test here for each method there."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.executor import Executor
from tests.cpython import adapter

pytestmark = [
    pytest.mark.cpython,
    pytest.mark.slow,
    pytest.mark.skipif(not adapter.MODULES, reason=adapter.PACKAGE_MISSING),
    # Their tests drop executors and futures on purpose, and sleep in handlers of theirs.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
]


class AdaptedExecutor(Executor):
    """Ours, called as theirs is called: a start method that may be named, and does not matter."""

    def __init__(self, max_workers: int | None = None, mp_context: Any = None, **options: Any) -> None:
        super().__init__(max_workers, **options)


class Ours:
    """Which executor their mixins make."""

    executor_type = AdaptedExecutor


if adapter.MODULES:
    # Classes with names of their own, because some handlers of theirs are methods of the test case and travel by name.

    class TestAsCompleted(adapter.joined(Ours, "AsCompletedTests")):
        pass

    class TestWait(adapter.joined(Ours, "WaitTests")):
        pass

    class TestPool(adapter.joined(Ours, "ProcessPoolExecutorTest")):
        pass

    class TestShutdown(adapter.joined(Ours, "ProcessPoolShutdownTest")):
        pass

    class TestInitializer(adapter.joined(Ours, "InitializerMixin")):
        pass

    class TestFailingInitializer(adapter.joined(Ours, "FailingInitializerMixin")):
        pass

    class TestDeadlock(adapter.joined(Ours, "ExecutorDeadlockTest")):
        pass


def test_the_table_names_tests_that_exist() -> None:
    """A name that their package no longer has is fine where another version has it; a name without a class is not."""
    classes = {name.partition(".")[0] for name in adapter.NOT_APPLICABLE}
    assert all(
        any(hasattr(module, f"{one}{end}") for module in adapter.MODULES for end in ("Test", "Mixin"))
        for one in classes
    )
    assert all(len(reason) > 15 for reason in adapter.NOT_APPLICABLE.values())
