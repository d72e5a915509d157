"""See inside: what every process of an engine holds, waits for and computes, always on and without privileges.

Reading order: `model` (what a profile is); `turns` (how long we may keep the interpreter); `ledger/` (what can leak,
and the books of one process); `presence/` (what all processes show, and how they are asked); `sampling/` (where time
goes in one process, and on whose account); `captures/` (one picture of all processes); `leak_check/` and `proof/`
(what leaks); `monitor/` (bounds and alarms); `formats/`, `convert` and `diff` (profiles as files, and compared);
`web/`, `cli/` and `pytest_plugin` (who may see it).

No module here may have the name of a function of the face: when it is imported, it would take that one's place.

    from runtime import profile
    profile.cpu("state/", 10)        profile.leaks("state/")        with profile.labels(order="42"): ...
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

_FACE: Final = {
    **dict.fromkeys(("cpu", "awaits", "live", "held", "flight", "leaks", "graph"), "captures.capture"),
    "tasks": "captures.capture:live",
    "tree": "captures.capture:graph",
    "labels": "sampling.labels",
    "CarryingPool": "sampling.carried",
    "prove": "proof.prove",
    **dict.fromkeys(("assert_clean", "await_clean"), "leak_check.clean"),
    **dict.fromkeys(("Watching", "Slo", "Bounds", "watch"), "monitor.watching"),
    "RunMeter": "monitor.meters",
    "SloMeter": "monitor.burn",
    "Profile": "model",
    "ProfileServer": "web.server",
    "LEDGER": "ledger.books",
}
"""What users find here, and where it is. Loaded when it is asked for: every process imports this package."""


def __dir__() -> list[str]:
    return sorted({*_FACE, "__doc__", "__name__"})


def __getattr__(name: str) -> Any:
    """A function of the face."""
    module, _, other = _FACE.get(name, "").partition(":")
    if not module:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), other or name)
