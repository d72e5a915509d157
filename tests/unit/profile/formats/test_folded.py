"""Folded stacks: what is written is read, also by way of pprof, and lines of others are taken as they are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given

from actors.protocol.profile_errors import ProfileUnreadable
from runtime.profile.formats import folded, pprof
from runtime.profile.formats.roots import label_names_of
from runtime.profile.model import COUNT, NANOSECONDS, Frame, Process, Profile, StackSample, Weight
from tests.unit.profile.profiles import FRAMES, profiles, small

GOLDEN = """\
# mainspring kind=cpu unit=nanoseconds hz=99.0 begun_ns=1700000000000000000 duration_ns=10000000000 seen=941 0
process 4700: engine;thread: MainThread;turn (engine.py:9) 500000000
process 4711: worker 3 [http];thread: MainThread;tenant=acme;main (app.py:3);fetch (app.py:40) 6000000000
process 4711: worker 3 [http];thread: MainThread;tenant=acme;main (app.py:3);fetch (app.py:41) 1000000000
process 4711: worker 3 [http];thread: pool-1;main (app.py:3);parse\\x3ball (lib/a b.py:7) 2000000000
"""


def text(profile: Profile, by: tuple[str, ...] = ()) -> bytes:
    return b"".join(folded.encode(profile, by))


def bare(sample: StackSample) -> StackSample:
    """What of a sample is kept when all its labels are frames."""
    process = sample.process and sample.process._replace(start_time=0)
    return sample._replace(process=process)


def test_golden() -> None:
    assert text(small(), ("tenant",)).decode() == GOLDEN


@pytest.mark.slow
@given(profiles())
def test_by_way_of_pprof_nothing_changes(profile: Profile) -> None:
    """Acceptance 9: folded -> pprof -> folded is the identity."""
    for by in ((), tuple(label_names_of(profile))):
        lines = text(profile, by)
        once = folded.decode(lines)
        again = pprof.decode(pprof.encode(once))
        assert again.samples == once.samples
        assert text(again, by) == lines


@pytest.mark.slow
@given(profiles())
def test_what_is_written_is_read(profile: Profile) -> None:
    names = [name for name in label_names_of(profile) if re.fullmatch(r"\w+", name)]
    profile = profile.map(lambda one: one._replace(labels=tuple(pair for pair in one.labels if pair[0] in names)))
    again = folded.decode(text(profile, tuple(names)))
    assert again.total() == profile.total()
    wanted: dict[StackSample, int] = {}
    for sample, weight in profile:
        wanted[bare(sample)] = wanted.get(bare(sample), 0) + weight.value
    assert {sample: weight.value for sample, weight in again} == wanted
    assert (again.kind, again.unit, again.begun_ns, again.hz) == (
        profile.kind,
        profile.unit,
        profile.begun_ns,
        profile.hz,
    )


@pytest.mark.slow
@given(FRAMES)
def test_a_frame_is_one_word_of_a_line(frame: Frame) -> None:
    word = folded.frame_text(frame)
    assert folded.frame_of(word) == frame
    assert not re.search(r"[;\n\r\u2028]", word)
    assert word


def test_lines_of_others() -> None:
    found = folded.decode(b"# a comment\nmain (a.py:1);C:\\x64\\run 3\r\nk=v;thread: x 2.5\n\n")
    assert found.unit == COUNT
    assert found.samples == {
        StackSample((Frame("main", "a.py", 1), Frame("C:\\x64\\run"))): Weight(3, 3),
        StackSample((Frame("k=v"), Frame("thread: x"))): Weight(2, 2),
    }


def test_what_a_user_calls_like_a_root_stays_a_frame() -> None:
    profile = Profile()
    stack = (Frame("process 1: engine"), Frame("thread: t"), Frame("a=b"))
    profile.add(StackSample(stack, (), Process(1, 0, "engine")), 5)
    assert next(iter(folded.decode(text(profile)).samples)).stack == stack


@pytest.mark.parametrize("content", [b"", b"a;b\n", b"\n\n", b"# mainspring\n", b"main 3\nbroken\n"])
def test_what_is_none(content: bytes) -> None:
    with pytest.raises(ProfileUnreadable):
        folded.decode(content)


@pytest.mark.parametrize("kind", ["http connection", "a;b", "\\x20", "ü 5\n", ""])
def test_a_kind_may_have_any_name(kind: str) -> None:
    assert folded.decode(text(Profile(kind))).kind == kind


def test_an_empty_profile_is_one() -> None:
    assert folded.decode(text(Profile(unit=NANOSECONDS))).samples == {}
