"""Profiles for tests of formats: by Hypothesis, with everything that names may hold, and one that is looked at."""

from __future__ import annotations

from hypothesis import strategies as st

from runtime.profile.model import COUNT, CPU, LIVE, NANOSECONDS, Frame, Process, Profile, StackSample

NASTY = st.sampled_from(
    ["", "a", ";", "a;b", "a\nb", "\\", "\\x3b", "\\e", " 5", "f (x.py:3)", "f (", "process 1: engine", "thread: t"]
    + ["k=v", "# no", "\u2028", "\x85", "ü", "名", "\U0001f600", "a\r", "x (:0)", "<a>&'\""]
)
TEXTS = NASTY | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
FRAMES = st.builds(Frame, TEXTS, TEXTS, st.integers(0, 99_999))
PROCESSES = st.builds(
    Process, st.integers(1, 99), st.integers(0, 9), st.sampled_from(["engine", "worker"]), st.integers(0, 3), TEXTS
)
LABEL_SETS = st.dictionaries(
    st.sampled_from(["tenant", "workflow", "pid", "thread", "label.pid", "zone"]), TEXTS, max_size=3
).map(lambda found: tuple(sorted(found.items())))
SAMPLES = st.builds(
    StackSample,
    st.lists(FRAMES, max_size=5).map(tuple),
    LABEL_SETS,
    st.none() | PROCESSES,
    TEXTS.filter(bool) | st.just(""),
)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Any profile, of times or of numbers."""
    unit = draw(st.sampled_from([NANOSECONDS, COUNT]))
    profile = Profile(CPU if unit == NANOSECONDS else LIVE, unit, draw(st.integers(0, 1 << 62)), 10, 99.0)
    for sample, value in draw(st.lists(st.tuples(SAMPLES, st.integers(0, 1 << 40)), max_size=8)):
        profile.add(sample, value, value if unit == COUNT else draw(st.integers(1, 9)))
    profile.notes = draw(st.lists(TEXTS.filter(bool), max_size=2, unique=True))
    return profile


def small() -> Profile:
    """Two processes, three threads, labels, a worker's task in two places."""
    profile = Profile(CPU, NANOSECONDS, 1_700_000_000_000_000_000, 10_000_000_000, 99.0)
    worker = Process(4_711, 99, "worker", 3, "http")
    engine = Process(4_700, 98, "engine")
    main = Frame("main", "app.py", 3)
    acme = (("node_type", "http"), ("tenant", "acme"))
    profile.add(StackSample((main, Frame("fetch", "app.py", 40)), acme, worker, "MainThread"), 6_000_000_000, 594)
    profile.add(StackSample((main, Frame("fetch", "app.py", 41)), acme, worker, "MainThread"), 1_000_000_000, 99)
    profile.add(StackSample((main, Frame("parse;all", "lib/a b.py", 7)), (), worker, "pool-1"), 2_000_000_000, 198)
    profile.add(StackSample((Frame("turn", "engine.py", 9),), (), engine, "MainThread"), 500_000_000, 50)
    profile.notes.append("worker 2 was killed; what it did in the last second is lost")
    return profile
