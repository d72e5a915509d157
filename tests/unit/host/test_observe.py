"""What is seen of the machine, and how often."""

from __future__ import annotations

from actors.protocol import limits
from runtime.host.observe import MachineLook


def test_the_machine_is_looked_at_once_a_second_at_most() -> None:
    looker = MachineLook()
    (first,) = looker.look(5)
    assert first.cpu_busy is None, "there is nothing to compare with"
    assert 0 < first.memory_free < 1
    assert first.cores >= 1
    assert looker.look(4 + limits.MACHINE_LOOK_NS) == []
    (second,) = looker.look(5 + limits.MACHINE_LOOK_NS)
    assert second.cpu_busy is not None
    assert 0 <= second.cpu_busy <= 1
    (late,) = looker.look(6 + limits.MACHINE_LOOK_NS + limits.MACHINE_STALE_NS)
    assert late.cpu_busy is None
