"""A host program for tests of the spawner: starts a launcher, says so, and waits to be killed."""

from __future__ import annotations

import os
import select
import sys

from runtime.host.launch import Launcher


def main() -> None:
    """Arguments: the file for pids, the number of workers."""
    launcher = Launcher()
    launcher.start()
    config = {"pids": sys.argv[1], "workers": int(sys.argv[2]), "then": "wait"}
    launcher.start_engine(config, [1], entry="tests.unit.host.spawner_entries:engine")
    if len(sys.argv) > 3:
        os.fork()  # a fork of the host holds copies of all its descriptors
    while True:
        select.select([launcher.fileno()] if launcher.fileno() >= 0 else [], [], [])
        if launcher.pid:
            for event in launcher.receive():
                sys.stdout.write(f"{event}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
