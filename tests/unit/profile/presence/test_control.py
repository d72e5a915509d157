"""Control: who lives answers, who cannot is named, and nothing is left; between plain processes."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from select import select

import orjson
import pytest

from actors.protocol.control_signals import AttemptCancelled
from actors.protocol.errors import CallerError
from actors.protocol.profile_errors import ProfileUnavailable
from runtime.host import kernel
from runtime.profile.captures.live import dump
from runtime.profile.model import Process
from runtime.profile.presence import answers, control, counting, find
from runtime.profile.presence.answers import ANSWERS
from runtime.profile.presence.control import ask, page_of_folder, rows_of, send
from runtime.profile.presence.here import FOLDER, HERE, SIGNAL, Request, _answer
from runtime.profile.presence.page import REQUESTS, Page, create_page
from runtime.profile.turns import SHORT_S
from runtime.storage.folder import StateFolder
from tests.unit.profile.pages import Child, opened_page

pytestmark = pytest.mark.slow


@pytest.fixture
def page(state_dir: Path) -> Iterator[Page]:
    """The page of a folder that this process owns. Skips where nobody finds it."""
    if not kernel.LINUX:
        pytest.skip("needs /proc")
    with opened_page(state_dir) as found:
        yield found


def spin_here() -> None:
    while True:
        sys.getrecursionlimit()


def hang_here() -> None:
    sum(itertools.repeat(0))


@pytest.mark.parametrize("threads", [True, False])
def test_a_process_that_spins_answers(page: Page, state_dir: Path, threads: bool) -> None:
    child = Child(page, spin_here, threads)
    try:
        answers = ask(state_dir, "count", timeout=60)
        assert [process.title for process, _ in answers.rows] == ["worker 1 [http]"]
        assert not answers.missing
        assert orjson.loads(answers.rows[0][1])["task"] == [0, 0, 0, 0]
        (row,) = page.processes()
        assert row.counts["thread"].live >= 1
        profile = dump(state_dir, patience=60)
        (main,) = [sample for sample, _ in profile if sample.thread == "MainThread"]
        assert "spin_here" in [frame.name for frame in main.stack]
        assert (dict(main.labels)["state"] == "answering") == (not threads), "who answers in a handler runs for that"
    finally:
        child.end()
    assert not page.processes()
    assert os.listdir(state_dir / FOLDER) == []
    assert not any(map(page.number, range(REQUESTS)))


def test_who_answers_is_given_the_interpreter_from_the_beginning(
    page: Page, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside code that lets go of it now and then, a thread of ours had it once in 0.1 s; see `profile.turns`."""
    said_fd, says_fd = os.pipe()
    go_fd, goes_fd = os.pipe()

    def answer(request: Request) -> bytes:
        os.read(go_fd, 1)
        return b"{}"

    def spin() -> None:
        while not HERE.heard:
            pass
        os.write(says_fd, f"{sys.getswitchinterval():.6f}".encode())
        spin_here()

    monkeypatch.setattr(counting, "answer", answer)
    child = Child(page, spin)
    try:
        asking = threading.Thread(target=ask, args=(state_dir, "count"), kwargs={"timeout": 60.0})
        asking.start()
        assert float(os.read(said_fd, 100)) == pytest.approx(SHORT_S, abs=2e-6)
        os.write(goes_fd, b"!")
        asking.join()
    finally:
        child.end()
        for fd in (said_fd, says_fd, go_fd, goes_fd):
            os.close(fd)


def test_a_process_that_hangs_in_c_is_seen_by_its_c_handler(page: Page, state_dir: Path) -> None:
    child = Child(page, hang_here)
    try:
        assert [process.pid for process in ask(state_dir, "count", timeout=0.1).missing] == [child.pid]
        profile = dump(state_dir, patience=0.1)
    finally:
        child.end()
    ((sample, _),) = [(sample, weight) for sample, weight in profile if sample.thread == "MainThread"]
    assert sample.stack[-1].name == "hang_here"
    assert dict(sample.labels)["state"] == "in C"


def test_who_asks_itself_needs_no_signal(page: Page, state_dir: Path) -> None:
    presence = HERE.begin(page, "face")
    try:
        answers = ask(state_dir, "count", timeout=60)
        assert [process.pid for process, _ in answers.rows] == [os.getpid()]
    finally:
        HERE.end(presence)
    assert ask(state_dir, "count", timeout=60) == ([], [], [])


