"""A graph from `Flow.add` to the columns that the scheduler reads."""

from __future__ import annotations

from collections.abc import Iterator

from actors.protocol.graph import GraphColumns, decode, encode, ended
from actors.protocol.graph_builder import GraphBuilder
from bench.micro.timing import Operation
from runtime import Flow
from runtime.bench.handlers import increment
from runtime.bench.session import flow_of
from runtime.bench.workloads.graphs import layered

LAYERS = 100
WIDTH = 100
NODES = LAYERS * WIDTH


def operations() -> Iterator[Operation]:
    """Building, encoding and decoding of layers with three parents a node; a flow as users build it."""
    graph = layered(LAYERS, WIDTH, 3)

    def build() -> GraphBuilder:
        builder = GraphBuilder()
        for parents in graph.parents:
            builder.add(0, parents)
        return builder

    def items() -> Flow:
        flow = Flow("items")
        for value in range(NODES):
            flow.add(increment, value)
        return flow

    columns: GraphColumns = build().finish()
    data = encode(columns, {"name": "micro"})
    yield Operation("GraphBuilder.add, 3 parents, per node", build, NODES)
    yield Operation("GraphBuilder.add and finish, per node", lambda: build().finish(), NODES)
    yield Operation("Flow.add of parents, per node", lambda: flow_of(graph, "micro"), NODES)
    yield Operation("Flow.add of one argument, per node", items, NODES)
    yield Operation("encode, per node", lambda: encode(columns, {"name": "micro"}), NODES)
    yield Operation("decode, per node", lambda: decode(data), NODES)
    yield Operation("beginning, per node", lambda: ended(columns.begin()), NODES)
