"""The golden script of the persister: tests/scripts/persister.txt says how to read it.

When the persister is meant to answer otherwise, the failure shows the new script: put it in the place of the old one.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from actors.persister import Durability, Persister
from actors.protocol.log_messages import (
    Append,
    Durable,
    FloorRaised,
    LogBroken,
    NoSpace,
    PersisterEffect,
    PersisterInput,
    RemoveSegments,
    RetryAt,
    WriteLog,
    Written,
)
from actors.protocol.records import Record

SCRIPT = Path(__file__).parents[2] / "scripts" / "persister.txt"
NS_PER_MS = 1_000_000


class PersisterStage:
    """Plays commands to a persister and shows its answers."""

    def __init__(self) -> None:
        self.actor = Persister()
        self.now_ns = 0

    def play(self, command: str) -> list[str]:
        """One command; the lines of its answer."""
        verb, *words = command.split()
        if verb == "open":
            self.actor, self.now_ns = Persister(cast(Durability, words[0])), 0
            return []
        if verb == "wait":
            self.now_ns += int(words[0]) * NS_PER_MS
        effects = self.actor.receive(event_of(verb, words), self.now_ns)
        self.actor.check_invariants()
        return [shown(effect) for effect in effects]


def event_of(verb: str, words: list[str]) -> list[PersisterInput]:
    """The event that a command stands for."""
    if verb == "append":
        first, last = map(int, words[0].split(".."))
        return [Append([Record(lsn, 3, b"x") for lsn in range(first, last + 1)])]
    if verb == "written":
        lsn, segment_no, first_lsn = [*map(int, words), 1, 1][:3]
        return [Written(lsn, segment_no, first_lsn)]
    if verb == "floor":
        return [FloorRaised(int(words[0]))]
    return {"full": [NoSpace("full")], "broken": [LogBroken("broken")], "wait": []}[verb]


def shown(effect: PersisterEffect) -> str:
    """An effect as the script writes it."""
    if isinstance(effect, WriteLog):
        return f"write {effect.records[0].lsn}..{effect.records[-1].lsn}" + (" sync" if effect.sync else "")
    if isinstance(effect, Durable):
        return f"durable {effect.lsn}"
    if isinstance(effect, RetryAt):
        return f"retry at {effect.at_ns // NS_PER_MS}"
    if isinstance(effect, RemoveSegments):
        return f"remove below {effect.below}"
    return type(effect).__name__.lower()


def test_the_persister_answers_as_its_script_says() -> None:
    script = SCRIPT.read_text()
    stage = PersisterStage()
    lines: list[str] = []
    for line in script.splitlines():
        if line.startswith("    "):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines += [f"    {answer}" for answer in stage.play(line)]
    assert "\n".join(lines) + "\n" == script
