"""Profiles as files: what each format looks like, by hand and without a dependency.

It knows `runtime.profile.model` and bytes. It does not know how a profile is measured, nor where a file goes.

Reading order: `files` (which formats there are, writing and reading any of them), `roots` (processes, threads and
labels as frames), `folded`, `wire` and `pprof`, `speedscope`, `chrome` (time lines), then pages, made with
`runtime.cli.pages` and `figures`: `tree`, `changes` and `flame` (the flame graph; its scripts are in `pages/`),
`leak_page`.
"""

from __future__ import annotations

from runtime.profile.formats.files import FORMATS, read, write

__all__ = ["FORMATS", "read", "write"]
