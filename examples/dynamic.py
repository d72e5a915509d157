"""A graph that grows while it runs: the number of nodes is known when they have ended.

    python examples/dynamic.py
    mainspring run examples/dynamic.py --report dynamic.html

`count` looks at one folder of the standard library and adds a node for each folder inside it. Nodes that were added
start when the attempt that added them has succeeded: an attempt that crashes halfway adds nothing, and the next one
does not add them twice.
"""

from __future__ import annotations

import os
import tempfile

from runtime import Flow, Runtime, TaskContext

ROOT = os.path.dirname(os.__file__)
SKIPPED = frozenset({"__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib"})


def count(context: TaskContext, folder: str) -> int:
    """Lines of Python in a folder, without those of the folders in it, which get nodes of their own."""
    lines = 0
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED:
                context.spawn(count, entry.path)
            elif entry.name.endswith(".py"):
                with open(entry.path, "rb") as file:
                    lines += sum(1 for _ in file)
    return lines


def build() -> Flow:
    """One node; the rest follows."""
    flow = Flow("dynamic")
    flow.add(count, ROOT, id="root")
    return flow


def main() -> None:
    """Run it in a state folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder, Runtime(f"{folder}/state") as rt:
        results = rt.run(build()).results()
        print(f"{len(results)} folders, {sum(results.values()):,} lines of Python")


if __name__ == "__main__":
    main()
