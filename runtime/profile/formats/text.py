"""Text in pages: what comes from programs and users may hold anything, and stays text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any, Final

_MARK: Final = re.compile(r"\{\{(\w+)\}\}")
_TURNS: Final = re.compile("[\u007f-\u009f\u202a-\u202e\u2066-\u2069]")
"""Characters that reorder a line, and controls beyond ASCII."""


def shown(text: object) -> str:
    """Escaped text; controls become pictures of themselves, what turns its direction an escape."""
    pictures = "".join(chr(0x2400 + ord(c)) if ord(c) < 32 and c not in "\n\t" else c for c in str(text))
    return escape(_TURNS.sub(lambda found: f"\\u{ord(found[0]):04x}", pictures))


def script_json(data: Any) -> str:
    """JSON that may stand inside a script element: `<` is escaped, and everything beyond ASCII as well."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")


def fill(name: str, scripts: Sequence[str], parts: dict[str, str]) -> bytes:
    """A page from the files in `pages/`; `{{name}}` is filled in, once.

    Args:
        name: Of the page.
        scripts: Files of scripts, in their order.
        parts: What is filled in; nothing of it is escaped here.
    """
    place = resources.files("runtime.profile.formats") / "pages"
    parts = parts | {
        "style": (place / "style.css").read_text("utf-8"),
        "script": "\n".join((place / script).read_text("utf-8") for script in scripts),
    }
    made = _MARK.sub(lambda found: parts[found[1]], (place / name).read_text("utf-8"))
    # A lone surrogate cannot be UTF-8; as a character reference every browser shows the replacement character.
    return made.encode("utf-8", "xmlcharrefreplace")
