"""How many workers a pool should have: from what waits and for how long first, from the machine second.

    grow      what waits is more than POOL_WAIT_NS of work for each worker, or has waited for longer behind tasks that
              take long, or nobody is there: up to what empties the queue within POOL_DRAIN_NS, in one step. The next
              step waits until those that start serve, and comes only if the queue does not get shorter soon
    surge     but while they start, and still too little serves: up to what the rate of arrivals since work presses
              needs, as far as work waits for it (`actors.policy.surge`)
    held      growth that the machine has no room for, see `actors.policy.machine`
    shrink    when the size was not needed for two cooldowns, to the largest need of the last one, at most once in a
              cooldown and by a tenth at least: a load that comes and goes within them changes little
    regret    growth soon after shrinking shows that shrinking was wrong: the next waits POOL_REGRET times as long

Need is arrival rate x service time (Little, "A proof for the queuing formula L = λW", 1961) over POOL_UTILIZATION, at
least one while anything is there, and each worker in a task that takes long; with what waits, while that presses.

Prior art: the stabilization window of the Kubernetes horizontal pod autoscaler, which also shrinks to the largest
recommendation of a window; growth here is by the queue, because starting a process takes milliseconds.

Invariants: a target is within smallest..largest; the needs in `_needs` fall, so there is one entry for each at most.
Concurrency: none; owned by one pool.
"""

from __future__ import annotations

from collections import deque
from math import ceil, exp
from typing import Final, NamedTuple

from actors.policy.machine import Machine, room
from actors.policy.surge import Surge
from actors.protocol import limits
from actors.protocol.words import counted

_UNKNOWN_TASK_NS: Final = 1_000_000
"""Assumed duration before anything was measured."""
_NOISE: Final = 0.02
"""Part of a worker that no worker is needed for: a rate that dies away never comes to nothing."""


class Load(NamedTuple):
    """A pool at one moment.

    Args:
        waiting: Tasks that no place is free for: in the queue, and at workers behind others.
        oldest_ns: For how long one of them has waited behind tasks that take long; 0 while a worker is idle.
        held: Tasks at workers.
        arrived: Tasks that came so far; only its changes count.
        service_ns: Usual duration of a task; 0 where none was measured.
        size: Workers that serve or start.
        starting: Those of them that start.
        long: Workers in a task for longer than POOL_LONG_NS.
    """

    waiting: int
    oldest_ns: int
    held: int
    arrived: int
    service_ns: float
    size: int
    starting: int = 0
    long: int = 0


class Step(NamedTuple):
    """What to do: another size than the pool has and why, or nothing yet; look again at `look_ns` (0: no need)."""

    target: int
    reason: str
    look_ns: int


