"""The typed tree: values that plain JSON does not hold exactly, as JSON that says its types.

    scalar (as in JSON)         itself
    object {name: node}         dict with string keys
    ["l", node...]              list            ["t", ...] tuple    ["s", ...] set    ["fs", ...] frozenset
    ["j", JSON]                 list or dict of plain items, ["T", JSON array] such a tuple: read without a look inside
    ["m", key, value, ...]      dict with other keys    ["od", ...] OrderedDict    ["ct", ...] Counter
    ["dd", factory, key, ...]   defaultdict; factory is a class name, or null
    ["dq", maxlen, node...]     deque
    ["b", base64]               bytes           ["ba", base64] bytearray    ["ar", typecode, base64] array.array
    ["n", name]                 class or function, by name
    ["ref", k]                  result of parent k, in templates
    ["blob", name, form, ...]   a large leaf in a file of its own; see `blobs`
    and the leaves of `leaves`, `objects` and `typed_numpy`

Each level of the value is one level of JSON, so that depth is counted once. Elements of sets are sorted by their text:
the same set is the same text in every process. Exact types only; instances of other types are refused with their path.
`memoryview` is refused: it is a window on somebody's memory, whose owner would change from call to call; pass
`bytes(view)`.

States: a `TreeWriter` or `TreeReader` serves one value. Concurrency: none shared. Codes are persisted: append only.
"""

from __future__ import annotations

import binascii
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MappingProxyType
from typing import Any, Final

import orjson

from actors.protocol import limits
from actors.protocol.errors import PayloadUnreadable
from runtime.mail import objects, typed_numpy
from runtime.mail.blobs import BlobStore, Spill, open_node
from runtime.mail.leaves import (
    INT_MAX,
    INT_MIN,
    LEAF_READERS,
    LEAF_WRITERS,
    Node,
    base64_text,
    enum_member,
    is_text,
    string,
)
from runtime.mail.names import find, name_of
from runtime.mail.plain import PLAIN, SCALARS, is_shallow, nested_text, scalars_text
from runtime.mail.refusal import (
    Refused,
    element_step,
    field_step,
    inside_key_step,
    key_step,
    refuse_large_without_store,
)
from runtime.mail.versions import TypeVersion, version_of

WHOLE_ITEMS_MIN: Final = 8
"""From this length on a container is tried as a whole for plain content, before it is written item by item."""
WHOLE_DEPTH_MAX: Final = 3
"""Down to this level the content may be nested. Deeper, what was tried above would be tried again and again; there only
containers of scalars are."""
_NAMED: Final = (type, FunctionType, BuiltinFunctionType)


