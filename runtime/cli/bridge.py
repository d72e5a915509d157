"""`bridge`: publishes the events of a state folder to NATS or Redis, until SIGTERM or Ctrl-C.

Either signal lets the batch that is under way end; a second one ends the program at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
from dataclasses import asdict
from typing import Final

from actors.protocol.words import counted
from runtime.bridges.bridge import AsyncBridge
from runtime.bridges.target import STREAM
from runtime.cli.console import Console
from runtime.cli.events import read_since
from runtime.cli.exits import NAME, Exit

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run_bridge(arguments: argparse.Namespace, console: Console) -> Exit:
    """Publish.

    Args:
        arguments: `state`, `to`, `stream`, `subject`, `own`, `since`, `kind`, `run`, `name`, `keep`, `credentials`,
            `patience`, `once`, `json`.
        console: Where to print.

    Returns:
        OK, also after SIGTERM; INTERRUPTED after Ctrl-C.

    Raises:
        BridgeUnavailable, BridgeConflict, ConfigurationError, ...: See `AsyncBridge`.
    """
    notes = _Notes(console)
    logger = logging.getLogger("mainspring")
    logger.addHandler(notes)
    try:
        return asyncio.run(_run(arguments, console))
    finally:
        logger.removeHandler(notes)


async def _run(arguments: argparse.Namespace, console: Console) -> Exit:
    bridge = AsyncBridge(
        arguments.state,
        arguments.to,
        arguments.kind or None,
        run=arguments.run or None,
        names=arguments.name or None,
        stream=arguments.stream or STREAM,
        subject=arguments.subject,
        name=arguments.own,
        since=read_since(arguments.since),
        keep=arguments.keep,
        follow=not arguments.once,
        patience=arguments.patience,
        credentials=None if arguments.credentials is None else str(arguments.credentials),
    )
    heard: list[int] = []
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        heard.append(number)
        for one in _SIGNALS:
            loop.remove_signal_handler(one)
        bridge.close()

    for number in _SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        await bridge.run()
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    found = bridge.statistics()
    if arguments.json:
        console.say(json.dumps(asdict(found)))
    else:
        where = f" up to {found.position}" if found.position else ""
        console.say(f"{counted(found.published, 'event')} published; the stream has them{where}")
    return Exit.INTERRUPTED if signal.SIGINT in heard else Exit.OK


class _Notes(logging.Handler):
    """What a bridge says while it runs, as messages of the command."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print it."""
        self._console.note(f"{NAME}: {record.getMessage()}")
