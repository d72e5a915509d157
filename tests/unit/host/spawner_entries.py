"""What the tests of the spawner let it fork, in place of engine and worker. Workers write their pids to a file."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from typing import Any

from runtime.host import kernel
from runtime.host.launch import WorkerStarter

WORKER = "tests.unit.host.spawner_entries:worker"


def engine(config: dict[str, Any], fds: list[int], sock: socket.socket) -> None:
    """Starts workers and does what `config["then"]` says once they are up."""
    starter = WorkerStarter(sock)
    for number in range(1, config.get("workers", 0) + 1):
        starter.spawn(number, config, fds, entry=WORKER)
    events: list[dict[str, Any]] = []
    while len(events) < config.get("workers", 0):
        select.select([starter.fileno()], [], [])
        events += starter.receive()
    _wait_lines(config["pids"], 4 * config.get("workers", 0))
    then = config["then"]
    if then == "exit":
        sys.exit(7)
    if then == "kill a worker":
        starter.kill(1, signal.SIGKILL, group=True)
        while not any(event["did"] == "exited" for event in events):
            select.select([starter.fileno()], [], [])
            events += starter.receive()
        os.write(fds[0], repr([event["did"] for event in events]).encode() + b"\n")
    else:
        os.write(fds[0], b"ready\n")
    signal.pause()


def worker(config: dict[str, Any], fds: list[int], lifeline: int) -> None:
    """Starts three children: in its group, in a session of its own, and one that loses its parent."""
    kernel.adopt_orphans()
    plain = subprocess.Popen(["sleep", "3600"])
    session = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    with subprocess.Popen(["setsid", "sh", "-c", "sleep 3600 & echo $!"], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        orphan = shell.stdout.readline().strip()
    with open(config["pids"], "a") as file:
        file.write(f"{os.getpid()}\n{plain.pid}\n{session.pid}\n{orphan}\n")
    signal.pause()


def descriptors(config: dict[str, Any], fds: list[int], sock: socket.socket) -> None:
    """An engine that tells which descriptors it has besides those it should, and what it inherited."""
    expected = {0, 1, 2, *fds, sock.fileno()}
    found = {int(name) for name in os.listdir("/proc/self/fd")}
    open_ones = [fd for fd in found - expected if os.path.exists(f"/proc/self/fd/{fd}")]
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    facts = [
        sorted(open_ones),
        sorted(blocked),
        os.getsid(0) == os.getpid(),
        os.getcwd(),
        sys.argv,
        os.readlink("/proc/self/fd/0"),
    ]
    os.write(fds[0], repr(facts).encode() + b"\n")


def _wait_lines(path: str, count: int) -> None:
    while count:
        try:
            with open(path) as file:
                if len(file.readlines()) >= count:
                    return
        except FileNotFoundError:
            pass
        select.select([], [], [], 0.002)
