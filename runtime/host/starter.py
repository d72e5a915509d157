"""Starts the engine process of a runtime, through the spawner.

Purpose: one place that knows how a launcher, a link and the engine's settings go together. A spawner that died is
    replaced. What a crash leaves behind: see `runtime.host.launch`.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

from runtime.host.launch import LOOK, Launcher
from runtime.host.refusals import unavailable
from runtime.mail.board import BoardReader, create_board
from runtime.mail.link import LinkEnds, create_link

if TYPE_CHECKING:
    from runtime.host.client import EngineClient
    from runtime.profile.presence.here import Presence
    from runtime.profile.presence.page import Page


class ProcessStarter:
    """An `EngineStarter` that makes processes.

    Args:
        config: Handed to every engine, see `RuntimeConfig.to_wire`; with the identity of the folder, by which others
            find the board.

    Attributes:
        client: Whose questions and runs this process is said to wait for.
        board: Where the engines show how far runs are; None where there can be none, and the engine is asked.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = {**config, "sweeps": True}
        self._launcher = Launcher()
        self.board: BoardReader | None = None
        self._board_fd = -1
        self._page: Page | None = None
        self._presence: Presence | None = None
        self.client: ref[EngineClient] | None = None

    @property
    def pid(self) -> int:
        """Pid of the spawner, the parent of engine and workers."""
        return self._launcher.pid

    def start(self) -> LinkEnds:
        """Start an engine, and a spawner if there is none. Raises EngineUnavailable."""
        if self._board_fd < 0:
            self._make_board()
        try:
            if self._launcher.fileno() < 0:
                self._launcher.stop()
                self._launcher = Launcher()
                self._launcher.start()
            if self._page is None:
                self._make_page()
            ends = create_link()
        except (OSError, RuntimeError) as refused:  # RuntimeError: since Python 3.12, while the interpreter ends
            raise unavailable("an engine cannot be started", refused) from refused
        try:
            board = [self._board_fd] if self._board_fd >= 0 else []
            page = [self._page.fd] if self._page is not None else []
            self._launcher.start_engine(self._config, [*ends.fds(), *board, *page])
        except BaseException:
            ends.close()
            raise
        self._config = {**self._config, "sweeps": False}  # from now on the program may have files on their way
        return ends

    def _make_board(self) -> None:
        """The board of all engines that are started from here; without one, they are asked."""
        with suppress(OSError):
            self._board_fd = create_board(self._config.get("folder_uuid", ""))
            self.board = BoardReader(self._board_fd)
        self._config["board"] = self._board_fd >= 0

    def _make_page(self) -> None:
        """The page of all processes that are started from here, this one included; without one they are not seen."""
        from runtime.profile.ledger.gauges import gauge_client  # lazy: as above
        from runtime.profile.presence.appear import (
            let_attach,  # lazy: now the spawner boots, and the face has nothing to do
        )
        from runtime.profile.presence.folders import sweep_requests  # lazy: as above
        from runtime.profile.presence.here import FOLDER, HERE  # lazy: as above
        from runtime.profile.presence.page import Page, create_page  # lazy: as above

        with suppress(OSError, ValueError):
            self._page = Page(create_page(self._config.get("folder_uuid", ""), self._config.get("state_dir", "")))
            self._presence = HERE.begin(self._page, "face", relayed=True)
            if self.client is not None and (client := self.client()) is not None:
                gauge_client(client)
            let_attach(self._presence, self._config)
            HERE.beat(time.monotonic_ns())
            sweep_requests(Path(self._page.state_dir, FOLDER))
        self._config["page"] = self._page is not None

    def fileno(self) -> int:
        """Descriptor that is readable when there is news."""
        return self._launcher.fileno()

    def news(self) -> list[dict[str, Any]]:
        """What happened to the engine and its workers."""
        found = self._launcher.receive()
        if self._presence is not None and any(news["did"] == LOOK for news in found):
            self._presence.look()
        return [news for news in found if news["did"] != LOOK]

    def stop(self) -> None:
        """End everything."""
        self._launcher.stop()
        if self._presence is not None:
            self._presence.end()
            self._presence = None
        if self._page is not None:
            self._page.close()
            self._page = None
        if self.board is not None:
            self.board.close()
        if self._board_fd >= 0:
            os.close(self._board_fd)
            self._board_fd = -1
