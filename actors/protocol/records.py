"""What the log is made of: numbered record types and the record itself.

Payloads are opaque here and to the storage: only the scheduler reads them. The numbers of `RecordType` and
`RECORD_VERSION` are persisted, hence append-only: a number is never given another meaning.

Invariants: LSNs start at `LSN_FIRST`, grow by one per record and are never used again within one state folder.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

LSN_FIRST: Final = 1
"""LSN of the first record of a log; 0 means "nothing yet"."""
RECORD_VERSION: Final = 3
"""Version of the payload forms, written into every record. A reader refuses a greater one.

2: consecutive nodes of a COMPLETED record may be written as their first; see `actors.protocol.places`.
3: a POLICY record may say who paused what, and why; see `actors.policy.pauses`."""


class RecordType(IntEnum):
    """What a record tells. Persisted: append only."""

    KIND = 1
    """A task kind and its number."""
    SUBMITTED = 2
    """A submission that was admitted: graph, items, session and sequence number."""
    COMPLETED = 3
    """A batch of successful attempts, as the worker sent it."""
    ATTEMPT = 4
    """Attempts that did not succeed, with their outcome."""
    CANCEL = 5
    """A cancellation that was accepted."""
    SPAWNED = 6
    """Nodes that a running task added to its run."""
    RELEASED = 7
    """Runs removed by the retention rule."""
    OPENED = 8
    """An incarnation of the engine started."""
    MARK = 9
    """The log's own: written and consumed by the storage, never seen by the scheduler."""
    POLICY = 10
    """Who runs next, as it was decided at run time: the whole policy, and what the program had set then."""
    RATES = 11
    """How much of which rates was used, and until when that counts."""
    KEYS = 12
    """Idempotency keys: those that are kept, or a submission that stands for an earlier run."""
    PRIORITY = 13
    """A run, or one task of a bundle, was given another priority class."""
    SCHEDULE = 14
    """A schedule: what it is, that it is gone, or what was decided about a due time without starting a run."""
    DEBOUNCE = 15
    """A debounced call that took the place of an earlier one; see `actors.once`."""
    DEAD = 17
    """Nodes that ended without success go again, or were discarded as dead letters."""
    LENT = 18
    """A task gave back its slot until what it called has ended; see `actors.calls`."""
    CHECKPOINT = 20
    """The state up to an LSN is in the checkpoint: what the log has up to there may go. See `actors.saved`."""
    IMPORTED = 22
    """Runs that come from another folder, line by line; see `actors.imported`."""


class Record(NamedTuple):
    """One record of the log. A named tuple because a million of them are made at recovery and a tuple costs half."""

    lsn: int
    type: int
    payload: bytes
