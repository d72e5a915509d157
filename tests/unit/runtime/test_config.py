"""Settings are checked at construction, all problems at once, and travel as plain JSON in nanoseconds."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest

from actors.guards import Guards
from actors.protocol import limits
from runtime.config import (
    Breaker,
    NodeType,
    Priority,
    Retry,
    RetryBudget,
    RuntimeConfig,
    seconds_to_ns,
)
from runtime.errors import ConfigurationError, UnknownNodeType
from runtime.retention import Retention
from runtime.script import main_script


def test_times_become_integer_nanoseconds() -> None:
    assert seconds_to_ns(1.5) == 1_500_000_000
    assert seconds_to_ns(None) is None


def test_node_type_on_the_wire() -> None:
    wire = NodeType("http", workers=(1, 3), mode="asyncio", grace=0.25).to_wire()
    assert wire == {
        "name": "http",
        "workers_min": 1,
        "workers_max": 3,
        "mode": "asyncio",
        "slots": 100,
        "prefetch": None,
        "recycle_tasks": None,
        "recycle_rss_bytes": None,
        "grace_ns": 250_000_000,
        "retry_budget": None,
        "breaker": None,
        "cooldown_ns": 15_000_000_000,
        "niceness": 0,
    }
    assert NodeType("cpu", workers=2).workers_range == (2, 2)
    assert NodeType("cpu", workers=(0, 2)).workers_range == (0, 2)


@pytest.mark.parametrize(
    "settings",
    [
        {"name": ""},
        {"name": "\ud800"},
        {"name": "x" * 1025},
        {"name": 5},
        {"workers": 0},
        {"workers": (3, 2)},
        {"workers": (-1, 2)},
        {"workers": (0, 0)},
        {"cooldown": 0},
        {"cooldown": 86_401},
        {"cooldown": "soon"},
        {"cooldown": float("nan")},
        {"mode": "threads"},
        {"concurrency": -1},
        {"prefetch": 0},
        {"recycle_tasks": 0},
        {"recycle_rss_bytes": 0},
        {"grace": -1},
        {"retry_budget": 5},
        {"breaker": True},
    ],
)
def test_a_bad_node_type_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        NodeType(**{"name": "cpu", **settings})


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Retry(max_attempts=0, base=-1, factor=0.5, on=["payload"])
    for word in ("max_attempts", "base", "factor", "payload"):
        assert word in str(refused.value)


def test_guards_on_the_wire_are_what_the_mechanisms_take() -> None:
    wire = NodeType("http", retry_budget=RetryBudget(ratio=0.5, per_s=2), breaker=Breaker(cooldown=0.5)).to_wire()
    assert wire["retry_budget"] == {"ratio": 0.5, "min_per_s": 2.0}
    assert wire["breaker"]["cooldown_ns"] == 500_000_000
    guard = Guards([wire]).by_type["http"]
    assert guard.breaker is not None
    assert guard.breaker.cooldown_ns == 500_000_000
    assert guard.budget is not None
    assert Guards([NodeType("cpu").to_wire(), {"name": "of an older version"}]).by_type == {}


def test_all_problems_of_guards_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as refused:
        RetryBudget(ratio=-1, per_s=float("nan"))
    for word in ("ratio", "per_s"):
        assert word in str(refused.value)
    with pytest.raises(ConfigurationError) as refused:
        Breaker(min_attempts=0, failure_ratio=0, window=0, cooldown=5, cooldown_cap=4, probes=True)
    for word in ("min_attempts", "failure_ratio", "window", "cooldown_cap", "probes"):
        assert word in str(refused.value)


def test_retry_on_the_wire() -> None:
    assert Retry(max_attempts=2, base=0.5, on="error").to_wire() == {
        "max_attempts": 2,
        "base_ns": 500_000_000,
        "cap_ns": 60_000_000_000,
        "factor": 2.0,
        "jitter": True,
        "on": ["error"],
    }
    assert hash(Retry()) == hash(Retry())


def test_runtime_config_has_a_default_node_type() -> None:
    config = RuntimeConfig("state")
    assert config.state_dir == str(Path("state").absolute())
    assert [n.name for n in config.node_types] == ["default"]
    assert config.node_type_for("default") == "default"


def test_the_first_node_type_stands_in_for_the_default() -> None:
    config = RuntimeConfig("state", [NodeType("cpu"), NodeType("http")])
    assert config.node_type_for("default") == "cpu"
    assert config.node_type_for("http") == "http"
    with pytest.raises(UnknownNodeType, match="'gpu'"):
        config.node_type_for("gpu")


def test_runtime_config_refuses_doubles_and_unknown_words() -> None:
    with pytest.raises(ConfigurationError) as refused:
        RuntimeConfig("s", [NodeType("a"), NodeType("a")], "always", missing_handler="ask")  # type: ignore[arg-type]
    for word in ("different names", "durability", "missing_handler"):
        assert word in str(refused.value)


def test_the_wire_form_is_plain_json() -> None:
    wire = RuntimeConfig("state", durability="os", salvage=True).to_wire()
    assert orjson.loads(orjson.dumps(wire)) == wire
    assert wire["durability"] == "os"
    assert wire["salvage"] is True
    assert wire["face_pid"] == os.getpid()
    assert wire["retention"] == {"runs": limits.RUNS_FINISHED_MAX, "nodes": limits.NODES_FINISHED_MAX}


def test_the_main_script_is_found_by_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("")
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert main_script() is None
    main.__file__ = str(script)
    assert main_script() == str(script)
    main.__file__ = str(tmp_path / "gone.py")
    assert main_script() is None


def test_there_is_an_archive_where_there_are_checkpoints(tmp_path: Path) -> None:
    assert RuntimeConfig(str(tmp_path), checkpoint_bytes=None).to_wire()["archive"] is None
    with_them = RuntimeConfig(str(tmp_path), checkpoint_bytes=8_000_000)
    assert with_them.to_wire()["archive"] == Retention().archive_rule().to_json()
    off = RuntimeConfig(str(tmp_path), checkpoint_bytes=8_000_000, retention=Retention(archive=0))
    assert off.to_wire()["archive"] is None


def test_settings_survive_pickling() -> None:
    for value in (
        NodeType("x", workers=1, retry_budget=RetryBudget(), breaker=Breaker()),
        Retry(),
        Retention(),
        Priority.HIGH,
    ):
        assert pickle.loads(pickle.dumps(value)) == value


async def _later(step: object) -> None:
    """No answer at once."""


@pytest.mark.parametrize("on_scale", [3, "f", _later])
def test_on_scale_must_be_a_function_that_answers_at_once(tmp_path: Path, on_scale: Any) -> None:
    with pytest.raises(ConfigurationError, match="on_scale must be a function, and no coroutine") as refused:
        RuntimeConfig(str(tmp_path), on_scale=on_scale, durability="some")  # type: ignore[arg-type]
    assert "durability" in str(refused.value), "all problems at once"


def test_pools_ask_only_where_there_is_a_function(tmp_path: Path) -> None:
    for on_scale, asks in ((None, False), (print, True)):
        (wire,) = RuntimeConfig(str(tmp_path), on_scale=on_scale).to_wire()["node_types"]
        assert wire["asks_scale"] is asks
