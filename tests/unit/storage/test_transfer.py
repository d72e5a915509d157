"""Runs go to a file and into another folder, and are the same there; what does not fit is refused whole."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.protocol.errors import (
    ConfigurationError,
    DiskFull,
    DuplicateRun,
    ExportFileError,
    PayloadUnreadable,
    StateFolderInUse,
    UnknownRun,
)
from actors.protocol.records import Record, RecordType
from actors.replay import Replay
from actors.scheduler import Scheduler
from runtime import NodeType, Runtime
from runtime.cli import main
from runtime.cli.exits import Exit
from runtime.mail.blobs import BlobStore
from runtime.storage.contents import check_contents
from runtime.storage.files import DiskFiles
from runtime.storage.folder import StateFolder
from runtime.storage.reader import read_log
from runtime.storage.recovery import summarise
from runtime.storage.transfer import enter_runs, export_runs, import_runs
from runtime.storage.wal import LogWriter
from tests.sim.disk import FakeDisk, PowerCut
from tests.sim.world import PLACE
from tests.unit.storage import state_folders
from tests.unit.storage.test_sieve import sifted
from tests.unit.storage.worlds import records_midway, records_of

pytestmark = pytest.mark.slow
ONE = [NodeType("default", workers=1)]
Line = dict[str, Any]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "state"
    state_folders.make(path)
    return path


def exported(path: Path, *keys: str) -> bytes:
    out = io.BytesIO()
    export_runs(path, out, keys)
    return out.getvalue()


def read(text: bytes) -> list[Line]:
    return [json.loads(line) for line in text.splitlines()]


def written(lines: list[Line]) -> list[bytes]:
    return [json.dumps(line).encode() for line in lines]


def test_what_is_exported_imported_and_exported_again_is_the_same(state: Path, tmp_path: Path) -> None:
    text = exported(state)
    done = import_runs(tmp_path / "new", text.splitlines())
    assert exported(tmp_path / "new") == text
    assert (done.runs, done.missing, done.crowded) == (9, (), False)
    assert check_contents(tmp_path / "new").problems == ()
    assert check_contents(tmp_path / "new").notes == ()
    assert {k: v for k, v in summarise(tmp_path / "new").items() if k == "runs"}["runs"] == summarise(state)["runs"]


def test_an_engine_shows_what_was_imported_and_goes_on(state: Path, tmp_path: Path) -> None:
    import_runs(tmp_path / "new", exported(state).splitlines())
    shutil.copytree(state, tmp_path / "old")
    found = []
    for name in ("old", "new"):
        with Runtime(tmp_path / name, node_types=ONE, durability="os") as rt:
            flow = rt.handle(state_folders.FLOW_RUN)
            assert flow.node("first").result() == state_folders.LARGE
            nodes = [[n.id, n.state, n.attempts, n.started_ns, n.ended_ns, n.worker_pid] for n in flow.nodes()]
            story = [[e.at_ns, e.node, e.event, e.text] for e in flow.story()]
            runs = [[status.run_id, str(status.state), status.counts] for status in rt.runs()]
            found.append([nodes, story, runs, flow.result(timeout=30)])
            assert rt.submit(state_folders.echo, 7).result(timeout=30) == 7
            rt.close(drain=False)
    assert found[0] == found[1]
    with Runtime(tmp_path / "new", node_types=ONE, durability="os") as rt:
        assert rt.recovery["clean"]
        assert rt.handle(state_folders.FLOW_RUN).node("first").result() == state_folders.LARGE
        rt.close(drain=False)


def test_single_runs_and_a_folder_that_has_others(state: Path, tmp_path: Path) -> None:
    text = exported(state, state_folders.FLOW_RUN)
    assert {line["run"] for line in read(text)[1:]} == {state_folders.FLOW_RUN}
    with Runtime(tmp_path / "new", node_types=ONE, durability="os") as rt:
        rt.submit(state_folders.echo, 1).result(timeout=30)
    before = exported(tmp_path / "new")
    import_runs(tmp_path / "new", text.splitlines())
    assert read(exported(tmp_path / "new"))[1:] == read(before)[1:] + read(text)[1:]
    with pytest.raises(UnknownRun, match="nobody"):
        exported(state, "nobody")
    with pytest.raises(DuplicateRun, match="'flow' exists already"):
        import_runs(tmp_path / "new", text.splitlines())
    with pytest.raises(DuplicateRun):
        import_runs(tmp_path / "new", exported(state).splitlines())
    assert read(exported(tmp_path / "new"))[1:] == read(before)[1:] + read(text)[1:]


def log_of(path: Path, records: tuple[Record, ...]) -> None:
    with StateFolder.open(path) as folder:
        reader = read_log(folder.log, DiskFiles())
        list(reader)
        writer = LogWriter(folder.log, DiskFiles(), reader.report())
        for lsn, record in enumerate(records, 1):
            writer.write([record._replace(lsn=lsn)], sync=False)
        writer.close()


@pytest.mark.parametrize("seed", range(12))
def test_simulated_lives_survive_the_way(seed: int, tmp_path: Path) -> None:
    log_of(tmp_path / "a", records_of(seed) if seed % 2 else records_midway(seed, 250))
    text = exported(tmp_path / "a")
    import_runs(tmp_path / "b", text.splitlines())
    assert exported(tmp_path / "b") == text


def test_with_a_hole_in_what_was_imported_the_other_runs_are_kept(tmp_path: Path) -> None:
    log_of(tmp_path / "a", records_of(1))
    import_runs(tmp_path / "b", exported(tmp_path / "a").splitlines())
    with StateFolder.open(tmp_path / "b") as folder:
        records = list(read_log(folder.log, DiskFiles()))
    parts = [record for record in records if record.type == RecordType.IMPORTED][:-1]
    for lost in parts[:5]:
        sieve, _ = sifted(records, frozenset({lost.lsn}))
        assert len(sieve.lost_runs()) == 1
        assert len(sieve.scheduler.book.live) + len(sieve.scheduler.book.finished) == len(parts) - 1


Change = Callable[[list[Line]], Any]


def first(lines: list[Line], type_: str) -> Line:
    return next(line for line in lines if line["type"] == type_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines.clear(), "the file is empty"),
        (lambda lines: lines.pop(), "ends early: 8 of 9 runs"),
        (lambda lines: lines.pop(0), "line 1: the file does not begin"),
        (lambda lines: lines[0].update(version="2.0"), "line 1: it has version 2.0; this program reads 1.1"),
        (lambda lines: lines[0].update(runs=99), "9 of 99 runs"),
        (lambda lines: lines[1].update(type="other"), "line 2: unknown type 'other'"),
        (lambda lines: lines.insert(2, {"no": "type"}), "line 3: KeyError"),
        (lambda lines: lines.insert(2, lines[0]), "line 3: unknown type 'export'"),
        (lambda lines: lines.insert(1, first(lines, "node")), "line 2: a line of type 'node' does not follow"),
        (lambda lines: first(lines, "node").update(run="other"), "it belongs to run 'other'"),
        (lambda lines: first(lines, "node").update(state="lost"), "'lost'"),
        (lambda lines: lines[1].update(run="../.."), "is no id of a run"),
        (
            lambda lines: first(lines, "blob").update(name="a/../../b"),
            "not the name of a blob",
        ),
        (lambda lines: first(lines, "blob").update(data="AAAA"), "is not whole"),
        (lambda lines: first(lines, "blob").update(checksum=1), "checksum differs"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_whole(state: Path, tmp_path: Path, change: Change, message: str) -> None:
    lines = read(exported(state))
    change(lines)
    StateFolder.open(tmp_path / "new").close()
    with pytest.raises(ExportFileError, match=message):
        import_runs(tmp_path / "new", written(lines))
    assert read(exported(tmp_path / "new")) == [{"type": "export", "version": "1.1", "runs": 0}]
    import_runs(tmp_path / "new", exported(state).splitlines())
    assert exported(tmp_path / "new") == exported(state)
    assert main(["verify", str(tmp_path / "new")]) == Exit.OK


def test_garbage_is_refused_with_its_line(tmp_path: Path) -> None:
    for garbage in (b"{", b"[]", b"3", b"\xff\xfe", b'{"type":[]}'):
        with pytest.raises(ExportFileError, match="line 2: "):
            import_runs(tmp_path / "new", [b'{"type":"export","version":"1.0","runs":1}', garbage])


def test_an_import_that_was_cut_short_enters_nothing(state: Path, tmp_path: Path) -> None:
    lines = exported(state).splitlines()

    def cut(after: int) -> Iterator[bytes]:
        yield from lines[:after]
        raise KeyboardInterrupt

    for after in (1, 5, len(lines) // 2, len(lines)):
        with pytest.raises(KeyboardInterrupt):
            import_runs(tmp_path / "new", cut(after))
        assert len(read(exported(tmp_path / "new"))) == 1
    with Runtime(tmp_path / "new", node_types=ONE, durability="os") as rt:
        assert rt.submit(state_folders.echo, 1).result(timeout=30) == 1
    assert check_contents(tmp_path / "new").notes == (), "what the import had written went with the next start"
    import_runs(tmp_path / "new", lines)
    assert read(exported(tmp_path / "new"))[-1] == read(b"\n".join(lines))[-1]


def import_onto(disk: FakeDisk, lines: list[bytes], blobs: Path) -> None:
    """Import into a log on a simulated disk."""
    reader = read_log(PLACE, disk)
    replay = Replay(Scheduler([]))
    for record in reader:
        replay.fold(record)
    writer = LogWriter(PLACE, disk, reader.report(), segment_bytes=2_000)
    enter_runs(replay, writer, BlobStore(blobs), lines)


def runs_on(disk: FakeDisk) -> int:
    replay = Replay(Scheduler([]))
    for record in read_log(PLACE, disk):
        replay.fold(record)
    return len(replay.scheduler.book.live) + len(replay.scheduler.book.finished)


def new_disk(seed: int) -> FakeDisk:
    disk = FakeDisk(seed)
    disk.make_folder(PLACE.folder)
    return disk


def test_a_power_cut_at_any_operation_leaves_all_runs_or_none(tmp_path: Path) -> None:
    log_of(tmp_path / "a", records_of(18))
    lines = exported(tmp_path / "a").splitlines()
    count = json.loads(lines[0])["runs"]
    disk = new_disk(0)
    import_onto(disk, lines, tmp_path)
    assert runs_on(disk) == count
    found = set()
    for cut_at in range(1, disk.operations + 1):
        for seed in range(3):
            broken = new_disk(seed)
            broken.cut_at = cut_at
            with pytest.raises(PowerCut):
                import_onto(broken, lines, tmp_path)
            after = broken.after_power_cut(seed)
            found.add(runs_on(after))
            if not runs_on(after):
                import_onto(after, lines, tmp_path)
                assert runs_on(after) == count
    assert found == {0, count}


def test_a_full_disk_enters_nothing(tmp_path: Path) -> None:
    log_of(tmp_path / "a", records_of(18))
    lines = exported(tmp_path / "a").splitlines()
    size = sum(map(len, lines))
    for room in range(200, size, size // 20):
        disk = new_disk(room)
        disk.capacity = room
        with pytest.raises(DiskFull):
            import_onto(disk, lines, tmp_path)
        disk.capacity = 10 * size
        assert not runs_on(disk)
        import_onto(disk, lines, tmp_path)
        assert runs_on(disk) == json.loads(lines[0])["runs"]


def test_a_key_stands_for_one_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Runtime(tmp_path / name, node_types=ONE, durability="os") as rt:
            rt.submit(state_folders.echo, name, idempotency_key="k").result(timeout=30)
    text = exported(tmp_path / "a")
    with pytest.raises(DuplicateRun, match="key 'k'"):
        import_runs(tmp_path / "b", text.splitlines())
    import_runs(tmp_path / "c", text.splitlines())
    with Runtime(tmp_path / "c", node_types=ONE, durability="os") as rt:
        assert rt.submit(state_folders.echo, "a", idempotency_key="k").result(timeout=30) == "a"
        assert len(list(rt.runs())) == 1


def test_a_missing_blob_is_named_on_both_sides(state: Path, tmp_path: Path) -> None:
    old = shutil.copytree(state, tmp_path / "old")
    nodes = [line for line in read(exported(old, state_folders.FLOW_RUN)) if line["type"] == "node"]
    name = nodes[0]["result"]["!"][1]
    (old / "blobs" / name).unlink()
    text = exported(old, state_folders.FLOW_RUN)
    done, whole = (export_runs(path, io.BytesIO(), [state_folders.FLOW_RUN]) for path in (old, state))
    assert (done.blobs, done.missing) == (whole.blobs - 1, (name,))
    assert import_runs(tmp_path / "new", text.splitlines()).missing == (name,)
    assert exported(tmp_path / "new") == text
    with Runtime(tmp_path / "new", node_types=ONE, durability="os") as rt, pytest.raises(PayloadUnreadable):
        rt.handle(state_folders.FLOW_RUN).node("first").result()


def test_no_engine_may_have_the_folder(state: Path, tmp_path: Path) -> None:
    with StateFolder.open(tmp_path / "new"), pytest.raises(StateFolderInUse):
        import_runs(tmp_path / "new", exported(state).splitlines())


def test_an_import_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    for there in (False, True):
        if there:
            (tmp_path / "new").mkdir()
        with pytest.raises(ExportFileError):
            import_runs(tmp_path / "new", [b"nonsense"])
        assert (tmp_path / "new").exists() is there, "what somebody else made stays"


def test_a_text_file_is_no_place_for_an_export(state: Path) -> None:
    with pytest.raises(ConfigurationError, match="binary file"):
        export_runs(state, io.StringIO())  # type: ignore[arg-type]
