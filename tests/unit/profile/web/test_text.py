"""Profiles as Go's text: golden texts, and that a name of a user's cannot break a line."""

from __future__ import annotations

from runtime.profile.model import COUNT, LIVE, Frame, Process, Profile, StackSample
from runtime.profile.web.text import merged_text, single_text

WORKER = Process(12, 34, "worker", 3, "http")
STACK = (Frame("main", "/app/main.py", 5), Frame("fetch", "/app/net.py", 31))


def live() -> Profile:
    profile = Profile(LIVE, COUNT)
    facts = (("age_s", "1.5"), ("awaits", "Future"), ("created", "/app/main.py:4 main"), ("state", "waiting"))
    profile.add(StackSample(STACK, (*facts, ("task", "t1"), ("tenant", "acme")), WORKER, "tasks"), 3)
    profile.add(StackSample(STACK[:1], (), WORKER, "Main\nThread"), 1)
    profile.notes.append("one is missing")
    return profile


def test_merged() -> None:
    profile = live().map(lambda one: one._replace(labels=tuple(p for p in one.labels if p[0] in ("state", "tenant"))))
    assert merged_text(profile, "goroutine").splitlines() == [
        "goroutine profile: total 4",
        "3 @ 0x1000 0x1010",
        '# labels: {"state":"waiting","tenant":"acme","process":"worker 3 [http]","thread":"tasks"}',
        "#\t0x1000\tfetch\t/app/net.py:31",
        "#\t0x1010\tmain\t/app/main.py:5",
        "",
        "1 @ 0x1010",
        '# labels: {"process":"worker 3 [http]","thread":"Main\\nThread"}',
        "#\t0x1010\tmain\t/app/main.py:5",
        "",
        "# note: one is missing",
    ]


def test_one_by_one() -> None:
    assert single_text(live(), "goroutine").splitlines() == [
        "goroutine 1 [waiting, awaits Future, 1.5 seconds]: task t1 in worker 3 [http]",
        'labels: {"tenant":"acme"}',
        "fetch(...)",
        "\t/app/net.py:31",
        "main(...)",
        "\t/app/main.py:5",
        "created by main",
        "\t/app/main.py:4",
        "",
        "goroutine 2 [unknown]: thread Main\\nThread in worker 3 [http]",
        "main(...)",
        "\t/app/main.py:5",
        "",
        "# note: one is missing",
    ]


def test_nothing_is_said() -> None:
    assert single_text(Profile(LIVE, COUNT), "goroutine") == "no goroutine\n"
    assert merged_text(Profile(LIVE, COUNT), "fd") == "fd profile: total 0\n"
