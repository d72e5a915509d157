"""`dead`, `redrive`, `discard`, `cancel`, `rerun`, `drain`, `priority`, `why`: what an operator does, from outside.

What is changed is durable when the command ends. `dead` reads the log where no engine runs; all else needs one, because
the folder's log is written by its owner only. Arguments are shown as they are stored: no code of the user's is loaded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from actors import dead
from actors.protocol import messages as msg
from actors.protocol.errors import EngineUnavailable, WaitTimeout
from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.control import Ask, engine_of, or_past, policy_lines
from runtime.cli.exits import Exit
from runtime.cli.report import align, time_text
from runtime.host import command_socket
from runtime.letters import DeadLetter, ask_dead, ask_each, ask_held, ask_letter
from runtime.mail.codec import Codec
from runtime.mail.failure import exception_of
from runtime.operations import DRAIN_LOOK_MAX_S, DRAIN_LOOK_S, still_there
from runtime.scheduling import ask_pause
from runtime.storage.recovery import read_runs
from runtime.views import ask_priority, ask_why

MESSAGE_CHARS: Final = 60
"""Of a failure's message in the table; `dead STATE LETTER` and `--json` have all of it."""
ITEM_CHARS: Final = 2000
"""Of the arguments as text."""


def show_dead(state: Path, wanted: dict[str, Any], console: Console, *, limit: int, as_json: bool = False) -> Exit:
    """List dead letters.

    Args:
        state: The state folder.
        wanted: The filter, as it travels.
        console: Where to print.
        limit: How many at most.
        as_json: One JSON object instead of text.

    Raises:
        ConfigurationError: The filter is wrong. UnknownRun: it names no run. StateFolderError, ...: no state folder.
    """
    letters: list[DeadLetter] = []
    ask, start, more = _reader(state), None, True
    while more and len(letters) < limit:
        what, args = ask_dead(wanted, start)
        reply = ask(what, {**args, "limit": min(args["limit"], limit - len(letters))})
        letters += [DeadLetter.from_row(row, Codec()) for row in reply["rows"]]
        start = reply["next"]
        more = start is not None
    if as_json:
        console.say(json.dumps({"letters": [asdict(letter) for letter in letters], "more": more}, indent=2))
        return Exit.OK
    if not letters:
        console.say("no dead letters")
        return Exit.OK
    rows = [("letter", "node", "task", "tenant", "how", "tries", "when", "message"), *map(_row, letters)]
    console.say(align(rows, left=len(rows[0])))
    if more:
        console.say("… and more; --limit shows them")
    return Exit.OK


def show_letter(state: Path, letter: str, console: Console, *, as_json: bool = False) -> Exit:
    """Show one dead letter in full.

    Args:
        state: The state folder.
        letter: Its id.
        console: Where to print.
        as_json: One JSON object instead of text.

    Raises:
        UnknownRun, MissingNode: There is no such letter.
    """
    reply = _reader(state)(*ask_letter(letter))
    found, error = DeadLetter.from_row(reply["row"], Codec()), exception_of(reply["failure"], Codec())
    if as_json:
        more = {"traceback": error.traceback_text, "shape": reply["shape"], "item": reply["item"], "cut": reply["cut"]}
        console.say(json.dumps({**asdict(found), **more}, indent=2))
        return Exit.OK
    item = "too large to be shown" if reply["cut"] else json.dumps(reply["item"])
    item = item if len(item) <= ITEM_CHARS else f"{item[:ITEM_CHARS]} …"
    tries = counted(found.attempts, "attempt")
    console.say(
        [
            f"letter     {found.id}",
            f"run        {found.run_id}, node {found.node_id}",
            f"task       {found.name} ({found.handler})",
            f"failed     {time_text(found.failed_ns)}, after {tries}: {found.kind}",
            f"tenant     {found.tenant or '(default tenant)'}, class {found.priority}",
            f"message    {found.error_type}{': ' if found.error_type else ''}{found.message}",
            f"arguments  {item} (as stored: {reply['shape']})",
            *error.traceback_text.rstrip().splitlines(),
        ]
    )
    return Exit.OK


def for_each(
    state: Path,
    what: str,
    letters: Sequence[str],
    wanted: dict[str, Any],
    console: Console,
    *,
    everything: bool = False,
    as_json: bool = False,
) -> Exit:
    """Replay or discard dead letters.

    Args:
        state: The state folder.
        what: "replay" or "discard".
        letters: Their ids; or none, and a filter or everything.
        wanted: The filter, as it travels.
        console: Where to print.
        everything: Every letter there is.
        as_json: One JSON object instead of text.

    Raises:
        ConfigurationError: Nothing is named. UnknownRun, MissingNode, RunBeingCancelled: as `Runtime.replay`.
        EngineUnavailable: No engine runs there.
    """
    requests, ask, count = list(ask_each(what, letters, wanted, everything)), engine_of(state), 0
    for question, args in requests:
        following: Any = args.get("from")
        while True:
            reply = ask(question, {**args, "from": following})
            count += reply["count"]
            following = reply["next"]
            if following is None:
                break
    done = "runs again" if what == "replay" else "discarded"
    text = f"{counted(count, f'letter {done}', 'letters ' + done.replace('runs', 'run'))}"
    console.say(json.dumps({"count": count}) if as_json else text)
    return Exit.OK


