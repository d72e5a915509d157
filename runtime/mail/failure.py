"""Exceptions on the wire: always as text, and as the exception itself where that is exact and harmless.

A failure is a dict of wire values:

    kind        FailureKind                         type        "module.Qualname" of the exception
    message     its text, cut in the middle         traceback   with causes and groups, cut in the middle
    exc         absent, or how to rebuild it        path        absent, or the place of the value (PayloadError)
    output      absent, or the tail of what the attempt printed; added by the worker

`exc` is given only for what can be rebuilt without running code of the user's: builtin exceptions, subclasses of them
that add no constructor or reduction of their own, our own errors, and groups of such; with arguments that the codec
holds exactly in line. So an exception whose constructor does not fit its `args` (the classic that kills the receiver)
arrives as text, and as text only. With `payloads="pickle"` the pickle is tried in the worker, there and back, before it
is sent.

`failure_of` never raises, whatever `__str__`, `__repr__`, `__reduce__` or `__getattr__` do; what fails is replaced by a
remark. Known limit: code of the exception's class that never returns is the attempt's time, and ends with its timeout.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

import orjson

from actors.protocol import limits
from actors.protocol.errors import MainspringError, PayloadError, TaskCancelled, TaskFailed, TaskSkipped
from actors.protocol.states import FailureKind, NodeState
from runtime.mail.codec import Codec
from runtime.mail.leaves import is_text
from runtime.mail.names import MAIN, WORKER_MAIN, find, name_of

EXCEPTION_BYTES_MAX: Final = 16 * limits.KIB
"""Longest `exc`; a longer one is left out, the text remains."""
GROUP_DEPTH_MAX: Final = 8
GROUP_SIZE_MAX: Final = 64
TYPE_CHARS_MAX: Final = 300
_OUR_PACKAGE: Final = "runtime."
_INHERITED: Final = ("__init__", "__new__", "__reduce__", "__reduce_ex__", "__setstate__", "__getstate__")


def failure_of(exc: BaseException, kind: FailureKind | str, codec: Codec, pickle: bool = False) -> dict[str, Any]:
    """The failure that stands for an exception. Never raises.

    Args:
        exc: What ended the attempt.
        kind: How the engine files it.
        codec: Encodes texts and arguments.
        pickle: Whether the handler's payloads may be pickled.

    Returns:
        A dict that orjson can write.
    """
    failure: dict[str, Any] = {
        "kind": str(kind),
        "type": _safely(lambda: cut(printable(type_name(type(exc))), TYPE_CHARS_MAX), "BaseException"),
        "message": _safely(lambda: _text(_message(exc), limits.MESSAGE_CHARS_MAX, codec), "<message lost>"),
        "traceback": _safely(lambda: _text(_traceback(exc), limits.TRACEBACK_CHARS_MAX, codec), "<traceback lost>"),
    }
    portable = _safely(lambda: _portable_wire(exc, codec, pickle), None)
    if portable is not None:
        failure["exc"] = portable
    if issubclass(type(exc), PayloadError):  # isinstance would ask the exception for its __class__
        path = _safely(lambda: cut(printable(str(getattr(exc, "path", ""))), TYPE_CHARS_MAX), "")
        if path:
            failure["path"] = path
    return failure


def failure_text(kind: FailureKind | str, type_: str, message: str, traceback_text: str = "") -> dict[str, Any]:
    """A failure that no exception stands for: a crash, a kill, a timeout seen from outside."""
    return {"kind": str(kind), "type": type_, "message": printable(message), "traceback": printable(traceback_text)}


def exception_of(
    failure: Mapping[str, Any], codec: Codec, state: NodeState | int | str = NodeState.FAILED
) -> TaskFailed:
    """The exception that a handle raises for a failed, cancelled or skipped node. Never raises itself.

    Args:
        failure: As `failure_of` made it; missing parts are read as empty.
        codec: Decodes texts and arguments.
        state: Terminal state of the node, as its number or name.

    Returns:
        `TaskFailed`, `TaskCancelled` or `TaskSkipped`; its `__cause__` is the exception of the handler where it could
        be rebuilt, and its notes carry the traceback of the worker.
    """
    type_ = str(failure.get("type") or "")
    message = _decoded_text(failure.get("message"), codec)
    trace = _decoded_text(failure.get("traceback"), codec)
    shown = f"{type_}: {message}" if type_ and message else type_ or message or "no reason was given"
    error: TaskFailed = _safely(lambda: _class_of(state), TaskFailed)(
        shown, str(failure.get("kind") or FailureKind.ERROR.value), type_, trace
    )
    if trace:
        error.add_note(f"Traceback in the worker:\n{printable(trace).rstrip()}")
    output = _decoded_text(failure.get("output"), codec)
    if output:
        error.add_note(f"Output of the attempt:\n{printable(output).rstrip()}")
    if "exc" in failure:
        error.__cause__ = _safely(lambda: _rebuilt(codec.decode(failure["exc"])), None)
    return error


def cut(text: str, chars_max: int) -> str:
    """The text, or its first and last parts with a remark between them; never longer than `chars_max`."""
    if len(text) <= chars_max:
        return text
    mark = f"\n... {len(text) - chars_max:,} characters cut ...\n"
    keep = max(chars_max - len(mark), 0)
    head = keep // 3
    return (text[:head] + mark + text[len(text) - (keep - head) :])[:chars_max]


def printable(text: str) -> str:
    """The text with lone surrogates written as escapes, so that it can be encoded, logged and printed anywhere."""
    return text if is_text(text) else text.encode("utf-8", "backslashreplace").decode()


def type_name(kind: type) -> str:
    """`module.Qualname`; the bare name for builtins, and `__main__` for the script, whatever workers call it."""
    module, name = str(kind.__module__), str(kind.__qualname__)
    if module == "builtins":
        return name
    return f"{MAIN if module == WORKER_MAIN else module}.{name}"


# --- texts --------------------------------------------------------------------------------------------------------


def _safely(make: Callable[[], Any], otherwise: Any) -> Any:
    """The result, or `otherwise`. Catches everything: this is called for exceptions of which nothing is known."""
    try:
        return make()
    except BaseException:
        return otherwise


def _message(exc: BaseException) -> str:
    try:
        return str(exc)
    except BaseException as broken:
        return f"<str() of {type_name(type(exc))} failed with {type_name(type(broken))}>"


def _traceback(exc: BaseException) -> str:
    try:
        trace = traceback.TracebackException(type(exc), exc, _without_our_frames(exc.__traceback__), compact=True)
        return "".join(trace.format())
    except BaseException as broken:
        where = _safely(lambda: "".join(traceback.format_tb(_without_our_frames(exc.__traceback__))), "")
        return f"{where}{type_name(type(exc))}: <its causes could not be written: {type_name(type(broken))}>"


def _without_our_frames(trace: TracebackType | None) -> TracebackType | None:
    """Leave out the engine's own calls above the handler."""
    at = trace
    while at is not None and str(at.tb_frame.f_globals.get("__name__", "")).startswith(_OUR_PACKAGE):
        at = at.tb_next
    return at or trace


