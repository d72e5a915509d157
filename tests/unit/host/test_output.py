"""Captured output: attribution by markers, bounds, and nothing lost at the edges."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol import limits
from runtime.host.output import MarkedFile, OutputCollector, OutputMarks, open_output_pipe


def marked(serial: int, data: bytes) -> bytes:
    return b"\0\1%d\0" % serial + data


def collect(*chunks: bytes) -> OutputCollector:
    collector = OutputCollector()
    for chunk in chunks:
        collector.feed(chunk)
    return collector


def test_each_attempt_has_its_own() -> None:
    collector = collect(marked(1, b"a\n") + marked(2, b"b\n") + marked(1, b"c\n"))
    assert collector.take(1) == "a\nc\n"
    assert collector.take(2) == "b\n"
    assert collector.take(2) == ""
    assert collector.latest == 1


def test_what_comes_before_any_marker_belongs_to_nobody() -> None:
    collector = collect(b"import noise", marked(1, b"x"))
    assert collector.take(0) == "import noise"


@given(
    st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=30).filter(lambda b: b"\0" not in b)), max_size=8),
    st.data(),
)
def test_where_it_is_cut_does_not_matter(parts: list[tuple[int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(marked(serial, text) for serial, text in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    collector = collect(*(stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)))
    expected: dict[int, bytes] = {}
    for serial, text in parts:
        expected[serial] = expected.get(serial, b"") + text
    for serial, whole in expected.items():
        assert collector.take(serial) == whole.decode("utf-8", "replace")


def test_zero_bytes_of_the_program_pass() -> None:
    assert collect(marked(1, b"a\0b\0\1"), b"\0\0c").take(1) == "a\0b\0\1\0\0c"


def test_a_flood_keeps_head_and_tail() -> None:
    collector = OutputCollector()
    collector.feed(marked(3, b"start " + b"x" * 10_000))
    for _ in range(500):
        collector.feed(b"y" * 4096)
    collector.feed(b" end")
    text = collector.take(3)
    assert text.startswith("start xxx")
    assert text.endswith("yyy end")
    assert len(text) <= limits.OUTPUT_BYTES_MAX + 60
    total = 6 + 10_000 + 500 * 4096 + 4
    assert f"... truncated {total - limits.OUTPUT_BYTES_MAX} bytes ..." in text


def test_single_bytes_are_bounded_too() -> None:
    collector = OutputCollector()
    for _ in range(2 * limits.OUTPUT_BYTES_MAX):
        collector.feed(b"z")
    assert len(collector.take(0)) <= limits.OUTPUT_BYTES_MAX + 60


def test_just_as_much_as_fits_is_not_cut() -> None:
    data = os.urandom(limits.OUTPUT_BYTES_MAX // 2).hex().encode()
    assert collect(marked(1, data)).take(1) == data.decode()


def test_only_the_latest_attempts_are_kept() -> None:
    collector = OutputCollector()
    for serial in range(1, limits.OUTPUT_SERIALS_MAX + 11):
        collector.feed(marked(serial, b"x"))
    assert collector.take(10) == ""
    assert collector.take(11) == "x"


def test_bytes_of_all_attempts_are_bounded_and_the_oldest_go_first() -> None:
    collector = OutputCollector()
    floods = limits.OUTPUT_PENDING_BYTES_MAX // limits.OUTPUT_BYTES_MAX
    for serial in range(1, floods + 3):
        collector.feed(marked(serial, b"x" * (2 * limits.OUTPUT_BYTES_MAX)))
    assert collector.serials() == list(range(3, floods + 3))
    for serial in range(3, floods + 3):
        collector.take(serial)
    collector.feed(marked(9999, b"y" * limits.OUTPUT_BYTES_MAX))
    assert collector.serials() == [9999], "what was taken counts no longer"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    fds = open_output_pipe()
    yield fds
    for fd in fds:
        os.close(fd)


def test_a_marker_is_written_only_when_the_attempt_changes(pipe: tuple[int, int]) -> None:
    serial = [0]
    file = MarkedFile(pipe[1], OutputMarks(lambda: serial[0]))
    for serial[0], text in ((0, b"a"), (0, b"b"), (5, b"c"), (5, b""), (5, b"d"), (6, b"")):
        assert file.write(text) == len(text)
    assert os.read(pipe[0], 100) == b"ab\0\0015\0cd"
    assert (file.writable(), file.readable(), file.isatty(), file.fileno()) == (True, False, False, pipe[1])


def test_a_large_write_waits_for_the_reader(pipe: tuple[int, int]) -> None:
    file = MarkedFile(pipe[1], OutputMarks(lambda: 1))
    data = b"q" * 3_000_000
    writer = threading.Thread(target=file.write, args=[data])
    collector, seen = OutputCollector(), 0
    writer.start()
    while seen < len(data) + 4:
        try:
            chunk = os.read(pipe[0], 65_536)
        except BlockingIOError:
            continue
        seen += len(chunk)
        collector.feed(chunk)
    writer.join()
    assert collector.take(1).endswith("qqq")
