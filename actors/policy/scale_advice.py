"""What the program says of a step in the size of a pool, before it is taken (`on_scale`).

    asked     a step was decided: the program is told of it, and nothing changes until it answers
    answered  as decided; or another size, within the pool's bounds, instead: the present one is a veto
    late      no answer within SCALE_ANSWER_NS: the step is taken, because a program that hangs must not stop its pool
    kept      after a veto of growth the program is asked again after SCALE_KEPT_NS at the earliest; of shrinking, when
              the policy wants to shrink again

A question is dropped when what it asked is not wanted any more: work came while it asked for fewer workers, or went
away while it asked for more. Its number is the time at which it was asked, so that an answer to an engine that died is
none to the next. Concurrency: none; owned by one pool.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.policy.scale import Step
from actors.protocol import limits
from actors.protocol.words import counted


class Question(NamedTuple):
    """A step that the program was told of at `number`, in nanoseconds."""

    number: int
    before: int
    after: int
    reason: str


class Verdict(NamedTuple):
    """What to do now: go to this size, for this reason; or ask the program; or nothing. Look again at `look_ns`."""

    target: int
    reason: str = ""
    question: Question | None = None
    look_ns: int = 0


class ScaleAdvice:
    """See the module."""

    __slots__ = ("_answer", "_answered", "_kept_until_ns", "kept", "question")

    def __init__(self) -> None:
        self.question: Question | None = None
        self.kept = ""
        self._answered = False
        self._answer: int | None = None
        self._kept_until_ns = 0

    def answer(self, number: int, size: int | None) -> bool:
        """The program answered; whether that is still of use."""
        if self.question is None or self.question.number != number:
            return False
        self._answered, self._answer = True, size
        return True

    def due(self, now_ns: int) -> bool:
        """Whether there is something to settle."""
        asked = self.question
        return asked is not None and (self._answered or now_ns >= asked.number + limits.SCALE_ANSWER_NS)

    def judge(self, step: Step, size: int, busy: bool, now_ns: int) -> Verdict:
        """What becomes of what the policy decided, or had decided before.

        Args:
            step: The policy's.
            size: Workers that serve or start.
            busy: Whether something waits.
            now_ns: Monotonic.
        """
        asked = self.question
        if asked is not None:
            if busy is not (asked.after > asked.before):
                self._settled()
            elif self.due(now_ns):
                return self._settle(asked, size, now_ns)
            else:
                return Verdict(size, look_ns=asked.number + limits.SCALE_ANSWER_NS)
        if step.target == size:
            self.kept = self.kept if now_ns < self._kept_until_ns else ""
            return Verdict(size)
        if step.target > size and now_ns < self._kept_until_ns:
            return Verdict(size, look_ns=self._kept_until_ns)
        self.kept = ""
        self.question = Question(now_ns, size, step.target, step.reason)
        return Verdict(size, question=self.question, look_ns=now_ns + limits.SCALE_ANSWER_NS)

    def _settle(self, asked: Question, size: int, now_ns: int) -> Verdict:
        answered, answer = self._answered, self._answer
        self._settled()
        if not answered:
            late = f"on_scale did not answer within {limits.SCALE_ANSWER_NS / 1e9:g} s"
            return Verdict(asked.after, f"{asked.reason}; {late}")
        if answer is None or answer == asked.after:
            return Verdict(asked.after, asked.reason)
        reason = f"on_scale asks for {answer:,} instead of {asked.after:,}; {asked.reason}"
        if answer > size:
            return Verdict(answer, reason)
        self._kept_until_ns = now_ns + limits.SCALE_KEPT_NS
        self.kept = f"on_scale keeps it at {counted(answer, 'worker')} instead of {asked.after:,}"
        return Verdict(answer, reason, look_ns=self._kept_until_ns)

    def _settled(self) -> None:
        self.question, self._answered, self._answer = None, False, None