def _text(text: str, chars_max: int, codec: Codec) -> Any:
    text = cut(text, chars_max)
    return text if is_text(text) else orjson.loads(codec.encode(text))


def _decoded_text(wire: Any, codec: Codec) -> str:
    text = _safely(lambda: codec.decode(wire), "")
    return text if type(text) is str else ""


# --- exceptions ---------------------------------------------------------------------------------------------------


def _portable_wire(exc: BaseException, codec: Codec, pickle: bool) -> Any:
    """Wire value of what rebuilds the exception, or None."""
    portable = _portable(exc, GROUP_DEPTH_MAX)
    if portable is not None:
        try:
            wire = codec.encode(portable)
            if len(wire) <= EXCEPTION_BYTES_MAX and type(_rebuilt(codec.decode(orjson.loads(wire)))) is type(exc):
                return orjson.loads(wire)
        except PayloadError:
            pass
    if pickle:
        wire = codec.encode({"pickled": exc}, pickle=True)
        found = orjson.loads(wire)
        if len(wire) <= EXCEPTION_BYTES_MAX and type(_rebuilt(codec.decode(found))) is type(exc):
            return found
    return None


def _portable(exc: BaseException, depth: int) -> dict[str, Any] | None:
    """Class name, arguments and state, from builtin code only; None when the class has code of its own."""
    kind = type(exc)
    if not _is_harmless(kind) or depth <= 0:
        return None
    if isinstance(exc, BaseExceptionGroup):
        if len(exc.exceptions) > GROUP_SIZE_MAX:
            return None
        members = [_portable(member, depth - 1) for member in exc.exceptions]
        return None if None in members else {"class": name_of(kind), "args": (exc.message,), "members": members}
    reduced = exc.__reduce__()
    state = reduced[2] if isinstance(reduced, tuple) and len(reduced) > 2 else None
    return {"class": name_of(kind), "args": reduced[1], "state": state or None}


def _is_harmless(kind: type[BaseException]) -> bool:
    """Whether rebuilding an instance runs builtin code only (or ours)."""
    if issubclass(kind, MainspringError):
        return kind.__module__.startswith("actors.")
    for name in _INHERITED:
        owner = next(base for base in kind.__mro__ if name in base.__dict__ or base is object)
        if owner.__module__ != "builtins":
            return False
    return True


def _rebuilt(portable: Any) -> BaseException | None:
    """The exception again, or None when the class is not what it was."""
    if "pickled" in portable:
        found = portable["pickled"]
        return found if isinstance(found, BaseException) else None
    kind = find(portable["class"])
    if not (isinstance(kind, type) and issubclass(kind, BaseException) and _is_harmless(kind)):
        return None
    args = portable["args"]
    if "members" in portable:
        members = [_rebuilt(member) for member in portable["members"]]
        return None if None in members else kind(*args, members)
    exc = kind(*args)
    if portable.get("state"):
        exc.__setstate__(portable["state"])
    return exc


def _class_of(state: NodeState | int | str) -> type[TaskFailed]:
    name = state.lower() if isinstance(state, str) else NodeState(state).name.lower()
    return {"cancelled": TaskCancelled, "skipped": TaskSkipped}.get(name, TaskFailed)
