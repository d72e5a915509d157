"""Dead letters as the faces show them: the questions, and their answers as frozen snapshots.

Nothing here talks to anyone, so the blocking and the asyncio face share it, as `runtime.views`. The JSON on the wire is
written down in `actors.dead`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from actors.policy.letters import LetterFilter
from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, TaskFailed
from runtime.handle_base import Handle
from runtime.host.handlers import with_results
from runtime.mail.codec import Codec
from runtime.mail.failure import exception_of, printable
from runtime.units import any_to_ns, datetime_to_ns
from runtime.views import Request

_MESSAGE: Final = 8
"""Place of the message in a row."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A task, or a node of a run, that failed for good.

    `id` names it for `replay` and `discard`; `kind` says how it failed ("error", "timeout", "crash", "memory",
    "payload", "no-handler", "expired", "deadline"), `error_type` and `message` are those of the last attempt,
    `failed_ns` is when it ended (wall clock). `handler` is the function's full name, `name` the task's.
    """

    id: str
    run_id: str
    node: int
    node_id: str
    handler: str
    name: str
    kind: str
    error_type: str
    message: str
    attempts: int
    failed_ns: int | None
    tenant: str
    priority: str

    @classmethod
    def from_row(cls, row: Sequence[Any], codec: Codec | None = None) -> Self:
        """From a row of the reply to "dead".

        Args:
            row: The row.
            codec: Decodes texts; without one, a text with special characters is left out.
        """
        fields = list(row)
        fields[_MESSAGE] = _text(row[_MESSAGE], codec)
        return cls(*fields)


@dataclass(frozen=True, slots=True)
class DeadLetterDetails:
    """All that is known of a dead letter.

    `error` is what a handle raises for it: `error.traceback_text` is the traceback in the worker, `__cause__` the
    handler's exception where it could be rebuilt.
    `args` and `kwargs` are what the handler was called with, without its context; None when they are too large to be
    shown or a class that they need is gone, as `unreadable` then says.
    """

    letter: DeadLetter
    error: TaskFailed
    args: tuple[Any, ...] | None
    kwargs: dict[str, Any] | None
    unreadable: str = ""

    @classmethod
    def of(cls, reply: Mapping[str, Any], codec: Codec) -> Self:
        """From the reply to "letter".

        Args:
            reply: As in `actors.dead`.
            codec: Decodes texts and arguments.
        """
        failure = reply["failure"]
        error = exception_of(failure, codec)
        error.add_note(f"dead letter {reply['row'][0]}")
        args, kwargs, unreadable = None, None, ""
        if reply["cut"]:
            unreadable = "the arguments are too large to be shown"
        else:
            try:
                args, kwargs = _arguments(codec, reply["shape"], reply["item"])
            except Exception as broken:  # a class of the user's may raise whatever it likes
                unreadable = f"the arguments cannot be read: {broken}"
        return cls(
            DeadLetter.from_row(reply["row"], codec),
            error,
            args,
            kwargs,
            unreadable,
        )


def _text(wire: Any, codec: Codec | None) -> str:
    """A text as it travels, with what cannot be printed written as escapes."""
    text = wire if isinstance(wire, str) or codec is None else codec.decode(wire)
    return printable(text) if isinstance(text, str) else ""


def _arguments(codec: Codec, shape: str, item: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a handler is called with, from its item as it is stored; see `actors.protocol.kinds.Shape`."""
    if shape == "template":
        template, parents = item
        found, named = codec.decode_template(template, codec.decode_list(parents))
        return tuple(found), named
    if shape == "mixed":
        (args, places), results = item
        return tuple(with_results([[codec.decode_list(args), places], codec.decode_list(results)])), {}
    if shape == "one":
        return (codec.decode(item),), {}
    if shape == "call":
        args, named = item
        return tuple(codec.decode_list(args)), {name: codec.decode(value) for name, value in named.items()}
    return tuple(codec.decode_list(item)), {}


# --- questions ----------------------------------------------------------------------------------------------------


def filter_of(
    handler: str | None = None,
    kind: str | None = None,
    tenant: str | None = None,
    since: datetime | float | None = None,
    run: Handle | str | None = None,
) -> dict[str, Any]:
    """A filter as it travels.

    Raises:
        ConfigurationError: A part is wrong; all problems are named.
    """
    fields = {
        "handler": handler,
        "kind": None if kind is None else str(kind),
        "tenant": tenant,
        "since_ns": _since_ns(since),
        "run": run.run_id if isinstance(run, Handle) else run,
    }
    found = {name: value for name, value in fields.items() if value is not None}
    LetterFilter.of(found)
    return found


def ask_dead(wanted: dict[str, Any], start: Any) -> Request:
    """A page of dead letters, latest run first."""
    return "dead", {"filter": wanted, "from": start, "limit": limits.QUERY_ROWS_MAX}


def ask_letter(letter: DeadLetter | str) -> Request:
    """All that is known of one."""
    return "letter", {"letter": _id_of(letter)}


def ask_held(scopes: Sequence[str], *, take_back: bool) -> Request:
    """How much of some scopes is with workers."""
    return "held", {"scopes": list(scopes), "take_back": take_back}


def ask_each(
    what: str, letters: Iterable[DeadLetter | str], wanted: dict[str, Any], everything: bool
) -> Iterator[Request]:
    """Requests to do something with dead letters. Those of a filter go on with `from`, as answers say.

    Raises:
        ConfigurationError: Neither letters nor a filter are named, or both are; everything was not meant, or was.
    """
    ids = list(dict.fromkeys(_id_of(letter) for letter in letters))
    if bool(ids) + bool(wanted) + bool(everything) != 1:
        choice = "name letters, or a filter, or everything (everything=True, --all); one of the three"
        raise ConfigurationError(f"dead letters: {choice}")
    if not ids:
        return iter([(what, {"filter": wanted, "from": None})])
    step = limits.LETTERS_PER_TURN
    return iter([(what, {"letters": ids[at : at + step]}) for at in range(0, len(ids), step)])


def _id_of(letter: object) -> str:
    letter_id = letter.id if isinstance(letter, DeadLetter) else letter
    if not isinstance(letter_id, str):
        raise ConfigurationError(f"a dead letter is named by itself or its id, not by {letter!r:.80}")
    return letter_id


def _since_ns(since: datetime | float | None) -> Any:
    """A time as nanoseconds; what is none is judged with the rest of the filter."""
    if isinstance(since, datetime):
        if since.utcoffset() is None:
            raise ConfigurationError(f"since must have a time zone; {since!r} has none")
        return datetime_to_ns(since)
    return any_to_ns(since)
