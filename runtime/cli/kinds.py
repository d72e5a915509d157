"""What a flow needs of a runtime: the node types that its tasks name, and an identity of its definition."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from runtime.config import DEFAULT_NODE_TYPE, NodeType
from runtime.flow import Flow
from runtime.host.handlers import resolve
from runtime.items import NoBlobs
from runtime.mail.codec import Codec

NAME_CHARS_MAX: Final = 60
"""Of a flow's name in a run id, which may not be much longer (it names a folder)."""


class FlowFacts:
    """What can be read off a flow.

    Attributes:
        kinds: Its task kinds, see `actors.protocol.kinds`.
        digest: Equal for equal definitions. Of a flow with large values only its size and kinds count.
    """

    def __init__(self, flow: Flow) -> None:
        self.kinds: list[dict[str, Any]] = list(flow._kinds)
        if flow.has_large_values:  # to read them all would write them to files
            data = orjson.dumps([len(flow), self.kinds])
        else:
            data = flow.container(Codec(NoBlobs()), "", str)
        self.digest = hashlib.blake2b(data, digest_size=5).hexdigest()
        self._name = flow.name

    def run_id(self, number: int) -> str:
        """Name of the n-th run of this definition in a state folder."""
        name = re.sub(r"[^\w.-]+", "-", self._name, flags=re.ASCII).strip("-.")[:NAME_CHARS_MAX] or "flow"
        return f"{name}-{self.digest}-{number}"

    def pools(self, node_types: Sequence[NodeType]) -> Mapping[str, str]:
        """Node type by name of the task."""
        names = {node_type.name for node_type in node_types}
        first = node_types[0].name if node_types else DEFAULT_NODE_TYPE
        return {k["name"]: k["node_type"] if k["node_type"] in names else first for k in self.kinds}

    def default_node_types(self) -> list[NodeType]:
        """A pool for each node type that the tasks name: asyncio where all its handlers are async, else processes."""
        handlers: dict[str, list[str]] = {}
        for kind in self.kinds:
            handlers.setdefault(kind["node_type"], []).append(kind["handler"])
        cores = os.cpu_count() or 1
        return [
            NodeType(name, workers=1, mode="asyncio")
            if all(map(_is_async, names))
            else NodeType(name, workers=(1, cores))
            for name, names in handlers.items()
        ] or [NodeType(DEFAULT_NODE_TYPE)]


def with_workers(node_types: Sequence[NodeType], workers: int | None) -> list[NodeType]:
    """The node types with another number of workers in those that are processes."""
    return [replace(n, workers=workers) if workers and n.mode == "process" else n for n in node_types]


def _is_async(handler: str) -> bool:
    return inspect.iscoroutinefunction(resolve(handler))
