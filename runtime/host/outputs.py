"""What attempts printed, kept for `handle.output()` and for failures.

Output arrives by another way than results (the worker's pipe), so before a result is taken the pipe is emptied: what an
attempt printed is there when its end is. Bounded: the latest `OUTPUTS_KEPT_MAX` attempts that printed anything, each at
most `OUTPUT_BYTES_MAX`. Nothing of it is in the log, except the end of what a failed attempt printed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from actors.core import EngineCore
from actors.protocol import messages as msg
from actors.protocol.errors import CallerError
from runtime.host.post import WorkerPost

OUTPUTS_KEPT_MAX: Final = 1_000
FAILURE_OUTPUT_CHARS: Final = 4_000
"""The end of what a failed attempt printed, kept with its failure."""


class Outputs:
    """See the module. Reads the posts of the engine's workers."""

    def __init__(self, core: EngineCore, posts: Mapping[int, WorkerPost]) -> None:
        self._core = core
        self._posts = posts
        self._kept: OrderedDict[tuple[int, int], str] = OrderedDict()

    def collect(self, post: WorkerPost, messages: Sequence[Any]) -> None:
        """Move what finished attempts printed from the worker's collector to the kept outputs."""
        post.drain_output()
        printed = set(post.output.serials())
        if not printed:
            return
        for message in messages:
            if type(message) is msg.WorkerDone:
                for serial, run_no, nodes, *_ in message.groups:
                    for at in printed.intersection(range(serial, serial + len(nodes))):
                        self._keep(run_no, nodes[at - serial], post.output.take(at))
            elif type(message) is msg.WorkerFailed:
                for serial, run_no, node, _, _, failure in message.rows:
                    if serial in printed:
                        text = post.output.take(serial)
                        self._keep(run_no, node, text)
                        failure["output"] = printable(text[-FAILURE_OUTPUT_CHARS:])

    def answer(self, message: msg.Queried) -> list[Any]:
        """The reply to the question "output"."""
        try:
            run, node, worker, serial = self._core.queries.place_of(message.args)
        except CallerError as refused:
            return [message.query_id, None, {"code": refused.code, "message": refused.message}]
        post = self._posts.get(worker)
        text = ""
        if post is not None:
            post.drain_output()
            text = post.output.peek(serial)
        text = text or self._kept.get((run.no, node), "")
        return [message.query_id, {"text": printable(text), "truncated": "\n... truncated " in text}, None]

    def _keep(self, run_no: int, node: int, text: str) -> None:
        self._kept[(run_no, node)] = text
        self._kept.move_to_end((run_no, node))
        if len(self._kept) > OUTPUTS_KEPT_MAX:
            self._kept.popitem(last=False)


def printable(text: str) -> str:
    """Text that any JSON writer takes: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode()
