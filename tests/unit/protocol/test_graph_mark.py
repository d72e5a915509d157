"""A container is never taken for the name of its blob."""

from __future__ import annotations

from actors.protocol.graph import decode, encode
from actors.protocol.graph_builder import GraphBuilder


def test_no_container_starts_with_the_mark_of_a_blob() -> None:
    for size in range(600):
        builder = GraphBuilder()
        builder.add(0)
        container = encode(builder.finish(), {"name": "x" * size, "kinds": []})
        assert container[:1] != b"@"
        assert decode(container)[0]["name"] == "x" * size
