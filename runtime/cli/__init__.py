"""The command line: `python -m runtime` and the console script `mainspring`.

Knows the public face, the reports and the terminal. Must not know how the engine works: `run` is a program like any
other that uses `Runtime`; `status` and `verify` read the state folder and change nothing; `pause`, `resume`, `quota`
and `weight` ask a running engine.

Read in this order: `app` (commands, errors, exit codes), `console` (the two output streams), `run` with `pyfile` and
`wfformat` (what can be run), `replay_flow` and `replay_tasks` (how a recorded workflow is replayed), `progress`; then
the report: `trace` (the data), `report` (the figures), `html` with `pagedata`, `layout` and `page/` (the page); last
`status`, `verify` and `control`.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; see `runtime.cli.app.main`."""
    try:
        from runtime.cli.app import main as run  # lazy: workers import `replay_tasks` from here, and nothing else

        return run(argv)
    except KeyboardInterrupt:  # while modules were being imported
        return 130
