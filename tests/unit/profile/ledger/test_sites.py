"""Where a thread is, whatever interrupted it."""

from __future__ import annotations

import sys

import pytest

from runtime.profile.ledger import sites
from runtime.profile.ledger.sites import HANDLERS, Places, places_of
from runtime.profile.presence.here import Here
from runtime.profile.sampling.ticks import Ticks


def deeper() -> Places:
    return places_of(sys._getframe())


def handler() -> Places:
    return deeper()


def interrupted() -> Places:
    return handler()


def test_a_thread_that_a_handler_of_ours_interrupted_is_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [code.co_name for code, _ in interrupted()[-3:]] == ["interrupted", "handler", "deeper"]
    monkeypatch.setattr(sites, "HANDLERS", {handler.__code__})
    code, line = interrupted()[-1]
    assert (code, line) == (interrupted.__code__, interrupted.__code__.co_firstlineno + 1)


def test_both_of_our_handlers_are_known() -> None:
    assert {Here._hear.__code__, Ticks._tick.__code__} <= HANDLERS
