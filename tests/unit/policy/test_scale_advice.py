"""ScaleAdvice: a step waits for the program's word, which may be another size; and for no program for ever."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.policy.scale import Step
from actors.policy.scale_advice import Question, ScaleAdvice, Verdict
from actors.protocol import limits

MORE = Step(4, "work waits", 0)
LESS = Step(1, "idle", 0)
SAME = Step(2, "", 0)
ANSWER_NS = limits.SCALE_ANSWER_NS


def asked(step: Step = MORE, *, busy: bool = True) -> ScaleAdvice:
    """A pool of 2 that wants this step was asked about at 5."""
    advice = ScaleAdvice()
    verdict = advice.judge(step, 2, busy, 5)
    assert verdict == Verdict(2, "", Question(5, 2, step.target, step.reason), 5 + ANSWER_NS)
    return advice


def test_nothing_happens_before_the_answer() -> None:
    advice = asked()
    assert not advice.due(6)
    assert advice.judge(MORE, 2, True, 6) == Verdict(2, look_ns=5 + ANSWER_NS)


def test_as_decided() -> None:
    advice = asked()
    assert advice.answer(5, None)
    assert advice.due(6)
    assert advice.judge(SAME, 2, True, 6) == Verdict(4, "work waits")
    assert advice.question is None


def test_another_size() -> None:
    advice = asked()
    advice.answer(5, 7)
    assert advice.judge(SAME, 2, True, 6) == Verdict(7, "on_scale asks for 7 instead of 4; work waits")


def test_a_veto_of_growth_holds_for_a_while_and_says_so() -> None:
    advice = asked()
    advice.answer(5, 2)
    until_ns = 6 + limits.SCALE_KEPT_NS
    verdict = advice.judge(MORE, 2, True, 6)
    assert (verdict.target, verdict.look_ns) == (2, until_ns)
    assert advice.kept == "on_scale keeps it at 2 workers instead of 4"
    assert advice.judge(MORE, 2, True, 7) == Verdict(2, look_ns=until_ns)
    assert advice.judge(MORE, 2, True, until_ns).question is not None
    assert advice.kept == ""


def test_fewer_where_more_were_wanted_is_a_veto_too() -> None:
    advice = asked()
    advice.answer(5, 1)
    assert advice.judge(MORE, 2, True, 6).target == 1, "if one is idle"
    assert advice.judge(MORE, 2, True, 7).question is None


def test_a_veto_of_shrinking() -> None:
    advice = asked(LESS, busy=False)
    advice.answer(5, 2)
    assert advice.judge(SAME, 2, False, 6).target == 2


def test_a_program_that_says_nothing_stops_no_pool() -> None:
    advice = asked()
    late = 5 + ANSWER_NS
    assert advice.due(late)
    assert advice.judge(SAME, 2, True, late) == Verdict(4, "work waits; on_scale did not answer within 1 s")
    assert not advice.answer(5, 2), "too late"


def test_an_answer_to_another_engine_is_none() -> None:
    advice = asked()
    assert not advice.answer(4, 7)
    assert not ScaleAdvice().answer(5, 7)
    assert not advice.due(6)


def test_what_is_not_wanted_any_more_is_dropped() -> None:
    shrinking = asked(LESS, busy=False)
    shrinking.answer(5, None)
    assert shrinking.judge(SAME, 2, True, 6) == Verdict(2)
    growing = asked()
    growing.answer(5, None)
    assert growing.judge(SAME, 2, False, 6) == Verdict(2)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 600),
            st.integers(0, 6),
            st.booleans(),
            st.one_of(st.none(), st.integers(0, 6), st.just("mute")),
        ),
        max_size=40,
    )
)
def test_a_question_never_stays_and_a_size_changes_only_by_answer_or_time(
    moments: list[tuple[int, int, bool, int | str | None]],
) -> None:
    """Whatever comes: one question at a time, each ends within its time, and nothing changes while one is open."""
    advice, size, now_ns = ScaleAdvice(), 2, 1
    for passed_ms, target, busy, answer in moments:
        now_ns += passed_ms * 1_000_000
        before = advice.question
        heard = before is not None and answer != "mute"
        if before is not None and not isinstance(answer, str):
            advice.answer(before.number, answer)
        verdict = advice.judge(Step(target, "why", 0), size, busy, now_ns)
        if verdict.target != size:
            assert before is not None
            assert heard or now_ns >= before.number + ANSWER_NS
            assert verdict.reason
        if advice.question is not None:
            assert now_ns < advice.question.number + ANSWER_NS
            assert verdict.target == size
            assert verdict.look_ns
        size = verdict.target
