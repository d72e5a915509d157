"""A real browser for tests of pages: Chromium without a window, spoken to by the DevTools protocol over two pipes.

No port, no network: messages are JSON with a zero byte behind, on descriptors 3 and 4. The browser has a folder of its
own for everything that it writes, and its processes are in a group of their own, which ends with it.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ANSWER_WITHIN_S: Final = 240
FIRST_FREE_FD: Final = 10
FLAGS: Final = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-extensions "
    "--disable-background-networking --disable-component-update --disable-sync --disable-breakpad --mute-audio "
    "--no-default-browser-check --no-zygote --remote-debugging-pipe"
).split()


class Page:
    """One tab."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number = 0
        self._buffer = b""
        self._session = ""
        self.requests: list[str] = []
        self.errors: list[str] = []

    def open(self, path: Path, width: int = 1_280, height: int = 900) -> None:
        """Show a file, and wait until it is loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=path.as_uri())
        self.until("document.readyState === 'complete'")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command."""
        self._number += 1
        number = self._number
        command = {"id": number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return dict(message["result"])
            self._event(message)

    def _event(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"])[:800])
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], ANSWER_WITHIN_S)
            assert ready, "the browser does not answer"
            more = os.read(self._answers, 1 << 20)
            assert more, "the browser has ended"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, f"{expression}: {found['exceptionDetails']}"
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while not self.run(expression):
            assert time.monotonic() < deadline, f"never true: {expression}"
            self.run("new Promise((done) => setTimeout(done, 20))")

    def key(self, key: str, text: str = "") -> None:
        """Press a key and let it go."""
        codes = {"Enter": 13, "Escape": 27, "Backspace": 8, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39}
        code = {"windowsVirtualKeyCode": codes.get(key, 40 if key == "ArrowDown" else 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """`mouseMoved`, or a whole click for `click`."""
        if kind != "click":
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y)
            return
        for one in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=one, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path: Path) -> None:
        """What is to be seen, as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


def out_of_the_way(fd: int) -> int:
    """The same under a number that is neither 3 nor 4, which would be overwritten before it is put there."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_FD)
    os.close(fd)
    return moved


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A browser that ends, with all that it started, at the end of the block."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"there is no browser; install one of {', '.join(NAMES)}")
    # The browser makes a socket in its temporary folder, and the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="ms-", dir="/tmp", ignore_cleanup_errors=True) as short:
        process, commands, answers = _started(found, folder, short)
        try:
            yield Page(commands, answers)
        finally:
            os.close(commands)
            os.close(answers)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _started(program: str, folder: Path, short: str) -> tuple[subprocess.Popen[bytes], int, int]:
    """The process, where it takes commands, and where it answers."""
    theirs_in, ours_out = map(out_of_the_way, os.pipe())
    ours_in, theirs_out = map(out_of_the_way, os.pipe())
    # The two that the browser expects as 3 and 4; a shell puts them there, so that nothing of ours runs after the fork.
    script = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder), "TMPDIR": short}
    with open(folder / "browser.log", "wb") as log:
        process = subprocess.Popen(
            ["/bin/bash", "-c", script, program, *FLAGS, f"--user-data-dir={folder / 'profile'}"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(theirs_in, theirs_out),
            start_new_session=True,
            env=os.environ | home,
        )
    os.close(theirs_in)
    os.close(theirs_out)
    return process, ours_out, ours_in
