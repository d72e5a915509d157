"""What all handles have: an identity, questions, and waiting.

Making a handle is part of every submission, so it is a plain object with slots (0.13 us, about 100 bytes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from actors.protocol.errors import MissingNode, WaitTimeout
from runtime import views
from runtime.flow import Node
from runtime.host.pending import ENDED, ERROR, FAILED, OPEN, VALUE, WIRE, Numbered
from runtime.views import Output, ResultRow, StoryEvent

if TYPE_CHECKING:
    from runtime.host.client import EngineClient

_WORDS: Final = {OPEN: "open", VALUE: "succeeded", WIRE: "succeeded", FAILED: "failed", ERROR: "lost", ENDED: "ended"}


class Handle(Numbered):
    """What all handles have, without waiting."""

    __slots__ = ("_client", "_key")

    def __init__(self, client: EngineClient, key: str | None = None) -> None:
        self._state = OPEN
        self._value = None
        self._hooks = None
        self._client = client
        self._key = key

    @property
    def run_id(self) -> str:
        """Identity of the run in its state folder, for `rt.handle(run_id)`."""
        return self._key or f"{self._client.session}-{self.seq}"

    def done(self) -> bool:
        """Whether it has ended, as far as this program was told."""
        return self._state != OPEN

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.run_id} {_WORDS[self._state]}>"

    def _when_done(self, call: Callable[[Any], object]) -> None:
        if not self._client.reader.add_hook(self, call):
            call(self)


def node_name(node: Node[Any] | int | str) -> int | str:
    """Number or id of what a caller calls a node. Raises MissingNode: it is something else."""
    if isinstance(node, (int, str)):
        return node
    if isinstance(node, Node):
        return node.index
    raise MissingNode(f"{node!r:.200} is neither a node, nor an id or number of one")


class SyncHandle(Handle):
    """Questions that block until the engine has answered. Their answers tell of nothing that could still be lost."""

    __slots__ = ()

    def cancel(self) -> bool:
        """Ask to cancel what has not ended.

        Returns:
            True: recorded, and a crash does not undo it. What waits never starts; what runs is stopped, first
            cooperatively, then by signals. False: it had ended before.
        """
        if self._state != OPEN:
            return False
        client = self._client
        return bool(client.answer_of(client.ask_cancel(self.run_id, None)))

    def story(self) -> list[StoryEvent]:
        """What happened to it, in order, with causes.

        Raises:
            UnknownRun: The engine no longer keeps it.
        """
        return views.read_story(self._ask(views.ask_story(self.run_id)))

    def why(self) -> str:
        """Why it is not running now, in words.

        Raises:
            UnknownRun: The engine no longer keeps it.
        """
        return str(self._ask(views.ask_why(self.run_id))["text"])

    def output(self) -> Output:
        """What the latest attempt printed: its beginning and its end, when it was much.

        The engine keeps it for the latest thousand attempts that printed something; it is not in the log. A run of
        several nodes is asked node by node: `run.node(id).output()`.

        Raises:
            MissingNode: The run has several nodes. UnknownRun: It is not known any more.
        """
        return views.read_output(self._ask(views.ask_output(self.run_id)))

    def _ask(self, request: views.Request) -> Any:
        return self._client.answer_of(self._client.ask(*request))

    def _wait(self, timeout: float | None) -> None:
        if not self._state and not self._client.wait(self, timeout):
            raise WaitTimeout(f"run {self.run_id} did not end within {timeout} s")

    def _rows(self, which: str, node: int | str | None = None) -> list[ResultRow]:
        """All pages of a table of results."""
        found: list[ResultRow] = []
        first: int | None = 0
        while first is not None:
            reply = self._ask(views.ask_results(self.run_id, first, node, which))
            found += views.read_results(reply)
            first = reply.get("next")
        return found
