"""Runtime: a durable engine inside this program, for blocking callers.

    with Runtime("state/", tasks) as rt:
        print(rt.submit(transform, rows).result())

Opening starts the engine and its workers as processes of their own and recovers what the state folder holds; work
that was unfinished goes on. Closing stops taking submissions, waits until what was submitted is durable, lets
*running* attempts finish within the timeout, and ends all processes. Everything else stays in the folder and goes
on when it is opened again. Leaving the `with` block closes; with Ctrl-C it does not wait for running attempts.

A runtime works from any thread, beside a running event loop, in notebooks and web servers. It installs no signal
handler unless asked, but one in C, of a real-time signal that nobody else has (see `runtime.profile.presence`). Only
one runtime, in one process, can have a state folder at a time. In a fork of the program it refuses to work; inside a
worker it cannot be opened.
"""

from __future__ import annotations

import atexit
import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self, TypeVar

from actors.protocol import limits
from runtime import views, waiting
from runtime.config import DRAIN_TIMEOUT_S, Durability, MissingHandler, NodeType, Priority, RuntimeConfig
from runtime.dispatch import Dispatch
from runtime.event_calls import EventCalls
from runtime.flow import Flow
from runtime.handle import RunHandle, attach
from runtime.handle_base import SyncHandle
from runtime.host.client import EngineStarter
from runtime.host.scaling import OnScale
from runtime.opening import new_client
from runtime.operations import Operations
from runtime.profile_calls import ProfileCalls
from runtime.profiling import Profiling
from runtime.progress import show_progress
from runtime.query_calls import QueryCalls
from runtime.registry import TaskRegistry
from runtime.retention import Retention
from runtime.schedule_calls import ScheduleCalls
from runtime.scheduling import Rate, Scheduling, SchedulingStatus, Share, ask_entry, ask_policy
from runtime.signals import SigtermGuard
from runtime.submitter import Submitter
from runtime.views import Request

A = TypeVar("A", bound=SyncHandle)


