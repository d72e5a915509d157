"""What an engine is told that follows another one of the same program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runtime.host.starter import ProcessStarter


class Launched:
    """Notes the settings of the engines that it would start."""

    def __init__(self) -> None:
        self.configs: list[dict[str, Any]] = []

    def fileno(self) -> int:
        return 0

    def stop(self) -> None:
        """Nothing was started."""

    def start_engine(self, config: dict[str, Any], fds: list[int]) -> None:
        self.configs.append(config)


def test_only_the_first_engine_of_a_program_removes_files_that_no_run_names() -> None:
    """Later the program has files on their way whose frames no engine has seen."""
    starter, launched = ProcessStarter({"state_dir": "s"}), Launched()
    starter._launcher = launched  # type: ignore[assignment]
    for _ in range(3):
        starter.start().close()
    assert [config["sweeps"] for config in launched.configs] == [True, False, False]
    starter.stop()


def test_who_opens_a_folder_removes_what_a_dead_one_asked(tmp_path: Path) -> None:
    left = tmp_path / "profile" / "ask-1-1-1f"
    left.mkdir(parents=True)
    starter = ProcessStarter({"state_dir": str(tmp_path)})
    starter._launcher = Launched()  # type: ignore[assignment]
    starter._make_page()
    starter.stop()
    assert not left.exists()
