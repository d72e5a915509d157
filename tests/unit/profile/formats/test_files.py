"""Any format by its name, its ending, and its content."""

from __future__ import annotations

import gzip
from io import BytesIO

import pytest

from actors.protocol.errors import CallerError
from actors.protocol.profile_errors import ProfileUnreadable
from runtime.profile.formats import files
from runtime.profile.model import Profile
from tests.unit.profile.profiles import small

READABLE = ("json", "folded", "pprof", "speedscope")


def content(fmt: str, profile: Profile | None = None) -> bytes:
    file = BytesIO()
    files.write(small() if profile is None else profile, file, fmt)
    return file.getvalue()


@pytest.mark.parametrize("fmt", READABLE)
def test_a_format_is_known_by_its_content(fmt: str) -> None:
    for written in (content(fmt), gzip.compress(content(fmt)) if fmt != "pprof" else gzip.decompress(content(fmt))):
        found = files.read(BytesIO(written))
        assert found.total() == small().total()
        assert (found.kind, found.duration_ns) == ("cpu", 10_000_000_000)
        assert {one.process and one.process.title for one in found.samples} == {"engine", "worker 3 [http]"}


def test_a_format_is_known_by_its_ending() -> None:
    assert [files.format_of(f"x{ending}") for ending, _ in files.ENDINGS] == [fmt for _, fmt in files.ENDINGS]
    assert all(files.format_of("x" + files.ending_of(fmt)) == fmt for fmt in files.FORMATS)
    assert files.ending_of("perfetto") == ".trace.json"
    with pytest.raises(CallerError, match="which format"):
        files.format_of("x.bin")
    with pytest.raises(CallerError, match="no format 'gif'"):
        content("gif")


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (content("html"), "page"),
        (content("chrome"), "trace"),
        (content("pprof")[:40], "end is missing"),
        (b"\x0a\x00\x12", "pprof"),
        (b'{"format": 9}', "format 9"),
        (b"{", "JSON"),
        (b"", "no stack"),
        (b"\x1f\x8b broken", "unpacked"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_no_profile(damaged: bytes, said: str) -> None:
    with pytest.raises(ProfileUnreadable, match=said):
        files.read(BytesIO(damaged))


def test_an_empty_profile_has_every_format() -> None:
    for fmt in files.FORMATS:
        assert content(fmt, Profile())
    for fmt in READABLE:
        assert not files.read(BytesIO(content(fmt, Profile()))).samples


def test_a_file_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FILE_BYTES_MAX", 10)
    with pytest.raises(ProfileUnreadable, match="more than 10"):
        files.read(BytesIO(content("folded")))
