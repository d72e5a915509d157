"""`python -m bench.micro [PART...]`: print what the operations of each part cost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from bench.micro import board, codec, graph, mail, primitives, queues
from bench.micro.timing import Operation, table

PARTS: Final[Mapping[str, Callable[[], Iterator[Operation]]]] = {
    "primitives": primitives.operations,
    "codec": codec.operations,
    "mail": mail.operations,
    "graph": graph.operations,
    "queues": queues.operations,
    "board": board.operations,
}


def main(names: list[str]) -> int:
    """Measure the named parts, or all; returns the exit code."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"unknown part {unknown[0]!r}; known: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for name in names or PARTS:
        for line in table(name, PARTS[name]()):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
