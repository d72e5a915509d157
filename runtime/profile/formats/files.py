"""Profiles in files: which formats there are, what a file's name says, and how a file is recognised by its content."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Final

import orjson

from actors.protocol.errors import CallerError
from actors.protocol.profile_errors import ProfileUnreadable
from runtime.profile.formats import chrome, flame, folded, pprof, speedscope
from runtime.profile.model import Profile

FORMATS: Final = ("json", "folded", "pprof", "speedscope", "html", "chrome")
"""Those that are written; all but the last two are read."""
OTHER_NAMES: Final = {"collapsed": "folded", "raw": "folded", "perfetto": "chrome", "trace": "chrome", "pb": "pprof"}
ENDINGS: Final = (
    (".speedscope.json", "speedscope"),
    (".trace.json", "chrome"),
    (".json", "json"),
    (".folded", "folded"),
    (".collapsed", "folded"),
    (".txt", "folded"),
    (".pb.gz", "pprof"),
    (".pb", "pprof"),
    (".pprof", "pprof"),
    (".html", "html"),
)
FILE_BYTES_MAX: Final = 1 << 30
"""A larger file is not read."""
_GZIP: Final = b"\x1f\x8b"
_BINARY: Final = re.compile(rb"[\x00-\x08\x0e-\x1f]")
"""What text has none of, and the keys of a message are."""


def format_of(name: str) -> str:
    """The format that the name of a file asks for.

    Raises:
        CallerError: It has no ending that is known.
    """
    for ending, fmt in ENDINGS:
        if name.lower().endswith(ending):
            return fmt
    raise CallerError(f"{name}: say which format; endings that are known: {', '.join(end for end, _ in ENDINGS)}")


def ending_of(fmt: str) -> str:
    """The ending that a file of this format has."""
    return next(ending for ending, known in ENDINGS if known == known_format(fmt))


def known_format(fmt: str) -> str:
    """The name of a format, also by another name for it.

    Raises:
        CallerError: There is none.
    """
    name = OTHER_NAMES.get(fmt, fmt)
    if name not in FORMATS:
        raise CallerError(f"there is no format {fmt!r}; there are {', '.join(FORMATS)}")
    return name


def write(profile: Profile, file: BinaryIO, fmt: str, *, by: Sequence[str] = ()) -> None:
    """Write a profile.

    Args:
        profile: What is written.
        file: Where to, open for bytes.
        fmt: One of `FORMATS`, or of `OTHER_NAMES`.
        by: Names of labels that stacks are grouped by: frames where a format has no labels, the first view of a page.
            pprof and json keep all labels as they are.

    Raises:
        CallerError: There is no such format.
    """
    writers: Mapping[str, Callable[[], Any]] = {
        "json": lambda: file.write(profile.to_json()),
        "folded": lambda: file.writelines(folded.encode(profile, by)),
        "pprof": lambda: file.write(pprof.encode(profile)),
        "speedscope": lambda: file.write(speedscope.encode(profile, by)),
        "html": lambda: file.write(flame.page(profile, by=by)),
        "chrome": lambda: chrome.encode(profile, file),
    }
    writers[known_format(fmt)]()


def read(file: BinaryIO) -> Profile:
    """Read a profile in any format that can be read, packed or not.

    Raises:
        ProfileUnreadable: It is none of them, too large or damaged.
    """
    content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ProfileUnreadable(f"it has more than {FILE_BYTES_MAX:,} bytes")
    if content[:2] == _GZIP:
        content = pprof.unpacked(content)
    begin = content[:64].lstrip()[:1]
    if begin == b"{":
        return _of_json(content)
    if begin == b"<":
        raise ProfileUnreadable("this is a page, which is for looking at")
    if _BINARY.search(content[:4_096]):
        return pprof.decode(content)
    return folded.decode(content)


def _of_json(content: bytes) -> Profile:
    try:
        found = orjson.loads(content)
    except ValueError as damaged:
        raise ProfileUnreadable(f"this is damaged JSON: {damaged}") from damaged
    if "traceEvents" in found:
        raise ProfileUnreadable("this is a trace, which is for looking at")
    if "shared" in found:
        return speedscope.decode(found)
    try:
        return Profile.from_json(content)
    except (ValueError, TypeError) as strange:
        raise ProfileUnreadable(str(strange)) from strange