def cancel(state: Path, run: str, console: Console, *, as_json: bool = False) -> Exit:
    """Cancel a run, or a single task.

    Args:
        state: The state folder.
        run: Its id.
        console: Where to print.
        as_json: One JSON object instead of text.

    Raises:
        UnknownRun: There is none. EngineUnavailable: no engine runs there.
    """
    cancelled = bool(engine_of(state)("cancel", {"run": run}))
    text = f"{run} is cancelled; what runs of it is being stopped" if cancelled else f"{run} had ended before"
    console.say(json.dumps({"cancelled": cancelled}) if as_json else text)
    return Exit.OK


def rerun(state: Path, run: str, console: Console, *, as_json: bool = False) -> Exit:
    """Run again what did not succeed of a run.

    Args:
        state: The state folder.
        run: Its id.
        console: Where to print.
        as_json: One JSON object instead of text.

    Raises:
        UnknownRun, RunBeingCancelled: As `Runtime.rerun`. EngineUnavailable: no engine runs there.
    """
    reply = engine_of(state)("rerun", {"run": run})
    text = f"{counted(reply['count'], 'node runs', 'nodes run')} again"
    console.say(json.dumps(reply) if as_json else text)
    return Exit.OK


def drain(
    state: Path,
    scopes: list[str],
    timeout: float | None,
    console: Console,
    *,
    by: str | None = None,
    reason: str | None = None,
    as_json: bool = False,
) -> Exit:
    """Pause scopes, and wait until nothing of them runs.

    Args:
        state: The state folder.
        scopes: Which.
        timeout: Seconds; None waits as long as it takes.
        console: Where to print.
        by: Who pauses; None for this user and program.
        reason: Why.
        as_json: One JSON object instead of text.

    Raises:
        WaitTimeout: Something still runs; the scopes stay paused. Otherwise as `pause`. Where the engine ends
            meanwhile, its program starts another one, which knows the pause: that is waited for.
    """
    change = ask_pause(scopes, by, reason)
    deadline = None if timeout is None else time.monotonic() + timeout
    ask = engine_of(state)
    stands = ask(*change)
    look_s, first = DRAIN_LOOK_S, True
    while held := _held(ask, scopes, take_back=first):
        if deadline is not None and time.monotonic() >= deadline:
            raise WaitTimeout(still_there(held, tuple(scopes), timeout))
        time.sleep(look_s if deadline is None else min(look_s, max(0.0, deadline - time.monotonic())))
        look_s, first = min(DRAIN_LOOK_MAX_S, 2 * look_s), False
    console.say(json.dumps(stands, indent=2) if as_json else policy_lines(stands))
    return Exit.OK


def _held(ask: Ask, scopes: list[str], *, take_back: bool) -> int:
    """How much of the scopes is with workers."""
    deadline = time.monotonic() + command_socket.ANSWER_S
    while True:
        try:
            return int(ask(*ask_held(scopes, take_back=take_back))["held"])
        except EngineUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(DRAIN_LOOK_S)


def set_priority(state: Path, run: str, priority: str, console: Console, *, as_json: bool = False) -> Exit:
    """Give a run or task another class.

    Args:
        state: The state folder.
        run: Its id.
        priority: The class.
        console: Where to print.
        as_json: One JSON object instead of text.

    Raises:
        UnknownRun: As `Runtime.set_priority`. EngineUnavailable: no engine runs there.
    """
    reply = engine_of(state)(*ask_priority(run, priority))
    text = f"{run} is of class {priority} now" if reply["changed"] else f"{run} had ended before; nothing was changed"
    console.say(json.dumps(reply) if as_json else text)
    return Exit.OK


def show_why(state: Path, run: str, node: str | None, console: Console, *, as_json: bool = False) -> Exit:
    """Say why something does not run.

    Args:
        state: The state folder.
        run: Its id.
        node: Id or number of a node; None for the run as a whole, or the single task.
        console: Where to print.
        as_json: One JSON object instead of text.

    Raises:
        UnknownRun, MissingNode: There is none. EngineUnavailable: no engine runs there.
    """
    reply = engine_of(state)(*ask_why(run, node))
    console.say(json.dumps(reply) if as_json else reply["text"])
    return Exit.OK


def _reader(state: Path) -> Ask:
    """Asks that engine, or reads the log where there is none, or one that is just starting or ending."""
    from_log: list[Any] = []

    def ask(what: str, args: dict[str, Any]) -> Any:
        if not from_log:
            with suppress(EngineUnavailable):
                return engine_of(state)(what, args)
            from_log.append(SimpleNamespace(scheduler=read_runs(state)))
        return dead.QUESTIONS[what](cast("Any", from_log[0]), msg.Queried("", 0, what, args))

    return or_past(state, ask)


def _row(letter: DeadLetter) -> tuple[str, ...]:
    message = " ".join(letter.message.split())
    message = message if len(message) <= MESSAGE_CHARS else f"{message[: MESSAGE_CHARS - 1]}…"
    return (
        letter.id,
        letter.node_id,
        letter.name,
        letter.tenant or "–",
        letter.kind,
        f"{letter.attempts:,}",
        time_text(letter.failed_ns),
        f"{letter.error_type.rpartition('.')[2]}{': ' if letter.error_type else ''}{message}",
    )