class Runtime(EventCalls, Operations, ProfileCalls, QueryCalls, ScheduleCalls, Submitter):
    """See the module.

    Args:
        state_dir: The state folder: an empty or new folder, or one that a runtime made.
        tasks: Registry of the program's tasks; a bare function that was registered is run with its task's options.
        node_types: Kinds of workers; one of name "default" when None. Functions that name no node type run on
            "default", or on the first one given.
        durability: What an acknowledged submission survives: "fsync" power loss, "os" the death of every process,
            "none" promises nothing.
        retention: How many finished runs are kept in memory, and how long in the archive.
        salvage: Open a log that is corrupt in the middle and report what was dropped, instead of refusing.
        missing_handler: "park" or "fail" tasks whose function workers cannot find.
        scheduling: Quotas, weights, rates and shares; see `Scheduling`. None for its defaults.
        on_scale: Asked before a pool gets another number of workers, see `ScaleStep`. It runs in a thread of its own,
            and its answer decides: None or True go ahead, False is a veto, a number of workers is what is done instead
            (within the bounds of the node type). After a second without an answer the step is taken. Every step
            that is taken is logged by the logger "mainspring" (INFO).
        checkpoint_bytes: Of log, after which the state is written to the checkpoint; None: never.
        log_shards: In how many shards the log of a new folder lies, and that of an old one must; None: in one, or as
            it is. `python -m runtime reshard` changes it.
        profiling: What the profiler does beyond what is always on: watch bounds and objectives, let py-spy attach.
        handle_sigterm: Drain on SIGTERM; the previous handler is called too, and restored on close. Main thread only.

    Raises:
        StateFolderError: Or one of its kinds: in use (with the holder's pid), not ours, newer, no permission.
        LogCorrupt, DiskFull: As they say. EngineUnavailable: The engine cannot be started.
        NestedRuntime: This is a worker process. ConfigurationError: A setting is out of range.

    What a crash leaves behind: the folder, as durable as `durability` says. No process outlives this program.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        tasks: TaskRegistry | None = None,
        *,
        node_types: Sequence[NodeType] | None = None,
        durability: Durability = "fsync",
        retention: Retention | None = None,
        salvage: bool = False,
        missing_handler: MissingHandler = "park",
        scheduling: Scheduling | None = None,
        on_scale: OnScale | None = None,
        checkpoint_bytes: int | None = limits.CHECKPOINT_BYTES,
        log_shards: int | None = None,
        profiling: Profiling | None = None,
        handle_sigterm: bool = False,
        starter: EngineStarter | None = None,
    ) -> None:
        self._closed = True
        config = RuntimeConfig(
            os.fspath(state_dir),
            node_types or (),
            durability,
            retention or Retention(),
            salvage,
            missing_handler,
            scheduling or Scheduling(),
            on_scale,
            checkpoint_bytes,
            log_shards,
            profiling or Profiling(),
        )
        self.config = config
        client = new_client(config, starter)
        super().__init__(client, Dispatch(client, config, tasks or TaskRegistry()))
        self._sigterm = SigtermGuard() if handle_sigterm else None
        try:
            self._client.start()
        except BaseException:
            if self._sigterm is not None:
                self._sigterm.restore()
            raise
        self._client.attach_thread()
        self._closed = False
        self._begin_profile()
        self._at_exit = _closer(self)
        atexit.register(self._at_exit)

    @property
    def state_dir(self) -> str:
        """Absolute path of the state folder."""
        return self.config.state_dir

    @property
    def recovery(self) -> dict[str, Any]:
        """What the engine found, cut and resumed when it opened the folder."""
        return dict(self._client.intake.recovery)

    # --- runs -----------------------------------------------------------------------------------------------------

    def run(
        self,
        flow: Flow,
        /,
        *,
        run_id: str | None = None,
        timeout: float | None = None,
        progress: bool | None = None,
    ) -> RunHandle:
        """Submit a flow, wait for its end and raise if it did not succeed.

        Args:
            flow: The flow.
            run_id: Identity of the run, see `submit`.
            timeout: Seconds to wait; None waits as long as it takes.
            progress: Show a progress bar; None shows one when the standard error stream is a terminal.

        Returns:
            The handle, whose results can be taken.

        Raises:
            TaskFailed: A node failed; `__cause__` is the handler's exception where it could be rebuilt.
            WaitTimeout: The time is over; the run goes on. Otherwise as `submit`.
        """
        handle = self.submit(flow, run_id=run_id)
        deadline = None if timeout is None else time.monotonic() + timeout
        show_progress(handle, flow.name, deadline, progress)
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        return handle.raise_if_failed(left)

    def handle(self, run_id: str) -> RunHandle:
        """Find a run of any session and program again.

        Args:
            run_id: Its id.

        Returns:
            A handle.

        Raises:
            UnknownRun: The folder has no such run, or no longer.
        """
        return attach(self._client, run_id)

    def wait(self, handles: Iterable[A], timeout: float | None = None, *, first: bool = False) -> tuple[set[A], set[A]]:
        """Wait for all handles, or for the first that ends.

        Args:
            handles: Of this runtime.
            timeout: Seconds; None waits as long as it takes.
            first: Return when one has ended.

        Returns:
            Those that ended, and the others.
        """
        return waiting.wait(handles, timeout, first=first)

    def as_completed(self, handles: Iterable[A], timeout: float | None = None) -> Iterator[A]:
        """Wait for handles, one after the other.

        Args:
            handles: Of this runtime.
            timeout: Seconds for all of them; None waits as long as it takes.

        Returns:
            The handles in the order in which they end.

        Raises:
            WaitTimeout: The time is over; the tasks go on.
        """
        return waiting.as_completed(handles, timeout)

    def statistics(self) -> dict[str, Any]:
        """What the engine says of itself: its state, its log, its pools and workers."""
        found: dict[str, Any] = self._client.answer_of(self._client.ask("engine", {}))
        return found

    def processes(self) -> list[dict[str, Any]]:
        """Every process of this runtime: `role` (face, spawner, engine, worker), `pid`, and `node_type` of workers."""
        return views.read_processes(self.statistics())

    # --- who runs next --------------------------------------------------------------------------------------------

    def scheduling(self) -> SchedulingStatus:
        """Who runs next and how much at once, as it stands now, with how many tasks wait.

        Returns:
            A snapshot.
        """
        return self._scheduling(ask_policy())

    def set_quota(self, scope: str, limit: int | None) -> SchedulingStatus:
        """Set how many tasks of a scope are with workers at once; in force, and durable, when this returns.

        Args:
            scope: "tenant:acme", "key:printer" (a concurrency key), "type:cpu" (a node type) or "class:low".
            limit: At least 1; None for no limit. What runs already goes on. To start nothing, `pause`.

        Returns:
            What stands now.

        Raises:
            ConfigurationError: The scope or the number cannot be; nothing was changed.
            DiskFull, LogFailed, EngineUnavailable: As they say; whether it was changed shows in `scheduling()`.

        What a crash leaves behind: after the return, the new quota, also when the folder is opened again. See
        `Scheduling` for what happens when the program then sets another one.
        """
        return self._scheduling(ask_entry("quotas", scope, limit))

    def set_weight(self, tenant: str, weight: float | None) -> SchedulingStatus:
        """Set how many turns a tenant gets for one of a tenant of weight 1. Otherwise as `set_quota`.

        Args:
            tenant: Its name; "" is the default tenant.
            weight: Above 0; None for 1.

        Returns:
            What stands now.
        """
        return self._scheduling(ask_entry("weights", tenant, weight))

    def set_rate(self, key: str, rate: Rate | None) -> SchedulingStatus:
        """Set how often tasks of a rate key may start. Otherwise as `set_quota`.

        Args:
            key: The rate key.
            rate: For example `Rate(10, per=1.0, burst=5)`; None for no limit.

        Returns:
            What stands now.
        """
        return self._scheduling(ask_entry("rates", key, rate))

    def set_share(self, priority: Priority | str, share: Share | None) -> SchedulingStatus:
        """Set what a priority class has of the slots. Otherwise as `set_quota`.

        Args:
            priority: The class.
            share: For example `Share(most=0.4)`; None for no share of its own.

        Returns:
            What stands now.
        """
        return self._scheduling(ask_entry("shares", priority, share))

    def set_priority(self, run: SyncHandle | str, priority: Priority | str) -> bool:
        """Give a task or run another priority class; in force, and durable, when this returns.

        What waits of it takes its place in the new class, by its age; what becomes ready of it later, or is added to
        it, is of that class, too, also after a restart. What a worker holds already stays where it is there, and counts
        as of the new class, even where a quota of that class has no place left.

        Args:
            run: Its handle or run id.
            priority: The class.

        Returns:
            True: recorded. False: it had ended before.

        Raises:
            ConfigurationError: There is no such class. UnknownRun: the engine does not know the run.
            DiskFull, LogFailed, EngineUnavailable: As they say; whether it was changed shows in the story.
        """
        return bool(self._answer_to(views.ask_priority(run, priority))["changed"])

    def _scheduling(self, request: Request) -> SchedulingStatus:
        return SchedulingStatus.of(self._client.answer_of(self._client.ask(*request)))

    # --- the end --------------------------------------------------------------------------------------------------

    def close(self, drain: bool = True, timeout: float | None = None) -> None:
        """Stop: take nothing more, and end the engine. Again is harmless.

        Args:
            drain: Wait until what was submitted is durable, and let running attempts finish. Without, running attempts
                are stopped at once and run again when the folder is opened.
            timeout: Seconds for that; None for `config.DRAIN_TIMEOUT_S`. What still runs then is stopped.

        What a crash leaves behind: as without the crash; everything durable goes on at the next opening.
        """
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self._at_exit)
        try:
            self._client.close(drain, DRAIN_TIMEOUT_S if timeout is None else timeout)
        finally:
            self._end_profile()
            if self._sigterm is not None:
                self._sigterm.restore()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(drain=kind is None or not issubclass(kind, KeyboardInterrupt))

    def __del__(self) -> None:
        if not self._closed and not self._client.closed:
            warnings.warn(f"Runtime on {self.state_dir} was not closed", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<Runtime {self.state_dir} {'closed' if self._closed else 'open'}>"


def _closer(runtime: Runtime) -> Callable[[], None]:
    """What runs at exit when the program forgot to close: briefly, and without keeping the runtime alive."""
    known = weakref.ref(runtime)
    client = runtime._client

    def close() -> None:
        found = known()
        if found is not None:
            found.close(drain=False)
        else:
            client.close(False, 1.0)

    return close
