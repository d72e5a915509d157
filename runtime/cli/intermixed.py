"""Commands whose options may stand anywhere: before, between and behind what they are about.

argparse takes arguments that may be missing as soon as it has come to the first of them: `query STATE --at 5 "SELECT"`
has its statement behind an option, where there is no place for it any more. Its remedy, which reads the options first,
neither works below sub-parsers nor keeps what stands behind `--`; here it does both.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

_SEVERAL: Final = ("?", "*", "+")
_LITERAL: Final = "\0"
"""Begins what stands behind `--` meanwhile; no argument of a program can have it."""


class IntermixedParser(argparse.ArgumentParser):
    """The parser of one command."""

    _mixing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As argparse's; where some of the arguments may be missing, the options are read first."""
        several = any(action.nargs in _SEVERAL for action in self._get_positional_actions())
        if self._mixing or args is None:
            return super().parse_known_args(args, namespace)
        if not several:
            return self._all_known(*super().parse_known_args(args, namespace))
        head, tail = list(args), []
        if "--" in head:
            at = head.index("--")
            head, tail = head[:at], [_LITERAL + word for word in head[at + 1 :]]
        self._mixing = True
        try:
            found, extras = self.parse_known_intermixed_args([*head, *tail], namespace)
        finally:
            self._mixing = False
        return self._all_known(found, [word.removeprefix(_LITERAL) for word in extras])

    def _all_known(self, found: Any, extras: list[str]) -> tuple[Any, list[str]]:
        """What was not understood is refused here, with the usage of this command and not of the whole program."""
        if extras:
            self.error(f"unrecognized arguments: {' '.join(extras)}")
        return found, extras

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        return super()._get_values(action, [word.removeprefix(_LITERAL) for word in arg_strings])
