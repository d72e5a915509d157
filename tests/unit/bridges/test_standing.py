"""Where a bridge goes on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.bridges.standing import StreamStanding, going_on
from runtime.bridges.wire import StreamPosition

EARLY, LATE = StreamPosition(3, 4), StreamPosition(3, 5)


def test_the_stream_is_right_about_what_it_has() -> None:
    assert going_on(EARLY, StreamStanding(LATE)) == LATE, "the bridge died before it noted it"
    assert going_on(LATE, StreamStanding(EARLY)) == EARLY, "the server lost it"
    assert going_on(None, StreamStanding(EARLY)) == EARLY


def test_where_the_stream_does_not_know_the_note_counts() -> None:
    assert going_on(LATE, StreamStanding(EARLY, sure=False)) == LATE
    assert going_on(EARLY, StreamStanding(LATE, sure=False)) == LATE
    assert going_on(LATE, StreamStanding(None, sure=False)) == LATE
    assert going_on(LATE, StreamStanding(None)) == LATE
    assert going_on(None, StreamStanding(None)) is None


@given(st.lists(st.tuples(st.sampled_from(["send", "note", "die", "lose"]), st.integers(0, 5)), max_size=60))
def test_whatever_fails_each_event_is_there_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    """A log of positions, a stream that may lose its end, a bridge that may die between sending and noting."""
    log = [StreamPosition(lsn, place) for lsn in range(1, 20) for place in range(2)]
    stream: list[StreamPosition] = []
    noted: StreamPosition | None = None
    kept: StreamPosition | None = None
    for step, count in [*steps, ("die", 0), ("send", len(log))]:
        if step == "send":
            after = going_on(noted, StreamStanding(stream[-1] if stream else None))
            rest = [at for at in log if after is None or at > after][:count]
            stream += rest
            noted = rest[-1] if rest else after
        elif step == "note":
            kept = noted
        elif step == "die":
            noted = kept
        else:
            del stream[max(1, len(stream) - count) :]
    assert stream == log
