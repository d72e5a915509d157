"""A host program that never has nothing to do: short tasks, coroutines, and results that are large.

Argument: state folder. Says `busy` once all kinds of workers have answered, and goes on until it is ended.
"""

from __future__ import annotations

import itertools
import sys

from runtime import NodeType, Runtime
from tests.scenarios import handlers_hygiene as hygiene

LARGE = 1 << 20


def main() -> None:
    """See the head of the file."""
    pools = [NodeType("cpu", workers=2), NodeType("io", workers=1, mode="asyncio")]
    with Runtime(sys.argv[1], node_types=pools, durability="os") as rt:
        rt.options(node_type="io").submit(hygiene.same_async, 1).result(timeout=60)
        for number in itertools.count():
            large = [rt.submit_nowait(hygiene.large_result, LARGE) for _ in range(4)]
            assert sum(rt.map(hygiene.same, [1] * 200)) == 200
            coroutines = [rt.options(node_type="io").submit_nowait(hygiene.same_async, number) for _ in range(20)]
            assert all(handle.result(timeout=60) == number for handle in coroutines)
            assert all(len(handle.result(timeout=60)) == LARGE for handle in large)
            if not number:
                print("busy", flush=True)


if __name__ == "__main__":
    main()
