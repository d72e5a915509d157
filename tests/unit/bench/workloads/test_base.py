"""What scenarios share: comparing results, describing parameters, default answers."""

from __future__ import annotations

import pytest

from runtime.bench.figures import BenchError
from runtime.bench.workloads.base import check_equal, describe


def test_equal_results_pass() -> None:
    check_equal([1, 2], [1, 2], "map")


@pytest.mark.parametrize(
    ("found", "expected", "text"),
    [
        ([1, 2], [1, 2, 3], "map: 2 results instead of 3"),
        ([1, 5, 3], [1, 2, 3], "map: result 1 is 5 instead of 2"),
        ({"7": 1, "8": 2}, {"7": 1, "8": 3}, "map: result 8 is 2 instead of 3"),
        ({"7": 1}, {"9": 1}, "map: result 9 is None instead of 1"),
        (4, 5, "map: 4 instead of 5"),
    ],
)
def test_a_wrong_result_says_where(found: object, expected: object, text: str) -> None:
    with pytest.raises(BenchError, match=text):
        check_equal(found, expected, "map")


def test_parameters_in_one_line() -> None:
    assert describe({"layers": 1000, "share": 0.5, "graph": "montage"}) == "layers=1,000 share=0.5 graph=montage"
