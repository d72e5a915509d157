"""Which dead letters a filter means, and what it says of filters that mean nothing."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.policy.letters import KINDS, LetterFilter, pattern_of, problems
from actors.protocol.errors import ConfigurationError

LETTER = ("shop.mail:send", "send", "error", "acme", 1_000)


@pytest.mark.parametrize(
    ("data", "matches"),
    [
        ({}, True),
        ({"handler": "shop.mail:send"}, True),
        ({"handler": "send"}, True),
        ({"handler": "shop.*"}, True),
        ({"handler": "shop"}, False),
        ({"handler": "s?nd"}, True),
        ({"kind": "error"}, True),
        ({"kind": "timeout"}, False),
        ({"tenant": "acme"}, True),
        ({"tenant": ""}, False),
        ({"since_ns": 1_000}, True),
        ({"since_ns": 1_001}, False),
        ({"handler": "send", "kind": "crash"}, False),
        ({"handler": None, "kind": None, "tenant": None, "since_ns": None, "run": None}, True),
    ],
)
def test_a_letter_is_meant_when_all_parts_fit(data: dict[str, Any], matches: bool) -> None:
    wanted = LetterFilter.of(data)
    handler, name, kind, tenant, at_ns = LETTER
    assert (wanted.matches_task(handler, name, tenant) and wanted.matches_failure(kind, at_ns)) is matches


def test_all_that_is_wrong_is_said_at_once() -> None:
    data = {"handler": "", "kind": "cancelled", "tenant": "\ud800", "since_ns": -1, "run": 7, "age": 3}
    found = problems(data)
    assert len(found) == 6
    with pytest.raises(ConfigurationError) as refused:
        LetterFilter.of(data)
    assert all(text in refused.value.message for text in found)


def test_what_was_cancelled_or_skipped_is_no_letter() -> None:
    assert not {"cancelled", "skipped"} & {*KINDS}
    assert {"error", "timeout", "crash", "expired"} <= {*KINDS}


@settings(max_examples=50)
@given(st.text("ab*?.\n:", max_size=8), st.text("ab.\n:", max_size=8))
def test_patterns_mean_what_those_of_the_shell_mean(glob: str, text: str) -> None:
    assert bool(re.compile(pattern_of(glob), re.DOTALL).fullmatch(text)) is fnmatchcase(text, glob)
