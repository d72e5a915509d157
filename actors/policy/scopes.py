"""Scopes: the names under which work is limited, paused and explained, such as "tenant:acme" or "key:printer".

A scope is a word and a name. Each node falls under its class, its tenant and its node type, and under its concurrency
key and its rate key if its kind has any. The texts are what users write and what answers show, so they are compared as
they are: no case folding, no blanks taken away.

| scope | means |
|---|---|
| class:low | the priority class, one of `PRIORITIES` |
| tenant:acme | the tenant; "tenant:" is the default tenant |
| type:cpu | the node type |
| key:printer | the concurrency key |
| rate:api | the rate key; has a rate, so it cannot have a quota |
| schedule:nightly | the schedule: it starts no runs; nodes are under none, so it has no quota |
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from actors.protocol import limits
from actors.protocol.errors import ConfigurationError
from actors.protocol.kinds import PRIORITIES

CLASS: Final = "class"
TENANT: Final = "tenant"
TYPE: Final = "type"
KEY: Final = "key"
RATE: Final = "rate"

QUOTA_WORDS: Final = (CLASS, TENANT, TYPE, KEY)
"""What can have a quota."""
WORDS: Final = (*QUOTA_WORDS, RATE)
"""What can be paused."""
CLASS_SCOPES: Final = tuple(f"{CLASS}:{name}" for name in PRIORITIES)
"""The scopes of the classes, by their index."""


class Scoped(Protocol):
    """What these mechanisms ask of a kind. Hashed by identity, because one object stands for one kind."""

    @property
    def node_type(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def tenant(self) -> str: ...
    @property
    def concurrency_key(self) -> str | None: ...
    @property
    def rate_key(self) -> str | None: ...
    @property
    def rate_cost(self) -> float: ...


class Scope(NamedTuple):
    """One scope, taken apart."""

    word: str
    name: str

    @property
    def text(self) -> str:
        """As it is written."""
        return f"{self.word}:{self.name}"


def scopes_of(kind: Scoped) -> tuple[str, ...]:
    """All scopes that nodes of this kind fall under, in the order of `WORDS`."""
    scopes = [CLASS_SCOPES[kind.priority], f"{TENANT}:{kind.tenant}", f"{TYPE}:{kind.node_type}"]
    if kind.concurrency_key is not None:
        scopes.append(f"{KEY}:{kind.concurrency_key}")
    if kind.rate_key is not None:
        scopes.append(f"{RATE}:{kind.rate_key}")
    return tuple(scopes)


def problem(scope: object, words: tuple[str, ...] = WORDS) -> str:
    """What is wrong with a scope, in one line; empty when nothing is.

    Args:
        scope: As somebody wrote it.
        words: Which words may stand before the colon: `WORDS`, or `QUOTA_WORDS` where a quota is meant.
    """
    choice = ", ".join(f"{word}:" for word in words)
    if not isinstance(scope, str):
        return f"a scope is a text that begins with one of {choice}, not {_short(scope)}"
    word, colon, name = scope.partition(":")
    if not colon:
        return f"scope {_short(scope)} does not say what it names: it begins with one of {choice}"
    if word not in words:
        if word == RATE:
            return f"scope {_short(scope)} cannot have a quota, because rate keys have rates; here are {choice}"
        return f"scope {_short(scope)} begins with an unknown word: known are {choice}"
    if word == CLASS and name not in PRIORITIES:
        return f"scope {_short(scope)} names an unknown class: classes are {', '.join(PRIORITIES)}"
    trouble = name_problem(name, empty=word == TENANT)
    return f"scope {_short(scope)}: {trouble}" if trouble else ""


def name_problem(name: object, *, empty: bool = False) -> str:
    """What is wrong with a tenant or key, in one line; nothing when the line is empty. `empty`: it may be empty."""
    if not isinstance(name, str):
        return f"a name is a text, not {_short(name)}"
    if not name:
        return "" if empty else "the name is empty"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "the name has characters that cannot be stored (lone surrogates)"
    return f"the name has {size:,} bytes, {limits.NAME_BYTES_MAX:,} are allowed" if size > limits.NAME_BYTES_MAX else ""


def parse(scope: object, words: tuple[str, ...] = WORDS) -> Scope:
    """Take a scope apart.

    Raises:
        ConfigurationError: It is none, or its word is not among `words`; the message says why.
    """
    trouble = problem(scope, words)
    if trouble:
        raise ConfigurationError(trouble)
    word, _, name = str(scope).partition(":")
    return Scope(word, name)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:60]}...{text[-10:]}"


def falls_under(scope: str, kind: Scoped, class_name: str) -> bool:
    """Whether what waits of this kind in this class belongs to a scope."""
    word, _, name = scope.partition(":")
    has = {
        CLASS: class_name, TENANT: kind.tenant, TYPE: kind.node_type, KEY: kind.concurrency_key, RATE: kind.rate_key,
    }  # fmt: skip
    return word in has and has[word] == name