class ScalePolicy:
    """See the module.

    Args:
        smallest: Workers at least; 0 lets an idle pool go.
        largest: Workers at most.
        slots: Tasks that one worker runs at once.
        cooldown_ns: Half of the time after which a worker that was not needed goes.
    """

    __slots__ = (
        "_arrived",
        "_grown_ns",
        "_hold",
        "_looked_ns",
        "_needed_ns",
        "_needs",
        "_rate",
        "_served_ns",
        "_served_waiting",
        "_shrunk_ns",
        "_surge",
        "cooldown_ns",
        "held_back",
        "largest",
        "look_ns",
        "machine",
        "slots",
        "smallest",
        "wants_machine",
    )

    def __init__(self, smallest: int, largest: int, slots: int = 1, cooldown_ns: int = limits.POOL_COOLDOWN_NS) -> None:
        self.smallest = smallest
        self.largest = largest
        self.slots = slots
        self.cooldown_ns = cooldown_ns
        self.machine: Machine | None = None
        self.wants_machine = False
        self.held_back = ""
        self.look_ns = 0
        self._needs: deque[tuple[int, int]] = deque()
        self._rate = 0.0
        self._arrived = 0
        self._looked_ns: int | None = None
        self._grown_ns: int | None = None
        self._served_ns: int | None = None
        self._served_waiting = 0
        self._needed_ns = 0
        self._hold = 2
        self._shrunk_ns: int | None = None
        self._surge = Surge()

    def pressed(self, waiting: int, oldest_ns: int, service_ns: float, size: int) -> bool:
        """Whether so much waits, or for so long, that more workers would help. Cheap: asked in every turn."""
        if not waiting:
            return False
        work_ns = waiting * (service_ns or _UNKNOWN_TASK_NS)
        return not size or work_ns > limits.POOL_WAIT_NS * size * self.slots or oldest_ns >= limits.POOL_WAIT_NS

    def due(self, now_ns: int) -> bool:
        """Whether to look also without pressure: what is needed must be known all the time."""
        if self._looked_ns is None or now_ns >= self._looked_ns + limits.POOL_LOOK_NS:
            return True
        return bool(self.look_ns) and now_ns >= self.look_ns

    def decide(self, load: Load, now_ns: int) -> Step:
        """Look at the pool. A caller that does as told gets the same answer until something changes."""
        self._follow(load, now_ns)
        self.held_back = ""
        pressed = self.pressed(load.waiting, load.oldest_ns, load.service_ns, load.size)
        serving = load.size - load.starting
        surging = bool(load.starting) and self.pressed(load.waiting, load.oldest_ns, load.service_ns, serving)
        self.wants_machine = (pressed or surging) and load.size < self.largest
        self._surge.follow(pressed or surging, load.arrived, now_ns)
        if not load.waiting and not load.starting:
            self._grown_ns = None
        usual = self._usual_need(load)
        need = self._pressed_need(load, usual) if pressed else usual
        need = min(self.largest, max(self.smallest, need, 1 if load.waiting or load.held else 0))
        self._remember(need, load.size, now_ns)
        if (pressed and need > load.size) or surging:
            step = self._grow(load, need if pressed else 0, now_ns)
        elif self._is_surplus(load, now_ns):
            step = Step(self._needs[0][1], self._why_less(load), now_ns + limits.POOL_LOOK_NS)
        else:
            step = Step(load.size, "", self._next_look(load, now_ns))
        self.look_ns = step.look_ns
        return step

    def grown(self, now_ns: int) -> None:
        """Workers were asked for now, though it may have been decided earlier: what they change shows later, too."""
        self._grown_ns, self._served_ns = now_ns, None

    @property
    def rate_per_s(self) -> float:
        """Tasks that come in a second."""
        return self._rate * 1e9

    # --- need -----------------------------------------------------------------------------------------------------

    def _follow(self, load: Load, now_ns: int) -> None:
        """Arrival rate, smoothed over POOL_RATE_NS or a task's duration, so that one task counts for one place."""
        if self._looked_ns is None:
            self._looked_ns, self._arrived = now_ns, load.arrived
            self._rate = load.arrived / self._rate_ns
            self._needed_ns = now_ns
            return
        passed = now_ns - self._looked_ns
        if passed < limits.POOL_LOOK_NS:
            return
        new = max(0, load.arrived - self._arrived)
        keep = exp(-passed / max(self._rate_ns, load.service_ns))
        self._rate = self._rate * keep + new / passed * (1 - keep)
        self._looked_ns, self._arrived = now_ns, load.arrived

    def _usual_need(self, load: Load) -> int:
        busy = self._rate * load.service_ns / self.slots
        return max(ceil(busy / limits.POOL_UTILIZATION - _NOISE), load.long)

    def _pressed_need(self, load: Load, usual: int) -> int:
        """What runs goes on, and what waits is to be gone soon. What runs for long tells how long tasks take."""
        service_ns = max(load.service_ns or _UNKNOWN_TASK_NS, load.oldest_ns)
        more = ceil(load.waiting * service_ns / self.slots / limits.POOL_DRAIN_NS)
        running = min(load.size, ceil((load.held or load.size) / self.slots))
        return max(usual, running) + min(max(1, more), ceil(load.waiting / self.slots))

    def _surging_need(self, load: Load, now_ns: int) -> int:
        """Before workers that start can show anything: what the rate of arrivals since work presses needs, but no more
        than there is POOL_WAIT_NS of waiting work for; the size as it is while that is little more."""
        service_ns = max(load.service_ns or _UNKNOWN_TASK_NS, load.oldest_ns)
        rate = self._surge.rate(load.arrived, now_ns)
        enough = ceil(rate * service_ns / self.slots / limits.POOL_UTILIZATION - _NOISE)
        waiting = load.waiting + self._surge.arrived(load.arrived)
        work = ceil(waiting * service_ns / self.slots / limits.POOL_WAIT_NS)
        need = min(enough, load.size - load.starting + work, self.largest)
        few = load.size + ceil(load.size / limits.POOL_SURGE_PARTS)
        return need if need >= min(few, enough, self.largest) else load.size

    @property
    def _rate_ns(self) -> int:
        return min(limits.POOL_RATE_NS, self.cooldown_ns // 8)

    def _remember(self, need: int, size: int, now_ns: int) -> None:
        """The largest need of the last cooldown, this one included, stands first in `_needs`."""
        needs = self._needs
        while needs and needs[0][0] + self.cooldown_ns <= now_ns:
            needs.popleft()
        while needs and needs[-1][1] <= need:
            needs.pop()
        needs.append((now_ns, need))
        if need >= size:
            self._needed_ns = now_ns

    def _is_surplus(self, load: Load, now_ns: int) -> bool:
        """Whether workers should go: then the next go a cooldown later at the earliest."""
        most = self._needs[0][1]
        if load.starting or now_ns < self._needed_ns + self._hold * self.cooldown_ns:
            return False
        if most > load.size - ceil(load.size / limits.POOL_SURPLUS_PARTS):
            return False
        self._needed_ns = now_ns - (self._hold - 1) * self.cooldown_ns
        self._shrunk_ns = now_ns
        return True

    def _next_look(self, load: Load, now_ns: int) -> int:
        """When workers may go, or when what waits has waited for long."""
        look_ns = 0
        if load.size > self.smallest:
            look_ns = max(self._needed_ns + self._hold * self.cooldown_ns, now_ns + limits.POOL_LOOK_NS)
            if look_ns == now_ns + limits.POOL_LOOK_NS:
                look_ns = self._needs[0][0] + self.cooldown_ns
        if load.oldest_ns and load.size < self.largest:
            late_ns = now_ns + max(limits.POOL_LOOK_NS, limits.POOL_WAIT_NS - load.oldest_ns)
            look_ns = min(look_ns or late_ns, late_ns)
        return look_ns

    # --- growth ---------------------------------------------------------------------------------------------------

    def _grow(self, load: Load, need: int, now_ns: int) -> Step:
        until_ns = self._settles_until(load, now_ns)
        if until_ns:
            need = self._surging_need(load, now_ns) if load.starting else load.size
            until_ns = min(until_ns, now_ns + limits.POOL_SURGE_NS) if load.starting else until_ns
        if need <= load.size:
            return Step(load.size, "", until_ns or self._next_look(load, now_ns))
        has_room = room(self.machine, now_ns, load.size, load.starting, load.oldest_ns, self.largest)
        target = min(need, has_room.size)
        self.held_back = has_room.why if target < need else ""
        if target <= load.size:
            return Step(load.size, "", now_ns + limits.MACHINE_LOOK_NS)
        self._grown_ns, self._served_ns = now_ns, None
        self._judge_shrinking(now_ns)
        return Step(target, self._why_more(load), now_ns + limits.POOL_DRAIN_NS)

    def _judge_shrinking(self, now_ns: int) -> None:
        """Growth within the time that shrinking had waited for, or soon after it: it should have waited for longer."""
        if self._shrunk_ns is None:
            return
        regretted = now_ns < self._shrunk_ns + max(self._hold, limits.POOL_REGRET) * self.cooldown_ns
        self._hold = min(self._hold * limits.POOL_REGRET, limits.POOL_HOLD_MAX) if regretted else 2
        self._shrunk_ns = None

    def _settles_until(self, load: Load, now_ns: int) -> int:
        """Until when workers that were just started must show what they change; 0: they did."""
        if not load.size or self._grown_ns is None:
            return 0
        if load.starting:
            until_ns = self._grown_ns + limits.POOL_START_NS
        else:
            if self._served_ns is None:
                self._served_ns, self._served_waiting = now_ns, load.waiting
            until_ns = self._served_ns + limits.POOL_DRAIN_NS
            less = self._served_waiting - load.waiting
            if now_ns >= until_ns and load.waiting * (now_ns - self._served_ns) <= less * limits.POOL_SOON_NS:
                self._served_ns, self._served_waiting = now_ns, load.waiting
                return now_ns + limits.POOL_DRAIN_NS
        if now_ns < until_ns:
            return until_ns
        self._grown_ns = None
        return 0

    # --- words ----------------------------------------------------------------------------------------------------

    def _why_more(self, load: Load) -> str:
        waits = counted(load.waiting, "task waits", "tasks wait")
        if not load.size:
            return f"{waits} and there is no worker"
        if load.oldest_ns >= limits.POOL_WAIT_NS:
            return f"{waits}, for {load.oldest_ns / 1e6:,.0f} ms behind ones that take long"
        each_ms = load.waiting * (load.service_ns or _UNKNOWN_TASK_NS) / self.slots / load.size / 1e6
        return f"{waits}, {each_ms:,.0f} ms of work for each worker"

    def _why_less(self, load: Load) -> str:
        return (
            f"idle: not needed for {self._hold * self.cooldown_ns / 1e9:g} s; {self.rate_per_s:,.1f} tasks a second "
            f"of {load.service_ns / 1e6:,.3g} ms"
        )
