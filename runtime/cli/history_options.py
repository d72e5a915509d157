"""The options of the commands that read history: `replay`.

`replay STATE` shows the state as of a moment and changes nothing. Dead letters run again with `redrive`; `replay` with
ids of letters, `--all`, or a filter that only letters have does that too, as it always did. `replay STATE --run RUN`
alone is the run's history: what only reads is what an ambiguous command means.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, Final

from actors.protocol.errors import ConfigurationError
from runtime.cli.operations_options import add_command, add_letters, positive_count, redrive, since

if TYPE_CHECKING:
    from runtime.cli.console import Console
    from runtime.cli.exits import Exit
    from runtime.storage.moments import Moment

_LSN: Final = re.compile(r"\d{1,18}")
_OF_LETTERS: Final = ("letter", "all", "handler", "kind", "tenant", "since")
_OF_HISTORY: Final = ("until", "diff")
_NOW: Final = "now"


def add_history(commands: Any) -> None:
    """Add the commands.

    Args:
        commands: The sub-parsers of the program.
    """
    text = "show the state as of any moment, the story of a run, and what changed between two moments"
    more = (
        "Reads only, also beside a running engine. A moment is an LSN, an age such as 90m or 2h, an ISO 8601 time (UTC "
        "if it says no zone), begin or now. With ids of letters, --all, or --handler, --kind, --tenant or --since it "
        "lets dead letters run again, as `redrive` does."
    )
    options = add_command(commands, "replay", _replay, text, more)
    options.add_argument("--until", type=moment, metavar="MOMENT", help="as of when (default: now)")
    options.add_argument(
        "--diff", nargs="?", const=_NOW, type=moment, metavar="MOMENT", help="what is different then (default: now)"
    )
    options.add_argument(
        "--limit", type=positive_count, default=200, metavar="N", help="lines of a story (default 200)"
    )
    add_letters(options)


def moment(text: str) -> Moment:
    """An LSN, an age, a time, "begin" or "now". Raises ArgumentTypeError: it is none of them."""
    from runtime.storage.moments import BEGIN, NOW, Moment  # lazy: other commands start without the storage

    if text in (_NOW, "begin"):
        return NOW if text == _NOW else BEGIN
    if _LSN.fullmatch(text):
        return Moment(lsn=int(text))
    try:
        return Moment(wall_ns=since(text, utc=True))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither an LSN, an age such as 90m or 2h, an ISO 8601 time, nor begin or now"
        ) from None


def _replay(arguments: argparse.Namespace, console: Console) -> Exit:
    from runtime.cli.history import Viewed, show_history  # lazy: each command loads what it needs
    from runtime.storage.moments import NOW

    letters = [name for name in _OF_LETTERS if getattr(arguments, name)]
    times = [name for name in _OF_HISTORY if getattr(arguments, name) is not None]
    if letters and times:
        raise ConfigurationError(
            f"replay: --{times[0]} shows history, and {letters[0]!r} lets dead letters run again; say redrive for these"
        )
    if letters:
        return redrive(arguments, console)
    other = NOW if arguments.diff == _NOW else arguments.diff
    if other == NOW and arguments.until in (None, NOW):
        raise ConfigurationError("replay: --diff compares two moments; name one by --until MOMENT or --diff MOMENT")
    asked = Viewed(arguments.run, arguments.until or NOW, other, arguments.limit)
    return show_history(arguments.state, asked, console, as_json=arguments.json)
