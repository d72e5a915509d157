"""A web service under uvicorn, which takes SIGINT and SIGTERM for itself, with a runtime of either kind inside.

Arguments: state folder, "sync" or "async", event loop ("asyncio" or "uvloop"). Prints the port, and `closed` when the
application was shut down in order.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from typing import Any

import uvicorn

from runtime import AsyncRuntime, NodeType, Runtime
from tests.scenarios import handlers_hygiene as hygiene

POOL = [NodeType("cpu", workers=1)]


class Application:
    """ASGI: `GET /anything` runs a task and answers with its result."""

    def __init__(self, state: str, kind: str) -> None:
        self.rt: Any = (Runtime if kind == "sync" else AsyncRuntime)(state, node_types=POOL, durability="os")
        self.kind = kind

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.live(receive, send)
        elif scope["type"] == "http":
            text = await self.answer(scope["path"])
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": text.encode()})

    async def live(self, receive: Any, send: Any) -> None:
        """Open at startup, close at shutdown."""
        await receive()
        if self.kind == "async":
            await self.rt.open()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if self.kind == "async":
            await self.rt.close()
        else:
            await asyncio.get_running_loop().run_in_executor(None, self.rt.close)
        print("closed", flush=True)
        await send({"type": "lifespan.shutdown.complete"})

    async def answer(self, path: str) -> str:
        """Run a task. The blocking face is used right in the loop's thread, as an unwary user would."""
        if self.kind == "async":
            return str(await (await self.rt.submit(hygiene.same, path)))
        return str(self.rt.submit(hygiene.same, path).result(timeout=60))


def main() -> None:
    """See the head of the file."""
    state, kind, loop = sys.argv[1:4]
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    application = Application(state, kind)
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    server = uvicorn.Server(uvicorn.Config(application, loop=loop, log_level="error"))  # type: ignore[arg-type]
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
