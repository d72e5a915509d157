"""The engine's side of the processes for checkpoints and archive, with the test in the spawner's place."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors import trimming
from actors.protocol import log_messages as log
from runtime.host.blob_reclaimer import BlobReclaimer
from runtime.host.checkpointing import CHECKPOINTER, TRIMMER, Checkpointing
from runtime.mail.blobs import BlobStore


class Starter:
    """Keeps what was asked for; `end` plays the process and its end."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, dict[str, Any]]] = []
        self.pipes: dict[int, int] = {}
        self.refuses = False

    def spawn(self, worker: int, config: dict[str, Any], fds: list[int], entry: str) -> None:
        if self.refuses:
            raise OSError("the spawner is gone")
        self.asked.append((worker, config))
        self.pipes[worker] = os.dup(fds[0])

    def end(self, checkpointing: Checkpointing, worker: int, said: Any) -> None:
        pipe = self.pipes.pop(worker)
        if said is not None:
            os.write(pipe, orjson.dumps(said))
        os.close(pipe)
        assert checkpointing.takes({"worker": worker, "did": "exited", "status": 0 if said else 9})


class Passed(BlobReclaimer):
    """Notes up to where checkpoints have passed."""

    passed_lsn = 0

    def passed(self, lsn: int) -> None:
        self.passed_lsn = lsn


async def until(holds: Any) -> None:
    for _ in range(10_000_000):
        if holds():
            return
        await asyncio.sleep(0)


def begin(tmp_path: Path, rule: dict[str, Any] | None) -> tuple[Starter, list[Any], Passed, Checkpointing]:
    starter, said = Starter(), list[Any]()
    reclaimer = Passed(asyncio.get_running_loop(), BlobStore(tmp_path), rule=rule)
    return starter, said, reclaimer, Checkpointing(str(tmp_path), starter, said.append, reclaimer)  # type: ignore[arg-type]


def test_what_the_process_says_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        starter, said, reclaimer, checkpointing = begin(tmp_path, None)
        checkpointing.take(log.TakeCheckpoint(7, 3))
        assert starter.asked == [(CHECKPOINTER, {"state_dir": str(tmp_path), "lsn": 7, "below": 3, "archive": None})]
        assert checkpointing.takes({"worker": CHECKPOINTER, "did": "spawned", "pid": 5})
        assert checkpointing.pid == 5
        starter.end(checkpointing, CHECKPOINTER, {"lsn": 7, "bytes": 9, "cpu_ns": 3, "due_ns": None})
        assert (said, reclaimer.passed_lsn, checkpointing.pid) == ([log.CheckpointTaken(7, 9, 3)], 7, 0)
        assert not checkpointing.takes({"worker": 1, "did": "exited", "status": 0})
        checkpointing.close()

    asyncio.run(scene())


@pytest.mark.parametrize("how", ["said", "killed", "refused", "gone"])
def test_a_failure_says_why(tmp_path: Path, how: str) -> None:
    async def scene() -> None:
        starter, said, reclaimer, checkpointing = begin(tmp_path, None)
        starter.refuses = how == "gone"
        checkpointing.take(log.TakeCheckpoint(7, 3))
        if how == "refused":
            os.close(starter.pipes.pop(CHECKPOINTER))
            checkpointing.takes({"worker": CHECKPOINTER, "did": "refused", "text": "no more processes"})
        elif how != "gone":
            starter.end(checkpointing, CHECKPOINTER, {"failed": "DiskFull: no room"} if how == "said" else None)
        words = {"said": "no room", "killed": "SIGKILL", "refused": "no more processes", "gone": "spawner is gone"}
        assert isinstance(said[0], log.CheckpointFailed)
        assert words[how] in said[0].message
        assert reclaimer.passed_lsn == 0
        checkpointing.close()

    asyncio.run(scene())


def test_the_archive_is_trimmed_when_a_checkpoint_says_that_it_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimming, "FIRST_NS", 10**15)
    monkeypatch.setattr(trimming, "REST_NS", 0)

    async def scene() -> None:
        starter, _, _, checkpointing = begin(tmp_path, {"ttl_ns": 1})
        for due_ns in (0, time.time_ns()):
            checkpointing.take(log.TakeCheckpoint(7, 3))
            starter.end(checkpointing, CHECKPOINTER, {"lsn": 7, "bytes": 9, "cpu_ns": 3, "due_ns": due_ns})
            await until(lambda: TRIMMER in starter.pipes)
            assert checkpointing.archive["running"]
            assert starter.asked[-1] == (TRIMMER, {"state_dir": str(tmp_path), "archive": {"ttl_ns": 1}})
            starter.end(checkpointing, TRIMMER, {"runs": 4, "due_ns": 0})
            await until(lambda: TRIMMER in starter.pipes)  # it said that there is more
            starter.end(checkpointing, TRIMMER, {"runs": 1, "due_ns": None})
        assert checkpointing.archive == {"running": False, "runs_deleted": 10, "trouble": ""}
        checkpointing.take(log.TakeCheckpoint(8, 4))
        starter.end(checkpointing, CHECKPOINTER, {"lsn": 8, "bytes": 9, "cpu_ns": 3, "due_ns": 0})
        await until(lambda: TRIMMER in starter.pipes)
        starter.end(checkpointing, TRIMMER, None)
        assert "SIGKILL" in checkpointing.archive["trouble"]
        checkpointing.close()

    asyncio.run(scene())
