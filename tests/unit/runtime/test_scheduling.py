"""Who runs next, as a program sets and changes it: checked all at once, kept over restarts, the same for asyncio."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.protocol import limits
from actors.protocol.kinds import Kind
from runtime import AsyncRuntime, Flow, NodeType, Rate, Retry, Runtime, Scheduling, SchedulingStatus, Share, scheduling
from runtime.config import RuntimeConfig
from runtime.errors import ConfigurationError, MainspringError
from runtime.scheduling import asker
from runtime.testing import InlineStarter, inline_runtime
from tests.unit.runtime import handlers
from tests.unit.runtime.handlers import add_one

FULL = Scheduling(
    quotas={"key:printer": 1, "type:cpu": 4},
    weights={"acme": 2},
    rates={"api": Rate(10, per=2.0, burst=5)},
    shares={"realtime": Share(0.2), "low": Share(most=0.5)},
    ageing=1.5,
)


def test_on_the_wire_it_is_plain_json_in_nanoseconds() -> None:
    wire = FULL.to_wire()
    assert wire == {
        "quotas": {"key:printer": 1, "type:cpu": 4},
        "weights": {"acme": 2},
        "rates": {"api": [5.0, 5]},
        "shares": {"realtime": [0.2, 1.0], "low": [0.0, 0.5]},
        "ageing_ns": 1_500_000_000,
    }
    assert orjson.loads(orjson.dumps(wire)) == wire
    assert RuntimeConfig("state", [NodeType("cpu")], scheduling=FULL).to_wire()["policy"] == wire


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Scheduling(
            quotas={"printer": 1, "key:a": 0},
            weights={"acme": -1},
            rates={"": Rate(1)},
            shares={"realtime": Share(0.9), "urgent": Share(0.2), "low": Share(0.2)},
            ageing=float("nan"),
        )
    for word in ("'printer'", "'key:a'", "'acme'", "rate key", "urgent", "110%", "ageing"):
        assert word in str(refused.value)


@pytest.mark.parametrize("rate", [{"count": 0}, {"count": 1, "per": 0}, {"count": float("inf")}, {"count": "many"}])
def test_a_rate_is_above_nothing(rate: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="must be a number above 0"):
        Rate(**rate)


@pytest.mark.parametrize("wrong", [{"rates": {"api": 5}}, {"shares": {"low": 0.5}}, {"weights": [1]}])
def test_what_is_of_another_type_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Scheduling(**wrong)


def test_a_quota_of_a_node_type_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no node type 'cpu'; there are 'default'"):
        RuntimeConfig("state", scheduling=FULL)


def test_what_stands_is_what_was_set_and_changed() -> None:
    with inline_runtime(node_types=(NodeType("cpu"),), scheduling=FULL) as rt:
        stands = rt.scheduling()
        assert stands == SchedulingStatus(
            quotas={"key:printer": 1, "type:cpu": 4},
            weights={"acme": 2.0},
            rates={"api": Rate(5.0, burst=5)},
            shares={"realtime": Share(0.2), "low": Share(0.0, 0.5)},
            ageing=1.5,
            paused=(),
            waiting={"realtime": 0, "high": 0, "normal": 0, "low": 0},
        )
        rt.set_quota("key:printer", 3)
        rt.set_quota("type:cpu", None)
        rt.set_weight("", 0.5)
        rt.set_rate("api", None)
        rt.set_rate("mail", Rate(60, per=60.0, burst=10))
        rt.set_share("low", Share(most=0.4))
        rt.set_share("realtime", None)
        assert rt.pause("tenant:acme", "rate:mail").paused == ("rate:mail", "tenant:acme")
        assert rt.resume("tenant:acme", "tenant:never").paused == ("rate:mail",)
        now = rt.scheduling()
        assert now.quotas == {"key:printer": 3}
        assert now.weights == {"acme": 2.0, "": 0.5}
        assert now.rates == {"mail": Rate(1.0, burst=10)}
        assert now.shares == {"low": Share(0.0, 0.4)}


def test_a_fifth_is_kept_for_realtime_unless_shares_are_given() -> None:
    with inline_runtime() as rt:
        assert rt.scheduling().shares == {"realtime": Share(0.2)}
        assert rt.set_share("high", Share(0.8)).shares == {"realtime": Share(0.2), "high": Share(0.8)}
    assert Scheduling(shares={}).to_wire()["shares"] == {}


def test_a_wrong_change_changes_nothing() -> None:
    with inline_runtime() as rt:
        before = rt.scheduling()
        with pytest.raises(ConfigurationError, match="no node type 'gpu'"):
            rt.pause("type:gpu")
        for wrong in (
            lambda: rt.set_quota("key:printer", 0),
            lambda: rt.set_quota("printer", 1),
            lambda: rt.set_weight("acme", 0),
            lambda: rt.set_weight("tenant:acme", 2),
            lambda: rt.set_rate("rate:api", Rate(1)),
            lambda: rt.set_share("low", Share(0.9)),
            lambda: rt.set_share("urgent", Share(0.1)),
            lambda: rt.set_rate("api", 10),  # type: ignore[arg-type]
            lambda: rt.resume("x"),
        ):
            with pytest.raises(ConfigurationError):
                wrong()
        assert rt.scheduling() == before


def test_the_asyncio_face_has_the_same(state_dir: Path) -> None:
    async def program() -> None:
        starter = InlineStarter(state_dir, ["default"])
        async with AsyncRuntime(state_dir, durability="none", starter=starter) as rt:
            await rt.set_quota("key:printer", 3)
            await rt.set_weight("acme", 2)
            await rt.set_rate("api", Rate(10))
            await rt.set_share("low", Share(most=0.5))
            await rt.pause("tenant:acme", "class:low")
            stands = await rt.resume("class:low")
            assert stands == await rt.scheduling()
            assert (stands.quotas, stands.weights) == ({"key:printer": 3}, {"acme": 2.0})
            assert stands.shares == {"low": Share(most=0.5)}
            assert (stands.rates, stands.paused) == ({"api": Rate(10.0)}, ("tenant:acme",))
            with pytest.raises(ConfigurationError):
                await rt.pause("printer")

    asyncio.run(program())


def kinds_of(rt: Runtime, run_id: str) -> list[Kind]:
    """What the engine knows of the tasks of a run."""
    engine = rt._client._starter._engine  # type: ignore[attr-defined]
    return [kind for run in engine._scheduler.book.finished.values() if run.key == run_id for kind in run.kinds]


def test_options_reach_the_engine_from_everywhere() -> None:
    tasks = handlers.tasks
    with inline_runtime(tasks) as rt:
        flow = Flow("f", tenant="acme", rate_key="api")
        flow.add(handlers.plain_task, 1)
        flow.add(handlers.plain_task.options(tenant="own", rate_cost=2), 2)
        runs = [
            rt.submit(add_one, 1, tenant="acme", concurrency_key="printer", rate_key="api", rate_cost=2),
            rt.options(tenant="acme").submit(add_one, 1),
            rt.submit(add_one, 1),
            rt.run(flow),
        ]
        for run in runs[:-1]:
            assert run.result() == 2  # type: ignore[union-attr]
        found = [
            [(k.tenant, k.concurrency_key, k.rate_key, k.rate_cost) for k in kinds_of(rt, run.run_id)] for run in runs
        ]
    assert found == [
        [("acme", "printer", "api", 2.0)],
        [("acme", None, None, 1.0)],
        [("", None, None, 1.0)],
        [("acme", None, "api", 1.0), ("own", None, "api", 2.0)],
    ]


def takes_tenant(tenant: str) -> str:
    """A handler with a parameter of that name."""
    return tenant


def test_a_handlers_own_parameter_of_that_name_is_its_own() -> None:
    with inline_runtime() as rt:
        task = rt.submit(takes_tenant, tenant="mine")
        assert task.result() == "mine"
        assert [kind.tenant for kind in kinds_of(rt, task.run_id)] == [""]


@pytest.mark.slow
def test_a_change_survives_the_engine_and_the_program(state_dir: Path) -> None:
    options: dict[str, Any] = {"node_types": [NodeType("default", workers=1)], "durability": "os"}
    with Runtime(state_dir, scheduling=Scheduling(quotas={"key:a": 1, "key:b": 1}), **options) as rt:
        rt.set_quota("key:a", 7)
        rt.set_quota("key:b", 7)
        rt.pause("tenant:acme")
        assert rt.submit(add_one, 1).result() == 2
    with Runtime(state_dir, scheduling=Scheduling(quotas={"key:a": 1, "key:b": 2}), **options) as rt:
        stands = rt.scheduling()
    assert stands.quotas == {"key:a": 7, "key:b": 2}
    assert stands.paused == ("tenant:acme",)


def test_who_pauses_is_noted_and_told(rt: Runtime) -> None:
    stands = rt.pause("tenant:acme", by="ann", reason="fire")
    assert stands.pauses["tenant:acme"][:2] == ("ann", "fire")
    assert rt.pause("tenant:b").pauses["tenant:b"].by == asker()
    assert rt.drain("tenant:c", by="bob", reason="update").pauses["tenant:c"][:2] == ("bob", "update")
    assert rt.resume("tenant:acme", "tenant:b", "tenant:c").pauses == {}
    assert rt.pause() == rt.scheduling(), "nothing is paused, so nobody is noted"
    with pytest.raises(ConfigurationError, match="by must be"):
        rt.pause("tenant:acme", by="")


def test_who_asks_is_the_user_and_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling.getpass, "getuser", lambda: "ann")
    pid = f"pid {os.getpid()}"
    for argv, name in (
        (["/shop/nightly.py"], "nightly"),
        (["/opt/runtime/__main__.py", "x"], "runtime"),
        (["mainspring"], "mainspring"),
        ([""], pid),
        (["-c"], pid),
        ([], pid),
    ):
        monkeypatch.setattr(sys, "argv", argv)
        assert asker() == f"ann@{name}"
    monkeypatch.setattr(sys, "argv", ["x" * 5000 + "\udcff"])
    assert len(asker().encode()) <= limits.NAME_BYTES_MAX

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(scheduling.getpass, "getuser", nobody)
    assert asker().startswith(f"{os.getuid()}@")


ODD = [[], {}, object(), b"x", math.nan, math.inf, -1, 1e308, 10**30, "\ud800", "x" * 2000, True]


def test_whatever_comes_is_refused_in_words() -> None:
    """Where it is set, changed and used; nothing of it may end as another exception, or get through to the engine."""
    with inline_runtime() as rt:
        before = rt.scheduling()
        task = rt.submit(add_one, 1, delay=1000)
        for value in ODD:
            calls: list[Callable[[], Any]] = [
                lambda v=value: Scheduling(ageing=v),
                lambda v=value: Rate(v, per=v) and Scheduling(rates={"api": Rate(1, burst=v)}),
                lambda v=value: rt.set_quota(v, 1),
                lambda v=value: rt.set_weight(v, 1),
                lambda v=value: rt.set_rate(v, Rate(1)),
                lambda v=value: rt.set_priority(task, v),
                lambda v=value: rt.set_priority(v, "low"),
                *(
                    lambda v=value, n=name: rt.submit(add_one, 1, **{n: v})
                    for name in ("tenant", "concurrency_key", "rate_key", "priority", "timeout")
                    if not (name == "timeout" and type(value) is int)
                ),
                lambda v=value: Retry(base=v) and Retry(cap=v),
            ]
            for call in calls:
                with pytest.raises(MainspringError):
                    call()
        assert rt.scheduling() == before
