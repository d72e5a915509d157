"""The command line to look inside: `python -m runtime.profile`.

Knows captures, the page of processes and the terminal. Must not know how anything is measured. It needs no HTTP port
and no help of the program that it looks at: it finds the folder and its processes by itself (`presence.find`).

Read in this order: `app` (commands, exit codes), `shared` (what commands have in common), `stacks` (ps, dump), `tree`,
`top`, `doctor`, `recorded` (cpu, await, flight), `files` (convert, diff), `leaking` (leaks, watch), `spying` (py-spy),
`serving` (serve).
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; see `runtime.profile.cli.app.main`."""
    try:
        from runtime.profile.cli.app import main as run  # lazy: Ctrl-C while modules are imported ends in order, too

        return run(argv)
    except KeyboardInterrupt:
        return 130
