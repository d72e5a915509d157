"""Failures: whatever a handler raises becomes text, and the exception itself only where that is harmless."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import orjson
import pytest

from actors.protocol import limits
from actors.protocol.control_signals import AttemptTimeout
from actors.protocol.errors import CycleError, PayloadError, TaskCancelled, TaskFailed, TaskSkipped
from actors.protocol.states import FailureKind, NodeState
from runtime.mail import failure as failures
from runtime.mail.codec import Codec
from runtime.mail.failure import cut, exception_of, failure_of, failure_text, printable


class OwnConstructor(Exception):
    """S22: `__init__` takes two arguments, `args` has one."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class PlainChild(ValueError):
    pass


class OwnReduce(ValueError):
    def __reduce__(self) -> Any:
        raise RuntimeError("never called")


class BrokenText(Exception):
    def __str__(self) -> str:
        raise SystemExit("from __str__")

    def __repr__(self) -> str:
        raise RuntimeError("from __repr__")


class BrokenEverything(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RecursionError(name)


class Liar(Exception):
    @property
    def __class__(self) -> Any:
        raise RuntimeError("not telling")


class NotText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307


def raised(exc: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise exc from cause
    except BaseException as caught:
        return caught


def travelled(exc: BaseException, *, use_pickle: bool = False) -> tuple[dict[str, Any], TaskFailed]:
    codec = Codec()
    failure = orjson.loads(orjson.dumps(failure_of(exc, FailureKind.ERROR, codec, use_pickle)))
    return failure, exception_of(failure, codec)


@pytest.mark.parametrize(
    "exc",
    [
        ValueError("bad", 3),
        ValueError(),
        KeyError("k"),
        ZeroDivisionError("division by zero"),
        OSError(2, "No such file", "/x"),
        FileNotFoundError(2, "No such file", "a", None, "b"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        ImportError("no x", name="x", path="/x"),
        StopIteration((1, 2)),
        SystemExit(3),
        KeyboardInterrupt(),
        SyntaxError("bad", ("f.py", 1, 2, "x y")),
        ValueError({1: (2, {3})}, b"x", float("inf"), "\ud800\0"),
        json.JSONDecodeError("x", "doc", 0),
        PlainChild("mine", 1),
        PayloadError("no", "$[1]"),
        CycleError("cycle", ("a", "b", "a")),
        ExceptionGroup("many", [ValueError(1), ExceptionGroup("inner", [KeyError("k")])]),
        BaseExceptionGroup("base", [KeyboardInterrupt()]),
        AttemptTimeout("too long"),
    ],
    ids=lambda exc: type(exc).__name__,
)
def test_builtin_exceptions_and_plain_children_come_back(exc: BaseException) -> None:
    failure, error = travelled(raised(exc))
    if isinstance(exc, json.JSONDecodeError):  # it has a constructor and a reduction of its own
        assert error.__cause__ is None
        return
    cause = error.__cause__
    assert type(cause) is type(exc)
    if isinstance(exc, BaseExceptionGroup):
        assert repr(cause) == repr(exc)
    else:
        assert cause.args == exc.args
        assert vars(cause) == vars(exc)
    assert error.kind == "error"
    assert failure["type"] == error.type_name
    assert type(exc).__name__ in error.traceback_text


def test_attributes_and_notes_come_back() -> None:
    exc = OSError(13, "denied", "/secret")
    exc.add_note("a note")
    exc.extra = (1, 2)  # type: ignore[attr-defined]
    _, error = travelled(exc)
    cause = error.__cause__
    assert isinstance(cause, PermissionError)
    assert cause.filename == "/secret"
    assert vars(cause) == {"__notes__": ["a note"], "extra": (1, 2)}


@pytest.mark.parametrize(
    "exc", [OwnConstructor(5, "text"), OwnReduce("x"), ValueError(object()), ValueError(lambda: 1)]
)
def test_others_come_as_text_only(exc: Exception) -> None:
    failure, error = travelled(raised(exc))
    assert "exc" not in failure
    assert error.__cause__ is None
    assert type(exc).__name__ in error.type_name
    assert str(exc) in error.message
    assert "test_failure.py" in error.traceback_text


def test_a_group_with_one_member_that_cannot_come_back_is_text() -> None:
    _, error = travelled(raised(ExceptionGroup("many", [ValueError(1), OwnConstructor(5, "inside")])))
    assert error.__cause__ is None
    assert "5: inside" in error.traceback_text


def test_deep_and_wide_groups_are_text() -> None:
    deep: Exception = ValueError(1)
    for _ in range(20):
        deep = ExceptionGroup("g", [deep])
    wide = ExceptionGroup("g", [ValueError(n) for n in range(100)])
    for exc in (deep, wide):
        assert "exc" not in travelled(exc)[0]


def test_causes_and_contexts_are_in_the_text() -> None:
    exc = raised(ValueError("outer"), raised(KeyError("inner")))
    _, error = travelled(exc)
    assert "inner" in error.traceback_text
    assert "direct cause" in error.traceback_text
    assert error.__notes__[0].startswith("Traceback in the worker:\n")


@pytest.mark.parametrize(
    "make",
    [
        lambda: BrokenText("x"),
        lambda: BrokenEverything("x"),
        lambda: NotText("x"),
        lambda: Exception("\ud800 lone", "nul \0"),
        lambda: Exception("x" * 3_000_000),
        lambda: Exception(["x" * 100] * 10_000),
        lambda: RecursionError("deep"),
        MemoryError,
    ],
)
@pytest.mark.parametrize("use_pickle", [False, True])
def test_nothing_makes_it_raise(make: Callable[[], BaseException], use_pickle: bool) -> None:
    exc = raised(make())
    failure, error = travelled(exc, use_pickle=use_pickle)
    assert failure["type"].endswith(type(exc).__name__)
    assert len(error.traceback_text) <= limits.TRACEBACK_CHARS_MAX
    assert len(failure["message"]) <= limits.MESSAGE_CHARS_MAX
    assert len(orjson.dumps(failure)) < limits.PAYLOAD_INLINE_BYTES_MAX
    printable(str(error)).encode()


def test_where_it_was_raised_is_told_even_if_its_causes_cannot_be() -> None:
    """The standard library asks for its class; the frames need nothing from it."""
    _, error = travelled(raised(Liar("what am I")))
    assert "test_failure.py" in error.traceback_text
    assert error.traceback_text.endswith("Liar: <its causes could not be written: RuntimeError>")


def test_endless_recursion_is_short() -> None:
    def call() -> NoReturn:
        call()

    try:
        call()
    except RecursionError as exc:
        failure, _ = travelled(exc)
    assert "Previous line repeated" in failure["traceback"]
    assert len(failure["traceback"]) < 3000


def test_it_works_near_the_end_of_the_call_stack() -> None:
    codec = Codec()
    exc = raised(ValueError("x"))
    found: list[dict[str, Any]] = []

    def fall(frames: int) -> None:
        if frames:
            fall(frames - 1)
        else:
            found.append(failure_of(exc, FailureKind.ERROR, codec))

    start = len(list(iterate_frames()))
    for left in range(30, 200, 7):
        fall(sys.getrecursionlimit() - start - left)
    assert all(failure["type"] == "ValueError" for failure in found)


def iterate_frames() -> Any:
    frame: Any = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def test_a_long_text_keeps_both_ends() -> None:
    text = "".join(f"{n}," for n in range(10_000))
    short = cut(text, 1000)
    assert len(short) <= 1000
    assert short.startswith("0,1,2,")
    assert short.endswith("9998,9999,")
    assert "characters cut" in short
    assert cut("abc", 3) == "abc"
    assert len(cut("abcdef" * 10, 5)) == 5


def test_surrogates_travel_and_print() -> None:
    _, error = travelled(raised(ValueError("a\ud800\0b")))
    assert error.args[0] == "ValueError: a\ud800\0b"
    assert error.__cause__ is not None
    assert error.__cause__.args == ("a\ud800\0b",)
    assert printable("a\ud800") == "a\\ud800"
    assert all("\ud800" not in note for note in error.__notes__)


def test_pickle_brings_back_what_can_be_rebuilt() -> None:
    class Local(Exception):
        pass

    _, error = travelled(raised(ValueError(Rebuilt(1))), use_pickle=True)
    assert error.__cause__ is not None
    assert error.__cause__.args == (Rebuilt(1),)
    for exc in (OwnConstructor(5, "text"), Local("x"), ValueError(lambda: 1)):
        failure, error = travelled(raised(exc), use_pickle=True)
        assert "exc" not in failure
        assert error.__cause__ is None


class Rebuilt:
    def __init__(self, a: int) -> None:
        self.a = a

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rebuilt) and self.a == other.a

    __hash__ = None  # type: ignore[assignment]


def test_the_script_has_one_name() -> None:
    assert failures.type_name(type("Oops", (Exception,), {"__module__": "__mp_main__"})) == "__main__.Oops"
    assert failures.type_name(ValueError) == "ValueError"


def test_a_payload_error_carries_its_path() -> None:
    failure, _ = travelled(PayloadError("no", "$[1].lock"))
    assert failure["path"] == "$[1].lock"


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (NodeState.FAILED, TaskFailed),
        (NodeState.CANCELLED, TaskCancelled),
        (NodeState.SKIPPED, TaskSkipped),
        (5, TaskCancelled),
        ("cancelled", TaskCancelled),
        ("SKIPPED", TaskSkipped),
        (999, TaskFailed),
        ("nonsense", TaskFailed),
    ],
)
def test_the_state_decides_the_class(state: Any, kind: type[TaskFailed]) -> None:
    error = exception_of(failure_text(FailureKind.TIMEOUT, "Timeout", "after 2 s"), Codec(), state)
    assert type(error) is kind
    assert error.args[0] == "Timeout: after 2 s"
    assert error.kind == "timeout"


