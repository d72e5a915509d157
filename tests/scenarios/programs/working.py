"""A host program that submits tasks one after the other, until it is killed or told to end.

Arguments: state folder, how many tasks at a time, how many times; 0: until its standard input ends. Prints the number
of tasks that ended so far, after each time.
"""

from __future__ import annotations

import select
import sys

from runtime import NodeType, Runtime


def main() -> None:
    """See the head of the file."""
    size, times = int(sys.argv[2]), int(sys.argv[3])
    with Runtime(sys.argv[1], node_types=[NodeType("default", workers=1)]) as rt:
        done = 0
        while not times or done < times * size:
            handles = [rt.submit(abs, -number) for number in range(size)]
            for handle in handles:
                handle.result(timeout=60)
            done += size
            print(done, flush=True)
            if not times and select.select([sys.stdin], [], [], 0)[0]:
                break


if __name__ == "__main__":
    main()
