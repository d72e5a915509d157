"""The face of `runtime.profile`: names that users find there, whatever was imported before."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

import pytest

from runtime import profile
from tests.tidy.tree import ROOT


@pytest.mark.parametrize("name", profile._FACE)
def test_a_name_of_the_face_is_what_it_says_whatever_was_imported(name: str) -> None:
    modules = {found.name for found in walk_packages([str(ROOT / "runtime/profile")])}
    assert name not in modules
    import_module(f"runtime.profile.{profile._FACE[name].partition(':')[0]}")
    assert not isinstance(getattr(profile, name), ModuleType)


def test_completion_shows_the_face_and_nothing_else() -> None:
    assert {name for name in dir(profile) if not name.startswith("__")} == profile._FACE.keys()


def test_a_name_that_is_none_is_said() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = profile.nothing