@pytest.mark.parametrize(
    "failure",
    [
        {},
        {"kind": None, "type": None, "message": None, "traceback": {"!": ["zz"]}},
        {"exc": {"!": ["tree", ["d", "gone:Class"]]}, "message": 5, "output": ["x"]},
        {"exc": {"class": "builtins:int", "args": []}},
        {"exc": {"class": "builtins:ValueError"}},
        {"exc": [1]},
    ],
)
def test_malformed_failures_are_read_as_far_as_they_go(failure: dict[str, Any]) -> None:
    error = exception_of(failure, Codec())
    assert isinstance(error, TaskFailed)
    assert error.__cause__ is None
    assert error.args[0] == "no reason was given"


def test_the_output_is_shown() -> None:
    failure = failure_text("crash", "", "killed") | {"output": "last words\n"}
    error = exception_of(failure, Codec())
    assert error.__notes__ == ["Output of the attempt:\nlast words"]


def test_the_exception_of_a_handle_survives_pickling() -> None:
    _, error = travelled(raised(ValueError("x")))
    again = pickle.loads(pickle.dumps(error))
    assert again.args == error.args
    assert again.__notes__ == error.__notes__


def test_the_engines_own_frames_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_OUR_PACKAGE", __name__)

    def run_handler() -> None:
        json.loads("{")

    try:
        run_handler()
    except ValueError as exc:
        failure, _ = travelled(exc)
    assert "run_handler" not in failure["traceback"]
    assert "json" in failure["traceback"]
    failure, _ = travelled(raised(ValueError("raised by our own code")))
    assert "in raised" in failure["traceback"]
