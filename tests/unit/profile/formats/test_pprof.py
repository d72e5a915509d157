"""Go's format, read by an independent decoder, by Go's own tool where it is installed, and by us."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.protocol.profile_errors import ProfileUnreadable
from runtime.profile.formats import pprof
from runtime.profile.model import AWAIT, COUNT, LIVE, NANOSECONDS, Frame, Profile, StackSample, Weight
from tests.unit.profile.independent import go_says, independent, stacks
from tests.unit.profile.profiles import profiles, small

GOLDEN = "9e7d1cab8d3c1449"


@pytest.mark.slow
def test_an_independent_decoder_reads_it() -> None:
    """Acceptance 9: the shape of `go tool pprof`, labels there and back."""
    found = independent(pprof.encode(small()))
    text = found.string_table
    assert text[0] == ""
    assert len(set(text)) == len(text)
    types = [(text[one.type], text[one.unit]) for one in found.sample_type]
    assert types == [("samples", "count"), ("cpu", "nanoseconds")]
    assert (text[found.period_type.type], found.period, text[found.default_sample_type]) == ("cpu", 10101010, "cpu")
    assert (found.time_nanos, found.duration_nanos) == (1_700_000_000_000_000_000, 10_000_000_000)
    assert all(one.has_functions and one.has_filenames and one.has_line_numbers for one in found.mapping)
    process = ("process 4711: worker 3 [http]", "", 0)
    whose = (("pid", 4711), ("process", "worker 3 [http]"), ("start_time", 99))
    labels = tuple(sorted([("node_type", "http"), ("tenant", "acme"), ("thread", "MainThread"), *whose]))
    stack = (process, ("thread: MainThread", "", 0), ("main", "app.py", 3), ("fetch", "app.py", 40))
    assert stacks(found)[stack, labels] == [594, 6_000_000_000]
    assert len(found.sample) == len(small())
    assert any("worker 2 was killed" in text[at] for at in found.comment)


@pytest.mark.slow
@given(profiles())
def test_both_decoders_agree(profile: Profile) -> None:
    content = pprof.encode(profile, rooted=False)
    found = independent(content)
    again = pprof.decode(content)
    sums: dict[Any, int] = {}
    for one in found.sample:
        key = (tuple(one.location_id), tuple((two.key, two.str, two.num) for two in one.label))
        sums[key] = one.value[-1]
    assert sorted(sums.values()) == sorted(weight.value for _, weight in again)


@pytest.mark.slow
@given(profiles())
def test_what_is_written_is_read(profile: Profile) -> None:
    for rooted in (True, False):
        again = pprof.decode(pprof.encode(profile, rooted=rooted))
        assert again.samples == profile.samples
        assert vars(again) == {**vars(profile), "samples": again.samples}


def test_golden() -> None:
    content = pprof.encode(small())
    assert content == pprof.encode(small())
    assert hashlib.sha256(gzip.decompress(content)).hexdigest()[:16] == GOLDEN


def test_names_are_those_of_go() -> None:
    live = Profile(LIVE, COUNT)
    live.add(StackSample((Frame("wait"),)), 7, 7)
    assert pprof.type_names(LIVE, COUNT) == (("goroutine", "count"),)
    assert pprof.type_names(AWAIT, NANOSECONDS) == (("contentions", "count"), ("delay", "nanoseconds"))
    assert pprof.decode(pprof.encode(live)).samples == {StackSample((Frame("wait"),)): Weight(7, 7)}


def test_a_profile_of_another_program() -> None:
    from runtime.profile.formats.wire import blob, number, packed, varint  # lazy: made by hand

    texts = ["", "alloc", "bytes", "cpu", "milliseconds", "inner", "outer", "a.c", "size", "kind", "x"]
    content = b"".join(
        [
            blob(1, number(1, 3) + number(2, 4)) + blob(1, number(1, 1) + number(2, 2)),
            # Numbers not packed, and a label with a number.
            blob(2, number(1, 1) + number(1, 2) + packed(2, [5, 6]) + blob(3, number(1, 8) + number(3, -4))),
            blob(4, number(1, 1) + blob(4, number(1, 1) + number(2, 3)) + blob(4, number(1, 2) + number(2, 4))),
            blob(4, number(1, 2) + number(3, 255)),
            blob(5, number(1, 1) + number(2, 5)) + blob(5, number(1, 2) + number(2, 6) + number(4, 7)),
            b"".join(blob(6, text.encode()) for text in texts),
            varint(14 << 3) + varint(3),
            varint(99 << 3 | 5) + b"1234",  # a field of a later version
        ]
    )
    found = pprof.decode(content)
    stack = (Frame("0xff"), Frame("outer", "a.c", 4), Frame("inner", "", 3))
    assert found.samples == {StackSample(stack, (("size", "-4"),)): Weight(5_000_000, 1)}


@pytest.mark.slow
@given(st.binary(max_size=60), st.integers(0, 1 << 30))
def test_damage_is_said(noise: bytes, at: int) -> None:
    whole = gzip.decompress(pprof.encode(small()))
    damaged = whole[: at % len(whole)] + noise + whole[at % len(whole) + len(noise) :]
    for content in (noise, damaged, whole[: at % len(whole)], b"\x1f\x8b" + noise, pprof.encode(small())[:-5]):
        try:
            pprof.decode(content)
        except ProfileUnreadable:
            continue
        assert content in (damaged, whole[: at % len(whole)])


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pprof, "EXPANDED_BYTES_MAX", 1_000)
    with pytest.raises(ProfileUnreadable, match="more than"):
        pprof.decode(gzip.compress(bytes(10_000)))


@pytest.mark.slow
def test_go_reads_it(tmp_path: Path) -> None:
    """Acceptance 9: `go tool pprof` prints functions, and finds labels."""
    path = tmp_path / "cpu.pb.gz"
    path.write_bytes(pprof.encode(small()))

    def run(*flags: str) -> str:
        return go_says(tmp_path, "-symbolize=none", *flags, str(path))

    top = run("-top")
    assert "Type: cpu" in top
    assert "7000ms 73.68%" in " ".join(next(line for line in top.splitlines() if line.endswith("fetch")).split())
    assert "tenant: Total" in " ".join(run("-tags").split())
    assert "app.py:40" in run("-top", "-lines")
    assert "2s 21.05%" in run("-top", "-tagfocus=thread=pool-1")
    assert "594" in run("-top", "-lines", "-sample_index=samples")
