"""Retry policies for each kind of failure: how often, when, and with what the handler is told of its attempt."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import NodeType, Retry, Runtime
from tests.integration import handlers
from tests.scenarios.waiting import lines

pytestmark = pytest.mark.slow

POOLS: Final = [NodeType("cpu", workers=1, grace=0.1), NodeType("io", workers=1, mode="asyncio", grace=0.1)]
KINDS: Final = ("error", "timeout", "crash", "memory")
QUICK: Final[dict[str, Any]] = {"base": 0.01, "cap": 0.02}


def options_for(kind: str, retry: Retry) -> dict[str, Any]:
    """What a task needs for its attempts to end in this way."""
    return {"retry": retry, "poison": 100, **({"timeout": 0.3} if kind == "timeout" else {})}


@pytest.mark.parametrize("node_type", ["cpu", "io"])
@pytest.mark.parametrize("kind", KINDS)
def test_attempts_until_it_succeeds(state_dir: Path, tmp_path: Path, kind: str, node_type: str) -> None:
    """The attempt counts up, the idempotency key stays."""
    path = tmp_path / "noted"
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        pool = rt.options(node_type=node_type, **options_for(kind, Retry(max_attempts=5, **QUICK)))
        handle = pool.submit(handlers.end_as, kind, str(path), 3)
        attempt, key = handle.result(timeout=60)
        assert attempt == 3
        assert handle.status().attempts == 3
        assert [line.word for line in lines(path)] == [f"{kind}:{number}:{key}" for number in (1, 2, 3)]


@pytest.mark.parametrize("kind", KINDS)
def test_attempts_are_counted_and_then_it_fails(state_dir: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "noted"
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        handle = rt.options(**options_for(kind, Retry(max_attempts=3, **QUICK))).submit(
            handlers.end_as, kind, str(path), 99
        )
        failed = handle.exception(timeout=60)
        assert failed is not None
        assert failed.kind == kind
        assert handle.status().attempts == 3
    assert len(lines(path)) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_kinds_that_were_named_are_tried_again(state_dir: Path, tmp_path: Path, kind: str) -> None:
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        for named in KINDS:
            path = tmp_path / named
            retry = Retry(max_attempts=2, on=[named], **QUICK)
            handle = rt.options(**options_for(kind, retry)).submit(handlers.end_as, kind, str(path), 99)
            assert handle.exception(timeout=60) is not None
            assert len(lines(path)) == (2 if named == kind else 1), f"{kind} with on={named}"


def test_a_payload_that_cannot_be_stored_is_not_tried_again(state_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "noted"
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        failed = rt.options(retry=5).submit(handlers.end_as, "payload", str(path), 99).exception(timeout=60)
        assert failed is not None
        assert failed.kind == "payload"
    assert len(lines(path)) == 1


def test_waits_grow_and_end_at_the_cap(state_dir: Path, tmp_path: Path) -> None:
    """Without jitter: 50, 100, 200, 200 ms."""
    path = tmp_path / "noted"
    retry = Retry(max_attempts=5, base=0.05, factor=2.0, cap=0.2, jitter=False)
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        handle = rt.options(retry=retry).submit(handlers.end_as, "error", str(path), 5)
        assert handle.result(timeout=60)[0] == 5
        events = [event.text for event in handle.story() if "attempt" in event.event]
        assert [text.rpartition("; ")[2] for text in events] == [
            "attempt 2 starts in 0.050 s",
            "attempt 3 starts in 0.100 s",
            "attempt 4 starts in 0.200 s",
            "attempt 5 starts in 0.200 s",
        ]
    waits_s = [(after.at_ns - before.at_ns) / 1e9 for before, after in pairwise(lines(path))]
    for waited, wanted in zip(waits_s, (0.05, 0.1, 0.2, 0.2), strict=True):
        assert wanted <= waited < wanted + 1.0


def test_a_wait_goes_on_after_a_restart(state_dir: Path, tmp_path: Path) -> None:
    """The attempts that were made count, and what is left of the wait is waited."""
    path = tmp_path / "noted"
    retry = Retry(max_attempts=2, base=1.0, jitter=False)
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        handle = rt.options(retry=retry).submit(handlers.end_as, "error", str(path), 2, run_id="waiting")
        handle_again = rt.handle("waiting")
        while "next starts in" not in handle_again.node(0).why():
            pass
        assert not handle.done()
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        assert rt.handle("waiting").result(timeout=60)[0] == 2
    first, second = lines(path)
    assert 1.0 <= (second.at_ns - first.at_ns) / 1e9 < 3.0


def test_without_a_policy_a_crash_is_tried_again_up_to_the_poison_limit(state_dir: Path, tmp_path: Path) -> None:
    """A worker's death may be nobody's fault; an error of the handler is its own."""
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        for kind, attempts in (("error", 1), ("timeout", 1), ("memory", 3), ("crash", 3)):
            path = tmp_path / kind
            pool = rt.options(timeout=0.3) if kind == "timeout" else rt.options(timeout=None)
            assert pool.submit(handlers.end_as, kind, str(path), 99).exception(timeout=60) is not None
            assert len(lines(path)) == attempts, kind
