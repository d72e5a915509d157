"""`pause`, `resume`, `quota`, `weight`, `rate`, `share`: change who runs next in a running engine, from a shell.

What is changed is durable when the command ends, and holds when the folder is opened again. Without a running engine
nothing is changed: the folder's log is written by its owner only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from actors.archived import ArchiveRule
from actors.policy.pauses import Notes, notes_of
from actors.policy.policy import Policy
from actors.protocol.errors import EngineUnavailable, UnknownRun
from runtime.cli.console import Console
from runtime.cli.exits import Exit
from runtime.host import command_socket
from runtime.storage.folder import ARCHIVE_NAME, StateFolder

Ask = Callable[[str, dict[str, Any]], Any]
"""Puts a question with its arguments to an engine; returns the answer."""


def change_policy(state: Path, change: Mapping[str, Any], console: Console, *, as_json: bool = False) -> Exit:
    """Have it changed, and print what stands then.

    Args:
        state: The state folder.
        change: In the form of `actors.policy.policy`.
        console: Where to print.
        as_json: One JSON object instead of text.

    Raises:
        ConfigurationError: The change is wrong; all problems are named.
        EngineUnavailable: No engine runs there, or it does not answer. StateFolderError, ...: it is no state folder.
    """
    Policy().changed(change, new=True)
    answer = engine_of(state)("policy", {"change": dict(change)})
    console.say(json.dumps(answer, indent=2) if as_json else policy_lines(answer))
    return Exit.OK


def engine_of(state: Path) -> Ask:
    """Asks the engine that has the folder open.

    Args:
        state: The state folder.

    Raises:
        EngineUnavailable: There is none. StateFolderError, ...: it is no state folder.

    What it asks of a run that the engine does not know any more is answered from the archive, or refused with
    RunArchived where it would change something.
    """
    with StateFolder.open(state, create=False, owner=False) as folder:
        if folder.owner_pid() is None:
            raise EngineUnavailable(f"no engine runs on {folder.path}")
        path = folder.path
    return or_past(state, lambda what, args: command_socket.ask(path, what, args))


def or_past(state: Path, ask: Ask) -> Ask:
    """Asks this, and the archive of the folder about runs that are not known there."""

    def answer(what: str, args: dict[str, Any]) -> Any:
        try:
            return ask(what, args)
        except UnknownRun:
            from runtime.past import Past  # lazy: few commands ask for such a run

            rule = ArchiveRule(None) if (state / ARCHIVE_NAME).exists() else None
            found = Past(str(state), rule).answer(what, args)
            if found is None:
                raise
            return found

    return answer


def paused_lines(paused: Iterable[str], notes: Notes) -> list[str]:
    """Paused scopes, each with who paused it, where that was said."""
    return [f"{scope} {notes[scope]}" if scope in notes else scope for scope in paused]


def policy_lines(answer: Mapping[str, Any]) -> list[str]:
    """What stands, as text."""
    policy = answer["policy"]
    parts = {
        "paused": paused_lines(policy["paused"], notes_of(policy)),
        "quotas": [f"{scope} {limit:,}" for scope, limit in sorted(policy["quotas"].items())],
        "weights": [
            f"{tenant or '(default tenant)'} {weight:g}" for tenant, weight in sorted(policy["weights"].items())
        ],
        "rates": [f"{key} {rate:g}/s, burst {burst:,}" for key, (rate, burst) in sorted(policy["rates"].items())],
        "shares": [f"{name} {least:.0%} to {most:.0%}" for name, (least, most) in policy["shares"].items()],
        "waiting": [f"{name} {count:,}" for name, count in answer["waiting"].items() if count],
    }
    return [f"{name:<10} {'; '.join(entries) or 'none'}" for name, entries in parts.items()]
