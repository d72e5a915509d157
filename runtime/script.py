"""The script that this program was started as: workers run it too, to find its handlers."""

from __future__ import annotations

import sys
from pathlib import Path


def main_script() -> str | None:
    """File of the script that this program was started as; None for `python -m`, notebooks and interactive sessions."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    if not file or (spec is not None and spec.name != "__main__") or not Path(file).is_file():
        return None
    return str(Path(file).absolute())
