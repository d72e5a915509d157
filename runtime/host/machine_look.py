"""The machine as far as it is this program's: its processors and memory, within the bounds of its control group.

Looked at once in MACHINE_LOOK_NS at most, and only while a pool wants to grow. How busy processors were is known from
the second look on; a look that is too old to compare with begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

import psutil

from actors.protocol import limits
from actors.protocol import messages as msg
from runtime.host.control_group import ControlGroup, Processors
from runtime.mail.link import cores


class MachineLook:
    """See the module.

    Args:
        group: Of this process.
    """

    def __init__(self, group: ControlGroup | None = None) -> None:
        self._group = group or ControlGroup()
        self._looked_ns: int | None = None
        self._used: Processors | None = None

    def look(self, now_ns: int, workers: Iterable[int]) -> list[msg.MachineSeen]:
        """What is seen now; nothing when the last look was just before.

        Args:
            now_ns: Monotonic.
            workers: Their pids: the largest tells what another one takes.
        """
        since_ns = None if self._looked_ns is None else now_ns - self._looked_ns
        if since_ns is not None and since_ns < limits.MACHINE_LOOK_NS:
            return []
        self._looked_ns = now_ns
        known = since_ns is not None and since_ns <= limits.MACHINE_STALE_NS
        busy, used, own = psutil.cpu_percent(None) / 100, self._group.processors(), cores()
        if used is not None:
            if self._used is not None and since_ns:
                busy = max(busy, min(1.0, (used.used_ns - self._used.used_ns) / (since_ns * used.cores)))
            own = min(own, ceil(used.cores))
        self._used = used
        available, total = self._memory()
        spare = max(0, available - int(total * limits.MACHINE_MEMORY_FREE_MIN))
        largest = max(map(_resident, workers), default=0)
        fits = spare // largest if largest else None
        return [msg.MachineSeen(busy if known else None, available / total, own, fits)]

    def _memory(self) -> tuple[int, int]:
        """Bytes available and in all, of the machine or of the group, where less is left."""
        machine, group = psutil.virtual_memory(), self._group.memory()
        if group is not None and group.available < machine.available:
            return group.available, group.limit
        return machine.available, machine.total


def _resident(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss) if pid > 0 else 0
    except psutil.Error:
        return 0
