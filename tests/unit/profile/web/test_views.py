"""What the server shows, and what of it is possible how often; processes are made up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from runtime.profile.captures import capture
from runtime.profile.leak_check.survey import Report
from runtime.profile.ledger.books import Count
from runtime.profile.model import COUNT, LIVE, Process, Profile
from runtime.profile.presence.processes import Looked
from runtime.profile.web import views
from runtime.profile.web.request import WebRefusal, WebRequest
from runtime.profile.web.server import ProfileServer

PROOF = ("/debug/runtime/leaks", "prove=1&format=json")
STACKS = ("/debug/pprof/goroutine", "debug=2")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProfileServer]:
    monkeypatch.setattr(capture, "leaks", lambda *_, **__: Report([], []))
    monkeypatch.setattr(capture, "live", lambda *_, **__: Profile(LIVE, COUNT))
    monkeypatch.setattr(capture, "pass_time", lambda *_: None)
    with ProfileServer(tmp_path, "127.0.0.1:0", "let me in") as opened:
        yield opened


def asked(server: ProfileServer, path: str, query: str) -> bytes:
    return views.view(WebRequest(server, path, query, lambda: False)).content


@pytest.mark.parametrize(("path", "query"), [PROOF, STACKS])
@pytest.mark.parametrize("wrong", ["proc=x", "seconds=x"])
def test_what_was_refused_does_not_count_as_done(server: ProfileServer, path: str, query: str, wrong: str) -> None:
    """Because something else runs, or an argument is wrong: then it may be asked again at once."""
    other = WebRequest(server, "/", "", lambda: False)
    with other.alone(), pytest.raises(WebRefusal, match="a capture is running"):
        asked(server, path, f"{query}&seconds=1")
    if (path, wrong) != (PROOF[0], "seconds=x"):  # which looks at no seconds
        with pytest.raises(WebRefusal, match="must be"):
            asked(server, path, f"{query}&{wrong}")
    assert asked(server, path, query)
    with pytest.raises(WebRefusal, match="is possible once in 60 s"):
        asked(server, path, query)


def test_what_changes_among_leaks_is_one_capture_and_one_proof(server: ProfileServer) -> None:
    assert asked(server, "/debug/pprof/goroutineleak", "prove=1&seconds=2&debug=1").startswith(b"goroutineleak profile")
    with WebRequest(server, "/", "", lambda: False).alone():
        pass  # and it has let go


def test_processes_are_looked_at_once(server: ProfileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice, and one that was born meanwhile would have the counts of another one."""
    looks: list[Any] = []
    counts = {"task": Count(2, 3, 1, 5)}
    worker = Looked(Process(9, 1, "worker", 1, "http"), counts, 10, 9, 0, 0, 0, 0, 1, 0, "S", True)

    def looked(*how: Any, **more: Any) -> list[Looked]:
        looks.append((how, more))
        return [worker] if len(looks) == 1 else [worker._replace(counts={}), worker]

    monkeypatch.setattr(views, "looked", looked)
    (row,) = orjson.loads(asked(server, "/debug/runtime/processes", ""))
    assert len(looks) == 1
    assert (row["process"]["pid"], row["counts"]["task"]["live"]) == (9, 2)
