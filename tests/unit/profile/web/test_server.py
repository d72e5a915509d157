"""The HTTP server's doors: who gets in, what is refused, and that closing leaves nothing."""

from __future__ import annotations

import http.client
import os
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.errors import CallerError, EnvironmentFault
from runtime.profile.web import callers as web_callers
from runtime.profile.web import server as web_server
from runtime.profile.web import views as web_views
from runtime.profile.web.callers import CALLERS_MAX, Callers
from runtime.profile.web.request import Reply, WebRefusal, WebRequest
from runtime.profile.web.server import UNIX, ProfileServer

TOKEN = "let me in"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProfileServer]:
    def view(asked: WebRequest) -> Reply:
        if asked.path == "/refused":
            raise WebRefusal(429, "later", 7.2)
        if asked.path == "/broken":
            raise ZeroDivisionError("no")
        if asked.path == "/caller":
            raise CallerError("wrong")
        return Reply(f"{asked.path} {asked.text('a')} {asked.pids()} {asked.number('n', 3.0, 9.0)}".encode())

    monkeypatch.setattr(web_views, "view", view)
    with ProfileServer(tmp_path, "127.0.0.1:0", TOKEN) as opened:
        yield opened


def get(server: ProfileServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    connection = http.client.HTTPConnection(host, int(port))
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {server.token}", **headers})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def test_who_knows_the_token_gets_in_and_nobody_else(server: ProfileServer) -> None:
    assert get(server, "/x?a=1&proc=12,13&n=2")[2] == b"/x 1 frozenset({12, 13}) 2.0"
    for wrong in ("Bearer let me", "Basic bGV0", "", "Bearer "):
        status, headers, _ = get(server, "/x", Authorization=wrong)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    assert get(server, "/x?token=let%20me%20in", Authorization="")[0] == 200
    assert get(server, "/x?token=other", Authorization="")[0] == 401


def test_a_name_of_another_machine_is_refused(server: ProfileServer) -> None:
    """A page of somebody else whose name leads here gets nothing, even with the token."""
    assert get(server, "/x", Host="evil.example")[0] == 403
    assert get(server, "/x", Host="evil.example:80")[0] == 403
    assert get(server, "/x", Host="localhost:1")[0] == 200


def test_refusals_have_a_status_and_say_when_to_come_again(server: ProfileServer) -> None:
    status, headers, content = get(server, "/refused")
    assert (status, headers["Retry-After"], content) == (429, "8", b"later\n")
    assert get(server, "/broken")[::2] == (500, b"ZeroDivisionError: no\n")
    assert get(server, "/caller")[0] == 400
    assert get(server, "/x?n=10")[0] == 400
    assert get(server, "/x?n=nan")[0] == 400
    assert get(server, "/x?proc=a")[0] == 400
    assert get(server, "/x", method="POST")[0] == 501
    status, headers, content = get(server, "/x", method="HEAD")
    assert (status, content) == (200, b"")
    assert headers["Content-Length"] == "12"


def asked_by(server: ProfileServer) -> WebRequest:
    return WebRequest(server, "/", "", lambda: False)


def test_one_capture_at_a_time_and_a_proof_a_minute(server: ProfileServer) -> None:
    with asked_by(server).alone(30.0):
        with pytest.raises(WebRefusal) as refused, asked_by(server).alone():
            raise AssertionError("there were two")
        assert refused.value.status == 429
        assert 29 <= refused.value.retry_s <= 30
    with asked_by(server).alone():
        pass
    asked_by(server).rated("a proof")
    asked_by(server).rated("debug=2")
    with pytest.raises(WebRefusal) as refused:
        asked_by(server).rated("a proof")
    assert 59 <= refused.value.retry_s <= 60


def test_a_unix_socket_is_its_owners_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_views, "view", lambda asked: Reply(asked.path.encode()))
    path = tmp_path / "s"
    with ProfileServer(tmp_path, f"{UNIX}{path}", TOKEN) as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert server.url == f"{UNIX}{path}"
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))
            caller.sendall(b"GET /x?token=let%20me%20in HTTP/1.0\r\n\r\n")
            said = b""
            while part := caller.recv(4096):
                said += part
        assert said.startswith(b"HTTP/1.0 200")
        assert said.endswith(b"\r\n\r\n/x")
    assert not path.exists()