class TreeWriter:
    """Writes one value.

    Args:
        spill: Takes large leaves out of line; None keeps all in line.
        index_of: In templates, the parent's index of an object that stands for a parent's result.
    """

    __slots__ = ("_depth", "_index_of", "_names", "_spill")

    def __init__(self, spill: Spill | None, index_of: Callable[[object], int | None] | None = None) -> None:
        self._spill = spill
        self._index_of = index_of
        self._depth = 0
        self._names: dict[type, str] = {}

    def node(self, value: Any) -> Node:
        """The node of a value.

        Raises:
            Refused: With the path, innermost step first.
        """
        kind = type(value)
        leaf = LEAF_WRITERS.get(kind)
        if leaf is not None:
            return leaf(value)
        write = _WRITERS.get(kind)
        if write is None:
            return self._other(kind, value)
        if self._depth >= limits.PAYLOAD_DEPTH_MAX:
            raise TooDeep
        self._depth += 1
        node = write(self, value)
        self._depth -= 1
        return node

    def whole(self, value: Any) -> Node:
        """The node of another whole value; what an earlier one left half done is forgotten. Raises as `node`."""
        self._depth = 0
        return self.node(value)

    def _list(self, value: list[Any]) -> Node:
        plain = self._plain(value, value)
        return self._items(["l"], value) if plain is None else ["j", plain]

    def _tuple(self, value: tuple[Any, ...]) -> Node:
        plain = self._plain(value, value)
        return self._items(["t"], value) if plain is None else ["T", plain]

    def _plain(self, value: Any, items: Any) -> orjson.Fragment | None:
        """The JSON text of a container with plain content, which is read back without a look inside."""
        if len(value) < WHOLE_ITEMS_MIN:
            return None
        kinds = set(map(type, items))
        if kinds <= SCALARS:
            text = scalars_text(value, kinds)
        elif self._depth <= WHOLE_DEPTH_MAX and kinds <= PLAIN:
            whole = list(value) if type(value) is tuple else value
            text = nested_text(whole, kinds)
            if text is not None and not is_shallow(whole, text, 0):
                return None
        else:
            return None
        return None if text is None else orjson.Fragment(text)

    def _items(self, head: list[Node], values: Iterable[Any]) -> Node:
        at = 0
        try:
            for value in values:
                kind = type(value)
                simple = value.isascii() if kind is str else INT_MIN <= value <= INT_MAX if kind is int else False
                head.append(value if simple else self.node(value))
                at += 1
        except Refused as refused:
            refused.at(f"[{at}]")
            raise
        return head

    def _set(self, code: str, values: Iterable[Any]) -> Node:
        nodes = []
        value = None
        try:
            for value in values:
                nodes.append(self.node(value))
        except Refused as refused:
            refused.at(element_step(value))
            raise
        nodes.sort(key=orjson.dumps)
        return [code, *nodes]

    def _dict(self, value: dict[Any, Any]) -> Node:
        if not all(type(key) is str and is_text(key) for key in value):
            return self._pairs(["m"], value)
        plain = self._plain(value, value.values())
        if plain is not None:
            return ["j", plain]
        key = None
        found = {}
        try:
            for key, item in value.items():
                found[key] = self.node(item)
        except Refused as refused:
            refused.at(key_step(key))
            raise
        return found

    def _pairs(self, head: list[Node], value: Mapping[Any, Any]) -> Node:
        key = None
        inside_key = False
        try:
            for key, item in value.items():
                inside_key = True
                head.append(self.node(key))
                inside_key = False
                head.append(self.node(item))
        except Refused as refused:
            refused.at(inside_key_step(key) if inside_key else key_step(key))
            raise
        return head

    def _mapping(self, head: list[Node], value: Any) -> Node:
        if getattr(value, "__dict__", None):
            raise Refused(f"this {type(value).__qualname__} has attributes of its own, which would be lost")
        return self._pairs(head, value)

    def _defaultdict(self, value: defaultdict[Any, Any]) -> Node:
        factory = value.default_factory
        if factory is not None and not isinstance(factory, _NAMED):
            raise Refused(
                f"its default_factory is of type {type(factory).__qualname__}; only importable ones are stored"
            )
        return self._mapping(["dd", None if factory is None else name_of(factory)], value)

    def _buffer(self, code: str, value: Any, *meta: Node) -> Node:
        view = memoryview(value)
        if view.nbytes > limits.PAYLOAD_INLINE_BYTES_MAX and self._spill is not None:
            return self._spill.write(_BUFFER_FORMS[code], [view.cast("B")], *meta)
        refuse_large_without_store(view.nbytes)
        return [code, *meta, base64_text(view)]

    def _other(self, kind: type, value: Any) -> Node:
        """An instance of a class that is none of the exact ones."""
        if self._index_of is not None:
            parent = self._index_of(value)
            if parent is not None:
                return ["ref", parent]
        if issubclass(kind, Enum):
            return enum_member(value)
        if objects.is_dataclass_type(kind) or objects.is_namedtuple_type(kind):
            if self._depth >= limits.PAYLOAD_DEPTH_MAX:
                raise TooDeep
            self._depth += 1
            node = self._object(kind, value)
            self._depth -= 1
            return node
        if kind.__module__ == typed_numpy.MODULE:
            return typed_numpy.write(value, self._spill)
        if isinstance(value, _NAMED):
            return ["n", name_of(value)]
        raise Refused(_reason(kind))

    def _object(self, kind: type, value: Any) -> Node:
        name = self._names.get(kind)
        if objects.is_namedtuple_type(kind):
            if getattr(value, "__dict__", None):
                raise Refused(f"this {kind.__qualname__} has attributes of its own, which would be lost")
            if name is None:
                name = self._names[kind] = name_of(kind)
            return self._items(["nt", name], tuple.__iter__(value))
        if name is None:
            objects.check_dataclass(kind)
            name = self._names[kind] = name_of(kind)
        version = version_of(kind)
        head: list[Node] = ["d", name] if version is None else ["dv", name, *version]
        attribute = ""
        try:
            for attribute, item in objects.attributes(value):
                head.append(string(attribute))
                head.append(self.node(item))
        except Refused as refused:
            refused.at(field_step(attribute))
            raise
        return head


class TooDeep(Exception):
    """The value is nested too deeply; the codec finds out whether it contains itself."""


_WRITERS: Final[Mapping[type, Callable[[TreeWriter, Any], Node]]] = MappingProxyType(
    {
        list: TreeWriter._list,
        tuple: TreeWriter._tuple,
        dict: TreeWriter._dict,
        set: lambda w, v: w._set("s", v),
        frozenset: lambda w, v: w._set("fs", v),
        bytes: lambda w, v: w._buffer("b", v),
        bytearray: lambda w, v: w._buffer("ba", v),
        array: lambda w, v: w._buffer("ar", v, v.typecode),
        OrderedDict: lambda w, v: w._mapping(["od"], v),
        Counter: lambda w, v: w._mapping(["ct"], v),
        defaultdict: TreeWriter._defaultdict,
        deque: lambda w, v: w._items(["dq", v.maxlen], v),
    }
)
_BUFFER_FORMS: Final = MappingProxyType({"b": "bytes", "ba": "bytearray", "ar": "array"})


