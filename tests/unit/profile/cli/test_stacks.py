"""`dump` as text: in which order everything stands."""

from __future__ import annotations

import re

from runtime.profile.cli.stacks import dump_lines
from runtime.profile.model import COUNT, LIVE, Frame, Process, Profile, StackSample


def test_tasks_stand_by_age_the_oldest_first() -> None:
    """As numbers: as text 10 s would stand before 2 s."""
    profile, worker = Profile(LIVE, COUNT), Process(7, 1, "worker", 1)
    for age_s in ("2.000", "10.000", "9.500", "100.000"):
        labels = (("age_s", age_s), ("state", "waiting"), ("task", f"Task-{age_s}"))
        profile.add(StackSample((Frame("f"),), labels, worker, "tasks"), 1)
    profile.add(StackSample((Frame("g"),), (("state", "running"),), worker, "MainThread"), 1)
    heads = [line for line in dump_lines(profile) if re.match("task|thread", line)]
    assert [head.split(" ")[1] for head in heads] == [
        "MainThread", "Task-100.000", "Task-10.000", "Task-9.500", "Task-2.000",
    ]  # fmt: skip
