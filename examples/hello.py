"""The smallest flow: three greetings side by side, then one line made of them.

    python examples/hello.py
    mainspring run examples/hello.py --report hello.html

Functions are ordinary functions of this file. Passing a node as an argument makes an edge: its result is what the
function gets.
"""

from __future__ import annotations

import tempfile

from runtime import Flow, Runtime


def greet(name: str) -> str:
    """Greet one."""
    return f"Hello, {name}!"


def join(greetings: list[str]) -> str:
    """Put the greetings on one line."""
    return " ".join(greetings)


def build() -> Flow:
    """The graph: three nodes, and one after them."""
    flow = Flow("hello")
    greetings = [flow.add(greet, name, id=f"greet {name}") for name in ("Ada", "Grace", "Barbara")]
    flow.add(join, greetings, id="join")
    return flow


def main() -> None:
    """Run it in a state folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder, Runtime(f"{folder}/state") as rt:
        print(rt.run(build()).result())


if __name__ == "__main__":
    main()
