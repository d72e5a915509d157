"""Where a bridge goes on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.bridges.standing import Standing, going_on
from runtime.bridges.wire import Position

EARLY, LATE = Position(3, 4), Position(3, 5)


def test_the_stream_is_right_about_what_it_has() -> None:
    assert going_on(EARLY, Standing(LATE)) == LATE, "the bridge died before it noted it"
    assert going_on(LATE, Standing(EARLY)) == EARLY, "the server lost it"
    assert going_on(None, Standing(EARLY)) == EARLY


def test_where_the_stream_does_not_know_the_note_counts() -> None:
    assert going_on(LATE, Standing(EARLY, sure=False)) == LATE
    assert going_on(EARLY, Standing(LATE, sure=False)) == LATE
    assert going_on(LATE, Standing(None, sure=False)) == LATE
    assert going_on(LATE, Standing(None)) == LATE
    assert going_on(None, Standing(None)) is None


@given(st.lists(st.tuples(st.sampled_from(["send", "note", "die", "lose"]), st.integers(0, 5)), max_size=60))
def test_whatever_fails_each_event_is_there_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    """A log of positions, a stream that may lose its end, a bridge that may die between sending and noting."""
    log = [Position(lsn, place) for lsn in range(1, 20) for place in range(2)]
    stream: list[Position] = []
    noted: Position | None = None
    kept: Position | None = None
    for step, count in [*steps, ("die", 0), ("send", len(log))]:
        if step == "send":
            after = going_on(noted, Standing(stream[-1] if stream else None))
            if not stream and noted is not None:
                return  # a stream that lost all has no place in the log: the note counts, and a person is told
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
