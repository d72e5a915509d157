"""What the log of a state folder says, read by the test and not told by an engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from actors.protocol.graph import decode
from actors.protocol.places import unpacked
from actors.protocol.records import RecordType
from runtime.host.decode import BLOB_MARK
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log


@dataclass
class LogStory:
    """Records of a log by what they say. A place is (run number, node)."""

    records: int = 0
    completed: Counter[tuple[int, int]] = field(default_factory=Counter)
    attempts: list[tuple[int, int, str, str]] = field(default_factory=list)
    """(run number, node, outcome, kind of failure) of every attempt that did not succeed."""
    cancels: list[tuple[int, int | None]] = field(default_factory=list)
    items: dict[tuple[int, int], Any] = field(default_factory=dict)
    """What was submitted: the stored arguments of each place."""

    def endings(self) -> Counter[tuple[int, int]]:
        """How often each place came to an end that is final."""
        found = Counter(self.completed)
        found.update((run, node) for run, node, outcome, _ in self.attempts if outcome != "retry")
        return found

    def outcomes(self) -> list[tuple[str, str]]:
        """(outcome, kind of failure) of the attempts that did not succeed."""
        return [(outcome, kind) for _, _, outcome, kind in self.attempts]


def log_of(state_dir: Path, *, live: bool = False) -> LogStory:
    """Read the whole log. `live` reads beside a running engine."""
    story = LogStory()
    with StateFolder.open(state_dir, create=False, owner=False) as folder:
        for record in read_log(folder.log, DiskFiles(), live=live):
            story.records += 1
            _read(story, record.type, record.payload, Path(folder.blobs_path))
    return story


def _read(story: LogStory, record_type: int, payload: bytes, blobs: Path) -> None:
    if record_type == RecordType.COMPLETED:
        groups: list[list[Any]] = orjson.loads(payload)[1]
        for _, run, nodes, values, *_ in groups:
            story.completed.update((run, node) for node in unpacked(nodes, len(values)))
    elif record_type == RecordType.ATTEMPT:
        run, node, outcome, _, failure, *_ = orjson.loads(payload)
        story.attempts.append((run, node, outcome, failure["kind"]))
    elif record_type == RecordType.SUBMITTED:
        _read_submission(story, payload, blobs)
    elif record_type == RecordType.CANCEL:
        run, node, *_ = orjson.loads(payload)
        story.cancels.append((run, node))


def _read_submission(story: LogStory, payload: bytes, blobs: Path) -> None:
    if payload[:1] == b"G":
        length = int.from_bytes(payload[1:5], "little")
        _, run, *_ = orjson.loads(payload[5 : 5 + length])
        container = payload[5 + length :]
        if container[:1] == BLOB_MARK:
            container = (blobs / container[1:].decode()).read_bytes()
        items = decode(container)[1].items or []
    else:
        _, run, _, _, body = orjson.loads(payload[1:])
        items = body[2] if payload[:1] == b"M" else [row[2] for row in body]
    story.items.update(((run, node), item) for node, item in enumerate(items))
