"""What a child of the spawner does first of all: it takes its slot in the page of processes, and a title."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from runtime.host import kernel
from runtime.profile.presence.here import HERE, Presence
from runtime.profile.presence.page import LETS_ATTACH, Page
from runtime.profile.presence.titles import show_title

ROLES: Final = {
    "worker_main": "worker",
    "engine_process": "engine",
    "checkpointer": "checkpointer",
    "archive_trimmer": "trimmer",
}
"""What a process of the spawner is, by the module of its entry."""


def appear(page: Page, entry: str, config: Mapping[str, Any]) -> None:
    """In a child of the spawner, first of all: take a slot, and a title. Never fails: who is not seen works as well."""
    module = entry.partition(":")[0].rpartition(".")[2]
    role = ROLES.get(module, module)
    node_type = str(config.get("node_type", {}).get("name", "")) if role == "worker" else ""
    with suppress(OSError, ValueError):
        presence = HERE.begin(page, role, int(config.get("worker", 0)), node_type)
        show_title(presence.process)
        let_attach(presence, config)


def let_attach(presence: Presence, config: Mapping[str, Any]) -> None:
    """Where the program asked for it: let debuggers and profilers of this user attach, and say so in the page."""
    if config.get("allow_attach") and kernel.allow_attach():
        presence.slot.hears(LETS_ATTACH)
