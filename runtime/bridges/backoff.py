"""How long a bridge waits before it tries a server again: twice as long each time, by chance a little less.

Chance keeps many bridges that lost one server from coming back in the same moment.
"""

from __future__ import annotations

import random
from typing import Final

FIRST_S: Final = 0.1
LONGEST_S: Final = 10.0


class Backoff:
    """See the module.

    Args:
        chance: Gives numbers from 0 to 1.
    """

    def __init__(self, chance: random.Random | None = None) -> None:
        self.failures = 0
        self._chance = chance or random.Random()

    def next_s(self) -> float:
        """After one more failure: seconds to wait, from half of the time to all of it."""
        longest = min(LONGEST_S, FIRST_S * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return longest * (1 + self._chance.random()) / 2

    def worked(self) -> None:
        """The next failure is a first one."""
        self.failures = 0
