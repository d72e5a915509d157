"""Dumps of all processes of a state folder as one profile: what `ps` and `dump` show.

Each process is asked (`control.ask`); one that does not answer soon is asked by the signal whose handler is C, and what
is then known of it are the stacks of its threads. Who could be seen in neither way is in the notes, by name.
"""

from __future__ import annotations

import os
from typing import Final

from runtime.profile.captures.snapshot import hung_profile
from runtime.profile.model import COUNT, LIVE, Process, Profile
from runtime.profile.presence.control import ask, hung_stacks, rows_of

PATIENCE_S: Final = 1.5
"""Until a process that does not answer is taken for one that hangs in C; on a busy machine it may only lack a core, and
its stacks are as true."""


def dump(
    state_dir: str | os.PathLike[str], *, pids: frozenset[int] | None = None, patience: float = PATIENCE_S
) -> Profile:
    """The stacks of all threads and tasks of all processes.

    Args:
        state_dir: The folder.
        pids: Only of these processes.
        patience: Seconds to wait for an answer, before the handler in C is asked.

    Returns:
        A profile of kind LIVE, one sample for each thread and task; see `runtime.profile.captures`.

    Raises:
        ProfileUnavailable: No process of this folder can be seen. StateFolderError: it is no state folder.
    """
    answers = ask(state_dir, "dump", timeout=patience, only=pids)
    merged = Profile(LIVE, COUNT)
    merged.merge(*(Profile.from_json(content) for _, content in answers.rows))
    merged.notes += [f"{process.named}: {why}" for process, why in answers.failed]
    for process in answers.missing:
        found = _hung(state_dir, process)
        if found is None:
            merged.notes.append(f"{process.named} could not be seen")
        else:
            merged.merge(found)
    return merged


def _hung(state_dir: str | os.PathLike[str], process: Process) -> Profile | None:
    row = next((row for row in rows_of(state_dir) if row.process == process), None)
    text = None if row is None else hung_stacks(row)
    return None if text is None else hung_profile(text, process)
