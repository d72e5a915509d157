"""An engine's answer becomes the class of its code again."""

from __future__ import annotations

import pytest

from actors.protocol import errors as protocol_errors
from runtime import errors
from runtime.errors import CycleError, InternalError, StateFolderInUse, UnknownRun, error_of, error_to_wire


def test_an_answer_becomes_its_class() -> None:
    error = error_of({"code": "MS121", "message": "no run 'x'"})
    assert type(error) is UnknownRun
    assert error.message == "no run 'x'"


def test_more_arguments_are_kept() -> None:
    assert error_of({"code": "MS202", "message": "busy", "args": [42]}).args == ("busy", 42)
    assert error_of({"code": "MS111", "message": "cycle", "args": [["a", "b", "a"]]}).args[1] == ("a", "b", "a")


def test_arguments_that_do_not_fit_are_dropped() -> None:
    assert error_of({"code": "MS121", "message": "no run", "args": [1, 2, 3]}).message == "no run"


def test_an_unknown_code_is_a_bug() -> None:
    error = error_of({"code": "MS777", "message": "from the future"})
    assert type(error) is InternalError
    assert "MS777" in str(error)


@pytest.mark.parametrize("error", [StateFolderInUse("busy", 7), CycleError("cycle", ("a", "a")), UnknownRun("gone")])
def test_there_and_back(error: errors.MainspringError) -> None:
    found = error_of(error_to_wire(error))
    assert type(found) is type(error)
    assert found.args == error.args


def test_every_name_is_exported() -> None:
    known = {cls.__name__ for cls in vars(protocol_errors).values() if isinstance(cls, type)}
    assert known <= set(errors.__all__)
    for name in errors.__all__:
        assert hasattr(errors, name)
