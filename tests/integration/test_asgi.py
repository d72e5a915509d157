"""AsyncRuntime inside a small program of the ASGI kind: requests side by side, streams, and clients that go away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import AsyncRuntime, Flow, NodeType, errors
from tests.integration import handlers
from tests.scenarios.waiting import await_lines, words

pytestmark = pytest.mark.slow

POOLS: Final = [NodeType("cpu", workers=2), NodeType("io", workers=1, mode="asyncio", concurrency=100)]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Application:
    """A service: `/square/N` runs a task, `/flow/N` a graph, `/stream/N` a map, `/hold` a task that never ends."""

    def __init__(self, state: Path, gate: Path, noted: Path) -> None:
        self.rt = AsyncRuntime(state, node_types=POOLS, durability="os")
        self.gate, self.noted = str(gate), str(noted)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.rt.open()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await self.rt.close()
            await send({"type": "lifespan.shutdown.complete"})
            return
        _, kind, *rest = scope["path"].split("/")
        try:
            async for part in self.answer(kind, *map(int, rest)):
                await send({"type": "http.response.body", "body": str(part).encode(), "more_body": True})
        except errors.TaskFailed as failed:
            await send({"type": "http.response.start", "status": 500})
            await send({"type": "http.response.body", "body": failed.type_name.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def answer(self, kind: str, number: int = 0) -> Any:
        """Parts of the answer."""
        rt = self.rt
        if kind == "square":
            yield await (await rt.submit(handlers.square, number))
        elif kind == "flow":
            flow = Flow("request")
            flow.add(handlers.total, [flow.add(handlers.square_async, n) for n in range(number)])
            yield await (await rt.run(flow)).result()
        elif kind == "stream":
            async for square in rt.map(handlers.square, range(number)):
                yield square
        elif kind == "fail":
            await (await rt.submit(handlers.fail, "as wanted"))
        elif kind == "hold":
            handle = await rt.submit(handlers.hold, self.noted, self.gate)
            try:
                yield await handle
            except asyncio.CancelledError:
                await handle.cancel()
                raise


class Server:
    """What a server does: one lifespan, many requests."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self._over = asyncio.Event()

    async def __aenter__(self) -> Server:
        started = asyncio.Event()

        async def send(message: dict[str, Any]) -> None:
            started.set()

        self._life = asyncio.create_task(self.application({"type": "lifespan"}, self._over.wait, send))
        await started.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        await self._life

    async def get(self, path: str) -> list[str]:
        """Parts of the answer to a request."""
        parts: list[str] = []

        async def send(message: dict[str, Any]) -> None:
            if message.get("body"):
                parts.append(message["body"].decode())

        await self.application({"type": "http", "path": path}, None, send)
        return parts


@pytest.fixture
def application(state_dir: Path, tmp_path: Path) -> Application:
    return Application(state_dir, tmp_path / "gate", tmp_path / "noted")


def serve(application: Application, client: Callable[[Server], Awaitable[None]]) -> None:
    """Run a client against the service."""

    async def main() -> None:
        async with Server(application) as server:
            await client(server)

    asyncio.run(main())


def test_hundreds_of_requests_side_by_side(application: Application) -> None:
    async def client(server: Server) -> None:
        squares = [server.get(f"/square/{n}") for n in range(300)]
        flows = [server.get(f"/flow/{n}") for n in range(1, 50)]
        streams = [server.get(f"/stream/{n}") for n in range(20)]
        fails = [server.get("/fail/0") for _ in range(10)]
        found = await asyncio.gather(*squares, *flows, *streams, *fails)
        assert found[:300] == [[str(n * n)] for n in range(300)]
        assert found[300:349] == [[str(sum(k * k for k in range(n)))] for n in range(1, 50)]
        assert found[349:369] == [[str(k * k) for k in range(n)] for n in range(20)]
        assert found[369:] == [["ValueError"]] * 10

    serve(application, client)


def test_a_client_that_goes_away_takes_its_task_with_it(application: Application) -> None:
    async def client(server: Server) -> None:
        request = asyncio.create_task(server.get("/hold"))
        await asyncio.to_thread(await_lines, Path(application.noted), 1)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert await server.get("/square/7") == ["49"]
        statuses = [status async for status in application.rt.runs()]
        assert "cancelled" in {str(status.state) for status in statuses}

    serve(application, client)
    assert words(Path(application.noted)) == {"held": 1}


def test_what_was_submitted_before_the_service_went_down_is_found_by_the_next(state_dir: Path, tmp_path: Path) -> None:
    gate, noted = tmp_path / "gate", tmp_path / "noted"

    async def submit(server: Server) -> None:
        await server.application.rt.submit(handlers.hold, str(noted), str(gate), run_id="job")
        await asyncio.to_thread(await_lines, noted, 1)
        await server.application.rt.close(drain=False)

    async def find(server: Server) -> None:
        handle = await server.application.rt.handle("job")
        assert await handle.result(timeout=30) == "held"

    serve(Application(state_dir, gate, noted), submit)
    gate.touch()
    serve(Application(state_dir, gate, noted), find)
