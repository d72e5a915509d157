"""S48: whatever tasks print, nobody waits for ever, memory is bounded, and the last words of the dead are kept."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from actors.protocol import limits
from runtime import NodeType, Runtime, errors
from tests.scenarios import handlers_hygiene as hygiene
from tests.scenarios.processes import OwnFamily
from tests.scenarios.waiting import await_lines, until

pytestmark = pytest.mark.slow

POOLS: Final = [NodeType("cpu", workers=2), NodeType("io", workers=1, mode="asyncio", concurrency=10)]
MARK: Final = "... truncated "
SLACK_CHARS: Final = 100


@pytest.fixture
def rt(state_dir: Path) -> Iterator[Runtime]:
    with Runtime(state_dir, node_types=POOLS, durability="os") as opened:
        yield opened


@pytest.mark.parametrize("newline", [True, False])
def test_s48_half_a_gigabyte_is_printed_and_cut_with_a_mark(rt: Runtime, newline: bool) -> None:
    """The beginning and the end are kept; the engine's memory does not grow with it; others run meanwhile."""
    engine = psutil.Process(OwnFamily(rt).engine)
    rt.submit(hygiene.flood, 1, newline).result(timeout=30)
    before = engine.memory_info().rss
    handle = rt.submit(hygiene.flood, 500, newline)
    others = [rt.submit(hygiene.same, number).result(timeout=30) for number in range(100)]
    assert others == list(range(100))
    assert handle.result(timeout=60) == 500
    output = handle.output()
    assert output.truncated
    assert output.text.startswith("first words")
    assert output.text.endswith("last words\n")
    assert output.text.count(MARK) == 1
    assert len(output.text) <= limits.OUTPUT_BYTES_MAX + SLACK_CHARS
    assert engine.memory_info().rss - before < 8 * hygiene.MIB


def test_s48_both_streams_from_python_from_c_and_from_a_child(rt: Runtime) -> None:
    handle = rt.submit(hygiene.flood_both, 40)
    assert handle.result(timeout=60) == 40
    output = handle.output()
    assert output.truncated
    assert output.text.endswith("last words\n")


def test_s48_a_coroutine_that_floods(rt: Runtime) -> None:
    handle = rt.options(node_type="io").submit(hygiene.flood_async, 20)
    assert handle.result(timeout=60) == 20
    assert handle.output().text.endswith("last words\n")


def test_s48_a_flood_that_does_not_end_is_stopped_like_any_task(rt: Runtime, tmp_path: Path) -> None:
    """By a cancel and by a timeout, also while the pipe is full; the engine answers meanwhile."""
    cancelled = rt.submit(hygiene.flood_until, str(tmp_path / "never"))
    late = rt.options(timeout=0.5).submit(hygiene.flood_until, str(tmp_path / "never"))
    until(lambda: cancelled.output().truncated, "some output")
    started = time.monotonic()
    for _ in range(20):
        cancelled.status()
    assert time.monotonic() - started < 2
    assert cancelled.cancel()
    with pytest.raises(errors.TaskCancelled):
        cancelled.result(timeout=30)
    failed = late.exception(timeout=30)
    assert failed is not None
    assert failed.kind == "timeout"
    assert rt.submit(hygiene.same, 1).result(timeout=30) == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT])
def test_s48_the_last_words_of_a_dead_worker_are_kept(rt: Runtime, how: signal.Signals) -> None:
    """Killed right after the print, without a newline, at each attempt."""
    handle = rt.options(retry=1, poison=1).submit(hygiene.say_and_die, f"about to go {how.name}", how)
    failed = handle.exception(timeout=30)
    assert failed is not None
    assert failed.kind == "crash"
    assert f"about to go {how.name}" in failed.traceback_text
    assert f"about to go {how.name}" in "".join(failed.__notes__)
    assert handle.output().text.startswith(f"about to go {how.name}")


def test_s48_words_of_a_flood_before_death(rt: Runtime) -> None:
    """Cut with the mark, the end kept."""
    handle = rt.options(poison=1).submit(hygiene.say_and_die, "first " + "x" * 1_000_000 + " last", signal.SIGKILL)
    failed = handle.exception(timeout=30)
    assert failed is not None
    assert failed.traceback_text.endswith(" last")
    output = handle.output()
    assert output.truncated
    assert output.text.startswith("first ")
    assert output.text.endswith(" last")
    assert MARK in output.text