def test_who_waits_for_answers_in_work_looks_seldom(
    page: Page, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look is CPU time of a program that may be busy; the end is not slept through."""
    slept: list[float] = []
    real = time.sleep

    def sleep(seconds: float) -> None:
        if threading.get_ident() == threading.main_thread().ident:
            slept.append(seconds)
        real(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    presence = HERE.begin(page, "face")
    try:
        answers = ask(state_dir, "cpu", seconds=1.0, timeout=60)
    finally:
        HERE.end(presence)
    assert len(answers.rows) == 1
    assert slept.count(control._LOOK_WORKING_S) >= 4
    assert slept[-1] < control._LOOK_WORKING_S


def test_what_nobody_can_answer_is_said(page: Page, state_dir: Path) -> None:
    presence = HERE.begin(page, "face")
    try:
        answers = ask(state_dir, "nonsense", timeout=60)
    finally:
        HERE.end(presence)
    assert [(process.role, why) for process, why in answers.failed] == [("face", "KeyError: 'nonsense'")]


def test_more_than_there_is_room_for_is_the_callers_fault(page: Page, state_dir: Path) -> None:
    """As hundreds of processes by number."""
    with pytest.raises(CallerError, match="too much is asked at once"):
        ask(state_dir, "count", only=frozenset(range(10_000, 11_000)))
    assert not any(map(page.number, range(REQUESTS)))
    assert os.listdir(state_dir / FOLDER) == []


def test_no_signal_reaches_a_process_without_a_handler(page: Page) -> None:
    """As one that replaced itself: the same pid and start time, and the default action is death."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.dup2(write_fd, 1)
            HERE.begin(page, "worker")
            os.execv("/bin/sh", ["sh", "-c", "echo here; exec sleep 600 >/dev/null 2>&1"])
        finally:
            os._exit(1)
    try:
        os.close(write_fd)
        with open(read_fd, "rb") as pipe:
            assert pipe.readline() == b"here\n"
        (row,) = page.processes()
        assert row.process.pid == pid
        assert not kernel.catches(pid, SIGNAL)
        assert not send(row.process, SIGNAL, 1)
        assert not send(Process(os.getpid(), 1, "worker"), SIGNAL, 1)  # a pid that came again
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_fork_has_no_slot_and_no_answers(page: Page) -> None:
    presence = HERE.begin(page, "face")
    try:
        pid = os.fork()
        if not pid:
            os._exit(0 if not HERE.presences and HERE._hang_fd < 0 else 1)
        assert os.waitpid(pid, 0)[1] == 0
    finally:
        HERE.end(presence)


def test_a_process_that_is_born_meanwhile_answers(page: Page, state_dir: Path) -> None:
    by = [os.getpid(), kernel.start_time(os.getpid())]
    (state_dir / FOLDER / "late").mkdir(parents=True)
    row = page.put_request({"what": "count", "folder": "late", "begun_ns": 1, "until_ns": 1 << 62, "by": by})
    assert row is not None
    child = Child(page, spin_here, threads=False)
    try:
        (name,) = os.listdir(state_dir / FOLDER / "late")
        assert name.startswith(f"{child.pid}-")
    finally:
        child.end()


def test_who_is_born_later_looks_only_for_what_is_left(page: Page) -> None:
    """Where workers come and go, one that looked from its own birth on would hold up the answer for ever."""
    row = page.put_request(
        {"what": "leaks", "folder": "x", "begun_ns": time.monotonic_ns() - 3_000_000_000, "until_ns": 1 << 62}
        | {"by": [os.getpid(), kernel.start_time(os.getpid())], "seconds": 4.0}
    )
    assert row is not None
    before = [HERE.begin(page, "worker", number) for number in (1, 2)]
    try:
        late, early = (Request(presence, row, ()) for presence in before)
        assert late.late
        assert 0.0 <= late.left_s() <= 1.0
        before[1].begun_ns = early.begun_ns - 1
        early = Request(before[1], row, ())
        assert not early.late
        assert early.left_s() > 1.0  # all that it was asked for, from when it heard
    finally:
        for presence in before:
            presence.end()
        page.end_request(row)


def test_the_main_thread_does_what_only_it_may(page: Page, tmp_path: Path, state_dir: Path) -> None:
    done: list[int] = []
    presence = HERE.begin(page, "face")
    try:
        assert HERE.on_main_thread(lambda: done.append(1))
    finally:
        HERE.end(presence)
    assert done == [1]


@pytest.mark.parametrize("lost", [0, 3])
def test_a_signal_that_did_not_wake_the_main_thread_is_sent_again(
    page: Page, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """It came just before the main thread began to sleep, as if it had not come at all."""
    rung = list[int]()
    real = signal.pthread_kill

    def kill(thread: int, signum: int) -> None:
        rung.append(signum)
        if len(rung) > lost:
            real(thread, signum)

    monkeypatch.setattr(signal, "pthread_kill", kill)
    done, found = list[int](), list[bool]()
    presence = HERE.begin(page, "worker")
    asking = threading.Thread(target=lambda: found.append(HERE.on_main_thread(lambda: done.append(1), 60)))
    try:
        asking.start()
        asking.join()
    finally:
        HERE.end(presence)
    assert (found, done) == ([True], [1])
    assert len(rung) > lost


def test_a_question_that_was_not_heard_is_asked_again(
    page: Page, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[bool]()
    monkeypatch.setattr(control, "send", lambda *given: sent.append(len(sent) >= 2 and send(*given)) or sent[-1])
    child = Child(page, spin_here)
    try:
        answers = ask(state_dir, "count", timeout=60)
    finally:
        child.end()
    assert [process.pid for process, _ in answers.rows] == [child.pid]
    assert sent[:3] == [False, False, True]


def test_a_folder_that_nobody_has_open(state_dir: Path) -> None:
    StateFolder.open(state_dir).close()
    assert page_of_folder(state_dir) is None
    with pytest.raises(ProfileUnavailable) as refused:
        ask(state_dir, "count")
    assert refused.value.code == "MS230"


def test_a_handler_raises_only_what_another_handler_raised() -> None:
    """A cancel that arrives while ours runs is the task's; a mistake of ours is nobody's."""

    def mistake() -> None:
        raise ValueError("ours")

    def cancel() -> None:
        raise AttemptCancelled("theirs")

    HERE._errands.append(mistake)
    HERE._hear(SIGNAL, None)
    HERE._errands.append(cancel)
    with pytest.raises(AttemptCancelled):
        HERE._hear(SIGNAL, None)


def test_an_answer_after_the_end_is_nobodys(state_dir: Path) -> None:
    """The page was closed between the question and the answer: no traceback of a thread."""
    with StateFolder.open(state_dir) as folder:
        page = Page(create_page(str(folder.uuid), folder.path))
        presence = HERE.begin(page, "face")
        HERE.end(presence)
        page.close()
        _answer(presence, 0, 1, ())
        HERE.end(presence)


@pytest.mark.parametrize("owned", [True, False])
def test_a_page_of_another_version_is_none(
    owned: bool, page: Page, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StateFolder, "owner_pid", lambda _: os.getpid() if owned else None)
    monkeypatch.setattr(find, "block_of_process", lambda *_: os.memfd_create("strange"))
    assert page_of_folder(state_dir) is None


def test_a_folder_without_an_engine_is_looked_into_while_somebody_stands_in_it(
    page: Page, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its engine died and no other one can be started."""
    monkeypatch.setattr(StateFolder, "owner_pid", lambda _: None)
    assert rows_of(state_dir) == []
    child = Child(page, hang_here)
    try:
        assert [row.process.pid for row in rows_of(state_dir)] == [child.pid]
    finally:
        child.end()
    assert page_of_folder(state_dir) is None


def test_an_answer_that_cannot_be_written_is_said(page: Page, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk: not even the reason can be."""

    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Request, "put", fails)
    presence = HERE.begin(page, "face")
    try:
        answers = ask(state_dir, "count", timeout=60)
    finally:
        HERE.end(presence)
    ((process, why),) = answers.failed
    assert (process.role, answers.rows, answers.missing) == ("face", [], [])
    assert "could not be written" in why


def test_a_folder_that_takes_no_answers_is_said(page: Page, state_dir: Path) -> None:
    (state_dir / FOLDER).write_text("in the way")
    with pytest.raises(ProfileUnavailable, match="cannot be kept"):
        ask(state_dir, "count")


@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees the programs of others")
def test_where_root_asks_the_programs_user_can_answer_and_ask_next() -> None:
    import_module(ANSWERS["count"].partition(":")[0])  # the child may not be able to read where Python is
    with tempfile.TemporaryDirectory(dir="/tmp") as around, opened_page(Path(around, "state")) as page:
        os.chmod(around, 0o711)  # what pytest makes nobody else may enter
        os.fchown(page.fd, 65534, 65534)
        child = Child(page, spin_here, user=65534)
        try:
            assert [process.pid for process, _ in ask(page.state_dir, "count", timeout=60).rows] == [child.pid]
        finally:
            child.end()
        assert os.stat(Path(page.state_dir, FOLDER)).st_uid == 65534
        assert not os.listdir(Path(page.state_dir, FOLDER))


def test_where_nobody_answers_nothing_follows_from_that(page: Page, state_dir: Path) -> None:
    child = Child(page, hang_here)
    try:
        answers = ask(state_dir, "count", timeout=0.1)
        with pytest.raises(ProfileUnavailable, match=rf"worker 1 \[http\] \(pid {child.pid}\): it did not answer"):
            answers.heard()
    finally:
        child.end()
    assert control.Answers([], [], []).heard().rows == [], "nobody was asked"


def test_a_damaged_answer_and_a_folder_that_is_gone_harm_no_other_answer(state_dir: Path) -> None:
    folder = state_dir / "answers"
    assert control._collect(folder, []) == ([], [], [])
    folder.mkdir(parents=True)
    (folder / "1-1.0").write_bytes(b'[1,1,"wor')
    (folder / "2-2.0").symlink_to(folder / "nowhere")
    (folder / "3-3.-1").write_bytes(b'[3,3,"worker",1,""]\n{}')
    (folder / "4-4.0").write_bytes(b'[4,4,"worker",1,""]\nsaid')
    assert control._collect(folder, []) == ([(Process(4, 4, "worker", 1, ""), b"said")], [], [])


def test_who_finds_no_room_waits_for_it(page: Page, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by = [os.getpid(), kernel.start_time(os.getpid())]
    rows = [page.put_request({"what": "nothing", "only": [1], "by": by}) for _ in range(REQUESTS)]
    with pytest.raises(ProfileUnavailable, match="too much"):
        ask(state_dir, "count", timeout=0.0)
    ended = threading.Thread(target=lambda: rows[0] and page.end_request(rows[0]))
    put = Page.put_request

    def tried(self: Page, body: dict[str, object]) -> object:
        found = put(self, body)
        if found is None and ended.ident is None:
            ended.start()
        return found

    monkeypatch.setattr(Page, "put_request", tried)
    assert ask(state_dir, "count", timeout=60).failed == []
    ended.join()


def test_stacks_are_not_asked_of_a_number_that_is_another_file_by_now(page: Page, tmp_path: Path) -> None:
    """As after a program closed all descriptors: its file is not cut."""
    file = tmp_path / "orders"
    file.write_text("of a user")
    with file.open("r+") as opened:
        me = os.getpid()
        assert page.take_slot(Process(me, kernel.start_time(me), "face"), 0, opened.fileno()) is not None
        (row,) = page.processes()
        assert control.hung_stacks(row) is None
    assert file.read_text() == "of a user"


def test_who_ends_before_it_answers_is_said(page: Page, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    presence, child = HERE.begin(page, "face"), Child(page, hang_here)
    monkeypatch.setattr(control, "_ring", lambda *_: child.end())
    try:
        answers = ask(state_dir, "count", timeout=60)
    finally:
        HERE.end(presence)
    assert [process.role for process, _ in answers.rows] == ["face"]
    assert [(process.pid, why) for process, why in answers.failed] == [(child.pid, "it ended before it answered")]


def test_nobody_misses_who_comes_and_goes(page: Page, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.getpid()
    presence = HERE.begin(page, "face")
    trimmer = page.take_slot(Process(me, kernel.start_time(me), "trimmer"))
    assert trimmer is not None
    monkeypatch.setattr(control, "_ring", lambda *_: trimmer.release())
    try:
        answers = ask(state_dir, "count", seconds=60, timeout=60)
    finally:
        HERE.end(presence)
    assert ([process.role for process, _ in answers.rows], answers.failed) == (["face"], [])


@pytest.mark.parametrize("what", ["cpu", "leaks"])
def test_who_has_enough_gets_what_there_is(
    what: str, page: Page, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of the second that is not over."""
    monkeypatch.setattr(control, "FINISH_S", 30.0)
    real = answers.answer
    read_fd, write_fd = os.pipe()

    def answer(request: Request) -> answers.Content | None:
        os.write(write_fd, b"!")
        return real(request)

    monkeypatch.setattr(answers, "answer", answer)
    child = Child(page, spin_here)
    try:
        found = ask(state_dir, what, seconds=60, timeout=60, stop=lambda: any(select([read_fd], [], [], 0)), prove=True)
        assert {process.pid for process, _ in found.rows} == {child.pid}, "in one part, and another one each second"
        assert found.failed == []
    finally:
        child.end()
        os.close(read_fd)
        os.close(write_fd)


def test_a_capture_goes_on_when_all_that_are_recorded_have_ended(
    page: Page, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the engine was killed: soon there is another one, with workers of its own."""
    presence, child, born = HERE.begin(page, "face"), Child(page, hang_here), list[Child]()
    monkeypatch.setattr(control, "_ring", lambda *_: child.end())

    def stop() -> bool:
        if born:
            return True
        born.append(Child(page, spin_here, threads=False))
        return False

    try:
        answers = ask(state_dir, "count", seconds=60, timeout=60, stop=stop)
    finally:
        HERE.end(presence)
        for one in born:
            one.end()
    assert [process.pid for process, _ in answers.rows if process.role == "worker"] == [one.pid for one in born]
