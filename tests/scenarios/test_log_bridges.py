"""Bridges with real servers: each event once and in order, whatever is killed on the way."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from runtime import AsyncRuntime, Event, NodeType, Runtime
from runtime.bridges import AsyncBridge, Bridge
from runtime.errors import BridgeConflict, BridgeUnavailable, SubscriptionInUse
from runtime.event_filter import filter_of
from runtime.event_reader import EventReader
from tests.scenarios.processes import ROOT, host_program, kill, send
from tests.scenarios.servers import Nats, Redis, Server, free_port, server_of
from tests.scenarios.waiting import pause, until

pytestmark = pytest.mark.slow

ROUNDS: Final = int(os.environ.get("CHAOS_ROUNDS", "3"))
PATIENCE_S: Final = 60.0
KINDS: Final = ["run.*", "node.succeeded"]


@pytest.fixture(params=[Nats, Redis], ids=["nats", "redis"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    with server_of(request.param, tmp_path / "server") as running:
        yield running


def opened(state_dir: Path, **options: Any) -> Runtime:
    return Runtime(state_dir, node_types=[NodeType("default", workers=1)], **options)


def work(state_dir: Path, count: int) -> None:
    with opened(state_dir) as rt:
        for handle in [rt.submit(abs, -n) for n in range(count)]:
            handle.result(PATIENCE_S)


def told(state_dir: Path, kinds: list[str] | None = None) -> list[Event]:
    """All events of a folder, from its log."""
    found: list[Event] = []
    with EventReader(state_dir, filter_of(kinds)) as reader:
        while events := reader.read():
            found += events
    return found


def places(entries: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(entry["lsn"], entry["place"]) for entry in entries]


def expected(state_dir: Path, kinds: list[str] | None = None) -> list[tuple[int, int]]:
    return [(event.lsn, event.place) for event in told(state_dir, kinds)]


def publish(state_dir: Path, server: Server, **options: Any) -> Any:
    """Publish what is there."""
    with Bridge(state_dir, server.url, follow=False, **options) as bridge:
        bridge.run()
        return bridge.statistics()


@contextmanager
def bridge_program(state_dir: Path, url: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """`python -m runtime bridge`, which is killed at the end if it has not ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "runtime", "bridge", str(state_dir), "--to", url, *more],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            kill(process.pid)
        process.communicate()


def has(server: Server, count: int) -> bool:
    """Whether so many events have arrived; the stream may not be there yet."""
    try:
        return len(server.entries()) >= count
    except Exception:
        return False


def kind_options() -> list[str]:
    return [word for kind in KINDS for word in ("--kind", kind)]


# --- what is published ------------------------------------------------------------------------------------------------


def test_events_are_in_the_stream_as_they_are_in_the_log(state_dir: Path, server: Server) -> None:
    work(state_dir, 30)
    assert publish(state_dir, server).published == len(told(state_dir))
    entries = server.entries()
    with EventReader(state_dir, filter_of()) as reader:
        events = [event._asdict() for event in reader.read()]
    assert [{name: entry[name] for name in events[0]} for entry in entries] == json.loads(json.dumps(events))
    uuid = json.loads((state_dir / "mainspring.json").read_text())["uuid"]
    bridge = f"{uuid}/{server.service}-mainspring"
    if isinstance(server, Nats):
        assert {entry["subject"] for entry in entries} == {f"mainspring.{event['kind']}" for event in events}
        assert [entry["id"] for entry in entries] == [f"{bridge}/{lsn}-{place}" for lsn, place in places(entries)]
    else:
        assert [entry["id"] for entry in entries] == [f"{lsn}-{place}" for lsn, place in places(entries)]
        assert {entry["source"] for entry in entries} == {bridge}
    assert publish(state_dir, server).published == 0
    work(state_dir, 5)
    publish(state_dir, server)
    assert places(server.entries()) == expected(state_dir)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_bridge_in_the_program_publishes_what_happens(state_dir: Path, server: Server, shards: int) -> None:
    with opened(state_dir, log_shards=shards) as rt:
        bridge = Bridge(rt, server.url, "run.*", name="mine", stream="runs", since="now")
        thread = threading.Thread(target=bridge.run)
        thread.start()
        handles = [rt.submit(abs, -n) for n in range(20)]
        for handle in handles:
            handle.result(PATIENCE_S)
        until(lambda: bridge.statistics().published == 40, "forty events", PATIENCE_S)
        with pytest.raises(SubscriptionInUse):
            Bridge(rt, server.url, name="mine")
        assert rt.subscriptions() == ["mine"]
        bridge.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        entries = server.entries("runs")
        assert {entry["run"] for entry in entries} == {handle.run_id for handle in handles}
        assert {entry["kind"] for entry in entries} == {"run.submitted", "run.succeeded"}
        assert rt.unsubscribe("mine")


