"""What attempts printed, kept for `handle.output()` and for failures.

Output arrives by another way than results (the worker's pipe), so before a result is taken the pipe is emptied: what an
attempt printed is there when its end is. Bounded: the latest `OUTPUTS_KEPT_MAX` attempts that printed anything, and
`OUTPUTS_KEPT_CHARS_MAX` of them together. Nothing of it is in the log, except the end of what a failed attempt printed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from actors.afterwards import output_of
from actors.core import EngineCore
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import CallerError
from runtime.host.post import WorkerPost
from runtime.mail.failure import cut

FAILURE_OUTPUT_CHARS: Final = 4_000
"""The end of what a failed attempt printed, kept with its failure."""
_FATAL: Final = "Fatal Python error: "
"""How the dump of `faulthandler` begins."""


class Outputs:
    """See the module. Reads the posts of the engine's workers."""

    def __init__(self, core: EngineCore, posts: Mapping[int, WorkerPost]) -> None:
        self._core = core
        self._posts = posts
        self._kept: OrderedDict[tuple[int, int], str] = OrderedDict()
        self._chars = 0

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

    def last_words(self, post: WorkerPost) -> dict[int, str]:
        """What the open attempts of a worker that has ended printed, by serial; see `WorkerExited.outputs`.

        Bytes without a mark (the interpreter's dump of a crash, a child's words) stand behind those of whoever printed
        last. If that one has ended, and its output was taken, what is there now came after it.
        """
        post.drain_output()
        current, _ = post.table.current()
        held = set(self._core.open_serials(post.worker))
        found: dict[int, str] = {}
        for serial in post.output.serials():
            text = post.output.peek(serial)
            if serial in held:
                found[serial] = text
            elif serial == post.output.latest:
                found[0] = text
        if 0 not in found and post.output.latest != current:
            found[0] = crash_report(post.output.peek(post.output.latest))
        found = {serial: text for serial, text in found.items() if text}
        for serial, text in found.items():
            self._keep_of(post.worker, serial or current, text)
        return {serial: cut(printable(text), limits.TRACEBACK_CHARS_MAX) for serial, text in found.items()}

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
        text = text or self._kept.get((run.no, node), "") or output_of(run, node)["text"]
        return [message.query_id, {"text": printable(text), "truncated": "\n... truncated " in text}, None]

    def _keep_of(self, worker: int, serial: int, text: str) -> None:
        """Keep the output of an attempt that is still in its pool's book."""
        for pool in self._core.pools.values():
            holder = pool.workers.get(worker)
            group = None if holder is None else holder.book.find(serial)
            if group is not None:
                self._keep(group.run.no, group.nodes[serial - group.base], text)

    def _keep(self, run_no: int, node: int, text: str) -> None:
        self._chars += len(text) - len(self._kept.pop((run_no, node), ""))
        self._kept[(run_no, node)] = text
        while len(self._kept) > limits.OUTPUTS_KEPT_MAX or self._chars > limits.OUTPUTS_KEPT_CHARS_MAX:
            self._chars -= len(self._kept.popitem(last=False)[1])


def crash_report(text: str) -> str:
    """The interpreter's dump at the end of a text, if there is one."""
    at = text.rfind(_FATAL)
    return text[at:] if at >= 0 else ""


def printable(text: str) -> str:
    """Text that any JSON writer takes: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode()
