"""Who answers what, by name: functions that are imported when somebody asks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Final

from runtime.profile.turns import TURNS

if TYPE_CHECKING:
    from runtime.profile.presence.here import Request

ANSWERS: Final = {
    "count": "runtime.profile.presence.counting:answer",
    "dump": "runtime.profile.captures.snapshot:answer",
    "cpu": "runtime.profile.sampling.sampler:answer_cpu",
    "await": "runtime.profile.sampling.sampler:answer_await",
    "flight": "runtime.profile.sampling.sampler:answer_flight",
    "leaks": "runtime.profile.leak_check.survey:answer",
    "left": "runtime.profile.leak_check.clean:answer",
    "prove": "runtime.profile.proof.prove:answer",
    "held": "runtime.profile.captures.holdings:answer",
    "tree": "runtime.profile.captures.graph_here:answer",
    "pools": "runtime.host.lenders:answer",
    "lag": "runtime.profile.monitor.lag:answer",
    "memory": "runtime.profile.leak_check.memory:answer",
    "always": "runtime.profile.sampling.always:answer",
}
"""Who answers what: `function(request: Request) -> bytes | None`, called in a thread of its own; None: what there was
to say has been put already."""
LONG: Final = frozenset({"cpu", "await", "leaks", "memory", "prove"})
"""Those that mostly sleep: what they compute is in short turns (see `profile.turns`), the time between is not."""
Content = bytes | list[bytes]
"""An answer, whole or in pieces."""


def answer(request: Request) -> Content | None:
    """What this process has to say. Raises what its answer raises; LookupError where there is none."""
    module, _, function = ANSWERS[request.what].partition(":")
    with TURNS.short() if request.threads else nullcontext():
        made: Callable[[Request], Content | None] = getattr(import_module(module), function)
        if request.what not in LONG:
            return made(request)
    return made(request)
