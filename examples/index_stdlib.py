"""Real work with a real crash: index Python's own standard library, and lose a worker on the way.

    make demo
    python examples/index_stdlib.py [FOLDER]      what is written goes to FOLDER, demo-out by default

Every source file of the standard library is parsed by a node of its own (fan-out); what was found is added up by
package (fan-in), and then over all. When a third of it is done, and a large file is at hand, one of the workers is
killed with SIGKILL. The engine notices, starts another, and runs again what the dead one had in its hands; what was
done stays done.
"""

from __future__ import annotations

import ast
import os
import platform
import signal
import sys
import sysconfig
from collections import Counter
from pathlib import Path
from typing import Any

from runtime import Flow, NodeState, NodeType, Retry, RunHandle, RunState, Runtime, TaskRegistry
from runtime.cli.console import Console
from runtime.cli.html import html_page
from runtime.cli.outputs import state_folder, write_output
from runtime.cli.progress import Meter, meter_for
from runtime.cli.record import trace_of, watch
from runtime.cli.report import analyse, duration_text
from runtime.views import Counts

SKIPPED = frozenset({"site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3"})
TOP = 15
KILL_AT = 1 / 3
LARGE_BYTES = 80_000
ROOT = Path(sysconfig.get_paths()["stdlib"])

Found = dict[str, Any]

tasks = TaskRegistry()


# --- what the workers do ------------------------------------------------------------------------------------------


