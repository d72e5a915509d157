"""The 22 kinds of things that can leak: all that the engine accounts for, each a row of every process's books.

A number is a place in the shared page (see `page`), so it stays what it is; users add kinds of their own behind these
(`LEDGER.register_kind`). `ttl_s` is the age from which something of that kind may be called old, `ceiling` how many of
it in one process are worth a look whatever they do; both are where a grade begins, and no verdict.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class LedgerKind(NamedTuple):
    """One kind.

    Attributes:
        no: Its place in the page; those of `KINDS` are 1 to 22, those of users follow.
        name: As users and the command line say it.
        ttl_s: Older than this is old.
        ceiling: More than so many in one process are worth a look.
        title: For people.
        event: Whether one occurrence is a finding, however young.
    """

    no: int
    name: str
    ttl_s: float
    ceiling: int
    title: str
    event: bool = False


TASK: Final = "task"
DESTROYED: Final = "destroyed"
UNAWAITED: Final = "unawaited"
UNREAD: Final = "unread"
RUN: Final = "run"
ACTOR: Final = "actor"
MESSAGE: Final = "message"
ASK: Final = "ask"
TIMER: Final = "timer"
GENERATOR: Final = "generator"
THREAD: Final = "thread"
EXECUTOR: Final = "executor"
PROCESS: Final = "process"
SEGMENT: Final = "segment"
VIEW: Final = "view"
LOCK: Final = "lock"
LEASE: Final = "lease"
DESCRIPTOR: Final = "descriptor"
TRANSPORT: Final = "transport"
SUBSCRIPTION: Final = "subscription"
CHECKOUT: Final = "checkout"
BOOKS: Final = "ledger"

KINDS: Final = (
    LedgerKind(1, TASK, 60.0, 10_000, "asyncio tasks"),
    LedgerKind(2, DESTROYED, 0.0, 1, "tasks that were collected while they waited", event=True),
    LedgerKind(3, UNAWAITED, 0.0, 1, "coroutines that nobody awaited", event=True),
    LedgerKind(4, UNREAD, 60.0, 100, "ended tasks whose exception nobody took"),
    LedgerKind(5, RUN, 3600.0, 1_000_000, "runs that have not ended"),
    LedgerKind(6, ACTOR, 60.0, 1_000, "actors"),
    LedgerKind(7, MESSAGE, 60.0, 1_000_000, "messages that were not taken"),
    LedgerKind(8, ASK, 60.0, 10_000, "questions without an answer"),
    LedgerKind(9, TIMER, 3600.0, 1_000_000, "timers"),
    LedgerKind(10, GENERATOR, 60.0, 1_000, "asynchronous generators"),
    LedgerKind(11, THREAD, 300.0, 256, "threads"),
    LedgerKind(12, EXECUTOR, 300.0, 64, "executors of threads"),
    LedgerKind(13, PROCESS, 300.0, 1_100, "child processes"),
    LedgerKind(14, SEGMENT, 300.0, 4_000, "blocks of shared memory"),
    LedgerKind(15, VIEW, 60.0, 1_000, "exported views of shared memory"),
    LedgerKind(16, LOCK, 60.0, 1_000, "locks that are held"),
    LedgerKind(17, LEASE, 3600.0, 1_000_000, "leases"),
    LedgerKind(18, DESCRIPTOR, 300.0, 4_000, "file descriptors"),
    LedgerKind(19, TRANSPORT, 300.0, 1_000, "network connections"),
    LedgerKind(20, SUBSCRIPTION, 3600.0, 1_000, "subscriptions"),
    LedgerKind(21, CHECKOUT, 60.0, 1_000, "things that were taken out of a pool"),
    LedgerKind(22, BOOKS, 0.0, 1, "books that do not balance", event=True),
)
NAMES: Final = tuple(kind.name for kind in KINDS)
"""In the order of their numbers."""
KINDS_MAX: Final = 32
"""Kinds of one process, those that its users registered included: so many have a place in the page."""


def kind_named(name: str) -> LedgerKind | None:
    """The kind of the engine with this name."""
    return next((kind for kind in KINDS if kind.name == name), None)
