"""Go's own tool asks a running program for its profiles, with the token, as the README says.

Acceptance test 9 over HTTP. Where there is no Go tool, the package `protobuf` reads what it would have got.
"""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from runtime import NodeType, Runtime
from runtime.host import kernel
from runtime.profile.web.server import ProfileServer
from tests.scenarios import handlers_capture, handlers_profile
from tests.scenarios.waiting import await_lines
from tests.unit.profile.independent import go_says, has_tool, independent

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")]
PATIENCE_S = 60.0


class Seen(NamedTuple):
    """What a reader found: the sample type that is shown, weights by innermost function, and all functions."""

    kind: str
    flat: dict[str, float]
    functions: set[str]


class Reader:
    """Whoever reads here: Go's tool, or another decoder of the format."""

    def __init__(self, server: ProfileServer, folder: Path) -> None:
        self.server, self.folder = server, folder

    def __call__(self, path: str) -> Seen:
        """A profile of the server."""
        url = f"{self.server.url}/debug/pprof/{path}{'&' if '?' in path else '?'}token={self.server.token}"
        return self._by_go(url) if has_tool() else self._by_protobuf(url)

    def _by_go(self, url: str) -> Seen:
        wide = ("-nodefraction=0", "-edgefraction=0", "-nodecount=1000000")
        lines = go_says(self.folder, "-top", *wide, url).splitlines()
        kind = next(line.removeprefix("Type: ") for line in lines if line.startswith("Type: "))
        head = next((at for at, line in enumerate(lines) if line.split()[:2] == ["flat", "flat%"]), len(lines))
        flat = {}
        for line in lines[head + 1 :]:
            value, _, _, _, _, name = line.split(maxsplit=5)
            flat[name] = float(value.rstrip("numsh") or 0)
        return Seen(kind, {name: value for name, value in flat.items() if value}, set(flat))

    def _by_protobuf(self, url: str) -> Seen:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc)
        try:
            connection.request("GET", f"{parts.path}?{parts.query}")
            found = independent(connection.getresponse().read())
        finally:
            connection.close()
        text = found.string_table
        names = {one.id: text[one.name] for one in found.function}
        places = {one.id: names[one.line[0].function_id] for one in found.location}
        flat = Counter[str]()
        for one in found.sample:
            flat[places[one.location_id[0]]] += one.value[-1]
        used = {places[at] for one in found.sample for at in one.location_id}
        return Seen(text[found.default_sample_type], {n: v for n, v in flat.items() if v}, used)


def test_every_profile_is_read(state_dir: Path, tmp_path: Path) -> None:
    path, gate = tmp_path / "runs", tmp_path / "gate"
    types = [NodeType("cpu", workers=1), NodeType("io", workers=1, mode="asyncio")]
    with Runtime(state_dir, node_types=types) as rt, rt.profile.serve() as server:
        computing = rt.submit(handlers_capture.compute, str(path), str(gate))
        waiting = rt.options(node_type="io").submit(handlers_profile.wait_for_parts, str(path), str(gate))
        await_lines(path, 2)
        read = Reader(server, tmp_path)
        cpu = read("profile?seconds=1")
        assert cpu.kind == "cpu"
        assert "compute" in cpu.flat
        assert "node:cpu" in cpu.functions
        tasks = read("goroutine")
        assert tasks.kind == "goroutine"
        assert "compute" in tasks.flat
        assert "part" in tasks.functions
        (worker,) = [row.process.pid for row in rt.profile.processes() if row.process.node_type == "cpu"]
        only = read(f"goroutine?proc={worker}")
        assert "compute" in only.flat
        assert "part" not in only.functions
        assert "part" in read("block?seconds=1").functions
        assert read("block").kind == "delay"
        assert read("threadcreate").flat
        assert read("process").functions >= {"face", "engine", "worker 1 [cpu]"}
        assert read("lease").flat
        for name in ("mutex", "shm", "fd", "message", "task", "goroutineleak"):
            assert read(name).kind, name
        _check_delta(rt, read, path, gate)
        gate.touch()
        computing.result(timeout=PATIENCE_S)
        waiting.result(timeout=PATIENCE_S)


def _check_delta(rt: Runtime, read: Reader, path: Path, gate: Path) -> None:
    """`seconds=` of a count is what came meanwhile, and not what was there."""
    later = []
    timer = threading.Timer(
        0.3, lambda: later.append(rt.options(node_type="io").submit(handlers_profile.wait_for_nobody, str(path)))
    )
    timer.start()
    try:
        found = read("goroutine?seconds=2")
    finally:
        timer.join()
    assert any("wait_for_nobody" in name for name in found.functions), found
    assert "part" not in found.functions, "it waited before, and waits"
    later[0].cancel()


def test_who_has_no_token_is_told(state_dir: Path, tmp_path: Path) -> None:
    """The reason is in what Go's tool says."""
    if not has_tool():
        pytest.skip("neither pprof nor go is installed")
    with (
        Runtime(state_dir, node_types=[NodeType("cpu", workers=1)]) as rt,
        rt.profile.serve() as server,
        pytest.raises(AssertionError, match="a token is needed"),
    ):
        go_says(tmp_path, "-top", f"{server.url}/debug/pprof/goroutine")