def test_a_unix_socket_that_a_killed_server_left_is_replaced_and_one_that_is_used_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    def mask(_: int) -> int:
        raise AssertionError("the mask is of all threads of the program")

    monkeypatch.setattr(os, "umask", mask)
    with ProfileServer(tmp_path, f"{UNIX}{path}", TOKEN):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with pytest.raises(EnvironmentFault):
            ProfileServer(tmp_path, f"{UNIX}{path}", TOKEN)
        assert path.exists()
    path.write_text("a file of somebody")
    with pytest.raises(EnvironmentFault):
        ProfileServer(tmp_path, f"{UNIX}{path}", TOKEN)
    assert path.read_text() == "a file of somebody"


def test_more_callers_than_there_is_room_for_are_told_to_come_again(
    server: ProfileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.callers = Callers(1)
    entered, gate = threading.Event(), threading.Event()

    def view(asked: WebRequest) -> Reply:
        if asked.path == "/slow":
            entered.set()
            assert gate.wait(60)
        return Reply(b"")

    monkeypatch.setattr(web_views, "view", view)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(get, server, "/slow")
        assert entered.wait(60)
        status, headers, _ = get(server, "/x")
        assert (status, headers["Retry-After"]) == (503, "2")
        gate.set()
        assert slow.result(60)[0] == 200
    assert 200 in iter(lambda: get(server, "/x")[0], None)


def connected(server: ProfileServer) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), 60)


def test_who_has_no_token_takes_no_place_of_who_has_one(server: ProfileServer) -> None:
    """Silent ones, and such as do not come to an end; the oldest of them goes, and all go when it closes."""
    with ExitStack() as opened:
        idle = [opened.enter_context(connected(server)) for _ in range(CALLERS_MAX + 1)]
        for one in idle[1:]:
            one.sendall(b"GET /x HT")
        assert idle[0].recv(1) == b"", "the oldest was not sent away"
        assert [get(server, "/x")[0] for _ in range(3)] == [200] * 3
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("mainspring-profile-request") <= CALLERS_MAX
        server.close()
        assert idle[-1].recv(1) == b""


def test_who_takes_too_long_to_ask_is_let_go(server: ProfileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often he says a little: it is the time of the whole request."""
    monkeypatch.setattr(web_callers, "DOOR_S", 0.0)
    with connected(server) as slow:
        assert slow.recv(1) == b""


def test_a_caller_who_cannot_be_let_in_does_not_make_it_spin(
    server: ProfileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(_: object) -> None:
        raise OSError(24, "Too many open files")

    rests: list[float] = []
    monkeypatch.setattr(HTTPServer, "get_request", none_left)
    monkeypatch.setattr(web_server.time, "sleep", rests.append)
    with pytest.raises(OSError, match="Too many"):
        server._http.get_request()
    assert rests == [web_server._REST_S]


@pytest.mark.parametrize("proc", [",".join(map(str, range(100))), "9" * 30, "1,x"])
def test_too_many_processes_are_refused(server: ProfileServer, proc: str) -> None:
    assert get(server, f"/x?proc={proc}")[0] == 400


def test_what_is_no_address_is_answered(server: ProfileServer) -> None:
    assert get(server, "/x", Host="[")[0] == 403
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port))) as caller:
        caller.sendall(b"GET http://[ HTTP/1.0\r\n\r\n")
        assert caller.recv(4096).startswith(b"HTTP/1.0 400")


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "192.0.2.1:80", "example.org:80", "127.0.0.1", ":80", "127.0.0.1:x"])
def test_other_machines_cannot_be_let_in(tmp_path: Path, listen: str) -> None:
    with pytest.raises(CallerError):
        ProfileServer(tmp_path, listen)


def test_an_address_that_is_taken_is_said(server: ProfileServer, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault):
        ProfileServer(tmp_path, server.url.removeprefix("http://"))
    with pytest.raises(CallerError):
        ProfileServer(tmp_path, token="")


def test_closing_leaves_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    def open_now() -> tuple[set[str], int]:
        names = {thread.name for thread in threading.enumerate() if thread.name.startswith("mainspring-profile")}
        return names, len(os.listdir("/proc/self/fd"))

    before = open_now()
    made: list[Any] = [ProfileServer(tmp_path) for _ in range(3)]
    assert open_now()[0] == before[0] | {"mainspring-profile-http"}
    for one in made:
        one.close()
        one.close()
    assert open_now() == before
