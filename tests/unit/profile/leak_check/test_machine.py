"""What the kernel knows of this process: pipes whose other end is gone, as a leak and as what only looks like one."""

from __future__ import annotations

import multiprocessing.connection
import os
import select
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from runtime.host import kernel
from runtime.profile.leak_check import pipes
from runtime.profile.leak_check.detectors import Seen
from runtime.profile.leak_check.machine import ProcessThings, known_things
from runtime.profile.ledger.books import LEDGER
from runtime.profile.model import Frame, Process

pytestmark = pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
HERE = Process(11, 12, "worker", 3, "http")
PATIENCE_S = 60


@pytest.fixture
def things(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessThings]:
    """Looks with no budget at what came since; this process began long ago, whatever it did just now."""
    monkeypatch.setattr(pipes, "_began_s", lambda: 0.0)
    LEDGER.register_kind("descriptor", budget=0)
    yield ProcessThings(HERE, known=known_things(), closed_ns=0)
    LEDGER.forked()


def lone(things: ProcessThings) -> list[Seen]:
    """Pipes without another end, at a second look."""
    list(things.seen())
    return [one for one in things.seen() if one.signature.wait and one.signature.wait[-1].name == "no other end"]


def proved(things: ProcessThings) -> list[int]:
    """Descriptors that are proved leaks, at a second look."""
    return [int(one.key.partition(" ")[0]) for one in lone(things) if one.proof]


@pytest.mark.parametrize("kept", [0, 1], ids=["read", "write"])
def test_a_bare_end_without_another_is_a_leak_at_the_second_look(things: ProcessThings, kept: int) -> None:
    ends = os.pipe()
    os.close(ends[1 - kept])
    try:
        assert not [one for one in things.seen() if one.proof], "it may be about to be closed"
        (found,) = [one for one in things.seen() if one.proof]
        assert found.key.startswith(f"{ends[kept]} -> pipe:")
        assert "no file object has this one" in found.proof
    finally:
        os.close(ends[kept])


def test_it_must_be_so_for_a_while(things: ProcessThings) -> None:
    """Both ends of a pipe are closed one after the other; meanwhile it is said when another look is worth it."""
    things = ProcessThings(HERE, known=known_things(), closed_ns=3600 * 10**9)
    assert things.pending_ns == 0
    read, write = os.pipe()
    os.close(write)
    try:
        assert proved(things) == []
        assert things.pending_ns > time.monotonic_ns() + 3000 * 10**9
    finally:
        os.close(read)
    list(things.seen())
    assert things.pending_ns == 0


def test_a_budget_of_them_is_none_of_interest(things: ProcessThings) -> None:
    LEDGER.register_kind("descriptor", budget=2)
    ends = [os.pipe() for _ in range(3)]
    for _, write in ends[:2]:
        os.close(write)
    assert proved(things) == []
    os.close(ends[2][1])
    assert len(proved(things)) == 3
    for read, _ in ends:
        os.close(read)


def test_what_is_left_to_be_read_is_no_leak(things: ProcessThings) -> None:
    read, write = os.pipe()
    os.write(write, b"last words")
    os.close(write)
    assert lone(things) == []
    os.read(read, 100)
    assert proved(things) == [read]
    os.close(read)


def test_an_end_that_somebody_else_has_is_no_leak(things: ProcessThings) -> None:
    """In another process, or on its way to one."""
    read, write = os.pipe()
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=write)
    os.close(write)
    assert lone(things) == []
    child.communicate(timeout=PATIENCE_S)
    assert proved(things) == [read]
    os.close(read)


def test_children_that_ended_and_were_not_read_yet_are_no_leak(things: ProcessThings) -> None:
    """They are taken one after the other; what has a file object may still be closed by it."""
    children = [subprocess.Popen(["true"], stdout=subprocess.PIPE) for _ in range(3)]
    for child in children:
        child.wait(PATIENCE_S)
    assert len(lone(things)) == 3
    assert proved(things) == []
    for child in children:
        child.communicate()


def test_a_connection_whose_peer_closed_is_no_leak(things: ProcessThings) -> None:
    ours, theirs = multiprocessing.connection.Pipe(duplex=False)
    theirs.close()
    assert len(lone(things)) == 1
    assert proved(things) == []
    ours.close()


def test_standard_streams_are_whose_they_are(things: ProcessThings) -> None:
    """What is passed on at exec was meant to be."""
    read, write = os.pipe()
    os.close(write)
    os.set_inheritable(read, True)
    assert len(lone(things)) == 1
    assert proved(things) == []
    os.close(read)


def test_what_a_fork_inherits_is_its_parents(things: ProcessThings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server forks its children, which have the ends of pipes of each other, and one of them dies."""
    monkeypatch.undo()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(write)
            LEDGER.register_kind("descriptor", budget=0)
            poll = select.poll()
            poll.register(read, 0)  # until the parent has closed its end, too
            assert poll.poll(PATIENCE_S * 1000)
            look = ProcessThings(HERE, closed_ns=0)
            found = [one for one in lone(look) if one.key.startswith(f"{read} -> ")]
            status = 0 if len(found) == 1 and not found[0].proof else 2
        finally:
            os._exit(status)
    os.close(write)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    monkeypatch.setattr(pipes, "_began_s", lambda: 0.0)
    assert proved(things) == [read], "here it was made"
    os.close(read)


def of_folder(things: ProcessThings, folder: Path) -> list[Seen]:
    return [one for one in things.seen() if str(folder) in one.key]


def test_files_that_nobody_closes_are_told_by_their_paths(things: ProcessThings, tmp_path: Path) -> None:
    """What opened them is not known: a signature for all of a sort, each with its path, and since when it is seen."""
    with ExitStack() as opened:
        for number in range(3):
            opened.enter_context(open(tmp_path / f"part-{number}.txt", "w"))
        first, again = of_folder(things, tmp_path), of_folder(things, tmp_path)
    assert {one.key.partition(" -> ")[2] for one in first} == {str(tmp_path / f"part-{n}.txt") for n in range(3)}
    assert len({one.signature for one in first}) == 1
    assert first[0].signature.site[-1].name.endswith("/*.txt")
    assert [one.since_ns for one in again] == [one.since_ns for one in first]


def test_a_program_that_traces_is_told_the_line_that_opened_a_file(things: ProcessThings, tmp_path: Path) -> None:
    before = open(tmp_path / "before.txt", "w")  # noqa: SIM115 - as somebody does who never closes it
    tracemalloc.start(2)
    try:
        line = sys._getframe().f_lineno + 1
        leaked = open(tmp_path / "leaked.txt", "w")  # noqa: SIM115 - as above
        found = {one.key.rpartition("/")[2]: one for one in of_folder(things, tmp_path)}
    finally:
        tracemalloc.stop()
    assert found["leaked.txt"].signature.site[-1] == Frame("open", __file__, line)
    assert found["before.txt"].signature.site[-1].name.endswith("/*.txt")
    again = {one.key.rpartition("/")[2]: one for one in of_folder(things, tmp_path)}
    assert again["leaked.txt"].signature == found["leaked.txt"].signature, "it is the same leak"
    leaked.close()
    before.close()
