"""`bridge`: what it refuses, each with one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.cli import main
from tests.unit.storage import state_folders


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--to", "kafka://a"], 2, "[MS101] bridge: 'kafka://a' begins with none of nats://"),
        (["--to", "redis://a", "--kind", "node.exploded"], 2, "[MS101] events: kinds: "),
        (["--to", "redis://a", "--since", "yesterday"], 2, "[MS101] events: --since"),
        (["--to", "redis://a", "--since", "99999"], 2, "[MS150]"),
        (["--to", "redis://a", "--as", "a/b"], 2, "[MS101] subscription 'a/b'"),
        ([], 2, "--to"),
        (["--to", "redis://a", "--keep", "0"], 2, "--keep"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    state_folders.make(tmp_path / "state", runs=1)
    assert main(["bridge", str(tmp_path / "state"), *arguments]) == code
    told = capsys.readouterr().err
    assert words in told
    assert "Traceback" not in told
    assert list((tmp_path / "state").glob("subscriptions/*.json")) == []


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bridge", str(tmp_path / "none"), "--to", "redis://a"]) == 3
    assert "[MS201]" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
