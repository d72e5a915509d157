"""The policy as it stands: what the program set, what was changed at run time, and where the log tells of it.

**Which word counts: the latest, entry by entry.** A change at run time (a quota, a weight, a rate, a pause) is a record
of the log and holds over restarts: an operator who pauses a tenant at night must not find it running because the
program was restarted. But a program that is deployed with another setting than the one over which the change was made
means it: then the program's new setting counts, for that entry alone. So a record holds two policies, the one in force
and the one that the program had set, and an opening compares the latter with what the program sets now. Pauses are set
at run time only, and end at run time only.

A policy that nobody changed at run time is not in the log: it comes with each opening.

Invariant: `lsn` is that of the latest POLICY record, 0 when there is none. What is below the floor is removed from the
log, so the record is written again before the floor passes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from actors.policy.pauses import cause_of
from actors.policy.policy import Policy, node_types_in
from actors.protocol.errors import CallerError, ConfigurationError, ProtocolError
from actors.protocol.records import RecordType

if TYPE_CHECKING:
    from actors.scheduler import Scheduler


class Standing:
    """See the module.

    Args:
        given: What the program sets, in the form of `actors.policy.policy`.
    """

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self.policy = self.given = Policy.of(given or {})
        self.lsn = 0
        self._logged: tuple[Policy, Policy] | None = None

    def restore(self, payload: bytes, lsn: int) -> None:
        """Take a record of the log. Raises ProtocolError when it is malformed."""
        try:
            data = orjson.loads(payload)
            self._logged = Policy.of(data["policy"], bounded=False), Policy.of(data["given"])
        except CallerError as broken:
            raise ProtocolError(f"record {lsn} holds a policy that is none: {broken.message}") from broken
        self.lsn = lsn

    def as_logged(self, given: Mapping[str, Any] | None = None) -> Policy:
        """The policy that the log tells of: of its latest record, or what the program had set, where that is known."""
        if self._logged is not None:
            return self._logged[0]
        return self.policy if given is None else Policy.of(given, bounded=False)

    def saved(self) -> dict[str, Any] | None:
        """What a checkpoint holds: what the log said last, when it was not settled yet. None: nothing."""
        if self._logged is None:
            return None
        policy, given = self._logged
        return {"policy": policy.to_json(), "given": given.to_json()}

    def settle(self, scheduler: Scheduler) -> None:
        """The log was read: what it says and what the program sets become one."""
        if self._logged is None:
            return
        policy, given = self._logged
        self._logged = None
        self.policy = policy.rebased(given, self.given)
        if given != self.given:
            self.log(scheduler)

    def change(self, scheduler: Scheduler, change: Mapping[str, Any]) -> None:
        """Change and log. Raises ConfigurationError naming all problems; then nothing was changed."""
        if not isinstance(change, Mapping):
            raise ConfigurationError("scheduling: a change must be a dictionary")
        policy = self.policy.changed(change, at_ns=scheduler.wall_ns)
        strange = sorted(node_types_in(change) - set(scheduler.ready))
        if strange:
            known = ", ".join(map(repr, sorted(scheduler.ready)))
            raise ConfigurationError(f"scheduling: no node type {', '.join(map(repr, strange))}; there are {known}")
        if policy != self.policy:
            self.policy = policy
            self.log(scheduler, cause_of(change))

    def log(self, scheduler: Scheduler, cause: str = "") -> None:
        """Write the record, with what changed, in words, where that is to be told."""
        both = {"policy": self.policy.to_json(), "given": self.given.to_json()}
        told = {"cause": cause} if cause else {}
        self.lsn = scheduler.log(RecordType.POLICY, orjson.dumps({**both, **told, "at_ns": scheduler.wall_ns}))

    def kept(self, scheduler: Scheduler, floor: int, before: int) -> int:
        """The floor that keeps its record. It holds the floor back once; when it would again, it is written anew, and
        the log removes nothing before that is written.

        Args:
            scheduler: Logs.
            floor: What else needs.
            before: The floor as it is.
        """
        if not 0 < self.lsn < floor:
            return floor
        if self.lsn > before:
            return self.lsn
        self.log(scheduler)
        return floor
