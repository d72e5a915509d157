"""What workers note of who makes what: what ends leaves no entry, and nothing works otherwise than before."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import socket
import threading
from collections.abc import Iterator
from types import CodeType

import pytest

from runtime.profile.leak_check.references import frame_of
from runtime.profile.ledger import origins, sites
from runtime.profile.ledger.books import LEDGER
from runtime.profile.ledger.kinds import EXECUTOR, LOCK, TRANSPORT
from runtime.profile.ledger.origins import ORIGINS, origin_of
from runtime.profile.ledger.sites import user_place
from tests.unit.profile import leak_seeds
from tests.unit.profile.garden import LOOPS, garden

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.fixture
def installed() -> Iterator[None]:
    LEDGER.forked()
    ORIGINS.install()
    yield
    ORIGINS.remove()
    LEDGER.forked()


def live(kind: str) -> int:
    return LEDGER.counts()[kind].live


@pytest.mark.usefixtures("installed")
def test_an_executor_leaves_the_books_when_it_is_shut_down_or_collected() -> None:
    pool = concurrent.futures.ThreadPoolExecutor(1, "mine")
    (entry,) = LEDGER.entries(EXECUTOR)
    assert (entry.key.name, entry.daemon) == ("mine", False)
    assert pool.submit(int).result() == 0
    (thread,) = pool._threads
    assert origin_of(thread) == entry.site
    pool.shutdown()
    assert live(EXECUTOR) == 0
    pool.shutdown()
    pool = concurrent.futures.ThreadPoolExecutor(1)
    del pool
    assert live(EXECUTOR) == 0
    assert LEDGER.balance() == {}, "the entry that this test still has is called when its executor is collected"


@pytest.mark.usefixtures("installed")
def test_what_fails_fails_as_before_and_is_not_entered() -> None:
    with pytest.raises(ValueError, match="max_workers must be greater than 0"):
        concurrent.futures.ThreadPoolExecutor(0)
    with pytest.raises(OSError, match="Address family not supported"):
        socket.socket(200)
    with pytest.raises(RuntimeError, match="Lock is not acquired"):
        asyncio.Lock().release()
    assert live(EXECUTOR) == live(LOCK) == 0
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match="can only be started once"):
        thread.start()


@pytest.mark.parametrize("loop", LOOPS)
def test_a_lock_is_entered_while_it_is_held(loop: str) -> None:
    async def main() -> None:
        lock = asyncio.Lock()
        async with lock:
            (entry,) = LEDGER.entries(LOCK)
            assert entry.owner() is asyncio.current_task()
            assert entry.site[-1].name.endswith("main")
            late = asyncio.create_task(lock.acquire())
            await asyncio.sleep(0)
            late.cancel()
            await asyncio.wait([late])
        assert live(LOCK) == 0
        condition = asyncio.Condition()
        async with condition:
            assert live(LOCK) == 1
        await asyncio.Lock().acquire()
        assert live(LOCK) == 0, "it is held, and nobody can want it"

    with garden(loop) as made:
        made.loop.run_until_complete(main())
        made.loop.run_until_complete(asyncio.sleep(0))
        assert LEDGER.balance() == {}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_is_counted_until_it_closes(loop: str) -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            assert live(TRANSPORT) == 1
            writer.close()
            assert live(TRANSPORT) == 0
            await writer.wait_closed()
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await asyncio.open_connection("127.0.0.1", 1)
        assert live(TRANSPORT) == 0

    with garden(loop) as made:
        made.loop.run_until_complete(main())


def test_a_descriptor_that_was_given_again_has_no_line() -> None:
    LEDGER.forked()
    ORIGINS.install()
    try:
        with socket.socket() as one:
            fd = one.fileno()
            inode = str(os.fstat(fd).st_ino)
            assert ORIGINS.socket_site(fd, inode)[0].file == __file__
            assert ORIGINS.socket_site(fd, "1") == ()
    finally:
        ORIGINS.remove()
        LEDGER.forked()


def test_what_was_wrapped_is_put_back() -> None:
    before = threading.Thread.start, socket.socket.__init__, asyncio.Lock.acquire
    ORIGINS.install()
    assert threading.Thread.start is not before[0]
    ORIGINS.remove()
    assert (threading.Thread.start, socket.socket.__init__, asyncio.Lock.acquire) == before


def test_the_line_is_the_users() -> None:
    """Of who calls whom: the nearest that is of no library."""

    def run(file: str, call: object) -> object:
        names = {"call": call}
        exec(compile("found = call()", file, "exec"), names)  # a frame of such a file
        return names["found"]

    library, ours = "/x/site-packages/lib.py", f"{sites._OWN}runtime/x.py"
    code, _ = run(library, lambda: run(ours, user_place))  # type: ignore[misc]
    assert isinstance(code, CodeType)
    assert code.co_filename == __file__
    assert origins.__file__.startswith(sites._OWN)
    assert sites._rank(threading.__file__) == sites._OURS


def test_a_handler_is_found_by_its_name() -> None:
    name = leak_seeds.__name__
    assert frame_of(f"{name}:Row.place").line == leak_seeds.Row.place.__code__.co_firstlineno
    assert frame_of(f"{name}:Row.id").line == leak_seeds.Row.id.fget.__code__.co_firstlineno  # type: ignore[attr-defined]
    assert frame_of(f"{name}:nothing")[:2] == (f"{name}:nothing", "")
    assert frame_of("no.such.module:f").line == 0
    assert frame_of("this") == ("this", "", 0)
