"""Commands from outside: one question a call, answered when the core answers, and nothing for those who misbehave."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.persister import Persister
from actors.protocol import limits
from actors.protocol.effects import Tell
from actors.protocol.errors import CallerError, ConfigurationError, EngineUnavailable
from runtime.errors import error_to_wire
from runtime.host import command_socket
from runtime.host.command_desk import CommandDesk
from runtime.host.teller import Teller

PATIENCE_S = 30.0


class Desk:
    """A desk on a loop in a thread, and a core that answers as it is told to."""

    def __init__(self, state_dir: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.asked: list[Any] = []
        self.silent = threading.Event()
        self.heard = threading.Event()
        self.teller = Teller(None, {})  # type: ignore[arg-type]
        self.desk = CommandDesk(self.loop, str(state_dir), self.deliver, self.teller, Persister("os", next_lsn=8))
        self.desk.open()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def deliver(self, message: Any) -> None:
        self.asked.append(message)
        self.heard.set()
        if not self.silent.is_set():
            self.tell(message)

    def tell(self, message: Any) -> None:
        error = None
        if message.args.get("wrong"):
            error = error_to_wire(ConfigurationError("two problems"))
        self.teller.take(Tell(message.session, "Q", [message.query_id, message.args, error], 1))

    def end(self) -> None:
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.desk.close)
            self.loop.call_soon_threadsafe(lambda: self.loop.call_soon(self.loop.stop))
            self.thread.join()
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def desk(folder: Path) -> Iterator[Desk]:
    found = Desk(folder)
    yield found
    found.end()


def call(folder: Path, data: bytes) -> bytes:
    """What is answered to these bytes, until the desk hangs up."""
    answer = b""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE_S)
        with command_socket._address(str(folder)) as address:
            sock.connect(address)
        try:
            sock.sendall(data)
            while part := sock.recv(65_536):
                answer += part
        except (ConnectionResetError, BrokenPipeError):
            pass
    return answer


def test_a_question_is_answered(folder: Path, desk: Desk) -> None:
    assert command_socket.ask(str(folder), "policy", {"change": {"pause": ["tenant:é"]}}) == {
        "change": {"pause": ["tenant:é"]}
    }
    command_socket.ask(str(folder), "policy", {})
    assert len({message.session for message in desk.asked}) == 2, "each caller is a session of its own"
    assert desk.teller.others == {}


def test_how_far_the_log_is_written_is_told_at_once(folder: Path, desk: Desk) -> None:
    desk.silent.set()
    told = command_socket.ask(str(folder), command_socket.WRITTEN, {})
    assert told == {"lsn": 7, "last": 7, "durability": "os"}
    assert desk.asked == [], "the core is not asked"


def test_an_error_comes_back_as_its_class(folder: Path, desk: Desk) -> None:
    with pytest.raises(ConfigurationError, match="two problems"):
        command_socket.ask(str(folder), "policy", {"wrong": True})


def test_only_the_owner_may_call_and_only_while_the_engine_lives(folder: Path, desk: Desk) -> None:
    path = folder / command_socket.NAME
    status = path.lstat()
    assert stat.S_ISSOCK(status.st_mode)
    assert stat.S_IMODE(status.st_mode) == 0o600
    desk.end()
    assert not path.exists()
    with pytest.raises(EngineUnavailable, match="takes no commands"):
        command_socket.ask(str(folder), "policy", {})


def test_other_questions_and_nonsense_are_refused(folder: Path, desk: Desk) -> None:
    with pytest.raises(CallerError, match="'engine' is no command"):
        command_socket.ask(str(folder), "engine", {})
    for nonsense in (b"{\n", b"5\n", b'["policy"]\n', b'["policy",5]\n', b'[["policy"],{}]\n'):
        result, error = orjson.loads(call(folder, nonsense))
        assert result is None
        assert error["code"] == "MS100"
    assert desk.asked == []


def test_who_asks_too_much_or_goes_without_asking_is_let_go(
    folder: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(folder, b"x" * (limits.COMMAND_BYTES_MAX + 1)) == b""
    monkeypatch.setattr(limits, "COMMAND_WAIT_NS", 1_000_000)
    assert call(folder, b"[") == b""
    assert command_socket.ask(str(folder), "policy", {}) == {}


def test_callers_are_bounded(folder: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMMANDS_OPEN_MAX", 1)
    desk.silent.set()
    first = threading.Thread(target=call, args=(folder, b'["policy",{}]\n'))
    first.start()
    assert desk.heard.wait(PATIENCE_S)
    with pytest.raises(EngineUnavailable, match="takes no commands: 1 other asks"):
        command_socket.ask(str(folder), "policy", {}, timeout_s=0.05)
    desk.loop.call_soon_threadsafe(desk.tell, desk.asked[0])
    first.join()
    assert len(desk.asked) == 1


def test_who_finds_too_many_there_asks_again(folder: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever works through a list of tenants starts as many commands at once as there are tenants."""
    monkeypatch.setattr(limits, "COMMANDS_OPEN_MAX", 1)
    answers: list[Any] = []
    callers = [
        threading.Thread(target=lambda: answers.append(command_socket.ask(str(folder), "policy", {}, PATIENCE_S)))
        for _ in range(16)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert answers == [{}] * 16


def test_an_engine_that_does_not_answer_is_named(folder: Path, desk: Desk) -> None:
    desk.silent.set()
    with pytest.raises(EngineUnavailable, match=r"did not answer within 0\.05 s"):
        command_socket.ask(str(folder), "policy", {}, timeout_s=0.05)


def test_who_went_away_is_told_nothing(folder: Path, desk: Desk) -> None:
    desk.silent.set()
    with pytest.raises(EngineUnavailable):
        command_socket.ask(str(folder), "policy", {}, timeout_s=0.05)
    desk.silent.clear()
    desk.loop.call_soon_threadsafe(desk.tell, desk.asked[0])
    assert command_socket.ask(str(folder), "policy", {}) == {}


def test_what_a_killed_engine_left_is_swept(folder: Path) -> None:
    command_socket.listening(str(folder)).close()  # type: ignore[union-attr]
    assert (folder / command_socket.NAME).exists()
    desk = Desk(folder)
    assert command_socket.ask(str(folder), "policy", {}) == {}
    desk.end()


def test_a_file_of_that_name_is_left_alone(folder: Path) -> None:
    (folder / command_socket.NAME).write_text("mine")
    assert command_socket.listening(str(folder)) is None
    command_socket.remove(str(folder))
    assert (folder / command_socket.NAME).read_text() == "mine"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="long paths need /proc")
def test_a_long_path_will_do(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    desk = Desk(folder)
    assert command_socket.ask(str(folder), "policy", {}) == {}
    desk.end()
    assert list(folder.iterdir()) == []
