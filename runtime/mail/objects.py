"""Objects of the user's classes as nodes: dataclasses and named tuples.

    d   dataclass       class name, then name and node of each attribute
    dv  the same, with a version    class name, name and version of its type, then as "d"; see `versions`
    nt  named tuple     class name, then the nodes of its items

A dataclass is rebuilt **without calling** `__init__` or `__post_init__`: its attributes are put back as they were
(fields, and whatever else the instance held), also for frozen and slotted classes. So `init=False` fields, changed
fields and values computed once come back as they were, and no code of the class runs. What the class gained meanwhile
(a new field with a default) is filled in; what it lost stays an attribute of the instance.

Refused: classes without an importable name, and dataclasses built on a builtin or C type, whose state is not in
attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from actors.protocol.errors import PayloadUnreadable
from runtime.mail.refusal import Refused
from runtime.mail.versions import TypeVersion, brought_up, version_of


def is_dataclass_type(kind: type) -> bool:
    return hasattr(kind, "__dataclass_fields__")


def is_namedtuple_type(kind: type) -> bool:
    return issubclass(kind, tuple) and type(getattr(kind, "_fields", None)) is tuple


def check_dataclass(kind: type) -> None:
    """Refuse a class whose instances cannot be made empty.

    Raises:
        Refused: It is built on a type that keeps state of its own.
    """
    if hasattr(kind, "__del__"):  # an empty instance would run it
        return
    try:
        object.__new__(kind)
    except TypeError as reason:
        raise Refused(f"dataclass {kind.__qualname__} is built on a type whose state is unknown: {reason}") from None


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of all attributes that an instance holds."""
    held = getattr(value, "__dict__", None)
    if held:
        yield from list(held.items())
    for name in slots_of(type(value)):
        try:
            yield name, object.__getattribute__(value, name)
        except AttributeError:  # never set, or deleted
            continue


def slots_of(kind: type) -> list[str]:
    """Names of the slots of a class and its bases."""
    found: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name in ("__dict__", "__weakref__"):
                continue
            private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{base.__name__.lstrip('_')}{name}" if private else name)
    return found


def rebuild_dataclass(kind: Any, name: str, state: dict[str, Any], stored: TypeVersion | None = None) -> Any:
    """An instance with these attributes, brought up to the version of its class; no code of the class is called.

    Args:
        kind: What was found under the name.
        name: Of the class, as it was stored.
        state: Its attributes, as they were stored.
        stored: Name and version of its type, where it had one.

    Raises:
        PayloadUnreadable: The class cannot hold them any more, or there is no way to its version.
    """
    if not (isinstance(kind, type) and is_dataclass_type(kind)):
        raise PayloadUnreadable(f"{name} was a dataclass when the value was stored")
    if stored is not None or version_of(kind) is not None:
        state = brought_up(kind, stored, state)
    try:
        value: Any = object.__new__(kind)
        held = getattr(value, "__dict__", None)
        slots = slots_of(kind)
        for attribute, item in state.items():
            if held is None or attribute in slots:
                object.__setattr__(value, attribute, item)
            else:
                held[attribute] = item
        for field in fields(kind):
            if field.name not in state:
                _fill(value, field)
    except (AttributeError, TypeError) as changed:
        raise PayloadUnreadable(f"{name} has changed since the value was stored: {changed}") from changed
    return value


def _fill(value: Any, field: Any) -> None:
    if field.default is not MISSING:
        object.__setattr__(value, field.name, field.default)
    elif field.default_factory is not MISSING:
        object.__setattr__(value, field.name, field.default_factory())


def rebuild_namedtuple(kind: Any, name: str, items: list[Any]) -> Any:
    """A named tuple with these items; no code of its class is called.

    Raises:
        PayloadUnreadable: The class has another number of fields now.
    """
    if not (isinstance(kind, type) and is_namedtuple_type(kind)):
        raise PayloadUnreadable(f"{name} was a named tuple when the value was stored")
    if len(kind._fields) != len(items):  # type: ignore[attr-defined]
        raise PayloadUnreadable(f"{name} has {len(kind._fields)} fields now, the value {len(items)}")  # type: ignore[attr-defined]
    return tuple.__new__(kind, items)
