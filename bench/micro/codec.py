"""Values to bytes and back, plain and typed, one by one and in bulk."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final

import orjson

from bench.micro.timing import Operation
from runtime.mail.codec import Codec

BULK = 1_000
ROW: Final[dict[str, Any]] = {"id": 17, "name": "transform", "rows": [1, 2, 3], "share": 0.25, "done": False}


def operations() -> Iterator[Operation]:
    """orjson alone as the floor, then the codec on integers, rows and typed values."""
    codec = Codec()
    integers = list(range(BULK))
    rows = [dict(ROW, id=number) for number in range(BULK)]
    typed = (1, datetime(2026, 7, 11), {"a", "b"})
    yield Operation("orjson.dumps of a row", partial(orjson.dumps, ROW))
    yield Operation("orjson.loads of a row", partial(orjson.loads, orjson.dumps(ROW)))
    yield Operation("encode an integer", partial(codec.encode, 17))
    yield Operation("encode a row", partial(codec.encode, ROW))
    yield Operation("encode a tuple of int, datetime and set", partial(codec.encode, typed))
    yield Operation("decode the same", partial(codec.decode, orjson.loads(codec.encode(typed))))
    yield Operation(f"encode_list of {BULK} integers, per integer", partial(codec.encode_list, integers), BULK)
    yield Operation(f"encode_list of {BULK} rows, per row", partial(codec.encode_list, rows), BULK)
