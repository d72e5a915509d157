"""Which runs an engine without an archive leaves for one that has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors import owed
from runtime.host import owed_files as module
from runtime.host.blob_reclaimer import Reclaimable
from runtime.mail.blobs import BlobStore
from runtime.storage.folder import ARCHIVE_NAME, StateFolder
from tests.unit.storage.states import busy_log, fold


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[StateFolder]:
    with StateFolder.open(tmp_path) as opened:
        yield opened


def below(folder: StateFolder, opened: dict[str, Any], *, archives: bool = False, checkpoints: bool = False) -> int:
    replay = fold(busy_log(8))
    replay.opened = opened
    return module.owed_below(folder, replay, archives=archives, checkpoints=checkpoints)


def test_with_an_archive_all_are(folder: StateFolder) -> None:
    assert below(folder, {}, archives=True, checkpoints=True) == owed.ALL_RUNS


def test_behind_one_those_that_it_knew(folder: StateFolder) -> None:
    once = below(folder, owed.said(True, owed.ALL_RUNS))
    assert once == 9
    assert below(folder, owed.said(False, 4)) == 4
    assert below(folder, owed.said(False, 0)) == 0


def test_with_checkpoints_and_no_archive_none_are(folder: StateFolder) -> None:
    assert below(folder, owed.said(True, owed.ALL_RUNS), checkpoints=True) == 0


def test_an_older_log_does_not_say_but_its_archive_does(folder: StateFolder) -> None:
    assert below(folder, {"pid": 3}) == 0
    Path(folder.path, ARCHIVE_NAME).touch()
    assert below(folder, {"pid": 3}) == 9


def test_names_are_of_runs_that_have_files(folder: StateFolder) -> None:
    store = BlobStore(folder.blobs_path, fsync=False)
    for name in ("s-2", "s-5", "s-7"):
        store.write(name, "bytes", [b"x"])
    assert module.names_owed(fold(busy_log(8)), store, 7) == {"s-2", "s-5"}


def test_runs_without_files_are_owed_too() -> None:
    assert module.knows_owed(fold(busy_log(8)), 2)
    assert not module.knows_owed(fold(busy_log(8)), 1)


def test_what_was_let_go_of_is_owed_by_its_number() -> None:
    some = [Reclaimable(number, f"s-{number}", 0, number) for number in range(1, 6)]
    assert module.still_owed(some, 3) == some[:2]
