"""Flows: graphs of tasks, built with plain calls.

    flow = Flow("etl")
    page = flow.add(fetch, "https://example.org")
    rows = flow.add(transform, page)              # passing a node is an edge; its result is the argument
    flow.add(load, rows, after=[page])            # an edge without data

A flow is a definition: it needs no runtime, can be submitted many times and by many programs, and keeps its nodes as
columns (see `actors.protocol.graph`), not as objects. A `Node` is only a place in its flow, so a million of them may be
dropped. Arguments are stored when they are added; changing a list afterwards changes nothing. Only values that are too
large to travel inline are kept by reference until the flow is submitted.

Concurrency: a flow is built by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Generic, TypeVar, Unpack, overload

import orjson

from actors.protocol import limits
from actors.protocol.errors import ConfigurationError, GraphError, MissingNode, PayloadError
from actors.protocol.graph import GraphColumns, encode
from actors.protocol.graph_builder import GraphBuilder
from actors.protocol.kinds import Shape
from actors.protocol.states import TriggerRule
from actors.protocol.words import counted, is_name
from runtime.config import NAME_RULE
from runtime.items import ANY_KEY, QUICK_TYPES, BlobNeeded, NoBlobs, UnwrittenBlobs, encode_call, holds, shape_of
from runtime.keywords import refuse_options_of_nodes
from runtime.mail.codec import Codec
from runtime.registry import DEFAULT_OPTIONS, Options, Task, TaskOptions, kind_of, split_partial

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_UNKNOWN: Final = -1


class Node(Generic[R_co]):
    """A step of a flow. Pass it as an argument of another `add` (its result goes there), or in `after`."""

    __slots__ = ("flow", "index")

    def __init__(self, flow: Flow, index: int) -> None:
        self.flow = flow
        self.index = index

    @property
    def id(self) -> str:
        """The id it was given, or its number."""
        return self.flow.id_of(self.index)

    def __repr__(self) -> str:
        return f"<Node {self.id} of {self.flow.name}>"

    def __iter__(self) -> Any:
        raise TypeError(f"{self!r} has no value yet: it is known when the flow runs, inside the handlers")

    __bool__ = __len__ = __iter__


class _Row:
    """What a flow knows of one function: its kind numbers by shape, and keywords that were looked at."""

    __slots__ = ("fn", "keywords", "one", "options", "parents", "pickle", "shapes")

    def __init__(self, fn: Callable[..., Any], options: TaskOptions) -> None:
        self.fn = fn
        self.options = options
        self.pickle = options.payloads == "pickle"
        self.parents = self.one = _UNKNOWN
        self.shapes: dict[str, int] = {}
        self.keywords: set[str] = set()


class Flow:
    """A graph of tasks with a name.

    Args:
        name: Shown in tables and stories. Not an identity: every submission is a run of its own, unless a run id is
            given.
        defaults: Options for tasks that leave them at their default, see `TaskOptions`.

    Raises:
        ConfigurationError: An option is unknown or out of range.
    """

    def __init__(self, name: str = "flow", /, **defaults: Unpack[Options]) -> None:
        if not is_name(name):
            raise ConfigurationError(f"flow {name!a:.60}: {NAME_RULE}")
        self.name = name
        self._defaults = DEFAULT_OPTIONS.with_changes(defaults)
        self._codec = Codec(NoBlobs())
        self._builder = GraphBuilder()
        self._kinds: list[dict[str, Any]] = []
        self._kind_numbers: dict[bytes, int] = {}
        self._rows: dict[Any, _Row] = {}
        self._large: dict[int, tuple[_Row, Shape, tuple[Any, ...], dict[str, Any], list[int]]] = {}
        self._columns: GraphColumns | None = None

    def __len__(self) -> int:
        return len(self._builder)

    def __repr__(self) -> str:
        return f"<Flow {self.name}: {counted(len(self), 'node')}>"

    # --- building -------------------------------------------------------------------------------------------------

    @overload
    def add(
        self,
        fn: Callable[..., Coroutine[Any, Any, R]],
        /,
        *args: Any,
        id: str | None = ...,
        after: Iterable[Node[Any]] = ...,
        trigger: TriggerRule | str | None = ...,
        **kwargs: Any,
    ) -> Node[R]: ...

    @overload
    def add(
        self,
        fn: Callable[..., R],
        /,
        *args: Any,
        id: str | None = ...,
        after: Iterable[Node[Any]] = ...,
        trigger: TriggerRule | str | None = ...,
        **kwargs: Any,
    ) -> Node[R]: ...

    def add(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,
        id: str | None = None,  # noqa: A002  the word that users know
        after: Iterable[Node[Any]] = (),
        trigger: TriggerRule | str | None = None,
        **kwargs: Any,
    ) -> Node[Any]:
        """Add a step.

        Args:
            fn: A task or any importable function. Other options than `trigger` come with `task.options(...)`.
            args: Arguments. A node anywhere in them (also in lists, tuples, dicts) is an edge and stands for its
                result.
            id: A name for the node, unique in the flow.
            after: Nodes that must have ended before, without passing a value.
            trigger: When the node may start, see `TaskOptions`; None leaves it to the task.
            kwargs: Keyword arguments. `id`, `after` and `trigger` are taken here: pass a handler's argument of such a
                name by position.

        Returns:
            The node.

        Raises:
            HandlerRefused: The function cannot be a handler.
            ConfigurationError: A keyword that it does not take is an option, or written like one.
            PayloadError: A value cannot be stored exactly; names its path.
            MissingNode: A node of another flow. DuplicateNode: the id is taken. GraphError: too many nodes.
        """
        if type(fn) is partial:
            fn, first, named = split_partial(fn)
            args, kwargs = (*first, *args), {**named, **kwargs}
        try:
            row = self._rows[fn if trigger is None else (fn, trigger)]
        except (KeyError, TypeError):
            row = self._row(fn, trigger)
        controls = [self._index(node) for node in after] if after else ()
        if kwargs:
            if not row.keywords.issuperset(kwargs):
                refuse_options_of_nodes(row.fn, kwargs)
                row.keywords.update(kwargs)
            return self._add_with_item(row, args, kwargs, controls, id)
        deps: list[int] = []
        for arg in args:
            if type(arg) is not Node or arg.flow is not self:
                break
            deps.append(arg.index)
        else:
            kind = row.parents
            if kind < 0:
                kind = row.parents = self._kind(row, "parents")
            return self._added(kind, deps, controls, None, id)
        if len(args) == 1 and type(args[0]) in QUICK_TYPES:
            kind = row.one
            if kind < 0:
                kind = row.one = self._kind(row, "one")
            return self._added(kind, (), controls, self._codec.encode(args[0]), id)
        return self._add_with_item(row, args, kwargs, controls, id)

    def link(self, before: Node[Any], after: Node[Any]) -> None:
        """Let a node wait for another one, whichever was added first.

        Args:
            before: The node that ends first.
            after: The node that waits.

        Raises:
            MissingNode: A node of another flow. GraphError: Both are the same node.
        """
        self._builder.link(self._index(before), self._index(after))
        self._columns = None

    def node(self, name: str | int) -> Node[Any]:
        """Find a node.

        Args:
            name: Its id or number.

        Returns:
            The node.

        Raises:
            MissingNode: There is none.
        """
        index = name if isinstance(name, int) else self._builder.index_of(name)
        if index is None or not 0 <= index < len(self):
            raise MissingNode(f"flow {self.name!r} has no node {name!r}")
        return Node(self, index)

    def id_of(self, index: int) -> str:
        """The id of a node.

        Args:
            index: Its number.

        Returns:
            The given id, or the number as text.
        """
        return self._builder.id_of(index)

    def index_of(self, name: str) -> int | None:
        """The number of a node.

        Args:
            name: The id that it was given.

        Returns:
            Its number; None when no node was given this id.
        """
        return self._builder.index_of(name)

    def _index(self, node: Node[Any]) -> int:
        if not isinstance(node, Node):
            raise GraphError(f"{node!r} is not a node of a flow")
        if node.flow is not self:
            raise MissingNode(f"{node!r} belongs to another flow than {self.name!r}")
        return node.index

    def _added(
        self, kind: int, deps: Sequence[int], controls: Sequence[int], item: bytes | None, name: str | None
    ) -> Node[Any]:
        if item is not None:
            item = b"%b" % item  # a copy: what orjson returns holds on to 4 KiB (measured with 3.13)
        self._columns = None
        return Node(self, self._builder.add(kind, deps, controls, item, name))

    def _add_with_item(
        self, row: _Row, args: tuple[Any, ...], kwargs: dict[str, Any], controls: Sequence[int], name: str | None
    ) -> Node[Any]:
        deps: dict[int, int] = {}
        shape: Shape = shape_of(args, kwargs)
        if holds((args, kwargs), _is_node):
            shape = "mixed" if not kwargs and _takes_results_whole(args) else "template"
        item, large = b"null", False
        try:
            item = self._encoded(self._codec, row, shape, args, kwargs, deps, ANY_KEY)
        except BlobNeeded:
            large = True
            if shape == "template":  # once more, to the end: nodes may stand behind the large value
                self._encoded(Codec(UnwrittenBlobs()), row, shape, args, kwargs, deps, ANY_KEY)
        kind = row.shapes.get(shape, _UNKNOWN)
        if kind < 0:
            kind = row.shapes[shape] = self._kind(row, shape)
        node = self._added(kind, list(deps), controls, item, name)
        if large:
            self._large[node.index] = (row, shape, args, kwargs, list(deps))
        return node

    def _row(self, fn: Callable[..., Any], trigger: TriggerRule | str | None) -> _Row:
        """What is known of a function; made, and checked, when it is first added."""
        own = fn.settings if isinstance(fn, Task) else DEFAULT_OPTIONS
        options = own if self._defaults is DEFAULT_OPTIONS else own.or_else(self._defaults)
        if trigger is not None:
            options = options.with_changes({"trigger": trigger})
        row = _Row(fn, options.without_expiry("nodes of a flow"))
        if not isinstance(fn, Hashable):
            self._kind(row, "args")  # says why it cannot be a handler
        if len(self._rows) >= limits.PLANS_MAX:
            self._rows.clear()
        self._rows[fn if trigger is None else (fn, trigger)] = row
        return row

    def _kind(self, row: _Row, shape: Shape) -> int:
        kind = kind_of(row.fn, row.options, shape)
        text = b"%b" % orjson.dumps(kind)
        number = self._kind_numbers.setdefault(text, len(self._kinds))
        if number == len(self._kinds):
            self._kinds.append(kind)
        return number

    # --- submitting -----------------------------------------------------------------------------------------------

    def container(
        self, codec: Codec, blob_key: str, node_type_for: Callable[[str], str], run_id: str | None = None
    ) -> bytes:
        """What is sent to the engine and kept in its log (see `actors.protocol.graph`). Called by the runtime.

        The header holds "name", "kinds" (the task kinds that the kind column points to) and, when given, "run_id". The
        same flow, run id and options give the same bytes, unless values went to blobs. They never start with
        `decode.BLOB_MARK`, which would say that they are the name of a file.

        Args:
            codec: Encodes the values that are too large to travel inline.
            blob_key: Run key that names their folder.
            node_type_for: The runtime's rule from the node type that a task names to the one that serves it.
            run_id: Identity of the run, when the caller chose one.

        Returns:
            The bytes.

        Raises:
            CycleError: With the ids on one cycle. UnknownNodeType: a task names a node type that is not there.
            PayloadError: A large value cannot be stored exactly.
        """
        if self._columns is None:
            self._columns = self._builder.finish()
        columns = self._columns
        if self._large:
            columns = replace(columns, items=list(columns.items or [None] * columns.size))
            items: list[Any] = columns.items or []
            for index, (row, shape, args, kwargs, deps) in self._large.items():
                places = {parent: place for place, parent in enumerate(deps)}
                items[index] = orjson.loads(self._encoded(codec, row, shape, args, kwargs, places, blob_key))
        kinds = [{**kind, "node_type": node_type_for(kind["node_type"])} for kind in self._kinds]
        header: dict[str, Any] = {"name": self.name, "kinds": kinds}
        if run_id is not None:
            header["run_id"] = run_id
        return encode(columns, header)

    @property
    def has_large_values(self) -> bool:
        """Whether `container` writes files."""
        return bool(self._large)

    def _encoded(
        self,
        codec: Codec,
        row: _Row,
        shape: Shape,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        deps: dict[int, int],
        blob_key: str,
    ) -> bytes:
        """Item text; `deps` receives the data parents, each with its place."""
        if shape == "mixed":
            places = [at for at, arg in enumerate(args) if type(arg) is Node]
            deps.update((self._index(args[at]), place) for place, at in enumerate(places))
            own = [None if type(arg) is Node else arg for arg in args]
            return b"[%b,%b]" % (codec.encode_list(own, pickle=row.pickle, blob_key=blob_key), orjson.dumps(places))
        if shape != "template":
            return encode_call(codec, args, kwargs, pickle=row.pickle, blob_key=blob_key)

        def place_of(value: object) -> int | None:
            return deps.setdefault(self._index(value), len(deps)) if isinstance(value, Node) else None

        try:
            return codec.encode_template(args, kwargs, place_of, pickle=row.pickle, blob_key=blob_key)
        except PayloadError as refused:
            if isinstance(refused.__cause__, GraphError):
                raise refused.__cause__ from None
            raise


def _is_node(kind: type) -> bool:
    return kind is Node


def _takes_results_whole(args: tuple[Any, ...]) -> bool:
    """Whether every node among the arguments stands for itself, once: not inside a list, not twice."""
    nodes = [arg for arg in args if type(arg) is Node]
    own = [arg for arg in args if type(arg) is not Node]
    return len({node.index for node in nodes}) == len(nodes) and not holds(own, _is_node)
