"""`from runtime import profile`: what users find there stays what it is, whatever was imported meanwhile."""

from __future__ import annotations

from importlib import import_module

import pytest

from runtime import profile
from runtime.profile.labels import current

FACE = sorted(profile._FACE)


@pytest.mark.parametrize("name", FACE)
def test_each_name_can_be_called_before_and_after_its_module_was_loaded(name: str) -> None:
    """A module has the name of some of them."""
    getattr(profile, name)
    if name in ("labels", "leaks", "watch", "live", "graph"):
        import_module(f"runtime.profile.{name}")
    found = getattr(profile, name)
    assert callable(found) or name == "LEDGER"


def test_labels_are_labels_twice() -> None:
    for _ in range(2):
        with profile.labels(order="42"):
            assert dict(current()) == {"order": "42"}


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        profile.nonsense  # noqa: B018
