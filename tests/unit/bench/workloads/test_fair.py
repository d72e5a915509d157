"""What is computed from the order in which tenants' tasks ran."""

from __future__ import annotations

import pytest

from runtime.bench.workloads import fair


def test_backlogs_follow_weights_and_one_floods() -> None:
    assert fair.backlogs(70, [1, 2, 4]) == [40, 20, 40]


def test_everybody_submits_something() -> None:
    assert min(fair.backlogs(3, [1] * 10)) == 1


def test_the_look_ends_when_the_first_has_nothing_left() -> None:
    assert fair.served_until_one_is_out([0, 1, 0, 1, 1, 0, 0], [9, 3]) == [2, 3]


def test_shares_by_weight_have_no_error() -> None:
    assert fair.share_error([10, 20, 40], [1, 2, 4]) == pytest.approx(0)


def test_the_largest_deviation_counts() -> None:
    assert fair.share_error([15, 15, 40], [1, 2, 4]) == pytest.approx(0.5)


def test_first_in_first_out_shows_as_an_error() -> None:
    assert fair.share_error(fair.served_until_one_is_out([0] * 80 + [1] * 20, [80, 20]), [1, 1]) == pytest.approx(1)


def test_jain_index_is_one_for_equals_and_one_over_n_for_one_that_has_all() -> None:
    assert fair.jain_index([7, 7, 7, 7]) == pytest.approx(1)
    assert fair.jain_index([7, 0, 0, 0]) == pytest.approx(0.25)
