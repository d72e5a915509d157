"""`exec` under a timer: it is taken off first, and goes on where the program cannot be started."""

from __future__ import annotations

import os

import pytest

from runtime.profile.execs import Wrapped


def test_the_timer_is_off_before_and_on_again_where_it_fails() -> None:
    said: list[str] = []
    execv, execve = os.execv, os.execve
    wrapped = Wrapped()
    wrapped.wrap(lambda: said.append("off"), lambda: said.append("on"))
    wrapped.wrap(lambda: said.append("twice"), lambda: said.append("twice"))
    try:
        with pytest.raises(FileNotFoundError):
            os.execl("/no/such/program", "program")
        with pytest.raises(FileNotFoundError):
            os.execle("/no/such/program", "program", {})
    finally:
        wrapped.unwrap()
        wrapped.unwrap()
    assert said == ["off", "on", "off", "on"]
    assert (os.execv, os.execve) == (execv, execve)
