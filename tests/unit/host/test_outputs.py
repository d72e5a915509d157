"""Outputs: what attempts printed goes with their ends, or with the end of their worker; bounded in all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actors.protocol import limits
from actors.protocol import messages as msg
from runtime.host.output import OutputCollector
from runtime.host.outputs import Outputs

DUMP = "Fatal Python error: Segmentation fault\n\nCurrent thread\n"


class Book:
    """Serials 1 to 9 are nodes 11 to 19 of run 1, one group each; those in `held` are open."""

    def __init__(self, held: set[int]) -> None:
        self.held = held

    def find(self, serial: int) -> Any:
        return (
            SimpleNamespace(base=serial, run=SimpleNamespace(no=1), nodes=[10 + serial])
            if serial in self.held
            else None
        )


class Desk:
    """An engine with one worker that prints, as far as `Outputs` looks at it."""

    def __init__(self, current: int = 0, held: tuple[int, ...] = ()) -> None:
        book = Book(set(held))
        pool = SimpleNamespace(workers={1: SimpleNamespace(book=book)})
        run = SimpleNamespace(no=1, rare=SimpleNamespace(failures={}))
        core: Any = SimpleNamespace(
            pools={"cpu": pool},
            open_serials=lambda worker: sorted(book.held),
            queries=SimpleNamespace(place_of=lambda args: (run, args["node"], 0, 0)),
        )
        self.post: Any = SimpleNamespace(
            worker=1,
            output=OutputCollector(),
            drain_output=lambda: None,
            table=SimpleNamespace(current=lambda: (current, 0)),
        )
        self.outputs = Outputs(core, {})

    def say(self, serial: int | None, text: str) -> None:
        mark = b"" if serial is None else b"\0\1%d\0" % serial
        self.post.output.feed(mark + text.encode())

    def output(self, node: int) -> dict[str, Any]:
        answer: dict[str, Any] = self.outputs.answer(msg.Queried("s", 1, "output", {"run": "r", "node": node}))[1]
        return answer


def done(serial: int) -> msg.WorkerDone:
    return msg.WorkerDone(1, [[serial, 1, [10 + serial], [None], 0, [1]]], b"")


def test_words_of_a_success_can_be_asked_for() -> None:
    desk = Desk()
    desk.say(1, "one\n")
    desk.outputs.collect(desk.post, [done(1)])
    assert desk.output(11) == {"text": "one\n", "truncated": False}
    assert desk.output(12) == {"text": "", "truncated": False}


def test_each_open_attempt_of_a_dead_worker_keeps_its_own() -> None:
    desk = Desk(current=3, held=(2, 3, 4))
    for serial in (2, 3):
        desk.say(serial, f"word {serial}")
    assert desk.outputs.last_words(desk.post) == {2: "word 2", 3: "word 3"}
    assert [desk.output(node)["text"] for node in (12, 13, 14)] == ["word 2", "word 3", ""]


@pytest.mark.parametrize("collected", [True, False])
def test_what_is_said_without_a_mark_is_of_the_one_that_ran(collected: bool) -> None:
    """A dump behind the words of an attempt that has ended, whether or not its result was sent."""
    desk = Desk(current=2, held=(2,) if collected else (1, 2))
    desk.say(1, "words of another\n")
    if collected:
        desk.outputs.collect(desk.post, [done(1)])
    desk.say(None, DUMP)
    words = desk.outputs.last_words(desk.post)
    assert words[0] == DUMP
    assert desk.output(12)["text"] == DUMP


def test_a_silent_death_takes_nobody_elses_words() -> None:
    desk = Desk(current=2, held=(1, 2))
    desk.say(1, "words of another\n")
    assert desk.outputs.last_words(desk.post).get(0, "") == ""


def test_long_words_are_cut_for_the_failure_and_kept_for_the_question() -> None:
    desk = Desk(current=2, held=(2,))
    desk.say(2, "begin" + "x" * 50_000 + "end")
    (text,) = (text for serial, text in desk.outputs.last_words(desk.post).items() if serial == 2)
    assert len(text) <= limits.TRACEBACK_CHARS_MAX
    assert text.startswith("begin")
    assert text.endswith("end")
    assert len(desk.output(12)["text"]) == 50_008


def test_characters_in_all_are_bounded() -> None:
    desk = Desk()
    for serial in range(1, 300):
        desk.say(serial, "x" * limits.OUTPUT_BYTES_MAX)
        desk.outputs.collect(desk.post, [done(serial)])
    kept = [node for node in range(11, 310) if desk.output(node)["text"]]
    assert kept == list(range(310 - limits.OUTPUTS_KEPT_CHARS_MAX // limits.OUTPUT_BYTES_MAX, 310))