def test_a_bridge_for_asyncio(state_dir: Path, server: Server) -> None:
    async def main() -> None:
        async with AsyncRuntime(state_dir, node_types=[NodeType("default", workers=1)]) as rt:
            async with AsyncBridge(rt, server.url, names="abs", kinds="node.*") as bridge:
                running = asyncio.ensure_future(bridge.run())
                await (await rt.submit(abs, -1))
                await (await rt.submit(len, "abc"))
                await asyncio.to_thread(until, lambda: bridge.statistics().published, "an event", PATIENCE_S)
            await asyncio.wait_for(running, PATIENCE_S)

    asyncio.run(main())
    assert [entry["name"] for entry in server.entries()] == ["abs"]


# --- whatever is killed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 3])
def test_each_event_once_when_the_bridge_is_killed_at_random(state_dir: Path, server: Server, shards: int) -> None:
    opened(state_dir, log_shards=shards).close()
    chance = random.Random(7)
    with host_program("working", state_dir, 40, 0) as host:
        host.read_line()
        for _ in range(ROUNDS):
            with bridge_program(state_dir, server.url, *kind_options()):
                pause(0.4 + chance.random() * 0.5)
        host.tell("enough")
        while host.process.stdout is not None and host.process.stdout.readline():
            pass
        assert host.end() == 0
    publish(state_dir, server, kinds=KINDS)
    assert places(server.entries()) == expected(state_dir, KINDS)


def test_each_event_once_when_the_server_is_killed_at_random(state_dir: Path, server: Server) -> None:
    chance = random.Random(8)
    with host_program("working", state_dir, 40, 0) as host:
        host.read_line()
        with bridge_program(state_dir, server.url, *kind_options(), "--json") as bridge:
            until(lambda: has(server, 1), "the first event", PATIENCE_S)
            for _ in range(ROUNDS):
                pause(0.2 + chance.random() * 0.4)
                server.kill()
                pause(chance.random() * 0.3)
                server.start()
            kill(*host.family.workers, host.family.engine)  # the log goes on, and so does the bridge
            host.read_line()
            host.tell("enough")
            while host.process.stdout is not None and host.process.stdout.readline():
                pass
            assert host.end() == 0
            wanted = expected(state_dir, KINDS)
            until(lambda: has(server, len(wanted)), "the last events", PATIENCE_S)
            send(bridge.pid, signal.SIGTERM)
            out, err = bridge.communicate(timeout=PATIENCE_S)
            assert bridge.returncode == 0, err
            assert json.loads(out)["connections"] >= 2
            assert "trying again" in err
    assert places(server.entries()) == wanted


def test_what_a_server_has_lost_is_sent_again(state_dir: Path, server: Server) -> None:
    work(state_dir, 20)
    publish(state_dir, server)
    server.kill(signal.SIGTERM)
    shutil.copytree(server.data, server.folder / "copy")
    server.start()
    work(state_dir, 20)
    publish(state_dir, server)
    server.kill(signal.SIGTERM)
    shutil.rmtree(server.data)
    shutil.copytree(server.folder / "copy", server.data)
    server.start()
    before = len(server.entries())
    assert before < len(told(state_dir))
    assert publish(state_dir, server).published == len(told(state_dir)) - before
    assert places(server.entries()) == expected(state_dir)


def test_what_was_published_and_not_noted_is_not_sent_again(state_dir: Path, server: Server) -> None:
    work(state_dir, 20)
    publish(state_dir, server)
    (state_dir / "subscriptions" / f"{server.service}-mainspring.json").unlink()
    assert publish(state_dir, server).published == 0
    assert places(server.entries()) == expected(state_dir)


def test_a_stream_that_was_emptied_goes_on_where_it_was(state_dir: Path, server: Server) -> None:
    work(state_dir, 10)
    publish(state_dir, server)
    if isinstance(server, Redis):
        server.ask(["XTRIM", "mainspring", "MAXLEN", 0])
    else:
        asyncio.run(purge(server))
    assert server.entries() == []
    before = len(told(state_dir))
    work(state_dir, 5)
    publish(state_dir, server)
    assert places(server.entries()) == expected(state_dir)[before:]


