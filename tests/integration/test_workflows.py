"""Recorded workflows, through the command line, judged by a checker that knows only the file and the output.

The files are beside the project, in `../shared/wfinstances`; where that folder is not there, only a small one is run
that is made up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.tidy.tree import ROOT
from tests.unit.cli.test_wfformat import document

pytestmark = pytest.mark.slow

FOLDER: Final = ROOT.parent / "shared" / "wfinstances"
FILES: Final = sorted(FOLDER.glob("*.json"))
SCALE: Final = 0.001
CLOCK_NS: Final = 1_000_000
"""Worker processes take times on one clock; what is told of them is rounded on the way."""


def problems_of(workflow: dict[str, Any], told: dict[str, Any]) -> list[str]:
    """What is wrong with a run, in words. Shares no code with the product: edges come from the file's own lists."""
    tasks = workflow["workflow"]["specification"]["tasks"]
    parents = {task["id"]: set(task["parents"]) for task in tasks}
    for task in tasks:
        for child in task["children"]:
            parents[child].add(task["id"])
    nodes: dict[str, dict[str, Any]] = {}
    found = []
    for node in told["nodes"]:
        if node["id"] in nodes:
            found.append(f"{node['id']} is told twice")
        nodes[node["id"]] = node
    found += [f"{name} is missing" for name in parents.keys() - nodes.keys()]
    found += [f"{name} is not in the file" for name in nodes.keys() - parents.keys()]
    for name in parents.keys() & nodes.keys():
        node = nodes[name]
        if node["state"] != "succeeded" or not node["started_ns"] or not node["ended_ns"]:
            found.append(f"{name} is {node['state']}, {node['started_ns']} to {node['ended_ns']}")
            continue
        if set(node["parents"]) != parents[name]:
            found.append(f"{name} has other parents than in the file")
        late = [p for p in parents[name] if p in nodes and nodes[p]["ended_ns"] > node["started_ns"]]
        found += [f"{name} started before {parent} ended" for parent in late]
    return found


def too_short(workflow: dict[str, Any], told: dict[str, Any]) -> list[str]:
    """Nodes that took less than their recorded time allows."""
    wanted = {run["id"]: run["runtimeInSeconds"] * SCALE for run in workflow["workflow"]["execution"]["tasks"]}
    took = {node["id"]: node["ended_ns"] - node["started_ns"] for node in told["nodes"]}
    return [name for name, seconds in wanted.items() if took[name] < seconds * 1e9 - CLOCK_NS]


def judge(file: Path, tmp_path: Path) -> None:
    """Run a workflow, and hold what is told of it against the file."""
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "runtime", "run", file, "--scale", SCALE, "--json", out, "--quiet"]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    workflow, told = json.loads(file.read_text(encoding="utf-8")), json.loads(out.read_text(encoding="utf-8"))
    assert told["state"] == "succeeded"
    assert problems_of(workflow, told) == []
    assert too_short(workflow, told) == []


@pytest.mark.skipif(not FILES, reason="the recorded workflows are not beside this project")
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_node_starts_after_all_its_parents(file: Path, tmp_path: Path) -> None:
    judge(file, tmp_path)


def test_every_node_of_a_made_up_one_starts_after_all_its_parents(tmp_path: Path) -> None:
    """Where there are no recorded ones as well."""
    file = tmp_path / "w.json"
    file.write_text(json.dumps(document()), encoding="utf-8")
    judge(file, tmp_path)


def test_the_checker_finds_planted_faults() -> None:
    def workflow(*edges: str) -> dict[str, Any]:
        names = sorted({name for edge in edges for name in edge})
        rows = [
            {
                "id": name,
                "parents": [e[0] for e in edges if e[1] == name],
                "children": [e[1] for e in edges if e[0] == name],
            }
            for name in names
        ]
        return {"workflow": {"specification": {"tasks": rows}}}

    def node(name: str, start: int, end: int, *parents: str, state: str = "succeeded") -> dict[str, Any]:
        return {"id": name, "parents": list(parents), "state": state, "started_ns": start, "ended_ns": end}

    good = [node("a", 1, 2), node("b", 2, 3, "a"), node("c", 3, 4, "b")]
    given = workflow("ab", "bc")
    assert problems_of(given, {"nodes": good}) == []
    assert problems_of(given, {"nodes": good[:2]}) == ["c is missing"]
    assert problems_of(given, {"nodes": [*good, good[0]]}) == ["a is told twice"]
    assert problems_of(given, {"nodes": [*good, node("d", 1, 2)]}) == ["d is not in the file"]
    assert problems_of(given, {"nodes": [*good[:2], node("c", 2, 4, "b")]}) == ["c started before b ended"]
    assert problems_of(given, {"nodes": [*good[:2], node("c", 3, 4, "a")]}) == ["c has other parents than in the file"]
    assert problems_of(given, {"nodes": [*good[:2], node("c", 3, 4, "b", state="failed")]}) == ["c is failed, 3 to 4"]
