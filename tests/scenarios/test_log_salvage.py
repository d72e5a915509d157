"""Salvage of a folder that has lived: log cut behind a checkpoint, archive, large values, schedules and policy."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from runtime import Runtime
from runtime.storage.contents import check_contents
from runtime.storage.rescue import rescue
from runtime.storage.verify import verify
from runtime.storage.verify_archive import verify_archive
from tests.scenarios import handlers_payloads
from tests.scenarios.test_log_archive import a_flow, check_run, opened, until_archived, work
from tests.scenarios.waiting import until

pytestmark = pytest.mark.slow

LARGE = 1 << 17


def is_cut(state_dir: Path) -> bool:
    return not any(path.name == "00000001.seg" for path in state_dir.glob("log/**/*.seg"))


def live(state_dir: Path, *, shards: int) -> None:
    """With something in each place: archive, checkpoint, log."""
    with opened(state_dir, log_shards=shards) as rt:
        rt.schedule("nightly", math.sqrt, 9.0, cron="30 2 * * *", zone="Europe/Berlin")
        rt.pause("tenant:acme", by="ann", reason="audit")
        rt.set_quota("tenant:beta", 3)
        rt.submit(math.sqrt, 4.0, tenant="acme", run_id="open")
        rt.submit(a_flow(), run_id="mine").wait(30)
        rt.submit(handlers_payloads.make_array, LARGE, run_id="large").result(timeout=60)
        until_archived(rt, "mine", "large")
        until(lambda: work(rt) or is_cut(state_dir), "a log that is cut", 60)
    with opened(state_dir, checkpoint_bytes=1 << 26, log_shards=shards) as rt:
        rt.submit(handlers_payloads.make_array, LARGE, run_id="leaving").result(timeout=60)
        rt.set_quota("tenant:gamma", 4)
        for number in range(5):
            rt.submit(math.sqrt, float(number)).result(timeout=30)
        rt.submit(a_flow(), run_id="last").wait(30)


def check_policy(rt: Runtime, *tenants: str) -> None:
    (schedule,) = rt.schedules()
    assert (schedule.name, schedule.zone) == ("nightly", "Europe/Berlin")
    said = str(rt.scheduling())
    for tenant in tenants:
        assert f"tenant:{tenant}" in said
    assert not rt.handle("open").done()
    rt.resume("tenant:acme")
    assert rt.handle("open").result(timeout=30) == 2.0


@pytest.mark.parametrize("shards", [1, 2])
def test_all_that_checkpoint_log_and_archive_have_is_kept(state_dir: Path, tmp_path: Path, shards: int) -> None:
    new = tmp_path / "new"
    live(state_dir, shards=shards)
    done = subprocess.run(
        [sys.executable, "-m", "runtime", "verify", str(state_dir), "--salvage", str(new)],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"archived run" in done.stdout
    assert verify(new).sound
    assert check_contents(new).problems == ()
    assert verify_archive(new).problems == ()
    with opened(new) as rt:
        check_policy(rt, "acme", "beta", "gamma")
        check_run(rt, "mine")
        check_run(rt, "last")
        for name in ("large", "leaving"):
            assert float(rt.handle(name).result()[-1]) == LARGE - 1
        until_archived(rt, "leaving", "last")
        assert float(rt.handle("leaving").result()[-1]) == LARGE - 1
    assert verify(new).sound
    assert verify_archive(new).problems == ()


def test_the_same_where_a_part_of_the_log_is_lost(state_dir: Path, tmp_path: Path) -> None:
    live(state_dir, shards=1)
    file = max((state_dir / "log").glob("*.seg"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    report = rescue(state_dir, tmp_path / "new")
    assert report.archived > 0
    with opened(tmp_path / "new") as rt:
        check_policy(rt, "acme", "beta")
        check_run(rt, "mine")
        assert float(rt.handle("large").result()[-1]) == LARGE - 1
