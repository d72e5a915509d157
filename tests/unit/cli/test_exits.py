"""Errors as lines and as exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.protocol.errors import IllegalTransition, LogCorrupt, MainspringError, StateFolderInUse, WorkflowFileError
from runtime.cli.exits import Exit, bug_lines, error_lines, exit_code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WorkflowFileError("x"), Exit.USAGE),
        (StateFolderInUse("x", 3), Exit.ENVIRONMENT),
        (LogCorrupt("x"), Exit.ENVIRONMENT),
        (IllegalTransition("x"), Exit.BUG),
        (MainspringError("x"), Exit.BUG),
        (KeyError("x"), Exit.BUG),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
    ],
)
def test_the_family_says_the_exit_code(error: BaseException, code: Exit) -> None:
    assert exit_code(error) == code


def test_an_error_is_two_lines_with_code_and_hint() -> None:
    assert error_lines(WorkflowFileError("w.json: $.name: missing")) == [
        "mainspring: [MS140] w.json: $.name: missing",
        "  hint: correct the file at the place named",
    ]


def test_notes_come_first() -> None:
    error = WorkflowFileError("x")
    error.add_note("Traceback\n  their line\n")
    assert error_lines(error)[:2] == ["Traceback", "  their line"]


def test_a_bug_leaves_its_traceback_in_a_file() -> None:
    try:
        raise KeyError("lost")
    except KeyError as error:
        lines = bug_lines(error)
    assert lines[0] == "mainspring: [MS900] KeyError: 'lost'"
    path = Path(lines[1].rpartition("details are in ")[2])
    assert "raise KeyError" in path.read_text()
    path.unlink()
