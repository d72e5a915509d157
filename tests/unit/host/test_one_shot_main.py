"""A one-shot process says what came of its work, whatever that was, and ends quietly where nobody listens."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from actors.protocol.errors import CheckpointUnusable
from runtime.host import one_shot_main
from runtime.host.one_shot_main import run_one_shot


@pytest.fixture(autouse=True)
def in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process keeps its name and its place among others."""
    monkeypatch.setattr(one_shot_main.kernel, "name_process", lambda name: None)
    monkeypatch.setattr(one_shot_main.kernel, "step_back", lambda niceness: None)
    with open("/proc/self/oom_score_adj") as file:
        monkeypatch.setattr(one_shot_main, "OOM_SCORE", file.read())


def damaged() -> dict[str, Any]:
    raise CheckpointUnusable("checkpoint.db is damaged")


def full() -> dict[str, Any]:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda: {"lsn": 7}, {"lsn": 7}),
        (damaged, {"failed": "CheckpointUnusable: checkpoint.db is damaged"}),
        (full, {"failed": "OSError: [Errno 28] No space left on device"}),
    ],
)
def test_what_came_of_it_is_said(work: Callable[[], dict[str, Any]], said: dict[str, Any]) -> None:
    read_fd, write_fd = os.pipe()
    run_one_shot("ms-test", write_fd, work)
    os.close(write_fd)
    assert orjson.loads(os.read(read_fd, 1000)) == said
    os.close(read_fd)


def test_where_the_engine_is_gone_nobody_is_told() -> None:
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    try:
        run_one_shot("ms-test", write_fd, lambda: {"lsn": 7})
    finally:
        os.close(write_fd)
        signal.signal(signal.SIGPIPE, before)
