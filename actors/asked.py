"""What may be said in a question to the engine: each argument by its name, before anything is done with it.

Questions come from the program, which hands on what its caller said, and through the command socket, from whoever owns
the folder. One that is malformed is refused like any other wrong call; that it ends the engine would cost everybody.

What a value means (whether there is such a run, scope or class) is judged by whoever answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from actors.protocol.errors import CallerError


def refuse_malformed(what: str, args: Mapping[str, Any]) -> None:
    """Raise CallerError naming the first argument that is none, or is missing.

    Args:
        what: The question.
        args: What was said with it.
    """
    for name in _NEEDED.get(what, ()):
        if name not in args:
            raise CallerError(f"the question {what!r} needs {name!r}")
    for name, value in args.items():
        rule = _FROM.get(what) if name == "from" else _FORMS.get(name)
        if rule is not None and not rule(value):
            raise CallerError(f"{name} of the question {what!r} cannot be {value!r:.80}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_whole_or_none(value: Any) -> bool:
    return value is None or _is_whole(value)


def _is_node(value: Any) -> bool:
    return value is None or isinstance(value, str) or type(value) is int


def _is_mapping_or_none(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)


def _is_place(value: Any) -> bool:
    return value is None or (isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_whole, value)))


def _is_list_of_texts(value: Any) -> bool:
    return value is None or (isinstance(value, list | tuple) and all(map(_is_text, value)))


_Form = Callable[[Any], bool]
_FORMS: Final[Mapping[str, _Form]] = {
    "filter": _is_mapping_or_none,
    "limit": _is_whole_or_none,
    "node": _is_node,
    "node_type": _is_text,
    "number": _is_whole,
    "remove": _is_text,
    "run": _is_text,
    "scopes": _is_list_of_texts,
}
_FROM: Final[Mapping[str, _Form]] = {
    "dead": _is_place,
    "discard": _is_place,
    "nodes": _is_whole_or_none,
    "replay": _is_place,
    "result": _is_whole_or_none,
    "runs": _is_whole_or_none,
}
"""Where the next page begins, by question."""
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("forget", "nodes", "output", "priority", "rerun", "result", "status", "story", "why"), ("run",)),
    "scale": ("number", "size"),
}
