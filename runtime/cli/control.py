"""`pause`, `resume`, `quota`, `weight`, `rate`, `share`: change who runs next in a running engine, from a shell.

What is changed is durable when the command ends, and holds when the folder is opened again. Without a running engine
nothing is changed: the folder's log is written by its owner only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from actors.policy.pauses import Notes, notes_of
from actors.policy.policy import Policy
from actors.protocol.errors import EngineUnavailable
from runtime.cli.console import Console
from runtime.cli.exits import Exit
from runtime.host import command_socket
from runtime.storage.folder import StateFolder

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
    """
    with StateFolder.open(state, create=False, owner=False) as folder:
        if folder.owner_pid() is None:
            raise EngineUnavailable(f"no engine runs on {folder.path}")
        path = folder.path
    return lambda what, args: command_socket.ask(path, what, args)


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
