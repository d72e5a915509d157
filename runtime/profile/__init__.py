"""See inside: what every process of an engine holds, waits for and computes, always on and without privileges.

Reading order: `model` (what a profile is), `kinds` and `ledger` (what can leak, and the books of one process), `page`,
`presence` and `control` (what all processes show, and how they are asked); then `labels` (on whose account code runs),
`ticks` and `waits` (what it computes and waits for), `sampler` (both as profiles); `capture` (one picture of all
processes), `graph` (who waits for whom), `formats/` (profiles as files and pages), `diff` (what changed between two),
`convert` (files turned into others); `grading`, `detectors`, `machine`, `leaks`, `clean` and `proof` with `roots`,
`mark` and `apart` (what leaks), `memory` (what grows), `bounds`, `burn`, `meters`, `lag`, `watch`, `bundle` and `blame`
(who looks when nobody does); `inside` (`rt.profile`), `cli/` and `web` (who may see all that).

    from runtime import profile
    profile.cpu("state/", 10)        profile.leaks("state/")        with profile.labels(order="42"): ...
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Final

_FACE: Final = {
    **dict.fromkeys(("cpu", "awaits", "live", "held", "flight", "leaks", "graph"), "capture"),
    "tasks": "capture:live",
    "labels": "labels:labels",
    "CarryingPool": "carried",
    "assert_clean": "clean",
    "await_clean": "clean",
    **dict.fromkeys(("Watching", "Slo", "Bounds", "watch"), "watch"),
    "RunMeter": "meters",
    "SloMeter": "burn",
    "Profile": "model",
    "ProfileServer": "web",
    "LEDGER": "ledger",
}
"""What users find here, and where it is. Loaded when it is asked for: every process imports this package."""


class _Called(ModuleType):
    """A module that is called as a function of the face is: it can be called, too, and does the same."""

    def __call__(self, *args: Any, **more: Any) -> Any:
        return __getattr__(self.__name__.rpartition(".")[2])(*args, **more)


class _Package(ModuleType):
    """This package. The import system sets a module in it when it was loaded, in place of what `__getattr__` gave."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FACE and type(value) is ModuleType:
            value.__class__ = _Called
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    """A function of the face."""
    module, _, other = _FACE.get(name, "").partition(":")
    if not module:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), other or name)


sys.modules[__name__].__class__ = _Package