async def purge(server: Server) -> None:
    import nats  # lazy: a library that is optional

    connection = await nats.connect(server.url)
    await connection.jetstream().purge_stream("mainspring")
    await connection.close()


def test_a_stream_keeps_as_many_as_it_was_told_to(state_dir: Path, server: Server) -> None:
    work(state_dir, 400)
    publish(state_dir, server, keep=10)
    kept = places(server.entries())
    assert 10 <= len(kept) <= 300
    assert kept == expected(state_dir)[-len(kept) :]
    work(state_dir, 3)
    publish(state_dir, server, keep=10)
    assert places(server.entries())[-1:] == expected(state_dir)[-1:]


def test_a_server_that_hangs_holds_nobody_up(state_dir: Path, server: Server) -> None:
    with opened(state_dir) as rt:
        rt.submit(abs, -1).result(PATIENCE_S)
        with bridge_program(state_dir, server.url) as bridge:
            until(lambda: has(server, 1), "the first event", PATIENCE_S)
            assert server.process is not None
            server.process.send_signal(signal.SIGSTOP)
            assert list(rt.map(abs, range(1000))) == list(range(1000))
            send(bridge.pid, signal.SIGTERM)
            bridge.communicate(timeout=PATIENCE_S)
            assert bridge.returncode == 0
            server.process.send_signal(signal.SIGCONT)
    publish(state_dir, server)
    assert places(server.entries()) == expected(state_dir)


def test_a_full_server_slows_the_bridge_and_leaves_no_hole(state_dir: Path, tmp_path: Path) -> None:
    work(state_dir, 3000)
    with server_of(Redis, tmp_path / "server") as server:
        used = server.ask(["INFO", "memory"])["used_memory"]
        server.ask(["CONFIG", "SET", "maxmemory", used + 300_000])
        with bridge_program(state_dir, server.url) as bridge:
            assert bridge.stderr is not None
            assert "maxmemory" in bridge.stderr.readline()
            there = places(server.entries())
            assert there == expected(state_dir)[: len(there)]
            server.ask(["CONFIG", "SET", "maxmemory", 0])
            wanted = expected(state_dir)
            until(lambda: server.ask(["XLEN", "mainspring"]) == len(wanted), "the others", PATIENCE_S)
        assert places(server.entries()) == wanted


def test_a_stream_that_takes_no_more_slows_the_bridge_and_leaves_no_hole(state_dir: Path, tmp_path: Path) -> None:
    work(state_dir, 20)
    with server_of(Nats, tmp_path / "server") as server:
        asyncio.run(configure(server, create=True, max_msgs=30, discard="new"))
        with bridge_program(state_dir, server.url) as bridge:
            assert bridge.stderr is not None
            assert "maximum messages" in bridge.stderr.readline()
            asyncio.run(configure(server, create=False, max_msgs=-1, discard="new"))
            wanted = expected(state_dir)
            until(lambda: has(server, len(wanted)), "the others", PATIENCE_S)
        assert places(server.entries()) == wanted


