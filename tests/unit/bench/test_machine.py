"""Machine facts: complete, plain JSON, and doubts that are said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime.bench import machine

QUIET: dict[str, Any] = {"load_average": [0.1, 0, 0], "cores": 2, "file_system": "ext4", "development_mode": False}


def test_facts_are_plain_json(tmp_path: Path) -> None:
    facts = machine.facts(tmp_path)
    assert json.loads(json.dumps(facts)) == facts
    assert facts["cores"] >= 1
    assert facts["cpu"]
    assert facts["python"].startswith("CPython")
    assert len(facts["load_average"]) == 3
    assert "orjson" in facts["packages"]


def test_a_quiet_machine_gives_no_warning() -> None:
    assert machine.warnings(QUIET) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"load_average": [1.5, 0, 0]}, "load average"),
        ({"file_system": "tmpfs"}, "tmpfs"),
        ({"development_mode": True}, "mode"),
    ],
)
def test_what_spoils_figures_is_said(change: dict[str, Any], word: str) -> None:
    (problem,) = machine.warnings({**QUIET, **change})
    assert word in problem


def test_memory_file_systems_matter_only_where_a_disk_is_synced() -> None:
    assert machine.warnings({**QUIET, "file_system": "tmpfs"}, durability_matters=False) == []


def test_the_root_has_a_file_system() -> None:
    assert machine.file_system(Path("/"))


def test_the_state_folder_exists() -> None:
    assert machine.state_folder().is_dir()


def test_version_is_a_text() -> None:
    assert machine.version()
