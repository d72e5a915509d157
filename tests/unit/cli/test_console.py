"""Output that is safe whatever is printed and whoever reads."""

from __future__ import annotations

import io
import os

import pytest

from runtime.cli.console import Console, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é → 漢", "plain é → 漢"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("\x00\x9b\r", "\\x00\\x9b\\x0d"),
        ("a\u202eb\ud800", "a\\u202eb\\ud800"),
        ("two\nlines\t", "two\nlines\t"),
        ("👩\u200d🚀", "👩\u200d🚀"),
    ],
)
def test_control_characters_are_shown_and_not_obeyed(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_go_to_their_streams() -> None:
    out, err = io.StringIO(), io.StringIO()
    console = Console(out, err)
    console.say(["a", "b"])
    console.note("c")
    console.close()
    assert (out.getvalue(), err.getvalue()) == ("a\nb\n", "c\n")
    assert not console.lively


def test_a_reader_that_went_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        console = Console(stream, None)
        assert not console.gone
        console.say("x" * 100_000)
        assert console.gone, "so that who prints for ever can end"
        console.say("more")
        console.close()
        stream.write("the stream itself leads nowhere now")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no disk that is always full")
def test_what_a_full_disk_did_not_take_is_known() -> None:
    with open("/dev/full", "w") as full:
        console = Console(full, None)
        console.say("a")
        console.close()
        assert console.lost
    with open("/dev/full", "w") as full:
        console = Console(None, full)
        console.note("a")
        console.close()
        assert not console.lost


def test_closed_streams_are_no_error() -> None:
    closed = io.StringIO()
    closed.close()
    for console in (Console(None, None), Console(closed, closed)):
        console.say("a")
        console.note("b")
        assert not console.lively
        console.close()