def _reason(kind: type) -> str:
    name = f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__
    if kind is memoryview:
        return "a memoryview is a window on memory of somebody else; pass bytes(view)"
    for base in kind.__mro__[1:-1]:
        if base in LEAF_WRITERS or base in _WRITERS:
            return f"{name} is a subclass of {base.__qualname__}, of which only the exact type is stored"
    return f"a value of type {name} has no exact stored form"


class TreeReader:
    """Reads one value.

    Args:
        store: Where large leaves are.
        parents: In templates, the results that references stand for.
    """

    __slots__ = ("_classes", "_parents", "_store")

    def __init__(self, store: BlobStore | None, parents: list[Any] | None = None) -> None:
        self._store = store
        self._parents = parents
        self._classes: dict[str, Any] = {}

    def value(self, node: Node) -> Any:
        """The value of a node.

        Raises:
            PayloadUnreadable: A class, member, blob or module that it needs is gone.
        """
        kind = type(node)
        if kind is list:
            code = node[0]
            leaf = LEAF_READERS.get(code)
            return leaf(node) if leaf is not None else _READERS[code](self, node)
        if kind is dict:
            read = self.value
            return {key: item if type(item) in SCALARS else read(item) for key, item in node.items()}
        return node

    def items(self, node: Node, start: int = 1) -> list[Any]:
        read = self.value
        return [item if type(item) in SCALARS else read(item) for item in node[start:]]

    def pairs(self, node: Node, start: int = 1) -> Iterable[tuple[Any, Any]]:
        return zip(map(self.value, node[start::2]), map(self.value, node[start + 1 :: 2]), strict=True)

    def named(self, name: str) -> Any:
        found = self._classes.get(name)
        if found is None:
            found = self._classes[name] = find(name)
        return found

    def parent(self, index: int) -> Any:
        if self._parents is None or not 0 <= index < len(self._parents):
            raise PayloadUnreadable(f"the value refers to the result of parent {index}, which was not given")
        return self._parents[index]

    def blob(self, node: Node) -> Any:
        view = open_node(self._store, node)
        form = node[2]
        if form == "npy":
            return typed_numpy.read_blob(view, *node[5:])
        if form == "bytes":
            return bytes(view)
        if form == "bytearray":
            return bytearray(view)
        if form == "array":
            return _read_array(node[5], view)
        raise PayloadUnreadable(f"blob {node[1]} has the unknown form {form!r}")


def _read_array(typecode: str, data: Any) -> array[Any]:
    found: array[Any] = array(typecode)
    found.frombytes(data)
    return found


_READERS: Final[Mapping[str, Callable[[TreeReader, Node], Any]]] = MappingProxyType(
    {
        "j": lambda r, n: n[1],
        "T": lambda r, n: tuple(n[1]),
        "l": TreeReader.items,
        "t": lambda r, n: tuple(r.items(n)),
        "s": lambda r, n: set(r.items(n)),
        "fs": lambda r, n: frozenset(r.items(n)),
        "m": lambda r, n: dict(r.pairs(n)),
        "od": lambda r, n: OrderedDict(r.pairs(n)),
        "ct": lambda r, n: Counter(dict(r.pairs(n))),
        "dd": lambda r, n: defaultdict(None if n[1] is None else r.named(n[1]), r.pairs(n, 2)),
        "dq": lambda r, n: deque(r.items(n, 2), n[1]),
        "b": lambda r, n: binascii.a2b_base64(n[1]),
        "ba": lambda r, n: bytearray(binascii.a2b_base64(n[1])),
        "ar": lambda r, n: _read_array(n[1], binascii.a2b_base64(n[2])),
        "n": lambda r, n: r.named(n[1]),
        "d": lambda r, n: objects.rebuild_dataclass(r.named(n[1]), n[1], dict(r.pairs(n, 2))),
        "dv": lambda r, n: objects.rebuild_dataclass(r.named(n[1]), n[1], dict(r.pairs(n, 4)), TypeVersion(n[2], n[3])),
        "nt": lambda r, n: objects.rebuild_namedtuple(r.named(n[1]), n[1], r.items(n, 2)),
        "ns": lambda r, n: typed_numpy.read_scalar(n),
        "na": lambda r, n: typed_numpy.read_array(n),
        "ref": lambda r, n: r.parent(n[1]),
        "blob": TreeReader.blob,
    }
)
