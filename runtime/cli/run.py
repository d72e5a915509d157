"""`run`: a Python file that defines a flow, or a recorded workflow, from the file to the report.

With a state folder that is kept, the id of a run is made from the flow's definition, so that the same command goes on
with a run that was interrupted, and starts a new one when the last had ended or the definition has changed.

Ctrl-C and SIGTERM end it in order: running tasks are stopped, and run again when the folder is opened again.
What a crash leaves behind: the state folder, as durable as asked for; a temporary one is swept by the next command.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from actors.protocol.errors import ConfigurationError, EnvironmentFault, WorkflowFileError
from actors.protocol.states import RunState
from actors.protocol.words import counted
from runtime.cli.console import Console
from runtime.cli.exits import NAME, Exit
from runtime.cli.html import html_page
from runtime.cli.kinds import FlowFacts, with_workers
from runtime.cli.outputs import check_writable, state_folder, write_output
from runtime.cli.progress import meter_for
from runtime.cli.pyfile import load_flow_file
from runtime.cli.record import trace_of, watch
from runtime.cli.replay_flow import replay_flow
from runtime.cli.report import analyse, text_report
from runtime.cli.trace import Trace
from runtime.cli.wfformat import read_workflow
from runtime.config import NodeType
from runtime.engine import Runtime
from runtime.flow import Flow
from runtime.handle import RunHandle
from runtime.registry import TaskRegistry


class Stopped(KeyboardInterrupt):
    """A signal asked this program to end. A kind of KeyboardInterrupt, because it is to be treated as one."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be run, wherever it came from. `groups` and `parents` are by node id, see `trace_of`."""

    title: str
    flow: Flow
    facts: FlowFacts
    node_types: Sequence[NodeType]
    tasks: TaskRegistry | None = None
    mode: str = ""
    groups: Mapping[str, str] | None = None
    parents: Mapping[str, Sequence[str]] | None = None
    pools: Mapping[str, str] = field(default_factory=dict)


def run_file(arguments: argparse.Namespace, console: Console) -> Exit:
    """The command. See `runtime.cli.app` for its options.

    Returns:
        OK when the run succeeded, RUN_FAILED when it ended in another way.
    """
    for place in (arguments.report, arguments.json):
        check_writable(place)
    job = job_of(arguments)
    with stop_on_signals(), state_folder(arguments.state) as folder:
        try:
            trace = _run(job, folder, arguments, console)
        except KeyboardInterrupt as stop:
            advice = f"; run it again with --state {arguments.state} to go on" if arguments.state else ""
            console.note(f"{NAME}: interrupted{advice}")
            return Exit.INTERRUPTED if not isinstance(stop, Stopped) else 128 + stop.number  # type: ignore[return-value]
    _publish(trace, arguments, console)
    return Exit.OK if trace.state == RunState.SUCCEEDED else Exit.RUN_FAILED


def job_of(arguments: argparse.Namespace) -> Job:
    """Read the file: Python by its ending, else a workflow if it looks like JSON.

    Raises:
        WorkflowFileError: It is neither, or it is wrong. EnvironmentFault: It cannot be read.
    """
    path: Path = arguments.file
    if path.suffix == ".py":
        return _python_job(path, arguments)
    if path.suffix != ".json" and not _looks_like_json(path):
        raise WorkflowFileError(f"{path}: neither a Python file (.py) nor a JSON object")
    replay = replay_flow(
        read_workflow(path),
        path.stem,
        scale=1.0 if arguments.scale is None else arguments.scale,
        burning=arguments.burn,
        workers=arguments.workers or 0,
    )
    facts = FlowFacts(replay.flow)
    return Job(
        path.stem, replay.flow, facts, replay.node_types, mode=replay.mode, groups=replay.groups, parents=replay.parents
    )


def _python_job(path: Path, arguments: argparse.Namespace) -> Job:
    if arguments.scale is not None or arguments.burn:
        raise ConfigurationError("--scale and --burn are for recorded workflows (WfFormat JSON), not for Python files")
    found = load_flow_file(path)
    facts = FlowFacts(found.flow)
    node_types = facts.default_node_types() if found.node_types is None else found.node_types
    node_types = with_workers(node_types, arguments.workers)
    return Job(found.flow.name, found.flow, facts, node_types, tasks=found.tasks, pools=facts.pools(node_types))


def _looks_like_json(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[", b"")
    except FileNotFoundError:
        raise WorkflowFileError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise WorkflowFileError(f"{path}: a folder, not a file") from None
    except OSError as refused:
        raise EnvironmentFault(f"{path} cannot be read: {refused.strerror or refused}") from refused


def _run(job: Job, folder: Path, arguments: argparse.Namespace, console: Console) -> Trace:
    """Run to the end and take down what happened."""
    with Runtime(folder, job.tasks, node_types=job.node_types, durability=arguments.durability) as rt:
        handle = _start(rt, job, arguments, console)
        watch(handle, meter_for(console, job.title, quiet=arguments.quiet))
        return trace_of(
            rt, handle, title=job.title, mode=job.mode, groups=job.groups, parents=job.parents, pools=job.pools
        )


def _start(rt: Runtime, job: Job, arguments: argparse.Namespace, console: Console) -> RunHandle:
    """Submit the flow, or find the run of it that was interrupted."""
    if arguments.state is None and arguments.run_id is None:
        return rt.submit(job.flow)
    known = {status.run_id: status for status in rt.runs()}
    number = 1
    run_id = arguments.run_id or job.facts.run_id(number)
    while run_id in known and arguments.run_id is None and known[run_id].state != RunState.RUNNING:
        number += 1
        run_id = job.facts.run_id(number)
    if run_id not in known:
        return rt.submit(job.flow, run_id=run_id)
    counts = known[run_id].counts
    if not arguments.quiet:
        console.note(
            f"{NAME}: going on with run {run_id}: {counts.done:,} of {counted(counts.total, 'node')} had ended"
        )
    return rt.handle(run_id)


def _publish(trace: Trace, arguments: argparse.Namespace, console: Console) -> None:
    """Files first, then the text: whoever reads the text may stop reading."""
    figures = analyse(trace)
    if arguments.json is not None:
        write_output(arguments.json, f"{json.dumps(trace.as_json(figures.makespan_ns))}\n".encode())
    if arguments.report is not None:
        write_output(arguments.report, html_page(trace, figures))
    if not arguments.quiet:
        console.say(text_report(trace, figures))
        if arguments.report is not None:
            console.say(f"{'report':<14} {arguments.report.absolute()}")
    elif trace.state != RunState.SUCCEEDED:
        first = min(trace.errors, default=None)
        why = "" if first is None else f": node {trace.ids[first]}: {trace.errors[first].split(chr(10), 1)[0]}"
        console.note(f"{NAME}: run {trace.run_id} {trace.state}{why}")


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the program as Ctrl-C does, with the exit code that shells expect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    before: dict[signal.Signals, Any] = {}
    for wanted in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(wanted) != signal.SIG_IGN:  # nohup
            before[wanted] = signal.signal(wanted, stop)
    try:
        yield
    finally:
        for known, handler in before.items():
            signal.signal(known, handler)
