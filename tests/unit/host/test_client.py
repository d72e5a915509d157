"""One client against an engine that the test plays: hello, loss, restart, giving up, closing, forks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.protocol import limits
from runtime.errors import (
    DiskFull,
    EngineUnavailable,
    HandlerMissing,
    InternalError,
    LogCorrupt,
    LogFailed,
    MainspringError,
    MissingNode,
    RuntimeClosed,
    UnknownRun,
    WaitTimeout,
)
from runtime.handle import TaskHandle
from runtime.host.client import EngineClient
from runtime.host.pending import ERROR, FAILED, VALUE, MapChunk, Numbered
from tests.unit.runtime.fake_engine import FakeEngine

COUNTS = [0, 0, 0, 1, 0, 0, 0]


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def client(engine: FakeEngine) -> Iterator[EngineClient]:
    """Connected, with its pump; at the end the engine obeys."""
    client = EngineClient(engine, "s", None)
    client.start()
    client.attach_thread()
    yield client
    if not client.closed:
        close(client, engine)


def close(client: EngineClient, engine: FakeEngine) -> None:
    engine.end(client)


def until(true: Callable[[], object]) -> None:
    """Wait for something that another thread does, by yielding to it; no more than 10 s."""
    gate = threading.Event()
    for _ in range(2000):
        if true():
            return
        gate.wait(0.005)
    raise AssertionError("it did not happen")


def task(client: EngineClient) -> TaskHandle[Any]:
    return client.send_task(0, b"1", TaskHandle(client))


def hello_of(engine: FakeEngine) -> dict[str, Any]:
    """The next hello of the face, whatever comes before it."""
    found: list[dict[str, Any]] = []
    until(lambda: found.extend(body for letter, body in engine.heard() if letter == "H") or found)
    return found[0]


# --- life -------------------------------------------------------------------------------------------------------------


def test_hello_names_the_session_and_what_is_open(client: EngineClient, engine: FakeEngine) -> None:
    assert engine.heard() == [("H", {"session": "s", "open_seq": 1})]
    assert client.intake.recovery == {"start": 1}


def test_what_the_engine_says_instead_of_hello_is_raised() -> None:
    engine = FakeEngine(hello=False)
    client = EngineClient(engine, "s", None)
    start = engine.start

    def start_and_fail() -> Any:
        ends = start()
        engine.say("Y", ["the log is bad", "MS205"], control=True)
        engine.die(256)
        return ends

    engine.start = start_and_fail  # type: ignore[method-assign]
    with pytest.raises(LogCorrupt, match="the log is bad"):
        client.start()
    assert engine.stopped
    with pytest.raises(LogCorrupt if client.refusal is None else MainspringError):
        client.check_open()


def test_s12_an_engine_that_finds_no_room_at_its_start_is_not_waited_for() -> None:
    engine = FakeEngine(hello=False)
    client = EngineClient(engine, "s", None)
    start = engine.start

    def start_without_room() -> Any:
        ends = start()
        engine.say("Y", ["no space for 80 bytes", "MS206"], control=True)
        return ends

    engine.start = start_without_room  # type: ignore[method-assign]
    with pytest.raises(DiskFull, match="no space for 80 bytes"):
        client.start()
    assert engine.stopped


def test_an_engine_that_dies_without_a_word_is_unavailable() -> None:
    engine = FakeEngine(hello=False)
    engine.die(9)
    with pytest.raises(EngineUnavailable, match="signal 9"):
        EngineClient(engine, "s", None).start()
    assert engine.stopped


def test_an_engine_that_cannot_be_started_leaves_nothing() -> None:
    engine = FakeEngine()
    engine.refuse_start = EngineUnavailable("no processes left")
    with pytest.raises(EngineUnavailable, match="no processes left"):
        EngineClient(engine, "s", None).start()
    assert engine.stopped


def test_an_engine_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ENGINE_START_NS", 30_000_000)
    with pytest.raises(EngineUnavailable, match="said nothing"):
        EngineClient(FakeEngine(hello=False), "s", None).start()


def test_closing_waits_for_what_was_sent_and_tells_the_engine(client: EngineClient, engine: FakeEngine) -> None:
    task(client)
    closing = threading.Thread(target=client.close, args=(True, 10.0))
    closing.start()
    until(lambda: client.closing)
    with pytest.raises(RuntimeClosed):
        task(client)
    assert not any(letter == "Z" for letter, _ in engine.heard())
    engine.say("A", [1])
    found: list[Any] = []
    until(lambda: found.extend(body for letter, body in engine.heard() if letter == "Z") or found)
    assert found[0]["drain"] is True
    assert 0 < found[0]["timeout_s"] <= 10
    engine.die(0)
    closing.join(10)
    assert client.closed
    assert engine.stopped
    client.close(True, 1.0)


def test_results_that_come_while_closing_are_taken(client: EngineClient, engine: FakeEngine) -> None:
    handle = task(client)
    engine.say("A", [1])
    engine.say("R", [[1, [0], [42]]])
    close(client, engine)
    assert handle.result(0) == 42


def test_what_is_open_at_the_end_says_so(client: EngineClient, engine: FakeEngine) -> None:
    handle, batch = task(client), MapChunk(1)
    client.send_batch(0, b"[1]", batch)
    close(client, engine)
    with pytest.raises(RuntimeClosed, match="opened again"):
        handle.result()
    assert batch._state == ERROR
    for call in (lambda: task(client), lambda: client.ask("status", {}), lambda: client.define({})):
        with pytest.raises(RuntimeClosed):
            call()


def test_waiting_threads_wake_when_the_client_closes(client: EngineClient, engine: FakeEngine) -> None:
    handles = [task(client) for _ in range(3)]
    errors: list[BaseException | None] = []

    def wait(handle: TaskHandle[Any]) -> None:
        try:
            handle.result(20)
        except MainspringError as error:
            errors.append(error)

    threads = [threading.Thread(target=wait, args=(handle,)) for handle in handles]
    for thread in threads:
        thread.start()
    close(client, engine)
    for thread in threads:
        thread.join(20)
    assert [type(e) for e in errors] == [RuntimeClosed] * 3


# --- submitting -------------------------------------------------------------------------------------------------------


def test_frames_of_all_kinds(client: EngineClient, engine: FakeEngine) -> None:
    assert client.define({"handler": "m:f"}) == 0
    task(client)
    client.send_batch(0, b"[1,2]", MapChunk(2))
    cell = Numbered()
    client.send_made(cell, lambda seq: b"G" + seq.to_bytes(8, "little") + b"graph")
    assert engine.heard()[1:] == [
        ("K", [0, {"handler": "m:f"}]),
        ("T", [1, 0, 1]),
        ("M", [2, 0, [1, 2]]),
        ("G", (3).to_bytes(8, "little") + b"graph"),
    ]
    assert cell.seq == 3


def test_others_wait_behind_a_frame_that_is_being_made(client: EngineClient, engine: FakeEngine) -> None:
    making, go_on = threading.Event(), threading.Event()

    def make(seq: int) -> bytes:
        making.set()
        assert go_on.wait(10)
        return b"T[%d,0,1]" % seq

    slow = threading.Thread(target=client.send_made, args=(Numbered(), make))
    slow.start()
    assert making.wait(10)
    task(client)
    assert [letter for letter, _ in engine.heard()] == ["H"]
    go_on.set()
    slow.join(10)
    assert engine.heard() == [("T", [1, 0, 1]), ("T", [2, 0, 1])]


def test_a_frame_that_cannot_be_made_gives_its_number_up(client: EngineClient, engine: FakeEngine) -> None:
    def make(seq: int) -> bytes:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        client.send_made(Numbered(), make)
    task(client)
    assert engine.heard()[1:] == [("T", [2, 0, 1])]
    assert list(client.intake.open) == [2]


def test_an_acknowledgement_is_waited_for(client: EngineClient, engine: FakeEngine) -> None:
    task(client)
    wait = client.acknowledged(1)
    assert not client.wait(wait, 0.0)
    engine.say("A", [1])
    assert client.wait(wait, 10)
    assert client.acknowledged(1).done()


def test_half_of_what_is_held(client: EngineClient, engine: FakeEngine) -> None:
    for _ in range(10):
        task(client)
    half = client.half_acknowledged()
    engine.say("A", [5])
    assert client.wait(half, 10)
    assert half._state == VALUE


# --- trouble ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_said_and_passes(client: EngineClient, engine: FakeEngine) -> None:
    handle = task(client)
    wait = client.acknowledged(1)
    engine.say("Y", ["no space left", "MS206"], control=True)
    assert client.wait(wait, 10)
    assert isinstance(wait._value, DiskFull)
    with pytest.raises(DiskFull, match="no space"):
        task(client)
    engine.say("Y", ["there is room again", ""], control=True)
    engine.say("A", [1])
    engine.say("R", [[1, [0], [7]]])
    assert handle.result(10) == 7
    task(client)


def test_questions_and_answers(client: EngineClient, engine: FakeEngine) -> None:
    query = client.ask("why", {"run": "s-1"})
    cancel = client.ask_cancel("s-1", 3)
    assert engine.heard()[1:] == [("Q", [1, "why", {"run": "s-1"}]), ("C", [2, "s-1", 3])]
    engine.say("Q", [2, True, None], control=True)
    engine.say("Q", [1, None, {"code": "MS121", "message": "no run"}])
    assert client.answer_of(cancel, 10) is True
    with pytest.raises(UnknownRun):
        client.answer_of(query, 10)
    with pytest.raises(WaitTimeout):
        client.answer_of(client.ask("why", {}), 0.0)


@pytest.mark.parametrize("name", ["\ud800", "x" * 300_000, b"bytes", 1.5, ["list"], 2**70], ids=lambda n: f"{n!a:.8}")
def test_what_no_question_can_carry_is_refused_and_blocks_nothing(
    client: EngineClient, engine: FakeEngine, name: Any
) -> None:
    """A name that fits no frame once stayed first in the control lane, and nothing else was ever sent again."""
    with pytest.raises(UnknownRun):
        client.ask("status", {"run": name})
    with pytest.raises(UnknownRun):
        client.ask_cancel(name, None)
    for ask in (lambda: client.ask("why", {"run": "s-1", "node": name}), lambda: client.ask_cancel("s-1", name)):
        with pytest.raises(MissingNode):
            ask()
    query = client.ask("why", {"run": "s-1", "node": "x" * 1024})
    until(lambda: any(body[0] == 1 for letter, body in engine.heard() if letter == "Q"))
    engine.say("Q", [1, {"text": "it waits"}, None])
    assert client.answer_of(query, 10) == {"text": "it waits"}


# --- the engine dies --------------------------------------------------------------------------------------------------


def test_a_new_engine_gets_what_the_old_one_did_not_acknowledge(client: EngineClient, engine: FakeEngine) -> None:
    client.define({"handler": "m:f"})
    handles = [task(client) for _ in range(4)]
    query = client.ask("status", {"run": "s-1"})
    engine.say("A", [1])
    engine.say("R", [[1, [0], ["one"]]])
    assert handles[0].result(10) == "one"
    engine.heard()
    engine.acked_seq = 2
    engine.die()
    until(lambda: engine.starts == 2)
    found: list[Any] = []
    until(lambda: found.extend(engine.heard()) or len(found) >= 5)
    assert found == [
        ("H", {"session": "s", "open_seq": 2}),
        ("Q", [1, "status", {"run": "s-1"}]),
        ("K", [0, {"handler": "m:f"}]),
        ("T", [3, 0, 1]),
        ("T", [4, 0, 1]),
    ]
    engine.say("R", [[1, [0, 1, 2, 3], ["again", "two", "three", "four"]]])
    engine.say("Q", [1, {"state": "running"}, None])
    assert [h.result(10) for h in handles] == ["one", "two", "three", "four"]
    assert client.answer_of(query, 10) == {"state": "running"}
    assert client.intake.recovery == {"start": 2}


def test_a_waiting_caller_is_served_by_the_new_engine(client: EngineClient, engine: FakeEngine) -> None:
    handle = task(client)
    results: list[Any] = []
    waiting = threading.Thread(target=lambda: results.append(handle.result(20)))
    waiting.start()
    engine.die()
    until(lambda: engine.starts == 2)
    engine.say("R", [[1, [0], ["late"]]])
    waiting.join(20)
    assert results == ["late"]


def test_the_last_words_of_an_engine_count(client: EngineClient, engine: FakeEngine) -> None:
    handle = task(client)
    engine.say("F", [[1, None, "failed", {"kind": "error", "type": "ValueError", "message": "x"}]])
    engine.die()
    until(lambda: engine.starts == 2)
    assert handle._state == FAILED


def test_an_engine_that_dies_too_often_is_given_up(client: EngineClient, engine: FakeEngine) -> None:
    handle = task(client)
    for start in range(2, limits.RESTARTS_MAX + 2):
        engine.die()
        until(lambda start=start: engine.starts == start)  # type: ignore[misc]
    engine.die()
    with pytest.raises(EngineUnavailable, match="too often"):
        handle.result(20)
    with pytest.raises(EngineUnavailable):
        task(client)
    client.close(True, 5.0)
    assert engine.stopped


def test_a_fault_that_a_restart_does_not_mend_is_final(client: EngineClient, engine: FakeEngine) -> None:
    handle = task(client)
    engine.say("Y", ["fsync failed", "MS207"], control=True)
    engine.die(256)
    with pytest.raises(MainspringError, match="fsync failed"):
        handle.result(20)
    assert engine.starts == 1
    with pytest.raises(MainspringError, match="fsync failed"):
        client.ask("status", {})
    client.close(True, 5.0)


def test_a_missing_handler_is_warned_of_and_is_no_fault_of_the_engine(
    client: EngineClient, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.say("Y", ["fsync failed", "MS207"], control=True)
    engine.say("Y", ["no handler m:f", "MS209"], control=True)
    engine.die(256)
    until(lambda: client.refusal is not None)
    assert isinstance(client.refusal, LogFailed), "its last words are about the engine"
    (warning,) = [record.message for record in caplog.records if "m:f" in record.message]
    assert HandlerMissing.hint in warning


def test_a_handler_that_is_missing_already_at_the_start_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeEngine(hello=False)
    client = EngineClient(engine, "s", None)
    start = engine.start

    def start_without_handler() -> Any:
        ends = start()
        engine.say("Y", ["no handler m:f", "MS209"], control=True)
        engine.say("H", {"acked_seq": 0, "recovery": {}}, control=True)
        return ends

    engine.start = start_without_handler  # type: ignore[method-assign]
    client.start()
    client.attach_thread()
    close(client, engine)
    assert "no handler m:f" in caplog.text


def test_a_bug_of_the_engine_is_answered_by_a_restart(client: EngineClient, engine: FakeEngine) -> None:
    engine.say("Y", ["the engine failed", "MS900"], control=True)
    engine.die(256)
    until(lambda: engine.starts == 2)
    task(client)
    assert hello_of(engine)["open_seq"] == 1


def test_a_new_engine_that_cannot_be_started_ends_it(client: EngineClient, engine: FakeEngine) -> None:
    handle = task(client)
    engine.refuse_start = EngineUnavailable("no processes left")
    engine.die()
    with pytest.raises(EngineUnavailable, match="no processes left"):
        handle.result(20)
    client.close(True, 5.0)


def test_frames_that_make_no_sense_end_it_with_an_error(client: EngineClient, engine: FakeEngine) -> None:
    handle = task(client)
    engine.say("R", "nonsense")
    with pytest.raises(InternalError, match="cannot be read"):
        handle.result(20)
    with pytest.raises(InternalError):
        task(client)


def test_a_full_disk_does_not_keep_a_dead_engine_from_being_started_again(
    client: EngineClient, engine: FakeEngine
) -> None:
    engine.say("Y", ["no space left", "MS206"], control=True)
    engine.die()
    until(lambda: engine.starts == 2)
    task(client)


# --- forks ------------------------------------------------------------------------------------------------------------


def test_a_fork_refuses_and_does_not_hang(client: EngineClient, engine: FakeEngine) -> None:
    handle = task(client)
    pid = os.fork()
    if pid == 0:  # the child must not return into pytest
        code = 1
        try:
            for call in (lambda: task(client), handle.result, lambda: client.ask("why", {})):
                try:
                    call()
                except RuntimeClosed as refused:
                    code = 0 if "another process" in str(refused) else 2
                else:
                    code = 3
            client.close(True, 1.0)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    engine.say("R", [[1, [0], ["parent goes on"]]])
    assert handle.result(10) == "parent goes on"
