"""The leak checker finds what is planted: one leak of each kind, and says nothing when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests import leaks

ORPHAN = """
import subprocess, sys
reads = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
child = subprocess.Popen(reads, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
child.stdout.readline()
print(child.pid)
"""
"""It waits until its child runs: the kernel shows no environment in the middle of an exec."""


def test_nothing_is_found_where_nothing_was_left(temporary_folder: Path) -> None:
    before = leaks.take(temporary_folder)
    with tempfile.TemporaryFile():
        pass
    assert leaks.found_since(before, temporary_folder, settle_ns=0) == []


def test_a_descriptor_is_found(temporary_folder: Path) -> None:
    before = leaks.take(temporary_folder)
    reading, writing = os.pipe()
    try:
        found = leaks.found_since(before, temporary_folder, settle_ns=0)
    finally:
        os.close(reading)
        os.close(writing)
    assert len(found) == 2
    assert found[0].startswith(f"descriptor {reading} -> ")


def test_a_thread_is_found(temporary_folder: Path) -> None:
    before = leaks.take(temporary_folder)
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="left behind")
    thread.start()
    try:
        found = leaks.found_since(before, temporary_folder, settle_ns=0)
    finally:
        stop.set()
        thread.join()
    assert found == ["thread 'left behind'"]


def test_a_child_is_found_and_then_its_zombie(temporary_folder: Path) -> None:
    before = leaks.take(temporary_folder)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    running = leaks.found_since(before, temporary_folder, settle_ns=0)
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    zombie = leaks.found_since(before, temporary_folder, settle_ns=0)
    child.wait()
    assert any(line.startswith(f"process {child.pid} (") for line in running)
    assert any(line.startswith(f"process {child.pid} (zombie)") for line in zombie)


@pytest.mark.skipif(not leaks.PROC.joinpath("self").exists(), reason="orphans are seen through /proc")
def test_an_orphan_is_found(temporary_folder: Path) -> None:
    before = leaks.take(temporary_folder)
    reading, writing = os.pipe()
    made = subprocess.run([sys.executable, "-c", ORPHAN], stdin=reading, capture_output=True, text=True, check=True)
    os.close(reading)
    found = leaks.found_since(before, temporary_folder, settle_ns=0)
    os.close(writing)
    assert any(line.startswith(f"process {int(made.stdout)} (") and "orphan" in line for line in found)
    assert leaks.found_since(before, temporary_folder) == []


def test_a_temporary_folder_is_found(temporary_folder: Path) -> None:
    before = leaks.take(temporary_folder)
    folder = tempfile.mkdtemp()
    try:
        found = leaks.found_since(before, temporary_folder, settle_ns=0)
    finally:
        os.rmdir(folder)
    assert found == [f"temporary file {Path(folder).name}"]


@pytest.mark.skipif(not leaks.SHM.is_dir(), reason="shared memory has no folder here")
def test_a_shared_memory_file_is_found(temporary_folder: Path) -> None:
    before = leaks.take(temporary_folder)
    path = leaks.SHM / f"mainspring-planted-{os.getpid()}"
    path.touch()
    try:
        found = leaks.found_since(before, temporary_folder, settle_ns=0)
    finally:
        path.unlink()
    assert found == [f"shared memory {path}"]
