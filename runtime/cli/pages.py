"""What all self-contained pages have in common, those of runs and those of the profiler: a frame, and safe text.

What comes from programs and users may hold anything. A page forbids itself any access to a network. `page/` has the
frame and the script that comes before a page's own: `frame.html`, `shared.js`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final

_MARK: Final = re.compile(r"\{\{(\w+)\}\}")
_TURNS: Final = re.compile("[\u007f-\u009f\u202a-\u202e\u2066-\u2069]")
"""Characters that reorder a line, and controls beyond ASCII: in `shared.js` too."""


def shown(text: object) -> str:
    """Escaped text; controls become pictures of themselves, what turns its direction an escape."""
    pictures = "".join(chr(0x2400 + ord(c)) if ord(c) < 32 and c not in "\n\t" else c for c in str(text))
    return escape(_TURNS.sub(lambda found: f"\\u{ord(found[0]):04x}", pictures))


def script_json(data: Any) -> str:
    """JSON that may stand inside a script element: `<` is escaped, and everything beyond ASCII as well."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")


def fill(folder: Traversable, name: str, scripts: Sequence[str], parts: dict[str, str]) -> bytes:
    """A page, UTF-8; `{{name}}` is filled in, once.

    Args:
        folder: Where its files are; its `style.css` is the style.
        name: Of the file that is its body.
        scripts: Files of scripts, in their order.
        parts: What is filled in; nothing of it is escaped here. "head": what a browser calls it, else its "title".
    """
    common = resources.files("runtime.cli") / "page"
    files = [common / "shared.js", *(folder / script for script in scripts)]
    frame = {
        "head": parts.get("head", parts["title"]),
        "style": (folder / "style.css").read_text("utf-8"),
        "body": _filled(folder / name, parts),
        "script": "\n".join(file.read_text("utf-8") for file in files),
    }
    # A lone surrogate cannot be UTF-8; as a character reference every browser shows the replacement character.
    return _filled(common / "frame.html", frame).encode("utf-8", "xmlcharrefreplace")


def _filled(file: Traversable, parts: dict[str, str]) -> str:
    return _MARK.sub(lambda found: parts[found[1]], file.read_text("utf-8"))
