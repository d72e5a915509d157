"""Addresses: what they lead to, and what is refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from actors.protocol.errors import ConfigurationError
from runtime.bridges.target import target_of
from runtime.bridges.wire import BridgeSource


@pytest.mark.parametrize(
    ("address", "service", "name"),
    [
        ("nats://a", "nats", "nats-mainspring"),
        ("tls://me:secret@a:4222", "nats", "nats-mainspring"),
        ("redis://:secret@a:6379/3", "redis", "redis-mainspring"),
        ("rediss://a", "redis", "redis-mainspring"),
        ("unix:///run/redis.sock", "redis", "redis-mainspring"),
    ],
)
def test_addresses(address: str, service: str, name: str) -> None:
    found = target_of(address)
    assert (found.service, found.name, found.stream, found.subject) == (service, name, "mainspring", "mainspring")
    assert "secret" not in found.shown()


def test_servers_of_a_cluster_take_turns() -> None:
    found = target_of("nats://a:1, nats://b:2", "jobs", "shop.jobs")
    assert [found.shown(turn) for turn in range(3)] == ["nats://a:1", "nats://b:2", "nats://a:1"]
    assert (found.stream, found.subject, found.name) == ("jobs", "shop.jobs", "nats-jobs")


def test_the_name_of_a_bridge_can_be_a_name_of_a_file() -> None:
    assert target_of("redis://a", "shop:{1} events/ü").name == "redis-shop-1-events-"
    assert len(target_of("redis://a", "x" * 900).name) == 100


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"to": "kafka://a"}, "begins with none of nats://"),
        ({"to": "nats"}, "begins with none of"),
        ({"to": ""}, "no address"),
        ({"to": "nats://"}, "names no server"),
        ({"to": "unix://"}, "names no server"),
        ({"to": "nats://a:port"}, "is no address"),
        ({"to": "redis://a,redis://b"}, "name one server"),
        ({"to": "redis://a,nats://b"}, "of one kind"),
        ({"to": "nats://a", "stream": "a.b"}, "a stream of NATS"),
        ({"to": "nats://a", "subject": "a..b"}, "a subject is words"),
        ({"to": "nats://a", "subject": "a.>"}, "a subject is words"),
        ({"to": "redis://a", "stream": ""}, "a stream has a name"),
        ({"to": "redis://a", "subject": "a"}, "subjects are for NATS"),
        ({"to": "redis://a", "credentials": "a"}, "credentials are for NATS"),
        ({"to": "redis://a", "keep": 0}, "keep must be"),
        ({"to": "kafka://me:secret@a", "stream": 7, "keep": True}, r"begins with none of .*; a stream .*; keep"),
    ],
)
def test_what_cannot_be_is_refused_with_all_reasons(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as raised:
        target_of(**options)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("service", ["nats", "redis"])
def test_a_client_library_that_is_missing_is_named(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, service, None)
    monkeypatch.delitem(sys.modules, f"runtime.bridges.{service}", raising=False)
    with pytest.raises(
        ConfigurationError, match=rf"needs the package {service}.*pip install 'mainspring\[{service}\]'"
    ):
        target_of(f"{service}://a").outlet(BridgeSource("f", "b"), 0)
