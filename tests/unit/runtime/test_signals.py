"""SIGTERM is taken only when asked for, chained, and given back."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.errors import ConfigurationError
from runtime.signals import EXIT_CODE, SigtermGuard


@pytest.fixture(autouse=True)
def handler_is_put_back() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_the_default_becomes_a_system_exit() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    guard = SigtermGuard()
    with pytest.raises(SystemExit) as left:
        os.kill(os.getpid(), signal.SIGTERM)
    assert left.value.code == EXIT_CODE == 143
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # a second one ends at once
    guard.restore()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_handler_before_is_called_and_restored() -> None:
    seen: list[Any] = []

    def before(signum: int, frame: Any) -> None:
        seen.append(signum)

    signal.signal(signal.SIGTERM, before)
    guard = SigtermGuard()
    os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [signal.SIGTERM]
    guard.restore()
    guard.restore()
    assert signal.getsignal(signal.SIGTERM) is before


def test_who_ignores_it_goes_on_doing_so() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    guard = SigtermGuard()
    os.kill(os.getpid(), signal.SIGTERM)
    guard.restore()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


def test_a_handler_that_came_later_stays() -> None:
    guard = SigtermGuard()
    later = lambda *_: None  # noqa: E731
    signal.signal(signal.SIGTERM, later)
    guard.restore()
    assert signal.getsignal(signal.SIGTERM) is later


def test_other_threads_are_refused() -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            SigtermGuard()
        except ConfigurationError as refused:
            errors.append(refused)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "main thread" in str(errors[0])
