"""What may be done about a leak, by its kind."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from runtime.profile.leak_check.grading import place
from runtime.profile.ledger.books import LEDGER
from runtime.profile.model import Frame

SUGGESTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "task": "let what it waits for be set on every path, give the wait a timeout, or cancel the task; if it shall "
        "live as long as its process, say so (daemon)",
        "destroyed": "keep a reference to the task until it is done, or use a TaskGroup",
        "unawaited": "await the call, or hand it to a TaskGroup",
        "unread": "await the task, or look at its exception in a done callback",
        "generator": "close it (`async with aclosing(...)`), or iterate it to its end",
        "thread": "end its function, and join it",
        "executor": "shut the executor down before it is let go",
        "process": "wait for it: `subprocess.run`, `Popen.wait`, or `with Popen(...)`",
        "descriptor": "close it: use `with`; with `python -X tracemalloc` files are told by the line that opened them",
        "transport": "close it when the peer closed",
        "view": "release the view before its block is closed",
        "lock": "release it in a `finally`, or use `with`",
        "subscription": "close the iterator",
        "checkout": "give it back in a `finally`, or use `with ctx.pool(...)`",
        "run": "cancel it, or run it again; that it stands still is a fault of the engine: please report it",
        "lease": "see whether the spawner is stopped or gone: it tells the engine who died",
        "message": "as for a lease: whoever it was sent to is dead, and the engine does not know",
        "ask": "close the runtime, and open the state folder again",
        "actor": "end it: its state is on the disk, and a new one takes over",
        "segment": "close and unlink it; a block of the dead goes with the process that has it open",
        "ledger": "a fault of whoever counts there, not of your program: please report it",
    }
)


def suggestion(kind: str) -> str:
    """What is said of a kind here, and what was registered as that which releases one of it. Nobody calls it."""
    said = SUGGESTIONS.get(kind, "")
    try:
        reap = LEDGER.book(kind).reap
    except KeyError:
        reap = None
    return said if reap is None else "; or ".join(filter(None, (said, f"release it with {_named(reap)}")))


def _named(reap: Any) -> str:
    """A function, or whatever can be called, with its place where it has one."""
    inner = getattr(reap, "func", reap)  # of a partial
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    module = getattr(inner, "__module__", "")
    code = getattr(inner, "__code__", None)
    file, line = ("", 0) if code is None else (code.co_filename, code.co_firstlineno)
    return place(Frame(f"{module}.{name}" if module else name, file, line))
