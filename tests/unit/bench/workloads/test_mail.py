"""The mail scenario in its smallest size, both sides; messages have about the size that is claimed."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from runtime.bench.figures import BenchError
from runtime.bench.workloads import mail
from runtime.bench.workloads.base import Setup

SETUP = Setup(tasks=300, workers=1, durability=None, folder=Path(), smoke=True)


def test_messages_have_about_150_bytes() -> None:
    assert 140 <= len(orjson.dumps(mail.envelope(12_345))) <= 165


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("side", ["run", "run_baseline"])
def test_both_sides_carry_all_messages(side: str) -> None:
    sample = getattr(mail.MailScenario(), side)(SETUP)
    assert sample.tasks == 300
    assert sample.p50_ns > 0
    assert set(sample.cpu_ns) == {"face", "workers"}


def test_the_other_process_echoes_then_counts() -> None:
    sent: list[mail.Message] = []
    arriving = [{"serial": 5}, {"expect": 2}, {"serial": 0}, {"serial": 1}, None]
    mail._serve(sent.append, lambda: [arriving.pop(0)])
    assert sent == [{"serial": 5}, {"expect": 2}, {"received": 2}]


def test_a_message_out_of_order_is_an_error() -> None:
    with pytest.raises(BenchError, match="message 1 arrived in place of 0"):
        mail._serve(lambda message: None, lambda: [{"expect": 2}, {"serial": 1}])
