"""What a program asks of its profiler goes where it is needed, and costs nothing where nobody asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime import Profiling
from runtime.config import RuntimeConfig
from runtime.errors import ConfigurationError
from runtime.profile.monitor.bounds import Bounds
from runtime.profile.monitor.burn import Slo, SloMeter

SLO = Slo("orders", SloMeter())


def test_it_is_off_unless_asked_for(tmp_path: Path) -> None:
    config = RuntimeConfig(str(tmp_path))
    assert config.profiling == Profiling()
    assert not config.profiling.watch
    assert "allow_attach" not in config.to_wire()
    asked = RuntimeConfig(str(tmp_path), profiling=Profiling(allow_attach=True))
    assert asked.to_wire()["allow_attach"] is True


def test_objectives_are_kept_as_they_are() -> None:
    assert Profiling(watch=True, slos=SLO).slos == (SLO,)  # type: ignore[arg-type]
    assert Profiling(watch=True, slos=iter([SLO]), bounds=Bounds(), tell=print).slos == (SLO,)


@pytest.mark.parametrize("asked", [{"slos": [SLO]}, {"bounds": Bounds()}, {"tell": print}])
def test_what_would_do_nothing_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="need watch=True"):
        Profiling(**asked)  # type: ignore[arg-type]
