"""Asking all processes of a state folder: `ask`, from any process of the same user.

A request is written into the page, each process that has a slot gets a signal (see `presence`), and answers as a file
in STATE/profile/REQUEST/, PID-START.PART. Who has not answered in time is named. Whoever asks waits by looking: at
first each millisecond, later each 20, and each 100 while all are at work at what takes longer.

Nothing is sent to a process without a handler: it is named by a pidfd, so that a pid which was used again is not met;
its start time must be that of its slot, and Linux says in /proc whether it catches the signal, which a program that
replaced itself (`exec`) does not. What is left is the time between that look and the signal, some 20 us.

Crash: what who asked leaves behind, a request and a folder, is taken away by who asks next, or opens the folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from actors.protocol.errors import CallerError
from actors.protocol.profile_errors import ProfileUnavailable
from runtime.host import kernel
from runtime.host.kernel import is_alive
from runtime.profile.model import Process
from runtime.profile.presence.find import page_held
from runtime.profile.presence.folders import make_folder, owner_of, sweep_requests
from runtime.profile.presence.here import (
    AGAIN_MOST_S,
    AGAIN_S,
    C_SIGNAL,
    FOLDER,
    HERE,
    SIGNAL,
    STACKS,
    Request,
)
from runtime.profile.presence.page import (
    DONE,
    FAILED,
    HEARS_C,
    HEARS_PYTHON,
    HEARS_RELAY,
    SEEN,
    Page,
    ProcessRow,
    RequestRow,
)
from runtime.storage.folder import StateFolder

__all__ = ["Answers", "Request", "ask", "hung_stacks", "page_of_folder", "rows_of", "seen_page", "send"]

TIMEOUT_S: Final = 5.0
"""Beyond what a request takes by itself: a busy machine may leave a process without a core for that long."""
_NAMED_MAX: Final = 4
"""Of those who could not answer, where nobody did."""
_BRIEF: Final = frozenset({"checkpointer", "trimmer"})
"""Roles of those that come and go: nobody misses them."""
_LOOK_S: Final = 0.001
_LOOK_MOST_S: Final = 0.02
_LOOK_WORKING_S: Final = 0.1
"""While all work at their answers, and must for longer still: each look takes 0.2 ms of a program that may be busy."""
FINISH_S: Final = 2.0
"""For the answers of those that record when who asks has enough: they notice within a second."""
_HANG_S: Final = 1.0
"""For the C handler, which needs no interpreter."""
_QUIET_LOOKS: Final = 5
"""So many looks at what the C handler writes must find nothing new: it does not say when it is done."""


class Answers(NamedTuple):
    """What came back.

    Attributes:
        rows: Who answered what; several of one process where it put several parts.
        missing: Who was there and did not answer in time.
        failed: Who could not answer, and why.
    """

    rows: list[tuple[Process, bytes]]
    missing: list[Process]
    failed: list[tuple[Process, str]]

    def heard(self) -> Answers:
        """These answers, for who draws a conclusion from what they do not contain.

        Raises:
            ProfileUnavailable: Somebody was asked, and nobody answered.
        """
        if self.rows or not (self.missing or self.failed):
            return self
        said = [(process, "it did not answer in time") for process in self.missing] + self.failed
        raise ProfileUnavailable(
            "nobody answered: " + "; ".join(f"{one.named}: {why}" for one, why in said[:_NAMED_MAX])
        )


def page_of_folder(state_dir: str | os.PathLike[str]) -> Page | None:
    """The page of a state folder that some program of this user has open; None when there is none, or it cannot be
    seen. The caller closes it.

    Raises:
        StateFolderError: It is no state folder.
    """
    with StateFolder.open(state_dir, create=False, owner=False) as folder:
        owner, uuid = folder.owner_pid(), str(folder.uuid)
    for presence in HERE.presences:
        if presence.page.state_dir == folder.path:
            return Page(os.dup(presence.page.fd))
    return page_held(uuid, owner)


@contextmanager
def seen_page(state_dir: str | os.PathLike[str]) -> Iterator[Page]:
    """The same for a block, behind which it is closed.

    Raises:
        ProfileUnavailable: There is none, or it cannot be seen. StateFolderError: It is no state folder.
    """
    page = page_of_folder(state_dir)
    if page is None:
        raise ProfileUnavailable(f"no program of this user has {os.fspath(state_dir)} open here")
    with closing(page):
        yield page


def rows_of(state_dir: str | os.PathLike[str]) -> list[ProcessRow]:
    """Who stands in it; nobody where there is none. Raises StateFolderError: it is no state folder."""
    page = page_of_folder(state_dir)
    if page is None:
        return []
    with closing(page):
        return page.processes()


def ask(
    state_dir: str | os.PathLike[str],
    what: str,
    *,
    seconds: float = 0.0,
    timeout: float = TIMEOUT_S,
    only: frozenset[int] | None = None,
    stop: Callable[[], bool] | None = None,
    **options: Any,
) -> Answers:
    """Ask all processes of a state folder.

    Args:
        state_dir: The folder.
        what: A name of `answers.ANSWERS`.
        seconds: How long they shall look, for what takes time.
        timeout: Seconds to wait beyond that.
        only: Pids of those that are asked; None: all.
        stop: Asked at each look, at most 0.1 s apart; when it says True, who looks on is told to end, and what he has
            is the answer.
        options: For whoever answers, as plain JSON data; some 700 bytes in all.

    Returns:
        The answers.

    Raises:
        ProfileUnavailable: No process of this folder can be seen, or too much is asked at the same time.
        StateFolderError: It is no state folder. CallerError: The options are too long.
    """
    with seen_page(state_dir) as page:
        return _ask(page, what, seconds, timeout, only, options, stop)


def _ask(
    page: Page,
    what: str,
    seconds: float,
    timeout: float,
    only: frozenset[int] | None,
    options: dict[str, Any],
    stop: Callable[[], bool] | None,
) -> Answers:
    me, begun_ns = os.getpid(), time.monotonic_ns()
    until_ns, room_ns = begun_ns + int((seconds + timeout) * 1e9), begun_ns + int(timeout * 1e9)
    by = [me, kernel.start_time(me)]
    root = Path(page.state_dir, FOLDER)
    folder = root / f"ask-{by[0]}-{by[1]}-{begun_ns:x}"
    try:
        make_folder(root, owner := owner_of(page.fd))
        sweep_requests(root)
        make_folder(folder, owner, anew=True)
    except OSError as refused:
        raise ProfileUnavailable(f"answers cannot be kept in {root}: {refused.strerror or refused}") from refused
    body = {"what": what, "folder": folder.name, "begun_ns": begun_ns, "until_ns": until_ns}
    body |= {"seconds": seconds, "options": options, "by": by, "only": None if only is None else sorted(only)}
    try:
        while (row := _put(page, body)) is None:  # others ask: soon one of them has its answers
            if (now_ns := time.monotonic_ns()) >= room_ns:
                raise ProfileUnavailable("too much is asked of this folder at the same time")
            time.sleep(_LOOK_MOST_S)
            body["until_ns"] = until_ns = now_ns + int((seconds + timeout) * 1e9)
        try:
            there = page.processes()
            asked = {found.slot: found for found in there if only is None or found.process.pid in only}
            for found in there:
                if found.process.pid == me and found.slot in asked:
                    _answer_here(page, found)
            _ring(page, row, asked)
            least_ns = begun_ns + int(seconds * 1e9)
            silent, ended = _wait(page, row, asked, (least_ns, until_ns), only, stop)
            if stop is not None and stop():
                page.end_request(row)
                _let_finish(page, row, silent)
            broken = [found.process for found in page.processes() if found.acks[row.block] == (row.number, FAILED)]
        finally:
            page.end_request(row)
        return _collect(folder, [found.process for found in silent], broken, ended)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _put(page: Page, body: dict[str, Any]) -> RequestRow | None:
    try:
        return page.put_request(body)
    except ValueError as long:
        raise CallerError(f"too much is asked at once, such as too many processes by number: {long}") from long


def _ring(page: Page, row: RequestRow, asked: dict[int, ProcessRow]) -> None:
    """Send the signal to those who have not seen the request yet."""
    there = [found for found in page.processes() if found.acks[row.block][0] != row.number]
    relay = any(found.hears & HEARS_RELAY and found.slot in asked for found in there)
    for found in there:
        if found.process.pid != os.getpid() and (found.slot in asked or (relay and found.process.role == "spawner")):
            send(found.process, SIGNAL, found.hears & HEARS_PYTHON)


def _answer_here(page: Page, found: ProcessRow) -> None:
    """This process is one of those that are asked: no signal is needed, and its main thread may be the one that asks.

    What takes time is answered by a thread, as ever.
    """
    for presence in HERE.presences:
        if presence.slot.slot == found.slot and presence.page.state_dir == page.state_dir:
            HERE.hear_here(presence)


def _wait(
    page: Page,
    row: RequestRow,
    asked: dict[int, ProcessRow],
    times_ns: tuple[int, int],
    only: frozenset[int] | None,
    stop: Callable[[], bool] | None,
) -> tuple[list[ProcessRow], list[Process]]:
    """Wait until all have answered, those included that were born meanwhile; returns who has not, and lives, and who
    ended. Where somebody did, there may be others in his place soon: they are waited for until the first of the times,
    and nobody beyond the second."""
    least_ns, until_ns = times_ns
    all_asked = {found.process: found for found in asked.values()}
    look_s, gap_ns = _LOOK_S, int(AGAIN_S * 1e9)
    again_ns = time.monotonic_ns() + gap_ns
    ways = HEARS_PYTHON | HEARS_RELAY
    hears = {slot for slot, found in asked.items() if found.hears & ways or found.process.pid == os.getpid()}
    while True:
        waited: list[ProcessRow] = []
        there = page.processes()
        ended = [one for one in all_asked.keys() - {found.process for found in there} if one.role not in _BRIEF]
        for found in there:
            number, state = found.acks[row.block]
            if only is not None and found.process.pid not in only:
                continue
            before = asked.get(found.slot)
            if before is None or before.process != found.process:
                if number != row.number:  # it came too late to be asked
                    continue
                asked[found.slot] = all_asked[found.process] = found
                hears.add(found.slot)
            if number != row.number or state not in (DONE, FAILED):
                waited.append(found)
        limit_ns = least_ns if ended and there and only is None else 0
        if any(found.slot in hears for found in waited):
            limit_ns = until_ns
        if time.monotonic_ns() >= limit_ns or (stop is not None and stop()):
            return waited, ended
        unseen = [found for found in waited if found.acks[row.block][0] != row.number]
        if (now_ns := time.monotonic_ns()) >= again_ns:
            gap_ns = min(gap_ns * 2, int(AGAIN_MOST_S * 1e9))
            again_ns = now_ns + gap_ns
            if unseen:
                _ring(page, row, asked)
        at_work = not any(found.slot in hears for found in unseen)
        for_long = (least_ns - now_ns) / 1e9 > 2 * _LOOK_WORKING_S  # two of them: the end is not slept through
        time.sleep(_LOOK_WORKING_S if at_work and for_long else look_s)
        look_s = min(look_s * 1.3, _LOOK_MOST_S)


def _let_finish(page: Page, row: RequestRow, silent: list[ProcessRow]) -> None:
    """The request was ended early: wait, not for long, for those that work at it, who say now what they have."""
    working = {found.process for found in silent if found.acks[row.block] == (row.number, SEEN)}
    until_s = time.monotonic() + FINISH_S
    while working and time.monotonic() < until_s:
        working &= {found.process for found in page.processes() if found.acks[row.block] == (row.number, SEEN)}
        time.sleep(_LOOK_S)


def _collect(
    folder: Path, silent: list[Process], broken: Iterable[Process] = (), ended: Iterable[Process] = ()
) -> Answers:
    rows: list[tuple[Process, bytes]] = []
    failed: list[tuple[Process, str]] = []
    for path in sorted(folder.iterdir() if folder.exists() else ()):
        if path.name.endswith("~"):
            continue
        with suppress(OSError, ValueError, TypeError, KeyError):  # somebody takes the folder away, or writes into it
            head, _, content = path.read_bytes().partition(b"\n")
            process = Process(*orjson.loads(head))
            if path.name.endswith(".-1"):
                failed.append((process, str(orjson.loads(content)["failed"])))
            else:
                rows.append((process, content))
    said = {process for process, _ in failed}
    failed += [(one, f"its answer could not be written to {folder.parent}") for one in broken if one not in said]
    answered = {process for process, _ in rows}
    failed += [(one, "it ended before it answered") for one in ended if one not in said and one not in answered]
    return Answers(rows, [process for process in silent if process not in answered], failed)


def send(process: Process, signum: int, hears: int) -> bool:
    """Send one of our signals to exactly this process, if it has a handler for it. Returns whether it was sent."""
    if not hears or not kernel.LINUX:
        return False
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not is_alive(process.pid, process.start_time) or not kernel.catches(process.pid, signum):
            return False
        signal.pidfd_send_signal(pidfd, signum)
        return True
    except OSError:
        return False
    finally:
        os.close(pidfd)


def hung_stacks(row: ProcessRow) -> str | None:
    """The stacks of all threads of a process as its C handler writes them (see `faulthandler`), for one that does not
    come to its next bytecode. None when it has no such handler, or the kernel itself does not let go of it."""
    path = f"/proc/{row.process.pid}/fd/{row.hang_fd}"
    if row.hang_fd < 0:
        return None
    try:
        if not os.readlink(path).startswith(f"/memfd:{STACKS}"):  # it was closed, and the number is somebody else's
            return None
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        os.ftruncate(fd, 0)  # it is written at its end
        if not send(row.process, C_SIGNAL, row.hears & HEARS_C):
            return None
        size, quiet, deadline = 0, 0, time.monotonic() + _HANG_S
        while quiet < _QUIET_LOOKS and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            now = os.fstat(fd).st_size
            quiet, size = (quiet + 1 if now == size and now else 0), now
        return os.pread(fd, size, 0).decode("utf-8", "replace") or None
    finally:
        os.close(fd)
