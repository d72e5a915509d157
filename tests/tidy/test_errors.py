"""Errors: every class has its own stable code, a family that its code shows, a hint, and survives pickling."""

from __future__ import annotations

import inspect
import pickle
import re
from typing import Any, Final

import pytest

from actors.protocol import errors
from actors.protocol.control_signals import ControlSignal
from tests.tidy.generate import error_classes
from tests.tidy.tree import sources

SAMPLES: Final[dict[type, Any]] = {
    str: "a \x00 text ✓",
    int: 7,
    tuple: ("a", "b"),
    float: 0.5,
    bool: True,
    type(None): None,
}
FAMILY_BY_CENTURY: Final = {"0": "bug", "1": "caller", "2": "environment", "9": "bug"}
BASES: Final = (errors.MainspringError, errors.CallerError, errors.EnvironmentFault, errors.InternalError)


ALL: Final[tuple[type[Any], ...]] = (errors.MainspringError, *dict.fromkeys(error_classes(errors.MainspringError)))
SIGNALS: Final[tuple[type[Any], ...]] = (ControlSignal, *dict.fromkeys(error_classes(ControlSignal)))


def built(error: type[Any]) -> Any:
    """An instance with a value for each argument that the class takes."""
    own = error.__init__
    if own in (Exception.__init__, BaseException.__init__):
        return error(SAMPLES[str])
    taken = list(inspect.signature(own).parameters.values())[1:]
    defaults = [
        "" if one.default is inspect.Parameter.empty else one.default for one in taken if one.kind != one.VAR_POSITIONAL
    ]
    return error(*[SAMPLES[type(default)] for default in defaults])


def test_codes_are_unique_and_of_their_family() -> None:
    codes = [error.__dict__.get("code") for error in ALL]
    assert all(code and re.fullmatch(r"MS\d{3}", code) for code in codes), "each class states its own code"
    assert len(set(codes)) == len(codes)
    assert [error.__name__ for error in ALL if error.family != FAMILY_BY_CENTURY[error.code[2]]] == []


def test_each_error_has_a_hint_or_inherits_one() -> None:
    without = [error.__name__ for error in ALL if not error.hint and error not in BASES]
    told_by_their_message = {"TaskFailed", "TaskCancelled", "TaskSkipped"}
    assert set(without) <= told_by_their_message


def test_each_error_says_what_it_means() -> None:
    assert [error.__name__ for error in (*ALL, *SIGNALS) if not error.__doc__] == []


@pytest.mark.parametrize("error", [*ALL, *SIGNALS], ids=lambda error: error.__name__)
def test_survives_pickling(error: type[Any]) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        made = built(error)
        back = pickle.loads(pickle.dumps(made, protocol))
        assert type(back) is type(made)
        assert back.args == made.args
        assert vars(back) == vars(made)
        assert str(back) == str(made)


def test_control_signals_pass_through_except_exception() -> None:
    assert not any(issubclass(signal, Exception) for signal in SIGNALS)


HOMES: Final = (
    "actors/protocol/control_signals.py",
    "actors/protocol/errors.py",
    "actors/protocol/archive_errors.py",
    "actors/protocol/event_errors.py",
    "actors/protocol/profile_errors.py",
    "actors/protocol/query_errors.py",
)


def test_errors_are_defined_where_they_are_looked_for() -> None:
    names = {error.__name__ for error in (*ALL, *SIGNALS)}
    elsewhere = [
        f"{source.path}: {line.strip()}"
        for source in sources("actors", "runtime")
        if source.path not in HOMES
        for line in source.lines
        if (match := re.match(r"class \w+\((.*)\):", line)) and {part.strip() for part in match[1].split(",")} & names
    ]
    assert elsewhere == []
