"""S26: large values go by reference: written once, read without a copy, freed with their run, refused at the limit."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pytest

from actors.protocol import limits
from runtime import Flow, NodeType, Retention, Runtime, errors
from tests.scenarios import handlers_payloads as handlers
from tests.scenarios.waiting import until

MIB: Final = 1 << 20
SIZES: Final = [0, limits.PAYLOAD_INLINE_BYTES_MAX - 1000, limits.PAYLOAD_INLINE_BYTES_MAX + 8, MIB, 64 * MIB]
POOLS: Final = [NodeType("cpu", workers=1), NodeType("io", workers=1, mode="asyncio", concurrency=10)]


def open_runtime(state: Path, **options: Any) -> Runtime:
    return Runtime(state, **{"node_types": POOLS, "durability": "none", **options})


@pytest.fixture(scope="module")
def rt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with open_runtime(tmp_path_factory.mktemp("large") / "state") as opened:
        for pool in POOLS:
            opened.options(node_type=pool.name).submit(handlers.make_array, 1).result(timeout=60)
        yield opened


def files(rt: Runtime) -> dict[str, int]:
    """Blob files and their sizes."""
    folder, found = Path(rt.state_dir) / "blobs", {}
    for where, _, names in os.walk(folder):  # from which some may just be removed
        for path in (Path(where, name) for name in names):
            with suppress(FileNotFoundError):
                found[str(path.relative_to(folder))] = path.stat().st_size
    return found


@pytest.mark.slow
@pytest.mark.parametrize("node_type", ["cpu", "io"])
@pytest.mark.parametrize("size", SIZES)
def test_s26_arrays_of_every_size_as_argument_and_result(rt: Runtime, size: int, node_type: str) -> None:
    array = np.arange(size // 8, dtype=np.float64)
    handle = rt.options(node_type=node_type).submit(handlers.echo, array)
    found = handle.result(timeout=60)
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    del found
    gc.collect()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="private memory is read from /proc")
@pytest.mark.parametrize("node_type", ["cpu", "io"])
def test_s26_a_worker_reads_without_a_copy(rt: Runtime, node_type: str) -> None:
    """64 MiB are looked at, page by page, and the worker's own memory does not grow by a tenth of that."""
    pool = rt.options(node_type=node_type)
    before = pool.submit(handlers.private_bytes).result(timeout=30)
    array = np.arange(64 * MIB // 8, dtype=np.float64)
    seen = pool.submit(handlers.look_at, array).result(timeout=60)
    assert seen["ends"] == [0.0, array.size - 1]
    assert not seen["owns"]
    assert not seen["writeable"]
    assert seen["private"] - before < 6 * MIB


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="private memory is read from /proc")
def test_s26_the_program_writes_once_and_reads_without_a_copy(rt: Runtime) -> None:
    """One file for each value, whoever reads it; neither the program nor the engine holds what is in it."""
    engine = engine_of(rt)
    held = engine.memory_info().rss
    before, known = handlers.private_bytes(), files(rt)
    handle = rt.submit(handlers.make_array, 64 * MIB // 8)
    found = handle.result(timeout=60)
    assert float(found[-1]) == 64 * MIB / 8 - 1
    assert not found.flags.owndata
    assert handlers.private_bytes() - before < 6 * MIB
    flow = Flow("three readers", node_type="cpu")
    made = flow.add(handlers.make_array, 64 * MIB // 8)
    readers = [flow.add(handlers.look_at, made) for _ in range(3)]
    run = rt.run(flow, timeout=60)
    assert [run.result(node)["ends"] for node in readers] == [[0.0, 64 * MIB / 8 - 1]] * 3
    added = {name: size for name, size in files(rt).items() if name not in known}
    assert sorted(added.values()) == [64 * MIB, 64 * MIB]
    assert engine.memory_info().rss - held < 6 * MIB


def engine_of(rt: Runtime) -> psutil.Process:
    """The engine process of this runtime."""
    below = psutil.Process().children(recursive=True)
    return next(process for process in below if process.name() == "ms-engine")


@pytest.mark.slow
def test_s26_bytes_and_text_and_containers_of_large_parts(rt: Runtime) -> None:
    values: list[Any] = [
        b"\0\xff" * MIB,
        "é" * MIB,
        {"a": np.ones(MIB // 8), "b": [b"x" * MIB, {"c": "y" * MIB}]},
        ["word"] * 200_000,
        list(range(200_000)),
        (1, "z" * MIB, None),
    ]
    for value in values:
        found = rt.submit(handlers.echo, value).result(timeout=60)
        assert type(found) is type(value)
        if isinstance(value, dict):
            assert np.array_equal(found["a"], value["a"])
            assert found["b"] == value["b"]
        else:
            assert found == value


@pytest.mark.slow
def test_s26_large_values_through_map_and_flow_and_keywords(rt: Runtime) -> None:
    arrays = [np.full(MIB // 8, number, dtype=np.float64) for number in range(10)]
    assert list(rt.map(handlers.first_of, arrays)) == list(range(10))
    flow = Flow("large")
    nodes = [flow.add(handlers.first_of, array) for array in arrays]
    flow.add(handlers.echo_all, *nodes, id="all")
    run = rt.run(flow, timeout=60)
    assert run.result("all")[0] == tuple(range(10)) or run.result("all")[0] == list(range(10))
    args, kwargs = rt.submit(handlers.echo_all, arrays[3], named=arrays[4]).result(timeout=60)
    assert (args[0][0], kwargs["named"][0]) == (3.0, 4.0)


@pytest.mark.slow
def test_s26_values_beyond_two_gib(rt: Runtime) -> None:
    """The kernel writes at most 2 GiB less a page in one call, and many programs count in 32 bits."""
    count = (2 << 30) + 64 * MIB
    place = Path(rt.state_dir)
    if psutil.virtual_memory().available < 3 * count or psutil.disk_usage(str(place)).free < 3 * count:
        pytest.skip("needs three times 2 GiB of memory and disk")
    array = np.zeros(count // 8)
    array[0], array[-1] = 1.5, 2.5
    handle = rt.submit(handlers.look_at, array)
    seen = handle.result(timeout=120)
    assert (seen["ends"], seen["owns"]) == ([1.5, 2.5], False)
    for name, size in files(rt).items():
        if size > 1 << 30:
            (place / "blobs" / name).unlink()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["argument", "result"])
def test_s26_over_the_limit_is_a_clear_error(rt: Runtime, tmp_path: Path, way: str) -> None:
    """Of a size that nobody has memory for: a hole in a file. Nothing of it is written."""
    count = limits.PAYLOAD_BYTES_MAX + 1
    known = files(rt)
    sparse = str(tmp_path / "sparse")
    if way == "argument":
        with pytest.raises(errors.PayloadTooLarge, match=r"\['big'\].*8,589,934,593 bytes") as caught:
            rt.submit(handlers.nothing, {"big": handlers.make_sparse(sparse, count)})
        assert "['big']" in caught.value.path
    else:
        failed = rt.submit(handlers.make_sparse, sparse, count).exception(timeout=60)
        assert failed is not None
        assert failed.kind == "payload"
        assert "8,589,934,593 bytes" in failed.message
    assert files(rt) == known


@pytest.mark.slow
def test_s26_a_refused_value_leaves_no_file(rt: Runtime) -> None:
    """What was written before the part that is refused is taken back."""
    known = files(rt)
    for bad in (object(), np.array([object()])):
        with pytest.raises(errors.PayloadError):
            rt.submit(handlers.nothing, [np.ones(MIB // 8), bad])
    failed = rt.submit(handlers.large_and_lock, MIB // 8).exception(timeout=30)
    assert failed is not None
    assert failed.kind == "payload"
    assert files(rt) == known


@pytest.mark.slow
def test_s26_freed_after_the_last_user(state_dir: Path) -> None:
    """The files go with their run, when the retention rule lets go of it; who has a value mapped keeps it."""
    with open_runtime(state_dir, retention=Retention(runs=2, nodes=100, archive=0)) as rt:
        first = rt.submit(handlers.make_array, MIB // 8).result(timeout=60)
        assert len(files(rt)) == 1
        for number in range(6):
            rt.submit(handlers.echo, np.full(MIB // 8, number)).result(timeout=60)
        until(lambda: len(files(rt)) <= 6, "the files of the first runs to go")
        assert float(first[-1]) == MIB / 8 - 1
        del first
        gc.collect()


@pytest.mark.slow
def test_s26_the_same_after_a_restart(state_dir: Path) -> None:
    array = np.arange(MIB, dtype=np.float64)
    with open_runtime(state_dir, durability="os") as rt:
        assert rt.submit(handlers.first_of, array, run_id="first").result(timeout=60) == 0.0
        rt.submit(handlers.echo, array, run_id="echo").result(timeout=60)
        kept = files(rt)
    with open_runtime(state_dir, durability="os") as rt:
        assert files(rt) == kept
        found = rt.handle("echo").result()
        assert np.array_equal(found, array)
        del found
        gc.collect()


@pytest.mark.slow
def test_s26_a_missing_or_damaged_file_fails_its_reader_only(state_dir: Path) -> None:
    with open_runtime(state_dir, durability="os") as rt:
        handle = rt.submit(handlers.make_array, MIB // 8, run_id="gone")
        handle.result(timeout=60)
        damaged = rt.submit(handlers.make_array, MIB // 8, run_id="damaged")
        damaged.result(timeout=60)
    blobs = state_dir / "blobs"
    for path in (blobs / "gone").iterdir():
        path.unlink()
    for path in (blobs / "damaged").iterdir():
        with path.open("r+b") as file:
            file.seek(1000)
            file.write(b"!")
    with open_runtime(state_dir, durability="os") as rt:
        for name in ("gone", "damaged"):
            with pytest.raises(errors.PayloadUnreadable):
                rt.handle(name).result()
        assert rt.submit(handlers.echo, 1).result(timeout=30) == 1
