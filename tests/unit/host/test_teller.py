"""Frames for the session: merging, order, halving, and sessions that are not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson

from actors.protocol import limits
from actors.protocol.effects import Scaled, Tell
from runtime.host.teller import Teller


class Heard:
    """A post that remembers."""

    def __init__(self) -> None:
        self.frames: list[tuple[bytes, bool]] = []
        self.backlog_bytes = 0

    def send(self, payload: bytes, *, control: bool = False) -> None:
        self.frames.append((payload, control))

    @property
    def bodies(self) -> list[tuple[str, Any]]:
        return [(frame[:1].decode(), orjson.loads(frame[1:])) for frame, _ in self.frames]


def teller() -> tuple[Teller, Heard]:
    heard = Heard()
    made = Teller(heard, {"records": 3})  # type: ignore[arg-type]
    made.session = "s"
    return made, heard


def test_rows_of_one_turn_are_one_frame_and_acks_count_once() -> None:
    told, heard = teller()
    for tell in (
        Tell("s", "A", [1], 1),
        Tell("s", "A", [4], 1),
        Tell("s", "R", [[1, [0], [5]]], 2),
        Tell("s", "R", [[2, [0], [6]]], 2),
        Tell("s", "A", [5], 3),
    ):
        told.take(tell)
    told.send()
    assert heard.bodies == [("A", [4]), ("R", [[1, [0], [5]], [2, [0], [6]]]), ("A", [5])]


def test_who_is_not_connected_is_not_told() -> None:
    told, heard = teller()
    told.take(Tell("other", "A", [1], 1))
    told.send()
    assert heard.frames == []


def test_hello_carries_what_the_recovery_found() -> None:
    told, heard = teller()
    told.take(Tell("s", "H", {"acked_seq": 7}, 1, control=True))
    told.send()
    assert heard.bodies == [("H", {"acked_seq": 7, "recovery": {"records": 3}})]
    assert heard.frames[0][1]


def test_what_does_not_fit_into_a_frame_is_halved_and_complete() -> None:
    told, heard = teller()
    values = ["x" * 50_000 for _ in range(60)]
    told.take(Tell("s", "R", [[1, list(range(60)), values]], 1))
    told.send()
    assert all(len(frame) <= limits.FRAME_BYTES_MAX for frame, _ in heard.frames)
    nodes = [node for _, rows in heard.bodies for _, part, _ in rows for node in part]
    assert nodes == list(range(60))


def test_announcements_go_at_once_on_the_control_lane() -> None:
    told, heard = teller()
    told.announce("MS206", "full")
    assert heard.bodies == [("Y", ["full", "MS206"])]
    assert heard.frames[0][1]


def test_a_step_in_size_is_told_at_once_with_its_reason() -> None:
    told, heard = teller()
    told.scaled(Scaled("cpu", 0, 2, "9 tasks wait and there is no worker"))
    assert heard.bodies == [("Y", ["9 tasks wait and there is no worker", "scaled", ["cpu", 0, 2, 0, None]])]
    assert heard.frames[0][1]


def test_how_far_the_log_is_written_is_said_when_it_changed_or_was_asked() -> None:
    told, heard = teller()
    mail = SimpleNamespace(asks_log=True, watches_log=True)
    for lsn in (5, 5, 6):
        told.written(lsn, mail)  # type: ignore[arg-type]
    heard.backlog_bytes = 1
    told.written(7, mail)  # type: ignore[arg-type]
    told.written(8, mail)  # type: ignore[arg-type]
    heard.backlog_bytes = 0
    told.written(8, mail)  # type: ignore[arg-type]
    mail.asks_log = True
    told.written(8, mail)  # type: ignore[arg-type]
    assert heard.bodies == [("L", 5), ("L", 6), ("L", 8), ("L", 8)]
    assert all(control for _, control in heard.frames)
