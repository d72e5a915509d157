"""Mode "process" with a real worker: what comes back, what stops it, what it leaves behind."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.states import LeaseState
from runtime.host import kernel
from tests.unit.host.rig import NOTHING, Rig

CANCEL, TIMEOUT = 1, 2
CONTEXT: dict[str, Any] = {"context": True, "context_arg": "ctx"}


@pytest.fixture(scope="module")
def rigs() -> Iterator[list[Rig]]:
    """The one worker that tests share."""
    found = [Rig().begin()]
    yield found
    with found[0] as rig:
        rig.drain()
        assert rig.exited() == 0


@pytest.fixture
def shared(rigs: list[Rig], request: pytest.FixtureRequest) -> Iterator[Rig]:
    """One worker for tests that leave it as they found it. After one that failed there is another."""
    failed = request.session.testsfailed
    yield rigs[0]
    if request.session.testsfailed != failed:
        rigs[0].end()
        rigs[0] = Rig().begin()


# --- results --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handler", "shape", "item", "value"),
    [
        ("add_one", "one", 1, 2),
        ("add", "args", [1, 2], 3),
        ("add", "call", [[1], {"y": 5}], 6),
        ("total", "parents", [1, 2, 3], 6),
        ("total", "mixed", [[[1, None], [1]], [41]], 42),
        ("total", "template", [[[1, {"!": ["ref", 0]}], {}], [41]], 42),
        ("registered", "one", 4, 8),
        ("math:sqrt", "one", 2.25, 1.5),
        ("add_one_async", "one", 1, 2),
        ("make_coroutine", "one", 1, 2),
        ("is_worker", "one", None, True),
        ("echo", "one", {"!": ["tree", ["T", ["a"]]]}, {"!": ["tree", ["T", ["a"]]]}),
    ],
)
def test_a_task_of_each_shape(shared: Rig, handler: str, shape: str, item: Any, value: Any) -> None:
    assert shared.run(handler, item, shape=shape) == [value]


def test_ten_thousand_tasks_come_back_once_and_in_order(shared: Rig) -> None:
    kind = shared.kind("add_one", "one")
    for _ in range(10):
        first = shared.lease(kind, list(range(1000)))
        assert [shared.outcome(first + i) for i in range(1000)] == list(range(1, 1001))
    groups = [group for letter, body in shared.frames if letter == "D" for group in body[1]]
    serials = [group[0] + i for group in groups for i in range(len(group[2]))]
    assert len(serials) == len(set(serials))
    assert all(group[5] == sorted(group[5]) for group in groups)


def test_what_a_later_task_changes_was_sent_as_it_was(shared: Rig) -> None:
    values = shared.run("keep", 1, 2, 3, *range(100), shape="one")
    assert values[:3] == [[1], [1, 2], [1, 2, 3]]


def test_results_that_do_not_fit_into_one_frame(shared: Rig) -> None:
    assert shared.run("repeat", *[50_000] * 60, shape="one") == ["x" * 50_000] * 60


def test_claimed_leases_run_and_revoked_ones_do_not(shared: Rig) -> None:
    kind = shared.kind("add_one", "one")
    first, count = shared.serial, 20
    shared.serial += count
    shared.table.grant(first, count)
    revoked = shared.table.revoke([first, first + 7, first + 19])
    assert len(revoked) == 3
    assert shared.link.send(
        b'L[[%d,7,"r",%d,%b,0,%b,2]]' % (first, kind, str([0] * count).encode(), str([1] * count).encode())
    )
    shared.outcome(first + 18)
    assert set(range(first, first + count)) - set(shared.outcomes) == set(revoked)
    assert shared.table.states(first, 2) == bytes([LeaseState.REVOKED, LeaseState.RUNNING])


# --- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handler", "kind", "type_name"),
    [
        ("refuse", "error", "ValueError"),
        ("raise_own", "error", "tests.unit.host.worker_handlers.OwnConstructor"),
        ("raise_liar", "error", "tests.unit.host.worker_handlers.Liar"),
        ("leave", "error", "SystemExit"),
        ("interrupt", "crash", "KeyboardInterrupt"),
        ("recurse", "error", "RecursionError"),
        ("exhaust", "memory", "MemoryError"),
        ("skip", "skipped", "actors.protocol.control_signals.SkipNode"),
        ("unstorable", "payload", "actors.protocol.errors.PayloadError"),
        ("return_generator", "error", "actors.protocol.errors.HandlerRefused"),
        ("generate", "error", "actors.protocol.errors.HandlerRefused"),
        ("generate_async", "error", "actors.protocol.errors.HandlerRefused"),
        ("raise_stop_iteration", "error", "StopIteration"),
        ("leave_async", "error", "SystemExit"),
        ("KEPT", "error", "actors.protocol.errors.HandlerRefused"),
        ("absent", "no-handler", "AttributeError"),
        ("tests.unit.host.absent:f", "no-handler", "ModuleNotFoundError"),
    ],
)
def test_failures_by_kind(shared: Rig, handler: str, kind: str, type_name: str) -> None:
    failure = shared.run(handler, 1, shape="one")[0]
    assert (failure["kind"], failure["type"]) == (kind, type_name)
    assert shared.run("add_one", 1, shape="one") == [2], "the worker goes on"


def test_only_the_bad_item_of_a_batch_fails(shared: Rig) -> None:
    found = shared.run("add", [1, 2], ["a", 2], [3, 4], [5], [6, 7])
    assert [value if isinstance(value, int) else value["type"] for value in found] == [
        3,
        "TypeError",
        7,
        "TypeError",
        13,
    ]


def test_only_the_unstorable_result_of_a_batch_fails(shared: Rig) -> None:
    found = shared.run("unstorable", 0, 1, 0, shape="one")
    assert (found[0], found[1]["kind"], found[2]) == ("fine", "payload", "fine")


def test_a_module_that_appears_later_is_found(shared: Rig, tmp_path: Path) -> None:
    script = tmp_path / "late.py"
    reference = f"file:{script}:f"
    assert shared.run(reference, 1, shape="one")[0]["kind"] == "no-handler"
    script.write_text("def f(x):\n    return x + 100\n")
    assert shared.run(reference, 1, shape="one") == [101]


# --- crashes --------------------------------------------------------------------------------------------------------


def test_an_exit_is_seen_from_outside_with_its_last_words() -> None:
    with Rig() as rig:
        first = rig.lease(rig.kind("exit_hard", "one"), [7])
        assert os.waitstatus_to_exitcode(rig.exited()) == 7
        assert rig.table.current()[0] == first
        rig.pump(0)
        assert rig.output.take(first) == "last words"


def test_a_crash_in_c_names_its_attempt_and_its_place() -> None:
    with Rig() as rig:
        first = rig.lease(rig.kind("crash", "one"), [7])
        assert os.waitstatus_to_exitcode(rig.exited()) == -signal.SIGSEGV
        assert rig.table.current()[0] == first
        rig.pump(0)
        text = rig.output.take(first)
        assert text.startswith("before the crash")
        assert "Segmentation fault" in text
        assert "worker_handlers.py" in text


# --- stopping -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handler", ["say_and_wait", "sleep_long", "sleep_async", "cleanup_async"])
@pytest.mark.parametrize(("reason", "kind"), [(CANCEL, "cancelled"), (TIMEOUT, "timeout")])
def test_a_running_attempt_is_stopped(shared: Rig, handler: str, reason: int, kind: str) -> None:
    text = f"{handler} {kind} runs"
    first = shared.lease(shared.kind(handler, "one"), [text])
    shared.printed(text)
    shared.stop(first, reason)
    assert shared.outcome(first)["kind"] == kind
    assert shared.run("add_one", 1, shape="one") == [2]


def test_a_stopped_attempt_takes_the_processes_that_it_started(shared: Rig) -> None:
    other = shared.run("leave_child", 3600, shape="one")[0]
    shared.until(lambda: kernel.start_time_of(time.monotonic_ns()) > kernel.start_time(other) or NOTHING)
    first = shared.lease(shared.kind("children_and_wait", "one"), ["children:"])
    text = shared.printed("end\n")
    pids = [int(word) for word in text.rpartition("children:")[2].split()[:3]]
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    shared.stop(first, CANCEL)
    failure = shared.outcome(first)
    assert (failure["kind"], failure["type"]) == ("cancelled", "actors.protocol.control_signals.AttemptCancelled")
    assert shared.run("worker_pid", 1, shape="one") == [shared.pid]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert Path(f"/proc/{other}").exists(), "that of another attempt is left alone"
    os.kill(other, signal.SIGKILL)


def test_a_stopped_attempt_that_left_a_thread_takes_its_worker_with_it() -> None:
    with Rig() as rig:
        first = rig.lease(rig.kind("thread_and_wait", "one"), ["runs", "waits"])
        rig.printed("runs")
        rig.stop(first, CANCEL)
        assert rig.exited() == 0
        assert list(rig.outcomes) == [first]
        assert rig.table.states(first + 1, 1) == bytes([LeaseState.LEASED])


def test_the_context_tells_that_the_attempt_shall_stop(shared: Rig) -> None:
    first = shared.lease(shared.kind("wait_politely", "one", **CONTEXT), ["polite"])
    shared.printed("polite")
    shared.table.ask_cancel(first, CANCEL)
    assert shared.outcome(first) == "ended politely"


def test_a_stop_request_for_another_attempt_harms_nobody(shared: Rig, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = shared.lease(shared.kind("wait_for_file", "one"), [str(go)])
    shared.until(lambda: shared.table.current()[0] == first or NOTHING)
    shared.stop(first - 1, CANCEL)
    shared.stop(first + 1000, CANCEL)
    go.touch()
    assert shared.outcome(first) == str(go)


def test_a_lease_that_was_not_started_is_stopped(shared: Rig, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = shared.lease(shared.kind("wait_for_file", "one"), [str(go)] * 3)
    shared.until(lambda: shared.table.current()[0] == first or NOTHING)
    shared.stop(first + 1, CANCEL)
    shared.stop(first + 2, TIMEOUT)
    go.touch()
    assert shared.outcome(first) == str(go)
    assert [shared.outcome(first + i)["kind"] for i in (1, 2)] == ["cancelled", "timeout"]


@pytest.mark.parametrize("handler", ["swallow", "in_c"])
def test_one_that_cannot_be_stopped_is_killed(handler: str) -> None:
    with Rig() as rig:
        first = rig.lease(rig.kind(handler, "one"), ["runs"])
        rig.printed("runs")
        rig.stop(first, TIMEOUT)
        if handler == "swallow":
            rig.printed("swallowed")
        os.kill(rig.pid, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(rig.exited()) == -signal.SIGTERM


def test_results_do_not_wait_behind_a_long_task(shared: Rig, tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.touch()
    kind = shared.kind("wait_for_file", "one")
    shared.outcome(shared.lease(kind, [str(go)] * 300) + 299)
    first = shared.lease(kind, [*[str(go)] * 10, str(tmp_path / "later")])
    assert shared.outcome(first + 9) == str(go)
    (tmp_path / "later").touch()
    shared.outcome(first + 10)


QUIET_NS = 150_000_000
"""Ticks are 5 ms apart."""


def await_rest(rig: Rig) -> None:
    """Wait until the housekeeper does nothing any more: the kernel counts how often a thread was let run."""
    (keeper,) = (int(tid) for tid in os.listdir(f"/proc/{rig.pid}/task") if int(tid) != rig.pid)
    last = [-1, 0]

    def rests() -> Any:
        runs = int(Path(f"/proc/{rig.pid}/task/{keeper}/schedstat").read_text().split()[2])
        if runs != last[0]:
            last[:] = runs, time.monotonic_ns()
        return time.monotonic_ns() - last[1] > QUIET_NS or NOTHING

    rig.until(rests)


@pytest.mark.skipif(not kernel.LINUX, reason="looks into /proc")
def test_the_housekeeper_rests_while_a_long_task_runs(shared: Rig, tmp_path: Path) -> None:
    """A tick each 5 ms was 2 % of a core for as long as a task took, and 300 switches a second."""
    first = shared.lease(shared.kind("wait_for_file", "one"), [str(tmp_path / "later")])
    shared.until(lambda: shared.table.current()[0] == first or NOTHING)
    await_rest(shared)
    (tmp_path / "later").touch()
    shared.outcome(first)


@pytest.mark.skipif(not kernel.LINUX, reason="looks into /proc")
def test_results_do_not_wait_behind_the_second_long_task_of_a_claim(shared: Rig, tmp_path: Path) -> None:
    """What was claimed in pieces, because some of it was taken back, is gone through without another claim."""
    go, files = tmp_path / "go", [tmp_path / f"later {number}" for number in range(3)]
    go.touch()
    kind = shared.kind("wait_for_file", "one")
    shared.outcome(shared.lease(kind, [str(go)] * 300) + 299)
    other = shared.kind("wait_for_file", "one", name="another")  # so that claims of the first one stay large
    before = shared.lease(other, [str(files[0])])
    shared.until(lambda: shared.table.current()[0] == before or NOTHING)
    first = shared.lease(kind, [str(go), str(go), str(files[1]), str(files[2])])
    assert shared.table.revoke(range(first + 1, first + 2)) == [first + 1]
    files[0].touch()
    assert shared.outcome(first) == str(go)
    await_rest(shared)
    files[1].touch()
    assert shared.outcome(first + 2) == str(files[1]), "while the next one runs"
    files[2].touch()
    shared.outcome(first + 3)


def test_what_was_claimed_behind_a_long_task_can_be_taken_back(shared: Rig, tmp_path: Path) -> None:
    go, later = tmp_path / "go", tmp_path / "later"
    go.touch()
    kind = shared.kind("wait_for_file", "one")
    shared.outcome(shared.lease(kind, [str(go)] * 300) + 299)
    first = shared.lease(kind, [str(later), *[str(go)] * 40])
    shared.until(lambda: shared.table.current()[0] == first or NOTHING)
    shared.until(lambda: shared.table.states(first + 1, 40) == bytes([LeaseState.LEASED] * 40) or NOTHING)
    assert shared.table.revoke(range(first + 20, first + 41)) == list(range(first + 20, first + 41))
    later.touch()
    assert [shared.outcome(first + i) for i in range(1, 20)] == [str(go)] * 19
    assert shared.run("add_one", 1, shape="one") == [2]
    assert not set(range(first + 20, first + 41)) & set(shared.outcomes)


@pytest.mark.slow
def test_each_lease_ends_once_or_is_revoked(shared: Rig) -> None:
    """Tasks of very different lengths, stops and revocations at any moment: the claims of the one race all others.

    Fewer serials than the table has slots: the engine's care for slots that are not passed yet is not repeated here.
    """
    draw = random.Random(20261129)
    kind = shared.kind("rest", "one")
    revoked: set[int] = set()
    everything: list[int] = []
    for _ in range(40):
        seconds = [draw.choice([0.0] * 30 + [0.0005, 0.012]) for _ in range(draw.randrange(1, 100))]
        first = shared.lease(kind, seconds)
        everything += range(first, first + len(seconds))
        shared.pump(draw.choice([0.0, 0.001, 0.01]))
        left = [serial for serial in everything[-400:] if serial not in shared.outcomes and serial not in revoked]
        if draw.random() < 0.7:
            try:
                revoked.update(shared.table.revoke(left[draw.randrange(len(left) + 1) :]))
            except BlockingIOError:
                pass
        elif left:
            shared.stop(draw.choice(left), draw.choice([CANCEL, TIMEOUT]))
    shared.until(lambda: all(serial in shared.outcomes or serial in revoked for serial in everything) or NOTHING)
    assert not revoked & shared.outcomes.keys()
    serials = [serial for serial in shared.ended if serial >= everything[0]]
    assert len(serials) == len(set(serials))
    assert revoked, "some were taken back"


def test_what_was_claimed_behind_a_long_import_is_not_lost(shared: Rig, tmp_path: Path) -> None:
    script, go = tmp_path / "slow.py", tmp_path / "go"
    kind = shared.kind(f"file:{script}:f", "one")
    for _ in range(4):  # quick failures make the claims larger
        shared.outcome(shared.lease(kind, [0] * 8) + 7)
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.001)\n"
    script.write_text(wait + "def f(x):\n    return x\n")
    first = shared.lease(kind, list(range(8)))
    shared.until(lambda: shared.table.current()[0] == first or NOTHING)
    shared.until(lambda: shared.table.states(first + 1, 7) == bytes([LeaseState.LEASED] * 7) or NOTHING)
    go.touch()
    assert [shared.outcome(first + i) for i in range(8)] == list(range(8))


def test_an_import_is_not_stopped_in_the_middle(shared: Rig, tmp_path: Path) -> None:
    package, go = tmp_path / "half_imported", tmp_path / "go"
    package.mkdir()
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.001)\n"
    (package / "__init__.py").write_text(f"from .part import *\n{wait}known = part.x\n")
    (package / "part.py").write_text("x = 1\n")
    script = tmp_path / "imports_package.py"
    script.write_text("from half_imported import known\ndef f(x):\n    return x + known\n")
    kind = shared.kind(f"file:{script}:f", "one")
    first = shared.lease(kind, [1])
    shared.until(lambda: shared.table.current()[0] == first or NOTHING)
    shared.stop(first, CANCEL)
    go.touch()
    assert shared.outcome(first)["kind"] == "cancelled"
    assert shared.outcome(shared.lease(kind, [1])) == 2


def test_drain_finishes_what_runs_and_claims_nothing_more(tmp_path: Path) -> None:
    with Rig() as rig:
        go = tmp_path / "go"
        kind = rig.kind("wait_for_file", "one")
        first = rig.lease(kind, [str(go)] * 5)
        rig.until(lambda: rig.table.current()[0] == first or NOTHING)
        rig.drain()
        go.touch()
        assert rig.exited() == 0
        assert list(rig.outcomes) == [first]
        assert ("B", []) in rig.frames
        assert rig.table.states(first + 1, 4) == bytes([LeaseState.LEASED] * 4)


# --- the world ------------------------------------------------------------------------------------------------------


def test_folder_streams_and_signals_are_put_back(shared: Rig, tmp_path: Path) -> None:
    before = shared.run("see_world", None, shape="one")
    assert shared.run("change_world", str(tmp_path), shape="one") == [str(tmp_path)]
    assert shared.run("see_world", None, shape="one") == before


def test_a_forked_child_that_returns_from_the_handler_ends(shared: Rig) -> None:
    child = shared.run("fork_and_return", None, shape="one")[0]
    assert child > 0
    assert shared.run("add_one", *range(50), shape="one") == list(range(1, 51))
    shared.until(lambda: not Path(f"/proc/{child}").exists() or NOTHING)


def test_dead_children_are_reaped_when_idle(shared: Rig) -> None:
    children = shared.run("leave_child", 0, 0.01, 0, shape="one")
    for child in children:
        shared.until(lambda child=child: not Path(f"/proc/{child}").exists() or NOTHING)


def test_what_a_worker_started_dies_with_it() -> None:
    with Rig() as rig:
        pids = rig.run("leave_children", None, shape="one")[0]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        os.kill(rig.pid, signal.SIGKILL)
        rig.exited()
        for pid in pids:
            rig.until(lambda pid=pid: not Path(f"/proc/{pid}").exists() or NOTHING)


def test_counters_are_shown(shared: Rig) -> None:
    before = shared.table.pulse()
    shared.run("add_one", *range(10), shape="one")
    after = shared.until(
        lambda: shared.table.pulse() if shared.table.pulse().tasks_done >= before.tasks_done + 10 else NOTHING
    )
    assert after.busy_ns > before.busy_ns
    assert after.rss_bytes > 5_000_000


@pytest.mark.parametrize("mode", ["process", "asyncio"])
def test_where_its_size_counts_it_is_shown_before_the_result(mode: str) -> None:
    """Two tasks within the time between two looks, then nothing: the engine must not wait for a third."""
    with Rig(mode, recycle_rss_bytes=1 << 30) as rig:
        rig.run("add_one", 1, shape="one")
        before = rig.table.pulse().rss_bytes
        for count in (1, 2):
            rig.run("grow", 30_000_000, shape="one")
            assert rig.table.pulse().rss_bytes > before + count * 25_000_000


# --- context --------------------------------------------------------------------------------------------------------


def test_a_context_knows_its_attempt(shared: Rig) -> None:
    kind = shared.kind("describe", "one", timeout_ns=60_000_000_000, **CONTEXT)
    first = shared.lease(kind, [1, 2], attempts=[1, 3], run="s-9")
    assert shared.outcome(first) == [1, "s-9", first, 1, f"s-9/{first}", True]
    assert shared.outcome(first + 1)[3] == 3


@pytest.mark.parametrize("handler", ["describe_first", "describe_async"])
def test_a_context_goes_where_the_signature_has_it(shared: Rig, handler: str) -> None:
    first = shared.serial
    assert shared.run(handler, 5, shape="one", **CONTEXT) == [[5, first]]


def test_progress_and_log(shared: Rig) -> None:
    first = shared.serial
    assert shared.run("report", 1000, shape="one", **CONTEXT) == [1000]
    told = [body for letter, body in shared.frames if letter == "P" and body[0] == first]
    assert told[-1] == [first, 1000.0, 1000.0, "half\\ud800way"]
    assert len(told) < 100
    assert ("O", [first, "log", "a line"]) in shared.frames


def test_spawned_nodes_are_sent_before_the_result(shared: Rig) -> None:
    first = shared.serial
    assert shared.run("spawn_two", 1, shape="one", **CONTEXT) == ["spawned"]
    at = next(i for i, (letter, body) in enumerate(shared.frames) if letter == "S" and body[0] == first)
    assert any(letter == "D" for letter, _ in shared.frames[at:])
    serial, run_no, node, block = shared.frames[at][1]
    assert (serial, run_no, node, block["n"]) == (first, 7, first, 3)
    assert [block["kinds"][k]["handler"].rpartition(":")[2] for k in block["kind_of"]] == [
        "add_one",
        "registered",
        "total",
    ]
    assert block["deps"] == [[], [0], [0, 1]]
    assert block["after"] == [[], [], [1]]
    assert block["items"][0] == 1
    assert block["ids"] == ["first", None, None]


def test_spawned_nodes_of_a_failed_attempt_never_were(shared: Rig) -> None:
    first = shared.serial
    assert shared.run("spawn_two", -1, shape="one", **CONTEXT)[0]["kind"] == "error"
    assert not any(letter == "S" and body[0] == first for letter, body in shared.frames)


def test_a_context_is_dead_after_its_attempt(shared: Rig) -> None:
    assert shared.run("use_after_end", 1, 2, shape="one", **CONTEXT) == [0, len("RuntimeClosed")]


# --- output ---------------------------------------------------------------------------------------------------------


def test_output_belongs_to_its_attempt(shared: Rig) -> None:
    first = shared.serial
    shared.run("say", "one", "two", shape="one")
    shared.run("say_on_both", "three", shape="one")
    shared.printed("direct")
    assert [shared.output.take(first + i) for i in range(3)] == ["one\n", "two\n", "three\nTHREE\nraw\ndirect\n"]


def test_a_flood_is_cut_and_delays_nobody(shared: Rig) -> None:
    first = shared.serial
    before = shared.output_bytes
    assert shared.run("flood", 32, shape="one") == [32]
    assert shared.output_bytes - before >= 32 << 20
    text = shared.output.take(first)
    assert len(text) < 70_000
    assert " bytes ..." in text


# --- classes --------------------------------------------------------------------------------------------------------

REALTIME, NORMAL, LOW = 0, 2, 3


def test_a_better_class_overtakes_what_is_held(shared: Rig, tmp_path: Path) -> None:
    gates = [tmp_path / "first", tmp_path / "second"]
    wait, add = shared.kind("wait_for_file", "one"), shared.kind("add_one", "one")
    first = shared.lease(wait, [str(gates[0])], lane=REALTIME)
    low = shared.lease(add, list(range(5)), lane=LOW)
    normal = shared.lease(add, [1, 2], lane=NORMAL)
    urgent = shared.lease(wait, [str(gates[1])], lane=REALTIME)
    gates[0].touch()
    shared.until(lambda: shared.table.current()[0] == urgent or NOTHING)
    assert shared.table.passed() == first, "what was overtaken still needs its slots"
    gates[1].touch()
    shared.outcome(low + 4)
    assert [s for s in shared.ended if s >= first] == [first, urgent, normal, normal + 1, *range(low, low + 5)]
    shared.until(lambda: shared.table.passed() == urgent or NOTHING)


def test_a_better_class_overtakes_what_was_claimed_behind_a_long_task(shared: Rig, tmp_path: Path) -> None:
    """Leases that are put back are next of their class, not next of all."""
    gate = tmp_path / "gate"
    wait, there = shared.kind("wait_for_file", "one"), str(tmp_path)
    shared.run("wait_for_file", *[there] * 200, shape="one")
    first = shared.lease(wait, [there, str(gate), *[there] * 6], lane=LOW)
    shared.until(
        lambda: shared.table.states(first, 8) == bytes([LeaseState.RUNNING] * 2 + [LeaseState.LEASED] * 6) or NOTHING
    )
    urgent = shared.lease(shared.kind("add_one", "one"), [1], lane=REALTIME)
    gate.touch()
    shared.outcome(first + 7)
    assert [s for s in shared.ended if s >= first] == [first, first + 1, urgent, *range(first + 2, first + 8)]


def test_a_stop_request_reaches_what_was_overtaken(shared: Rig, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait, add = shared.kind("wait_for_file", "one"), shared.kind("add_one", "one")
    first = shared.lease(wait, [str(gate)], lane=REALTIME)
    low = shared.lease(add, [1, 2], lane=LOW)
    urgent = shared.lease(add, [3], lane=REALTIME)
    shared.until(lambda: shared.table.current()[0] == first or NOTHING)
    shared.stop(low + 1, CANCEL)
    gate.touch()
    assert shared.outcome(urgent) == 4
    assert shared.outcome(low) == 2
    assert shared.outcome(low + 1)["kind"] == "cancelled"
