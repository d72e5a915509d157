"""What one program hands to its engine: task kinds, tasks, batches, graphs, questions.

Every submission gets the next number of the session and stays in the outbox until it is durable. A value that is too
large to travel inline becomes a file named by the run, so its frame can only be made once the number is known: see
`send_made`.

Concurrency: any thread. `lock` covers outbox, intake and the sending side of the link; it is never held while
    sleeping or writing files.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from actors.protocol import limits
from actors.protocol.errors import MainspringError, MissingNode, RuntimeClosed, UnknownRun
from runtime.host.intake import Intake
from runtime.host.outbox import Outbox
from runtime.host.pending import ERROR, VALUE, AckWait, MapChunk, Numbered, Pending, Query
from runtime.host.questions import encode_question
from runtime.mail.blobs import BlobStore
from runtime.mail.board import BoardReader
from runtime.mail.codec import Codec
from runtime.mail.link import Link

if TYPE_CHECKING:
    from runtime.past import Past

H = TypeVar("H", bound=Numbered)


class Submissions:
    """See the module.

    Attributes:
        session: Name of the session, unique in the state folder.
        blobs: The state folder's store for large values.
        codec: Encodes and decodes values, with that store.
        refusal: Why nothing can be submitted or asked any more; None while all is well.
        trouble: Why nothing can be submitted now (the disk is full); passes.
        closing: The end has begun; what was submitted is still waited for.
        closed: The link is gone.
        board: Where the engine shows how far runs are; None where there is none.
        kinds_from: Numbers of kinds below this are not to be used any more: `define` gives another one.
        past: Is asked about runs that the engine does not know; None: nobody is.
    """

    link: Link
    board: BoardReader | None = None

    def __init__(self, session: str, blobs: BlobStore | None) -> None:
        self.session = session
        self.blobs = blobs
        self.codec = Codec(blobs)
        self.outbox = Outbox()
        self.intake = Intake(self.outbox, blobs)
        self.lock = threading.Lock()
        self.refusal: MainspringError | None = RuntimeClosed("the runtime was not started")
        self.trouble: MainspringError | None = None
        self.closing = False
        self.closed = False
        self._query_no = 0
        self.kinds_from = 0
        self.past: Past | None = None
        self._kind_numbers: dict[bytes, int] = {}

    def define(self, kind: dict[str, Any]) -> int:
        """Number of a task kind in this session; equal kinds have one number, until there are many.

        Each half of FACE_KINDS_MAX the numbers begin anew, and the engine is told to forget those of the half before
        the last: a thread that has just read a number may still use it. So keys and tenants may be ever new ones.

        Raises:
            RuntimeClosed, DiskFull, ...: Nothing can be submitted now.
        """
        text = orjson.dumps(kind, option=orjson.OPT_SORT_KEYS)
        with self.lock:
            self.check_open()
            number = self._kind_numbers.get(text)
            if number is None:
                if len(self._kind_numbers) >= limits.FACE_KINDS_MAX // 2:
                    self.outbox.give_up(self.kinds_from, self.link)
                    self.kinds_from += len(self._kind_numbers)
                    self._kind_numbers.clear()
                number = self._kind_numbers[b"%b" % text] = self.outbox.define(text, self.link)
            return number

    def check_open(self) -> None:
        """Raise when nothing can be submitted now."""
        refusal = self.refusal or self.trouble
        if refusal is not None:
            raise fresh(refusal)

    def send_task(self, kind_no: int, item: bytes, handle: H, times: bytes = b"") -> H:
        """Send a single task whose item is small, with its times (`runtime.times.tail_of`). Does not wait.

        Raises:
            QueueFull: Nothing was sent. RuntimeClosed, DiskFull, ...: likewise.
        """
        outbox = self.outbox
        with self.lock:
            if self.refusal is not None or self.trouble is not None:
                self.check_open()
            if outbox.bytes_held > limits.UNACKED_BYTES_MAX:
                outbox.check_room()
            seq = outbox.seq + 1
            outbox.put(b"T[%d,%d,%b%b]" % (seq, kind_no, item, times), self.link)
            handle.seq = seq
            self.intake.open[seq] = handle
        return handle

    def send_batch(self, kind_no: int, items: bytes, batch: MapChunk) -> None:
        """Send the items of a map. As `send_task`."""
        outbox = self.outbox
        with self.lock:
            self.check_open()
            outbox.check_room()
            batch.seq = seq = outbox.seq + 1
            outbox.put(b"M[%d,%d,%b]" % (seq, kind_no, items), self.link)
            self.intake.open[seq] = batch

    def send_made(self, cell: Numbered, make: Callable[[int], bytes]) -> None:
        """Send a frame that is made knowing its number, because its large values are files named by the run.

        Args:
            cell: Handle or batch that gets the outcome.
            make: Makes the frame; called without the lock, may write files and raise.
        """
        with self.lock:
            self.check_open()
            self.outbox.check_room()
            slot = self.outbox.reserve()
            seq = self.outbox.seq
            cell.seq = seq
            self.intake.open[seq] = cell
        frame = b""
        try:
            frame = make(seq)
        finally:
            with self.lock:
                if not frame:
                    self.intake.open.pop(seq, None)
                if not self.closed:
                    self.outbox.fill(slot, frame, self.link)

    def acknowledged(self, seq: int) -> AckWait:
        """A cell that is settled when everything up to `seq` is durable."""
        with self.lock:
            return self._ack_wait(seq)

    def _ack_wait(self, seq: int) -> AckWait:
        wait = AckWait(seq)
        if seq <= self.outbox.acked:
            wait.settle(VALUE, None, [])
        elif self.refusal is not None and not self.closing:
            wait.settle(ERROR, self.refusal, [])
        elif self.trouble is not None:
            wait.settle(ERROR, self.trouble, [])
        else:
            waits = self.intake.ack_waits
            waits.append(wait)
            if len(waits) > 1 and waits[-2].seq > seq:
                self.intake.ack_waits = deque(sorted(waits, key=lambda w: w.seq))
        return wait

    def half_acknowledged(self) -> AckWait:
        """A cell that is settled when half of what is held is durable: time to try again after QueueFull."""
        with self.lock:
            return self._ack_wait((self.outbox.acked + self.outbox.seq + 1) // 2)

    # --- questions ------------------------------------------------------------------------------------------------

    def ask(self, what: str, args: dict[str, Any]) -> Query:
        """Ask; the answer settles the cell.

        Raises:
            UnknownRun, MissingNode: Nothing can have such a name. CallerError: it cannot be said, or is too long.
        """
        _check_names(args.get("run", ""), args.get("node"))
        return self._ask(b'Q[%d,"%b",%b]', what.encode(), encode_question(what, args, limits.QUESTION_BYTES_MAX))

    def ask_cancel(self, run_id: str, node: int | None) -> Query:
        """Ask to cancel a run or a node; the answer is whether that was recorded (False: it had ended).

        Raises as `ask`.
        """
        _check_names(run_id, node)
        return self._ask(b"C[%d,%b,%b]", orjson.dumps(run_id), orjson.dumps(node))

    def _ask(self, form: bytes, first: bytes, second: bytes) -> Query:
        with self.lock:
            if self.refusal is not None and (self.closed or not self.closing):
                raise fresh(self.refusal)
            self._query_no += 1
            query = Query(form % (self._query_no, first, second))
            self.intake.queries[self._query_no] = query
            self.outbox.say(query.frame, self.link)
        return query

    def watch(self, run_id: str, cell: Pending) -> None:
        """Settle a cell when this run of any session ends; the engine must be asked to say so (`views.ask_status`)."""
        with self.lock:
            self.intake.watched.setdefault(run_id, []).append(cell)


def _check_names(run: object, node: object) -> None:
    """Refuse what cannot be said in a question: it would not be understood, or would not fit."""
    if not _can_be_said(run) or not isinstance(run, str):
        raise UnknownRun(f"no run {run!a:.200} is known")
    if not _can_be_said(node):
        raise MissingNode(f"run {run!r} has no node {node!a:.200}")


def _can_be_said(name: object) -> bool:
    if isinstance(name, str):
        try:
            return len(name.encode()) <= limits.NAME_BYTES_MAX
        except UnicodeEncodeError:
            return False
    return name is None or (isinstance(name, int) and abs(name) <= limits.NODES_PER_RUN_MAX)


def fresh(error: MainspringError) -> MainspringError:
    """The same error as a new object, because each raise adds to an exception's traceback."""
    return type(error)(*error.args)
