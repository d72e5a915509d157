"""S24, S25: values and texts that JSON cannot hold come back as they went, after a restart too, or are refused."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from actors.protocol import limits
from runtime import Flow, NodeType, Runtime, errors
from tests.scenarios import handlers_payloads as handlers
from tests.unit.mail.values import (
    EXAMPLES,
    DictChild,
    FloatChild,
    IntChild,
    ListChild,
    Plain,
    PointChild,
    StrChild,
    TupleChild,
    same,
)

RECORD: Final = np.dtype([("when", "<M8[ns]"), ("value", ">f4"), ("name", "U3")])
NUMPY: Final[list[Any]] = [
    np.float32(0.1),
    np.float16("nan"),
    np.float64(-0.0),
    np.longdouble(1) / 3,
    np.int8(-5),
    np.uint64(2**64 - 1),
    np.bool_(True),
    np.complex64(1 - 2j),
    np.datetime64("NaT", "ns"),
    np.datetime64("2026-07-11T01:02:03.000000004", "ns"),
    np.timedelta64("NaT", "s"),
    np.timedelta64(5, "D"),
    np.str_("nul\0inside"),
    np.bytes_(b"\0\xff"),
    np.array([1.5, np.nan, -np.inf], dtype=np.float32),
    np.array([], dtype=np.int16),
    np.array(7),
    np.arange(12, dtype=">i4").reshape(3, 4),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.array(["2026-01-01", "NaT"], dtype="M8[D]"),
    np.array([("2026-01-01", 1.5, "abc"), ("NaT", -0.0, "")], dtype=RECORD),
    np.array([("2026-01-01", 1.5, "abc")], dtype=RECORD)[0],
    np.zeros((2, 0, 3), dtype="c16"),
    np.array([True, False]),
]


def with_attribute(value: Any) -> Any:
    """The value with something that its type has no place for."""
    value.added = 1
    return value


REFUSED: Final[list[Any]] = [
    IntChild(1),
    StrChild("a"),
    ListChild([1]),
    DictChild(a=1),
    TupleChild((1,)),
    FloatChild(1.5),
    Plain(),
    with_attribute(PointChild(1)),
    object(),
    lambda: 0,
    memoryview(b"ab"),
    np.array([object()], dtype=object),
    np.ma.masked_array([1, 2], mask=[0, 1]),
    Exception("a value"),
]
TEXTS: Final = [
    "nul \0 inside",
    "\0",
    "\\u0000",
    "a backslash \\u0000 and a real \0",
    "\ud800",
    "half \udfff pair \ud83d",
    "\udcff\udc80",
    "\ufeff\uffff\x7f\x80",
    "",
    "line\r\n\x1b[31mred",
]


def equal(given: Any, found: Any) -> bool:
    """Equal and of the same types; arrays also of the same layout."""
    if not isinstance(given, np.ndarray | np.generic):
        return same(given, found)
    if type(given) is not type(found) or given.dtype != found.dtype or given.shape != found.shape:
        return False
    # The bytes between the parts of a long double mean nothing, so those are compared as numbers.
    whole = given.dtype != np.longdouble
    return given.tobytes() == found.tobytes() if whole else bool(np.all(given == found))


def nested(value: Any) -> list[Any]:
    """The value on its own, and at the places where a codec takes other ways."""
    return [value, [value], {"key": value}, ({"deep": [(value,)]},)]


@pytest.fixture(scope="module")
def rt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    pools = [NodeType("cpu", workers=1), NodeType("io", workers=1, mode="asyncio", concurrency=50)]
    with Runtime(tmp_path_factory.mktemp("values") / "state", node_types=pools, durability="os") as opened:
        for pool in pools:  # its workers are there before the first test looks for what is left behind
            opened.options(node_type=pool.name).submit(handlers.pid).result(timeout=60)
        yield opened


@pytest.mark.slow
def test_s24_values_come_back_as_they_went(rt: Runtime) -> None:
    values = [shape for value in EXAMPLES + NUMPY for shape in nested(value)]
    handles = [rt.submit_nowait(handlers.echo, value) for value in values]
    found = [handle.result(timeout=60) for handle in handles]
    wrong = [(value, got) for value, got in zip(values, found, strict=True) if not equal_nested(value, got)]
    assert not wrong


def equal_nested(given: Any, found: Any) -> bool:
    """As `equal`, for what `nested` made."""
    if type(given) in (list, tuple) and type(given) is type(found) and len(given) == len(found):
        return all(map(equal_nested, given, found))
    if type(given) is dict and type(found) is dict and list(given) == list(found):
        return all(map(equal_nested, given.values(), found.values()))
    return equal(given, found)


@pytest.mark.slow
@pytest.mark.parametrize("node_type", ["cpu", "io"])
def test_s24_values_pass_from_task_to_task(rt: Runtime, node_type: str) -> None:
    """As results that are arguments, as arguments beside results, and as keyword arguments."""
    values = EXAMPLES + NUMPY
    fn: Any = handlers.echo if node_type == "cpu" else handlers.echo_async
    flow = Flow("values", node_type=node_type)
    firsts = [flow.add(fn, value) for value in values]
    seconds = [flow.add(fn, first) for first in firsts]
    both = [
        flow.add(handlers.echo_all, second, value, named=value) for second, value in zip(seconds, values, strict=True)
    ]
    run = rt.run(flow, timeout=60)
    for value, node in zip(values, both, strict=True):
        (second, beside), named = run.result(node)
        assert equal(value, second), value
        assert equal(value, beside), value
        assert equal(value, named["named"]), value


@pytest.mark.slow
def test_s24_values_come_back_from_map(rt: Runtime) -> None:
    values = EXAMPLES + NUMPY
    found = list(rt.map(handlers.echo, values))
    assert [value for value, got in zip(values, found, strict=True) if not equal(value, got)] == []


@pytest.mark.slow
def test_s24_values_come_back_after_a_restart(state_dir: Path) -> None:
    """What was finished is read from the log; what was not even started is run by the next engine from there."""
    values = EXAMPLES + NUMPY
    absent = NodeType("absent", workers=1)
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1), absent], durability="os") as rt:
        done = Flow("done", node_type="cpu")
        for value in values:
            done.add(handlers.echo, value)
        rt.run(done, run_id="done", timeout=60)
        waiting = Flow("waiting", node_type="cpu")
        gate = waiting.add(handlers.gone, str(state_dir / "gate"))
        for value in values:
            waiting.add(handlers.echo, value, after=[gate])
        rt.submit(waiting, run_id="waiting")
        rt.close(drain=False)
    (state_dir / "gate").touch()
    with Runtime(state_dir, node_types=[NodeType("cpu", workers=1)], durability="os") as rt:
        old, new = rt.handle("done"), rt.handle("waiting")
        assert new.wait(timeout=60) == "succeeded"
        for number, value in enumerate(values):
            assert equal(value, old.result(number)), value
            assert equal(value, new.result(number + 1)), value


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_s24_what_would_change_is_refused_at_submission(rt: Runtime, value: Any) -> None:
    """With the path to it, in every way to submit, and nothing of it is left."""
    inside = {"rows": [1, (value,)]}
    flow = Flow("refused")
    before = sum(1 for _ in rt.runs())
    ways = [
        lambda: rt.submit(handlers.echo, inside),
        lambda: rt.submit_nowait(handlers.echo, inside),
        lambda: rt.submit(handlers.echo_all, 1, named=inside),
        lambda: flow.add(handlers.echo, inside),
        lambda: list(rt.map(handlers.echo, [inside])),
        lambda: rt.submit(handlers.echo, inside, run_id="never"),
    ]
    for way in ways:
        with pytest.raises(errors.PayloadError) as caught:
            way()
        assert "['rows'][1][0]" in caught.value.path
        assert caught.value.path in str(caught.value)
    assert len(flow) == 0
    assert sum(1 for _ in rt.runs()) == before


@pytest.mark.slow
@pytest.mark.parametrize("depth", [199, *range(250, 258), 5_000, 100_000])
def test_s24_depth_has_a_limit_and_no_recursion_error(rt: Runtime, depth: int) -> None:
    """Up to the limit values are safe; what is a little deeper is taken or refused; nothing is lost on the way."""
    value = handlers.return_deep(depth)
    flow = Flow("deep")
    try:
        rt.submit(handlers.echo, value).result(timeout=30)
        flow.add(handlers.nothing, flow.add(handlers.return_deep, depth), [flow.add(handlers.echo, value)])
        rt.run(flow, timeout=30)
    except errors.PayloadError:
        assert depth > limits.PAYLOAD_DEPTH_MAX
        with pytest.raises(errors.PayloadError, match="nested"):
            flow.add(handlers.nothing, value, [[value]])
    failed = rt.submit(handlers.return_deep, depth).exception(timeout=30)
    assert failed is None or failed.kind == "payload"
    assert (failed is None) or depth > limits.PAYLOAD_DEPTH_MAX
    while type(value) is list:  # taken apart by hand: freeing a deep list at once is deep, too
        (value,) = value


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_s25_odd_text_in_arguments_and_results(rt: Runtime, text: str) -> None:
    assert rt.submit(handlers.echo, text).result(timeout=30) == text
    assert rt.submit(handlers.echo, {text: [text]}).result(timeout=30) == {text: [text]}
    run = rt.submit(handlers.say_odd, text)
    assert run.result(timeout=30) == text
    lines = [event.text for event in run.story() if event.event == "log"]
    assert lines == [text.encode("utf-8", "backslashreplace").decode()]


@pytest.mark.slow
def test_s25_odd_text_in_exceptions_and_after_a_restart(state_dir: Path) -> None:
    pools = [NodeType("cpu", workers=1)]
    with Runtime(state_dir, node_types=pools, durability="os") as rt:
        for number, text in enumerate(TEXTS):
            failed = rt.submit(handlers.raise_odd, text, run_id=f"odd {number}").exception(timeout=30)
            assert failed is not None
            assert failed.kind == "error"
            assert isinstance(failed.__cause__, ValueError)
            assert failed.__cause__.args == (text,)
            assert text in failed.args[0] or not text
            assert "".join(failed.__notes__).encode()  # can be printed and logged anywhere
            assert b"".join(event.text.encode() for event in rt.handle(f"odd {number}").story())
    with Runtime(state_dir, node_types=pools, durability="os") as rt:
        for number, text in enumerate(TEXTS):
            again = rt.handle(f"odd {number}").exception(timeout=30)
            assert again is not None
            assert isinstance(again.__cause__, ValueError)
            assert again.__cause__.args == (text,)


@pytest.mark.slow
def test_s25_odd_text_as_id(rt: Runtime, state_dir: Path) -> None:
    """Node ids take every text that UTF-8 can hold; run ids, which are names of folders, what can be one."""
    storable = [text for text in TEXTS if text and text.isascii() | _is_utf8(text)]
    flow = Flow("nul \0 name")
    for text in storable:
        flow.add(handlers.echo, text, id=text)
    run = rt.run(flow, timeout=30)
    assert run.results() == {text: text for text in storable}
    assert [node.id for node in run.nodes()] == storable
    assert run.status().name == "nul \0 name"
    for text in storable:
        assert run.result(text) == text
        assert run.node(text).story()
    for text in ("\ud800", "half \udfff pair \ud83d"):
        with pytest.raises(errors.GraphError, match="surrogate"):
            flow.add(handlers.echo, 1, id=text)
    for text in itertools.chain(TEXTS, ["..", "a/b", "x" * 300]):
        if text.isprintable() and "/" not in text and 0 < len(text) < 200 and not text.startswith("."):
            assert rt.submit(handlers.echo, 1, run_id=text).result(timeout=30) == 1
        else:
            with pytest.raises(errors.ConfigurationError, match="run id"):
                rt.submit(handlers.echo, 1, run_id=text)
    for unsaid in ("\ud800", "x" * 5_000_000):
        with pytest.raises(errors.UnknownRun):
            rt.handle(unsaid)
        with pytest.raises(errors.MissingNode):
            run.result(unsaid)
    assert run.node(storable[0]).why().startswith("it ended")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@pytest.mark.slow
def test_s24_mutable_results_are_those_of_their_moment(rt: Runtime) -> None:
    """A value that a handler keeps and changes later does not change what it returned."""
    found = list(rt.map(handlers.keep_and_append, range(50)))
    assert found == [list(range(number + 1)) for number in range(50)]


@pytest.mark.slow
def test_s24_a_datetime_in_the_gap_and_the_fold(rt: Runtime) -> None:
    """Both hours of the overlap, and the hour that does not exist, keep their fold and zone."""
    zones = dt.UTC, ZoneInfo("Europe/Paris")
    nights = [(10, 25), (3, 29)]
    moments = [
        dt.datetime(2026, month, day, 2, 30, fold=fold, tzinfo=zone)
        for zone in zones
        for month, day in nights
        for fold in (0, 1)
    ]
    for moment, found in zip(moments, rt.map(handlers.echo, moments), strict=True):
        assert same(moment, found)
        assert moment.utcoffset() == found.utcoffset()
