"""Scenario `mail`: one message queue by itself, between two processes, against `multiprocessing.Queue`.

Both carry the same message, a task's envelope of about 150 bytes as JSON text, from a dictionary on one side to an
equal dictionary on the other: ours as orjson bytes over shared memory, the queue by pickle over a pipe. Two patterns:

- echo: one message there and back, then the next; gives p50 and p99.
- one way: messages sent one by one, each by its own call, as fast as the receiver takes them; gives messages per
  second. The receiver checks that every message arrives once and in order, and confirms the last; the window closes
  with that.

The other process is forked, on both sides, and counts as role "workers".
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Any

import orjson

from runtime.bench import machine
from runtime.bench.figures import BenchError, Sample
from runtime.bench.measure import MeasuredWindow, Member
from runtime.bench.workloads.base import Scenario, Setup, check_equal
from runtime.mail.link import Link, LinkEnds, create_link

ECHOES_PER_MESSAGE = 0.05
WARM_ECHOES = 500
SPIN_NS = 50_000
"""How long our side looks at the ring before it sleeps, where there is a core for each side."""

WAIT_S = 60.0
"""Longest wait for one message; only a broken queue or a dead peer takes it."""

Message = dict[str, Any] | None
Send = Callable[[Message], object]
_FORK = multiprocessing.get_context("fork")


def envelope(serial: int) -> dict[str, Any]:
    """A task on its way to a worker; about 150 bytes as JSON."""
    return {
        "serial": serial,
        "run": "0f8b2c6d41e7-184467",
        "node": serial * 7,
        "kind": "runtime.bench.handlers:increment",
        "attempt": 1,
        "cause": "0f8b2c6d41e7-184466",
        "item": [serial],
    }


class MailScenario(Scenario):
    """Echo latency and one-way rate of a `Link`."""

    name = "mail"
    title = "one of our message queues between two processes: echo, and one way one by one; a task is one message"
    tasks_default = 200_000
    tasks_smoke = 2_000
    durability_default = None
    baseline_name = "multiprocessing.Queue"

    def params(self, setup: Setup) -> dict[str, Any]:
        return {"echoes": _echoes(setup), "message_bytes": len(orjson.dumps(envelope(setup.tasks)))}

    def baseline_params(self, setup: Setup) -> dict[str, Any]:
        return self.params(setup)

    def run(self, setup: Setup) -> Sample:
        ends = create_link()
        link = Link(ends, "a")
        spin_ns = _spin_ns()
        try:
            with _peer(_serve_link, ends) as peer:
                send = partial(_send_on_link, link)
                return _measure(setup, peer, send, lambda: _receive_on_link(link, spin_ns)[0])
        finally:
            link.close()

    def run_baseline(self, setup: Setup) -> Sample:
        there: Any = _FORK.Queue()
        back: Any = _FORK.Queue()
        try:
            with _peer(_serve_queue, there, back) as peer:
                return _measure(setup, peer, there.put, partial(back.get, timeout=WAIT_S))
        finally:
            for queue in (there, back):
                queue.close()
                queue.join_thread()


def _measure(setup: Setup, peer: BaseProcess, send: Send, receive: Callable[[], Message]) -> Sample:
    """Both patterns over one pair of queues; the window is the one-way part."""
    times = _echo_times(_echoes(setup), send, receive)
    order = {"expect": setup.tasks}
    send(order)
    check_equal(receive(), order, "echo")
    with MeasuredWindow(lambda: [Member("face", os.getpid()), Member("workers", peer.pid or 0)]) as window:
        for serial in range(setup.tasks):
            send(envelope(serial))
        answer = receive()
    check_equal(answer, {"received": setup.tasks}, "one way")
    send(None)
    return window.sample(setup.tasks, times)


def _echo_times(count: int, send: Send, receive: Callable[[], Message]) -> list[int]:
    """Time echoes one by one, after a warm-up."""
    clock, times = time.perf_counter_ns, [0] * (WARM_ECHOES + count)
    for serial in range(WARM_ECHOES + count):
        message = envelope(serial)
        started = clock()
        send(message)
        answer = receive()
        times[serial] = clock() - started
        if answer != message:
            check_equal(answer, message, "echo")
    return times[WARM_ECHOES:]


def _serve(send: Send, receive_some: Callable[[], Iterable[Message]]) -> None:
    """The other process: echo; from an "expect" on count what comes, and confirm the last; end at None."""
    total = received = 0
    while True:
        for message in receive_some():
            if message is None:
                return
            if total:
                if message["serial"] != received:
                    raise BenchError(f"message {message['serial']} arrived in place of {received}")
                received += 1
                if received == total:
                    send({"received": received})
            else:
                total = message.get("expect", 0)
                send(message)


def _serve_link(ends: LinkEnds) -> None:
    link = Link(ends, "b")
    spin_ns = _spin_ns()
    _serve(partial(_send_on_link, link), lambda: _receive_on_link(link, spin_ns))


def _serve_queue(there: Any, back: Any) -> None:
    _serve(back.put, lambda: [there.get(timeout=WAIT_S)])


def _send_on_link(link: Link, message: Message) -> None:
    """Encode and send; when there is no room, wait for it as a producer of the engine does."""
    payload = orjson.dumps(message)
    while not link.send(payload):
        if not link.wait_room(WAIT_S):
            raise BenchError(f"no room within {WAIT_S:.0f} s")


def _receive_on_link(link: Link, spin_ns: int) -> list[Message]:
    """At least one decoded message, waiting for it."""
    while True:
        work = link.receive()[1]
        if work:
            return [orjson.loads(payload) for payload in work]
        if not link.wait(WAIT_S, spin_ns):
            raise BenchError(f"no message within {WAIT_S:.0f} s")


def _spin_ns() -> int:
    return SPIN_NS if machine.cores() > 1 else 0


def _echoes(setup: Setup) -> int:
    return max(1, round(setup.tasks * ECHOES_PER_MESSAGE))


@contextmanager
def _peer(target: Callable[..., None], *arguments: object) -> Iterator[BaseProcess]:
    process = _FORK.Process(target=target, args=arguments, daemon=True)
    process.start()
    try:
        yield process
        process.join(WAIT_S)
        if process.exitcode:
            raise BenchError(f"the other process ended with status {process.exitcode}")
    finally:
        if process.is_alive():
            process.kill()
        process.join()
        process.close()
