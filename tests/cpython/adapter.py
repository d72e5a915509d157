"""Puts `runtime.Executor` under the mixins of CPython's `test.test_concurrent_futures`.

The tests come with the interpreter and are not copied here. Each mixin of theirs (`WaitTests`, `ExecutorTest` ...) is
joined with `MainspringMixin`, which is their `ExecutorMixin` with our executor, so that every method of theirs becomes
one test here. What looks into the private parts of their own pools, or tests an outcome that we mend on purpose, cannot
apply: `NOT_APPLICABLE` says why for each, and `test_executor_habits` tests the same concerns in our terms.

Limits: Debian splits the package from the interpreter, and 3.11 and 3.12 do not install it after they made a folder of
it; `PACKAGE_MISSING` is then the reason to skip. Where it is a single module (before 3.11.6) that is read as well.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import multiprocessing
import sys
import unittest
from types import MappingProxyType, ModuleType
from typing import Any, Final

PARTS: Final = ("util", "executor", "test_as_completed", "test_wait", "test_shutdown", "test_init")
POOL_PARTS: Final = ("test_process_pool", "test_deadlock")

PRIVATE: Final = "looks into private parts of ProcessPoolExecutor"
REFILLS: Final = "a crash breaks the whole pool there; here it fails that task only; see test_executor_habits"
OWN_SCRIPT: Final = "its script imports the executor from concurrent.futures; see test_executor_habits"
UNPICKLED: Final = "an error while unpickling breaks the whole pool there; here that task alone fails, with that error"

LOGGED: Final = "reads executor._broken and a log record of their own; see test_executor_habits"

NOT_APPLICABLE: Final = MappingProxyType(
    {
        "FailingInitializer.test_initializer": LOGGED,
        "ExecutorDeadlock.test_gh105829_should_not_deadlock_if_wakeup_pipe_full": PRIVATE,
        "ExecutorDeadlock.test_shutdown_deadlock_pickle": PRIVATE,
        "ExecutorDeadlock.test_exit_at_task_unpickle": UNPICKLED,
        "ExecutorDeadlock.test_error_at_task_unpickle": UNPICKLED,
        "ExecutorDeadlock.test_error_during_result_unpickle_in_result_handler": UNPICKLED,
        "ExecutorDeadlock.test_exit_during_result_unpickle_in_result_handler": UNPICKLED,
        "ProcessPoolExecutor.test_killed_child": REFILLS,
        "ProcessPoolExecutor.test_idle_process_reuse_one": PRIVATE,
        "ProcessPoolExecutor.test_idle_process_reuse_multiple": PRIVATE,
        "ProcessPoolExecutor.test_saturation": "sends a multiprocessing semaphore as an argument",
        "ProcessPoolExecutor.test_ressources_gced_in_workers": "sends a multiprocessing manager's proxy as an argument",
        "ProcessPoolExecutor.test_max_tasks_per_child": PRIVATE,
        "ProcessPoolExecutor.test_max_tasks_per_child_defaults_to_spawn_context": PRIVATE,
        "ProcessPoolExecutor.test_max_workers_too_large": "a limit of Windows",
        "ProcessPoolExecutor.test_python_finalization_error": PRIVATE,
        "ProcessPoolShutdown.test_processes_terminate": PRIVATE,
        "ProcessPoolShutdown.test_context_manager_shutdown": PRIVATE,
        "ProcessPoolShutdown.test_del_shutdown": PRIVATE,
        "ProcessPoolShutdown.test_shutdown_no_wait": PRIVATE,
        "ProcessPoolShutdown.test_hang_gh83386": OWN_SCRIPT,
        "ProcessPoolShutdown.test_interpreter_shutdown": OWN_SCRIPT,
        "ProcessPoolShutdown.test_submit_after_interpreter_shutdown": OWN_SCRIPT,
    }
)


def package() -> list[ModuleType]:
    """The modules of the interpreter's own tests; empty when it ships none."""
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            whole = importlib.import_module("test.test_concurrent_futures")
        except ImportError:
            return []
        if not hasattr(whole, "__path__"):
            return [whole]
        return [importlib.import_module(f"{whole.__name__}.{part}") for part in (*PARTS, *POOL_PARTS)]


MODULES: Final = package()
PACKAGE_MISSING: Final = f"this interpreter ships no test.test_concurrent_futures ({sys.version.split()[0]})"


def theirs(name: str) -> type[Any]:
    """A class of theirs by name."""
    for module in MODULES:
        if hasattr(module, name):
            found = getattr(module, name)
            assert isinstance(found, type)
            return found
    raise LookupError(name)


def joined(owner: type[Any], mixin_name: str) -> type[Any]:
    """One of their mixins as the base of a test case; what cannot apply is skipped with its reason.

    Args:
        owner: The class that says which executor is tested, and with which options.
        mixin_name: Their class.
    """
    short = mixin_name.removesuffix("Tests").removesuffix("Test").removesuffix("Mixin")
    bases = dict.fromkeys((owner, theirs(mixin_name), theirs("ExecutorMixin"), theirs("BaseTestCase")))
    if issubclass(theirs(mixin_name), theirs("ExecutorMixin")):
        del bases[theirs("ExecutorMixin")]
    base = type(f"{short}Base", tuple(bases), {"get_context": _context})
    for name in unittest.TestLoader().getTestCaseNames(base):
        reason = NOT_APPLICABLE.get(f"{short}.{name}")
        if reason:
            setattr(base, name, unittest.skip(reason)(_skipped))
    return base


def _skipped(self: unittest.TestCase) -> None:
    """Stands where a test cannot apply."""


def _context(self: unittest.TestCase) -> Any:
    """What their tests hand over as mp_context; the adapted executor has no use for it."""
    return multiprocessing.get_context("spawn")
