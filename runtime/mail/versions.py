"""Versions of users' own payload types: what was stored by an older program is brought up to date when it is read.

    @upcast("order", "1.0", to="1.1")                   @versioned("order", "1.1")
    def with_currency(order):                           @dataclass
        return {**order, "currency": "EUR"}             class Order: ...

A value of such a class is stored with the name and version of its type (see `typed`, code "dv"). A reader that finds an
older version passes its attributes, as a dict, through one step after the other, and rebuilds the class from what the
last one returns. What was stored before the class had a version counts as FIRST_VERSION.

Rules
- Steps are found in the module of the class: those that it defines or imports. There is no registry, so nothing has to
  be filled before a value can be read: whoever finds the class has its steps.
- Each version leads to one other. A missing step, two from one version, or one that raises is `PayloadUnreadable`, and
  names the way.
- A newer version with the same major number is read as it is: its type has gained something that this program does not
  know, which stays an attribute. Another major number is refused.

States: none; markers are attributes of classes and functions. Concurrency: none. Persisted: names and versions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from actors.protocol.errors import ConfigurationError, PayloadUnreadable

C = TypeVar("C", bound=type)
Fields = dict[str, Any]
Step = Callable[[Fields], Fields]
F = TypeVar("F", bound=Callable[..., Any])

FIRST_VERSION: Final = "1.0"
"""Of a value that was stored before its class had a version."""
_VERSION: Final = re.compile(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})")
_NAME_CHARS_MAX: Final = 200
_CLASS_MARK: Final = "__mainspring_version__"
_STEP_MARK: Final = "__mainspring_upcasts__"


class TypeVersion(NamedTuple):
    """Name and version of a payload type."""

    name: str
    version: str


class Upcast(NamedTuple):
    """One step between versions of a type."""

    name: str
    before: str
    after: str


def versioned(name: str, version: str) -> Callable[[C], C]:
    """Give a dataclass a name and a version under which its values are stored.

    Args:
        name: Of the type; it stays the same when the class is renamed.
        version: "major.minor".

    Returns:
        The decorator. It must stand above `@dataclass`.

    Raises:
        ConfigurationError: Name or version are malformed; or, from the decorator, the class is no dataclass.
    """
    _refuse(_problems(name, {"version": version}))

    def mark(cls: C) -> C:
        if "__dataclass_fields__" not in getattr(cls, "__dict__", ()):
            raise ConfigurationError(f"versioned({name!r}): {cls!r} is no dataclass; it must stand above @dataclass")
        setattr(cls, _CLASS_MARK, TypeVersion(name, version))
        return cls

    return mark


def upcast(name: str, before: str, *, to: str) -> Callable[[F], F]:
    """Mark a function that brings stored attributes of a type from one version to the next.

    Args:
        name: Of the type, as in `versioned`.
        before: The version of what the function is given: a dict of attributes, which it may change.
        to: The version of what it returns, a newer one.

    Returns:
        The decorator; the function stays as it is, and may have several.

    Raises:
        ConfigurationError: A name or version is malformed, or `to` is not newer.
    """
    problems = _problems(name, {"before": before, "to": to})
    if not problems and _parts(to) <= _parts(before):
        problems.append(f"to must be newer than {before}, not {to}")
    _refuse(problems)

    def mark(fn: F) -> F:
        setattr(fn, _STEP_MARK, (*getattr(fn, _STEP_MARK, ()), Upcast(name, before, to)))
        return fn

    return mark


def version_of(cls: type) -> TypeVersion | None:
    """Name and version of a class's own type; None: it has none. Those of a base do not count."""
    found: TypeVersion | None = cls.__dict__.get(_CLASS_MARK)
    return found


def brought_up(cls: type, stored: TypeVersion | None, fields: Fields) -> Fields:
    """Attributes of a stored value as its class has them now.

    Args:
        cls: The class as it is found.
        stored: Name and version that stand in the value; None where none do.
        fields: The attributes as they were stored.

    Raises:
        PayloadUnreadable: The versions do not fit, or a step is missing or failed.
    """
    wanted = version_of(cls)
    if wanted is None:
        if stored is None:
            return fields
        raise PayloadUnreadable(f"{_named(cls)} has no version, and the value was stored as {_text(stored)}")
    now = stored or TypeVersion(wanted.name, FIRST_VERSION)
    if now.name != wanted.name:
        raise PayloadUnreadable(f"{_named(cls)} is of type {wanted.name}, and the value was stored as {_text(now)}")
    if now.version == wanted.version:
        return fields
    if _parts(now.version) > _parts(wanted.version):
        if _parts(now.version)[0] == _parts(wanted.version)[0]:
            return fields
        raise PayloadUnreadable(f"a value was stored as {_text(now)}; this program reads {_text(wanted)}")
    return _walk(cls, wanted, now.version, fields)


def _walk(cls: type, wanted: TypeVersion, version: str, fields: Fields) -> Fields:
    steps = list(_steps(cls, wanted.name))
    way = [version]
    while version != wanted.version:
        found = [(step, fn) for step, fn in steps if step.before == version]
        if len(found) != 1 or _parts(found[0][0].after) > _parts(wanted.version):
            why = f"there are {len(found)} steps" if len(found) > 1 else "there is no step"
            raise PayloadUnreadable(
                f"a value of {wanted.name} {way[0]} cannot be read as {wanted.version}: {why} from {version} "
                f"(the way is {' -> '.join([*way, '?', wanted.version])}; define "
                f"@upcast({wanted.name!r}, {version!r}, to=...) in {cls.__module__})"
            )
        ((step, fn),) = found
        way.append(step.after)
        try:
            fields = fn(dict(fields))
        except Exception as failed:  # the user's code may raise anything
            raise PayloadUnreadable(f"{wanted.name} {' -> '.join(way)} failed: {failed!r}") from failed
        if type(fields) is not dict or not all(type(key) is str for key in fields):
            raise PayloadUnreadable(f"{wanted.name} {' -> '.join(way)} must return a dict of attributes")
        version = step.after
    return fields


def _steps(cls: type, name: str) -> Iterator[tuple[Upcast, Step]]:
    """The steps of a type that the module of its class has."""
    module = sys.modules.get(cls.__module__)
    for fn in dict.fromkeys(value for value in vars(module or cls).values() if callable(value) and _is_hashable(value)):
        for step in getattr(fn, _STEP_MARK, ()) if not isinstance(fn, type) else ():
            if isinstance(step, Upcast) and step.name == name:
                yield step, fn


def _is_hashable(value: object) -> bool:
    return getattr(type(value), "__hash__", None) is not None


def _problems(name: object, versions: dict[str, object]) -> list[str]:
    problems = []
    if not (isinstance(name, str) and name.isprintable() and 0 < len(name) <= _NAME_CHARS_MAX):
        problems.append(f"name must be a printable text of up to {_NAME_CHARS_MAX} characters, not {name!r:.80}")
    for argument, version in versions.items():
        if not (isinstance(version, str) and _VERSION.fullmatch(version)):
            problems.append(f'{argument} must be "major.minor", not {version!r:.80}')
    return problems


def _refuse(problems: list[str]) -> None:
    if problems:
        raise ConfigurationError("; ".join(problems))


def _parts(version: str) -> tuple[int, int]:
    match = _VERSION.fullmatch(version)
    if match is None:
        raise PayloadUnreadable(f"a value was stored with the version {version!r}, which is none")
    return int(match[1]), int(match[2])


def _text(stored: TypeVersion) -> str:
    return f"{stored.name} {stored.version}"


def _named(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