async def configure(server: Server, *, create: bool, **options: Any) -> None:
    import nats  # lazy: a library that is optional

    connection = await nats.connect(server.url)
    streams = connection.jetstream()
    change = streams.add_stream if create else streams.update_stream
    await change(name="mainspring", subjects=["mainspring.>"], **options)
    await connection.close()


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_stream_of_another_folder_is_refused(state_dir: Path, tmp_path: Path, server: Server) -> None:
    work(state_dir, 2)
    publish(state_dir, server)
    work(tmp_path / "other", 2)
    with pytest.raises(BridgeConflict, match="has events of state folder"):
        publish(tmp_path / "other", server)
    with pytest.raises(BridgeConflict, match="is written by bridge"):
        publish(state_dir, server, name="second")
    done = subprocess.run(
        [sys.executable, "-m", "runtime", "bridge", str(tmp_path / "other"), "--to", server.url, "--once"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("mainspring: [MS154] stream mainspring has events of state folder")
    assert places(server.entries()) == expected(state_dir)


def test_an_older_copy_of_the_folder_is_refused(state_dir: Path, tmp_path: Path, server: Server) -> None:
    work(state_dir, 2)
    shutil.copytree(state_dir, tmp_path / "copy", ignore=shutil.ignore_patterns("commands"))
    work(state_dir, 200)
    publish(state_dir, server)
    with pytest.raises(BridgeConflict, match="the folder is an older copy"):
        publish(tmp_path / "copy", server)


def test_entries_of_others_are_refused(state_dir: Path, server: Server) -> None:
    work(state_dir, 2)
    if isinstance(server, Redis):
        server.ask(["XADD", "mainspring", "*", "a", "b"])
        server.ask(["SET", "text", "no stream"])
        with pytest.raises(BridgeConflict, match="is no stream"):
            publish(state_dir, server, stream="text")
    else:
        asyncio.run(strange(server))
        with pytest.raises(BridgeConflict, match=r"takes other\.>, and not mainspring\.engine\.opened"):
            publish(state_dir, server, stream="elsewhere", subject="mainspring")
    with pytest.raises(BridgeConflict, match="no bridge wrote"):
        publish(state_dir, server)


async def strange(server: Server) -> None:
    import nats  # lazy: a library that is optional

    connection = await nats.connect(server.url)
    streams = connection.jetstream()
    await streams.add_stream(name="mainspring", subjects=["mainspring.>"])
    await streams.add_stream(name="elsewhere", subjects=["other.>"])
    await streams.publish("mainspring.run.failed", b"hello")
    await connection.close()


@pytest.mark.parametrize("scheme", ["nats", "redis"])
def test_a_server_that_is_not_there(state_dir: Path, scheme: str) -> None:
    pytest.importorskip(scheme)
    work(state_dir, 1)
    with pytest.raises(BridgeUnavailable, match="cannot be reached") as raised:
        Bridge(state_dir, f"{scheme}://me:secret@127.0.0.1:{free_port()}", patience=0.2).run()
    assert "secret" not in str(raised.value)
    with bridge_program(state_dir, f"{scheme}://127.0.0.1:{free_port()}", "--patience", "0.1") as bridge:
        _, err = bridge.communicate(timeout=PATIENCE_S)
        assert bridge.returncode == 3
        assert "[MS220]" in err
        assert "Traceback" not in err


def test_a_redis_that_wants_a_password(state_dir: Path, tmp_path: Path) -> None:
    work(state_dir, 1)
    with server_of(Redis, tmp_path / "redis") as server:
        server.ask(["CONFIG", "SET", "requirepass", "x"])
        with pytest.raises(BridgeUnavailable, match="does not serve this bridge"):
            publish(state_dir, server)


def test_a_nats_that_wants_a_password(state_dir: Path, tmp_path: Path) -> None:
    work(state_dir, 1)
    nats = Nats(tmp_path / "nats")
    nats.more = ["--user", "me", "--pass", "x"]
    try:
        nats.start()
        with pytest.raises(BridgeUnavailable, match="does not serve this bridge"):
            publish(state_dir, nats)
        with Bridge(state_dir, nats.url.replace("://", "://me:x@"), follow=False) as bridge:
            bridge.run()
            assert bridge.statistics().published
    finally:
        nats.kill()


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_in_order(state_dir: Path, server: Server, signum: int, code: int) -> None:
    work(state_dir, 10)
    with bridge_program(state_dir, server.url) as bridge:
        wanted = expected(state_dir)
        until(lambda: has(server, len(wanted)), "all events", PATIENCE_S)
        send(bridge.pid, signum)
        out, err = bridge.communicate(timeout=PATIENCE_S)
    assert (bridge.returncode, err) == (code, "")
    assert out == f"{len(wanted)} events published; the stream has them up to {wanted[-1][0]}-{wanted[-1][1]}\n"
    cursor = json.loads((state_dir / "subscriptions" / f"{server.service}-mainspring.json").read_text())
    assert cursor["note"] == f"{wanted[-1][0]}-{wanted[-1][1]}"


def test_a_signal_ends_it_while_the_server_is_away(state_dir: Path, server: Server) -> None:
    work(state_dir, 10)
    with bridge_program(state_dir, server.url, "--patience", "1000") as bridge:
        server.kill()
        assert bridge.stderr is not None
        bridge.stderr.readline()
        send(bridge.pid, signal.SIGTERM)
        bridge.communicate(timeout=PATIENCE_S)
        assert bridge.returncode == 0
