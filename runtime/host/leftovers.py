"""What a program that was killed together with its spawner left running: whatever its handlers had started.

Workers, engine and spawner end each other however they die, and the spawner ends what handlers started. Only when it is
killed at the same moment as the program, nobody is left who could. So the engine that owns a state folder notes there
by which mark its spawner's descendants are known (see `launch`), and the next owner ends who still carries it.

Known limits: where the folder is not opened again, they go on.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from runtime.host import kernel
from runtime.host.launch import MARK

NAME: Final = "spawner"
"""The file in the state folder. It is there while an engine owns the folder, and after it was killed."""
_FORM: Final = re.compile(rf"{MARK}=[0-9]+-[0-9a-f]{{16}}")


def take_over(state_dir: str) -> int:
    """End what the owner before this one left, and note the own mark. The caller owns the folder.

    Returns:
        How many processes were ended.

    What a crash leaves behind: the old mark or the new one.
    """
    path = Path(state_dir, NAME)
    own = f"{MARK}={os.environ.get(MARK, '')}"
    ended = 0
    with suppress(OSError, ValueError):  # no such file, or no text: nothing is known
        before = path.read_text(encoding="ascii").strip()
        if before != own and _FORM.fullmatch(before):
            ended = kernel.kill_marked(before)
    with suppress(OSError):  # on a full disk this start goes unnoted
        aside = path.with_suffix(".aside")
        aside.write_text(own, encoding="ascii")
        aside.replace(path)
    return ended


def let_go(state_dir: str) -> None:
    """The engine ends in order: its spawner is there to end the rest."""
    with suppress(OSError):
        Path(state_dir, NAME).unlink()
