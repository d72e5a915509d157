"""What py-spy writes, read: threads, places, and leaves that only wait."""

from __future__ import annotations

from runtime.profile.cli.spying import read_raw
from runtime.profile.model import Frame, Process

WORKER = Process(12, 34, "worker", 3, "http")
RAW = """\
thread (26427): MainThread;<module> (<string>:1);burn (app/cpu.py:7) 41
thread (26428): mainspring-log;LogThread._run (log.py:9);wait (threading.py:327) 12
thread (0x7F12);run (a b.py:1);node:http_call (wf=checkout) (app.py:3) 2
not a line
"""


def test_threads_and_places_are_read_and_what_waits_is_dropped() -> None:
    found = list(read_raw(RAW, WORKER))
    assert [(sample.thread, number) for sample, number in found] == [("MainThread", 41), ("0x7F12", 2)]
    assert found[0][0].stack == (Frame("<module>", "<string>", 1), Frame("burn", "app/cpu.py", 7))
    assert found[1][0].stack[-1] == Frame("node:http_call (wf=checkout)", "app.py", 3)
    assert all(sample.process == WORKER for sample, _ in found)


def test_what_waits_is_kept_where_it_is_wanted() -> None:
    assert [number for _, number in read_raw(RAW, WORKER, idle=True)] == [41, 12, 2]
