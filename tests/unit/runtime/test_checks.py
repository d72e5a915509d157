"""Whatever is set wrong is refused when it is set, with one kind of error, and all that is wrong is named at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from runtime import Batch, Breaker, NodeType, Rate, Retry, RetryBudget, Runtime, Scheduling, Share
from runtime.config import RuntimeConfig
from runtime.errors import ConfigurationError
from runtime.profiling import Profiling
from runtime.registry import TaskOptions, TaskRegistry
from runtime.retention import Retention
from runtime.testing import inline_runtime
from tests.unit.runtime.handlers import add_one

STRANGE: list[Any] = ["x", "", "\ud800", -1, True, [1], {5: 5}, math.nan, -math.inf, 10**40, object(), b"x"]
"""Nothing of this is a number, a name, or a choice among words where there are any."""
NUMBERS: list[Any] = [*STRANGE, math.inf]
FRACTIONS: list[Any] = [value for value in NUMBERS if value != 10**40]
NAMES: list[Any] = [value for value in STRANGE if value != "x"]
BOOLEANS: list[Any] = [value for value in STRANGE if value is not True]
COUNTS: list[Any] = [*NUMBERS, 0, 1.5]

WRONG: dict[Callable[..., Any], dict[str, list[Any]]] = {
    TaskOptions: {
        "node_type": NAMES,
        "timeout": [*NUMBERS, 0],
        "retry": [value for value in [*COUNTS, None] if value is not None],
        "priority": STRANGE,
        "trigger": STRANGE,
        "payloads": STRANGE,
        "name": NAMES,
        "grace": NUMBERS,
        "poison": COUNTS,
        "tenant": [value for value in NAMES if value != ""],
        "concurrency_key": NAMES,
        "rate_key": NAMES,
        "rate_cost": [*NUMBERS, 0],
        "expires": [*NUMBERS, 0],
        "deadline": [*NUMBERS, 0],
        "batch": STRANGE,
    },
    Batch: {"max_size": [*COUNTS, 1_025], "max_wait": NUMBERS},
    Retry: {
        "max_attempts": COUNTS,
        "base": NUMBERS,
        "cap": NUMBERS,
        "factor": [*NUMBERS, 0.5],
        "jitter": [value for value in STRANGE if value is not True],
        "on": ["payload", ["error", "expired"], 5, None, {"a": 1}],
        "lower_class": [value for value in COUNTS if value is not True],
    },
    NodeType: {
        "name": NAMES,
        "workers": [*COUNTS, (3, 2), (1, 2, 3), (1, 1.5), ("a", "b"), (0, 0), 513],
        "mode": STRANGE,
        "concurrency": [value for value in COUNTS if value != 0],
        "prefetch": COUNTS,
        "recycle_tasks": COUNTS,
        "recycle_rss_bytes": COUNTS,
        "grace": NUMBERS,
        "retry_budget": STRANGE,
        "breaker": STRANGE,
        "niceness": [value for value in COUNTS if value != 0] + [20],
        "cooldown": [*NUMBERS, 0],
        "profile_signal": [value for value in STRANGE if value is not True] + [0, 1, None],
    },
    RetryBudget: {"ratio": NUMBERS, "per_s": [*NUMBERS, 0]},
    Breaker: {
        "min_attempts": COUNTS,
        "failure_ratio": [*NUMBERS, 0, 1.1],
        "window": [*NUMBERS, 0],
        "cooldown": [*NUMBERS, 0],
        "cooldown_cap": [*NUMBERS, 0],
        "probes": COUNTS,
    },
    Retention: {
        "runs": COUNTS,
        "nodes": COUNTS,
        "archive": NUMBERS,
        "archive_by": [
            *STRANGE,
            *({"state:failed": stay} for stay in NUMBERS),
            *({scope: 1} for scope in ("failed", "state:", "state:running", "type:", "type:\ud800", "key:a", 5, None)),
        ],
        "archive_bytes": [value for value in COUNTS if value != 0],
    },
    Rate: {"count": [*FRACTIONS, 0], "per": [*FRACTIONS, 0], "burst": COUNTS},
    Scheduling: {
        "quotas": [
            *STRANGE,
            *({"key:a": limit} for limit in COUNTS),
            *({scope: 1} for scope in ("a", "key:", "class:urgent", "rate:api", "type:", "", ":x", 5, None)),
        ],
        "weights": [*STRANGE, *({"acme": weight} for weight in (*NUMBERS, 0)), {5: 1}, {"\ud800": 1}],
        "rates": [
            *STRANGE,
            {"api": 5}, {"": Rate(1)}, {5: Rate(1)}, {"api": Rate(1e9)}, {"api": Rate(1, per=1e12)}, {"api": [1]},
        ],
        "shares": [
            *STRANGE,
            *({"low": Share(least)} for least in (*NUMBERS, 1.1)),
            *({"low": Share(0.0, most)} for most in (*NUMBERS, 0, 1.1)),
            {"urgent": Share(0.1)}, {"low": Share(0.5, 0.2)}, {"low": 0.5},
            {"realtime": Share(0.6), "low": Share(0.5)},
        ],
        "ageing": [*NUMBERS, 1e12],
    },
    RuntimeConfig: {
        "checkpoint_bytes": [value for value in (*COUNTS, 100) if value is not None],
        "log_shards": [*(value for value in (*COUNTS, 65) if value is not None)],
        "node_types": ["cpu", 5, ["cpu"], None, [NodeType("a"), NodeType("a")]],
        "durability": STRANGE,
        "retention": [*STRANGE, None],
        "missing_handler": STRANGE,
        "scheduling": [*STRANGE, None, {}],
        "on_scale": STRANGE,
        "profiling": [*STRANGE, None, {}],
    },
    Profiling: {
        "watch": BOOLEANS,
        "bounds": STRANGE,
        "slos": [*STRANGE, [5]],
        "tell": STRANGE,
        "allow_attach": BOOLEANS,
    },
}  # fmt: skip
FIRST: dict[Callable[..., Any], dict[str, Any]] = {
    NodeType: {"name": "cpu"},
    Rate: {"count": 1},
    RuntimeConfig: {"state_dir": "state"},
}
CASES = [
    pytest.param(made, name, value, id=f"{made.__name__}-{name}-{number}")
    for made, fields in WRONG.items()
    for name, values in fields.items()
    for number, value in enumerate(values)
]


@pytest.mark.parametrize(("made", "name", "value"), CASES)
def test_a_wrong_value_is_refused_by_its_name(made: Callable[..., Any], name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        made(**{**FIRST.get(made, {}), name: value})
    told = str(refused.value).replace("node types", "node_types")
    assert name in told or name == "rates" or (name == "retry" and "max_attempts" in told), told


def test_all_fields_are_tried() -> None:
    for made, fields in WRONG.items():
        known = set(getattr(made, "__slots__", ())) - {"state_dir", "salvage"}
        assert set(fields) == known, made


@pytest.mark.parametrize(
    "made", [made for made in WRONG if made not in (Scheduling, Rate)], ids=lambda made: made.__name__
)
def test_all_that_is_wrong_is_named_at_once(made: Callable[..., Any]) -> None:
    """One wrong value for each field; a number of attempts is refused by Retry, before the others are looked at."""
    fields = {name: values[-1] for name, values in WRONG[made].items() if name != "retry"}
    with pytest.raises(ConfigurationError) as refused:
        made(**{**FIRST.get(made, {}), **fields})
    missing = [name for name in fields if name not in str(refused.value) and name != "node_types"]
    assert not missing, str(refused.value)


def test_all_that_is_wrong_with_who_runs_next_is_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Scheduling(
            quotas={"key:": 1, "tenant:acme": 0, "class:urgent": 1},
            weights={"acme": -1.0, "other": math.nan},
            rates={"": Rate(1)},
            shares={"realtime": Share(-0.1), "high": Share(0.7), "normal": Share(0.4)},
            ageing=-1.0,
        )
    for word in ("'key:'", "tenant:acme", "urgent", "'acme'", "'other'", "rates", "realtime", "110%", "ageing"):
        assert word in str(refused.value)


def test_a_runtime_names_what_is_wrong_with_all_of_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Runtime(
            tmp_path / "state",
            node_types=[NodeType("a"), NodeType("a")],
            durability="always",  # type: ignore[arg-type]
            scheduling=Scheduling(quotas={"type:gpu": 1, "type:tpu": 1}),
        )
    for word in ("different names", "durability", "'gpu'", "'tpu'"):
        assert word in str(refused.value)
    assert not (tmp_path / "state").exists(), "nothing was made"


SUBMITTED: list[dict[str, Any]] = [
    *({"delay": value} for value in NUMBERS),
    *({"expires": value} for value in (*NUMBERS, 0)),
    *({"due": value} for value in (5, "now", datetime(2030, 1, 1))),
    *({"tenant": value} for value in NAMES if value != ""),
    *({"concurrency_key": value} for value in NAMES),
    *({"rate_key": value} for value in NAMES),
    *({"rate_cost": value} for value in (*NUMBERS, 0)),
    *({"idempotency_key": value} for value in NAMES),
]


def test_what_is_wrong_with_a_submission_is_refused_at_once() -> None:
    with inline_runtime(TaskRegistry()) as rt:
        for options in SUBMITTED:
            with pytest.raises(ConfigurationError) as refused:
                rt.submit(add_one, 1, **options)
            assert next(iter(options)) in str(refused.value), options
        assert rt.submit(add_one, 1).result() == 2
