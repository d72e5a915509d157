"""What a program asks of the profiler of its runtime, beyond what is always on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.checks import listed, refuse

if TYPE_CHECKING:
    from runtime.profile.monitor.bounds import Bounds, Breach
    from runtime.profile.monitor.burn import Slo


@dataclass(frozen=True, slots=True)
class Profiling:
    """Settings of `Runtime(..., profiling=...)`.

        Runtime("state/", profiling=Profiling(watch=True, slos=[Slo("orders", meter)]))

    Args:
        watch: Watch this runtime from its opening to its end, see `rt.profile.watch`.
        bounds: What is in order; None for the defaults of `runtime.profile.monitor.watching.Bounds`.
        slos: Objectives, each a `runtime.profile.monitor.watching.Slo`.
        tell: Called with each breach; None: the logger "mainspring" warns of it.
        allow_attach: Let debuggers and profilers of this user, such as py-spy, attach to this program and all processes
            of its runtime where Linux allows that to parents only (Yama, `kernel.yama.ptrace_scope` 1). Any program of
            this user can then read their memory. `python -m runtime.profile doctor` says whether it is so.

    Raises:
        ConfigurationError: A value is of another type.
    """

    watch: bool = False
    bounds: Bounds | None = None
    slos: Iterable[Slo] = ()
    tell: Callable[[Breach], Any] | None = None
    allow_attach: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "slos", tuple(listed(self.slos)))
        refuse(
            "Profiling",
            (isinstance(self.watch, bool), "watch must be True or False"),
            (isinstance(self.allow_attach, bool), "allow_attach must be True or False"),
            (all(callable(getattr(one, "measure", None)) for one in self.slos), "slos must be Slo objects"),
            (
                self.bounds is None or isinstance(getattr(self.bounds, "silence", None), int | float),
                f"bounds must be a Bounds, not {self.bounds!r:.60}",
            ),
            (self.tell is None or callable(self.tell), f"tell must be a function, not {self.tell!r:.60}"),
            (self.watch or not (self.slos or self.bounds or self.tell), "bounds, slos and tell need watch=True"),
        )
