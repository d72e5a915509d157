"""The two output streams of the command line, safe for whatever is printed and whoever reads.

- Names come from files and users: control characters, terminal escapes and text direction marks are printed as escapes,
  and a character that the stream's encoding lacks as well.
- A reader that went away (`| head`) ends the printing, not the work; a stream that was never open counts as gone. What
  a full disk behind a redirection did not take is another matter: `lost` says so, because somebody will read that file.
- Colour and movement only on a terminal. `NO_COLOR` is honoured.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable
from typing import Final, TextIO

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_HOME: Final = "\x1b[H\x1b[J"
_PLAIN: Final = "\x1b[0m"
_KEPT: Final = frozenset("\n\t")
_DIRECTION_MARKS: Final = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029)))


def printable(text: str) -> str:
    """The text with everything that could move a cursor, change colours or reorder a line made visible."""
    if text.isprintable():
        return text
    return "".join(c if c in _KEPT or c.isprintable() or c in " \u00a0" else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    # Joiners belong to the spelling of words and pictures; what reorders text, and lone surrogates, do not.
    if char in _DIRECTION_MARKS or 0xD800 <= code <= 0xDFFF:
        return f"\\u{code:04x}"
    return char


class Console:
    """Standard output and standard error of a command.

    Args:
        out: For results; None if it is closed.
        err: For messages and progress; None if it is closed.
    """

    def __init__(self, out: TextIO | None, err: TextIO | None) -> None:
        self._out = out
        self._err = err
        self.lost = ""
        """Why results could not be written, although they are wanted; empty: they were."""
        self.gone = False
        """Whether the reader of results went away: whoever prints for ever may end."""

    @classmethod
    def standard(cls) -> Console:
        """The streams of this process, set up so that no text can fail to be written."""
        _fill_standard_descriptors()
        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")
        return cls(sys.stdout, sys.stderr)

    @property
    def lively(self) -> bool:
        """Whether messages go to a terminal that can move its cursor."""
        return self._err is not None and _is_terminal(self._err) and os.environ.get("TERM") != "dumb"

    @property
    def err(self) -> TextIO | None:
        """The stream for messages."""
        return self._err

    @property
    def colours(self) -> bool:
        """Whether results go to a terminal that shows colours, and nobody asked for none."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return wanted and self._out is not None and _is_terminal(self._out)

    def say(self, lines: str | Iterable[str], colour: str = "") -> None:
        """Print results; `colour` is what a terminal that shows colours is told before each line."""
        self._out = self._written(self._out, lines, colour if colour and self.colours else "")

    def redraw(self, lines: Iterable[str]) -> None:
        """Print results in the place of those before, where that is a terminal which can."""
        if self._out is not None and _is_terminal(self._out) and os.environ.get("TERM") != "dumb":
            self._out.write(_HOME)
        self.say(lines)

    def note(self, lines: str | Iterable[str]) -> None:
        """Print messages."""
        self._err = self._written(self._err, lines)

    def close(self) -> None:
        """Flush, so that a reader that is gone is met here and not when the interpreter exits."""
        self._out = self._written(self._out, ())
        self._err = self._written(self._err, ())

    def _written(self, stream: TextIO | None, lines: str | Iterable[str], colour: str = "") -> TextIO | None:
        """Write and flush; returns the stream, or None when nobody reads it any more."""
        if stream is None or stream.closed:
            return None
        try:
            for line in (lines,) if isinstance(lines, str) else lines:
                stream.write(f"{colour}{printable(line)}{_PLAIN if colour else ''}\n")
            stream.flush()
        except OSError as refused:
            if refused.errno in _NO_SPACE and stream is self._out:
                self.lost = refused.strerror or str(refused)
            self.gone = self.gone or (stream is self._out and refused.errno == errno.EPIPE)
            _silence(stream)
            return None
        return stream


def _fill_standard_descriptors() -> None:
    """Where the caller closed one of 0, 1 and 2: else the next file or socket gets that number, and what is printed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number: this one


def _silence(stream: TextIO) -> None:
    """Send what is still buffered nowhere; else the interpreter would try again on exit, and complain."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def carried_out(name: str, run: Callable[[Console], int], *, interrupted: int, environment: int) -> int:
    """The exit code of a command: what all command lines do around one.

    Args:
        name: Of the program.
        run: The command, with the console to write to; returns its code.
        interrupted: The code for Ctrl-C.
        environment: The code where all was done but what was printed is lost.

    Returns:
        The exit code.
    """
    console = Console.standard()
    try:
        code = run(console)
    except KeyboardInterrupt:
        console.note(f"{name}: interrupted")
        code = interrupted
    finally:
        console.close()
    if console.lost and code == 0:
        console.note(f"{name}: it is done, but what it printed could not be written: {console.lost}")
        code = environment
    return code
