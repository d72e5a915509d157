"""Errors that who asks for finished runs can meet; of the family of `actors.protocol.errors`, which describes them."""

from __future__ import annotations

from actors.protocol.errors import CallerError, EnvironmentFault, UnknownRun


class RunNotEnded(CallerError):
    """What is asked for is done with runs that have ended."""

    code = "MS127"
    hint = "wait for the end of the run, or cancel it, then ask again"


class RunArchived(UnknownRun):
    """The run is in the archive only: it can be read, but nothing can be done with it."""

    code = "MS135"
    hint = "submit it again, or export it (--archived) and import it into another folder, where it can go again"


class ArchiveUnusable(EnvironmentFault):
    """The archive of finished runs is damaged, or belongs to another folder. Nothing else depends on it."""

    code = "MS212"
    hint = "restore archive.db from a copy, or delete it: the runs in it are lost, everything else is as it was"