@tasks.task(node_type="cpu", timeout=60.0, retry=Retry(max_attempts=3, base=0.01))
def parse(path: str) -> Found:
    """Read one file and count what is in it."""
    source = Path(path).read_bytes()
    found = {"files": 1, "lines": source.count(b"\n"), "functions": 0, "classes": 0, "broken": 0}
    imports: Counter[str] = Counter()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a few files are there to be wrong
        return {**found, "broken": 1, "imports": {}}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found["functions"] += 1
        elif isinstance(node, ast.ClassDef):
            found["classes"] += 1
        elif isinstance(node, ast.Import):
            imports.update({alias.name.split(".")[0] for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports[node.module.split(".")[0]] += 1
    return {**found, "imports": dict.fromkeys(imports, 1)}


@tasks.task(node_type="cpu", retry=Retry(max_attempts=3, base=0.01))
def add_up(parts: list[Found]) -> Found:
    """The sum of several findings; `imports` counts the files that import a module."""
    total: Counter[str] = Counter()
    imports: Counter[str] = Counter()
    for part in parts:
        imports.update(part["imports"])
        total.update({name: value for name, value in part.items() if name != "imports"})
    return {**total, "imports": dict(imports.most_common())}


@tasks.task(node_type="cpu", retry=Retry(max_attempts=3, base=0.01))
def write_index(path: str, total: Found, packages: dict[str, Found]) -> str:
    """Write the index as a Markdown file, aside and renamed, so that a second attempt does no harm."""
    lines = [
        f"# Python {platform.python_version()}: the standard library",
        "",
        ", ".join(f"{total[key]:,} {key}" for key in ("files", "lines", "functions", "classes")),
        "",
        "| package | files | lines | functions | classes | imports most |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name, part in sorted(packages.items(), key=lambda item: -item[1]["lines"]):
        most = ", ".join(list(part["imports"])[:5])
        numbers = " | ".join(f"{part[key]:,}" for key in ("files", "lines", "functions", "classes"))
        lines.append(f"| {name} | {numbers} | {most} |")
    lines += ["", "| module | imported by files |", "|---|---:|"]
    lines += [f"| {name} | {count} |" for name, count in list(total["imports"].items())[:TOP]]
    write_output(Path(path), ("\n".join(lines) + "\n").encode())
    return path


# --- the graph ----------------------------------------------------------------------------------------------------


def sources(root: Path) -> list[Path]:
    """All Python files below a folder, without tests and without what was installed later."""
    found: list[Path] = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(set(names) - SKIPPED)
        found += [Path(folder, name) for name in sorted(files) if name.endswith(".py")]
    return found


def build(index: Path) -> Flow:
    """A node per file, a node per package, one for all, and one that writes."""
    flow = Flow("index the standard library")
    parsed: dict[str, list[Any]] = {}
    for path in sources(ROOT):
        name = path.relative_to(ROOT)
        package = name.parts[0] if len(name.parts) > 1 else "(single modules)"
        parsed.setdefault(package, []).append(flow.add(parse, str(path), id=str(name)))
    packages = {package: flow.add(add_up, nodes, id=f"package {package}") for package, nodes in parsed.items()}
    total = flow.add(add_up, list(packages.values()), id="all packages")
    flow.add(write_index, str(index), total, packages, id="write the index")
    return flow


# --- the crash ----------------------------------------------------------------------------------------------------


class Saboteur:
    """Kills one worker, once, after a third of the work, when it has a large file in its hands."""

    def __init__(self, handle: RunHandle, meter: Meter) -> None:
        self.handle = handle
        self.meter = meter
        self.killed = 0
        self.done: dict[int, int | None] = {}

    def __call__(self, counts: Counts) -> None:
        """Look at the counts; called ten times a second."""
        if self.killed or counts.done < counts.total * KILL_AT:
            return
        nodes = self.handle.nodes()
        first: dict[int, str] = {}  # of what a worker has in its hands, it runs the first
        for node in nodes:
            if node.state == NodeState.LEASED and node.worker_pid:
                first.setdefault(node.worker_pid, node.id)
        late = counts.done > counts.total * (1 - KILL_AT)
        victim = next((pid for pid, name in first.items() if late or is_large(name)), None)
        if victim is not None:
            os.kill(victim, signal.SIGKILL)
            self.killed = victim
            self.done = {node.index: node.ended_ns for node in nodes if node.state == NodeState.SUCCEEDED}
            self.meter.note(f"killed worker {victim} (SIGKILL) when {len(self.done):,} nodes were done")


def is_large(name: str) -> bool:
    """Whether a node has a file that takes some time, so that the signal meets it."""
    path = ROOT / name
    return path.is_file() and path.stat().st_size >= LARGE_BYTES


def tell_recovery(saboteur: Saboteur, console: Console) -> None:
    """What the crash cost, and the story of a node that was hit by it."""
    handle = saboteur.handle
    nodes = handle.nodes()
    if not saboteur.killed:
        console.say("the work was over before a worker could be killed")
        return
    again = [node for node in nodes if node.attempts > 1]
    lost = sum(node.state != NodeState.SUCCEEDED for node in nodes)
    repeated = sum(nodes[index].ended_ns != ended_ns for index, ended_ns in saboteur.done.items())
    console.say(
        f"worker {saboteur.killed} was killed: of {len(nodes):,} nodes {len(again)} ran twice and {lost} were lost; "
        f"of the {len(saboteur.done):,} that were done, {repeated} ran again"
    )
    if not again:
        console.say("(it had just ended what it ran, and was killed before it took the next)")
    for node in again[:1]:
        console.say(f"the story of {node.id}:")
        story = handle.node(node.index).story()
        for event in story:
            since = duration_text(max(0, event.at_ns - story[0].at_ns))
            console.say(f"  {since:>8}  {event.event:<10} {event.text}")


def main() -> int:
    """Run it and say what happened."""
    console = Console.standard()
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out").absolute()
    out.mkdir(parents=True, exist_ok=True)
    index, page = out / "stdlib-index.md", out / "report.html"
    flow = build(index)
    pool = NodeType("cpu", workers=max(2, os.cpu_count() or 1))
    console.say(f"indexing Python's standard library: {len(flow):,} nodes, {pool.workers} workers, durable")
    with state_folder(None) as folder, Runtime(folder, tasks, node_types=[pool]) as rt:
        handle = rt.submit(flow)
        saboteur = Saboteur(handle, meter_for(console, flow.name))
        watch(handle, saboteur.meter, each=saboteur)
        tell_recovery(saboteur, console)
        trace = trace_of(rt, handle)
        total = handle.result("all packages") if trace.state == RunState.SUCCEEDED else None
    figures = analyse(trace)
    write_output(page, html_page(trace, figures))
    console.say(f"run {trace.state} in {duration_text(figures.makespan_ns)}")
    if total:
        most = ", ".join(f"{name} ({count})" for name, count in list(total["imports"].items())[:5])
        numbers = ", ".join(f"{total[key]:,} {key}" for key in ("files", "lines", "functions", "classes"))
        console.say([f"{numbers}; imported most: {most}", f"index   {index}"])
    console.say(f"report  {page}")
    console.close()
    return 0 if total else 1


if __name__ == "__main__":
    sys.exit(main())
