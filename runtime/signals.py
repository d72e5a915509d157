"""SIGTERM as an orderly end, for programs that ask for it.

The handler calls the one that was there before. Where that is the default action, `SystemExit` with the shell's
code for SIGTERM is raised in the main thread instead, so that `with` blocks are left and the runtime drains in its
own. A process manager that sends a second SIGTERM gets the default action at once.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Final

from actors.protocol.errors import ConfigurationError

EXIT_CODE: Final = 128 + signal.SIGTERM


class SigtermGuard:
    """Installed from its making until `restore`.

    Raises:
        ConfigurationError: Not made in the main thread, where Python allows signal handlers only.
    """

    def __init__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise ConfigurationError("handle_sigterm=True works in the main thread only")
        self._before: Any = signal.signal(signal.SIGTERM, self._on_signal)
        self._installed = True

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if callable(self._before):
            self._before(signum, frame)
            return
        if self._before != signal.SIG_IGN:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            raise SystemExit(EXIT_CODE)

    def restore(self) -> None:
        """Put the previous handler back, unless somebody else has taken the signal since."""
        if not self._installed or threading.current_thread() is not threading.main_thread():
            return
        self._installed = False
        present = signal.getsignal(signal.SIGTERM)
        if present == self._on_signal or (present == signal.SIG_DFL and not callable(self._before)):
            signal.signal(signal.SIGTERM, self._before if self._before is not None else signal.SIG_DFL)
