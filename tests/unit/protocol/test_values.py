"""What counts as a number where others set it."""

from __future__ import annotations

import math

import pytest

from actors.protocol.values import FLOAT_MAX, is_number, is_whole


@pytest.mark.parametrize("value", [True, "1", None, math.nan, math.inf, -math.inf, 10**400, 1j, [1]])
def test_neither_truth_nor_what_is_not_finite_is_a_number(value: object) -> None:
    assert not is_number(value)
    assert not is_whole(value, 0, 10)


def test_bounds_belong_to_it_unless_it_must_be_above() -> None:
    assert [is_number(value, 0, 2) for value in (-0.1, 0, 1.5, 2, 2.1)] == [False, True, True, True, False]
    assert [is_number(value, 0, 2, above=True) for value in (0, 0.0, 1e-300)] == [False, False, True]
    assert [is_number(value) for value in (FLOAT_MAX, -FLOAT_MAX)] == [True, True]


def test_a_whole_number_is_no_float() -> None:
    assert [is_whole(value, 1, 3) for value in (0, 1, 3, 4, 2.0)] == [False, True, True, False, False]
