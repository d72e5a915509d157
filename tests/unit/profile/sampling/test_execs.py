"""`exec` under a timer: it is taken off first, and goes on where the program cannot be started."""

from __future__ import annotations

import os
from functools import partial

import pytest

from runtime.profile.sampling.execs import Wrapped


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


def test_what_somebody_else_put_there_since_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    execv, execve = os.execv, os.execve
    wrapped = Wrapped()
    wrapped.wrap(lambda: said.append("off"), lambda: said.append("on"))
    theirs = partial(os.execv)
    with monkeypatch.context() as patch:
        patch.setattr(os, "execv", theirs)
        wrapped.unwrap()
        assert (os.execv, os.execve) == (theirs, execve)
        wrapped.wrap(lambda: said.append("twice"), lambda: said.append("twice"))
        assert os.execv is theirs
        with pytest.raises(FileNotFoundError):
            os.execv("/no/such/program", ["program"])
    assert said == ["off", "on"]
    wrapped.unwrap()
    assert (os.execv, os.execve) == (execv, execve)