def test_s48_a_crash_in_c_says_where_it_was(rt: Runtime) -> None:
    """The interpreter's own dump goes past Python's streams, and counts for the attempt that crashed."""
    rt.submit(hygiene.say, "words of another").result(timeout=30)
    failed = rt.options(poison=1).submit(hygiene.crash_in_c).exception(timeout=30)
    assert failed is not None
    assert failed.kind == "crash"
    assert "Segmentation fault" in failed.traceback_text
    assert "in crash_in_c" in failed.traceback_text
    assert "words of another" not in failed.traceback_text


def test_s48_nobody_gets_the_words_of_another(rt: Runtime) -> None:
    """One attempt after the other in one worker, and side by side in one event loop."""
    handles = [rt.submit(hygiene.say, f"line {number}") for number in range(200)]
    for number, handle in enumerate(handles):
        assert handle.result(timeout=30) == f"line {number}"
        assert handle.output().text == f"line {number}\n"
    silent = rt.options(poison=1).submit(hygiene.die_silently)
    failed = silent.exception(timeout=30)
    assert failed is not None
    assert "line" not in failed.traceback_text
    assert silent.output().text == ""


def test_s48_attempts_that_die_together_keep_their_own_words(rt: Runtime, tmp_path: Path) -> None:
    """Ten coroutines in one worker that is killed."""
    path = tmp_path / "said"
    pool = rt.options(node_type="io", poison=1)
    handles = [pool.submit(hygiene.say_and_hold_async, f"word {n}!", str(path)) for n in range(10)]
    (pid,) = {line.pid for line in await_lines(path, 10)}
    psutil.Process(pid).kill()
    for number, handle in enumerate(handles):
        failed = handle.exception(timeout=30)
        assert failed is not None
        assert failed.kind == "crash"
        assert failed.traceback_text == f"word {number}!\n"
        assert handle.output().text == f"word {number}!\n"


def test_s48_the_end_of_what_a_failed_attempt_printed_stays_with_it(state_dir: Path) -> None:
    """After a restart, too."""
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        failed = rt.submit(hygiene.say_and_fail, "x" * 100_000 + " the end", run_id="failed").exception(timeout=30)
        assert failed is not None
        assert "the end" in "".join(failed.__notes__)
    with Runtime(state_dir, node_types=POOLS, durability="os") as rt:
        again = rt.handle("failed").exception()
        assert again is not None
        assert "Output of the attempt:" in "".join(again.__notes__)
        assert "the end" in "".join(again.__notes__)


@pytest.mark.parametrize(
    "text",
    ["\0" * 65_536, "\ud800\udfff\0\1", "\0\x011\0 a marker", "\x1b[31mred\r\n", "é€😀" * 20_000],
    ids=lambda t: ascii(t)[:20],
)
def test_s48_odd_output_harms_nobody(rt: Runtime, text: str) -> None:
    handle = rt.submit(hygiene.say, text)
    assert handle.result(timeout=30) == text
    assert handle.output().text.encode()
    assert rt.submit(hygiene.say_raw, b"\xff\xfe\0raw").exception(timeout=30) is None
    assert rt.submit(hygiene.same, 1).result(timeout=30) == 1


def test_s48_output_while_it_runs(rt: Runtime, tmp_path: Path) -> None:
    path, gate = tmp_path / "said", tmp_path / "gate"
    handle = rt.submit(hygiene.say_and_hold, "so far", str(path), str(gate))
    await_lines(path, 1)
    assert handle.output().text == "so far\n"
    gate.touch()
    handle.result(timeout=30)
    assert handle.output() == ("so far\n", False)


def test_s48_what_is_kept_of_many_attempts_is_bounded(rt: Runtime) -> None:
    """Five hundred attempts that print 128 KiB each; the output of the latest can be asked for."""
    engine = psutil.Process(OwnFamily(rt).engine)
    text = "x" * (128 * 1024)
    rt.submit(hygiene.say, text).result(timeout=30)
    before = engine.memory_info().rss
    handles = [rt.submit_nowait(hygiene.say_times, 128 * 1024) for _ in range(500)]
    for handle in handles:
        handle.result(timeout=60)
    assert engine.memory_info().rss - before < 48 * hygiene.MIB
    assert handles[-1].output().truncated


def test_s48_logging_and_replaced_streams(rt: Runtime) -> None:
    """The next task of the worker finds the streams as they should be."""
    pools: dict[str, Any] = {"one": rt.options(node_type="io")}
    for _ in range(3):
        handle = rt.submit(hygiene.say_with_logging, "logged")
        handle.result(timeout=30)
        assert "WARNING:mine:logged" in handle.output().text
        rt.submit(hygiene.replace_stdout, "lost").result(timeout=30)
        after = rt.submit(hygiene.say, "found")
        after.result(timeout=30)
        assert after.output().text == "found\n"
    assert pools["one"].submit(hygiene.same_async, 1).result(timeout=30) == 1
