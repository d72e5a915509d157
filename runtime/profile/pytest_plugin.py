"""The fixture `no_leaks` for tests of programs with Mainspring, or with asyncio alone: a test may leave nothing behind.

    def test_orders(no_leaks): ...

    @pytest.mark.no_leaks(settle=5.0, ignore=["Client.poll"])
    async def test_more(): ...

What came during the test and is there after it fails it: asyncio tasks, threads, children, descriptors, entries of the
ledger, and coroutines that nobody awaited. Each is named with the line that created it. What was there before, such as
a runtime of a wider fixture, is left out; fixtures that the test asks for come after `no_leaks` where it is a mark,
so what they leave behind counts, too; what those of a wider scope make does not, such as the loop of a module's tests.
A test that is a coroutine (pytest-asyncio, anyio) must end its tasks itself, within its loop: see
`runtime.profile.leak_check.coroutines`. Of a test that failed nothing is said: its traceback keeps what its frames
have.

What the test makes carries its id as the label "test", as far as contexts carry it (see `runtime.profile.sampling`):
what another test makes at the same time, in another thread, is not this one's.

pytest loads this module in every run where Mainspring is installed, so it imports nothing else before it is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from runtime.profile.leak_check.clean import Baseline

_NAME = "no_leaks"
_FAILED = pytest.StashKey[bool]()
_BASELINE = pytest.StashKey["Baseline"]()
_LABEL_CHARS = 120
"""What labels keep of a value; the end of a test's id tells it from others."""


def pytest_configure(config: pytest.Config) -> None:
    """The mark."""
    config.addinivalue_line("markers", f"{_NAME}(settle=2.0, ignore=[...]): the test may leave nothing behind")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The mark asks for the fixture, before all others."""
    for item in items:
        names = getattr(item, "fixturenames", None)
        if names is not None and item.get_closest_marker(_NAME) and _NAME not in names:
            names.insert(0, _NAME)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Whether it failed."""
    if call.excinfo is not None:
        item.stash[_FAILED] = True


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[None]:
    """What a fixture of a wider scope makes outlives the test."""
    item = getattr(request, "_pyfuncitem", None)
    baseline = item.stash.get(_BASELINE, None) if item is not None and fixturedef.scope != "function" else None
    if baseline is None:
        return (yield)
    from runtime.profile.captures.snapshot import all_tasks  # lazy: as above
    from runtime.profile.leak_check.machine import known_things  # lazy: as above

    things, tasks = known_things(), {id(task) for task in all_tasks()}
    try:
        return (yield)
    finally:
        baseline.add(known_things() - things, [task for task in all_tasks() if id(task) not in tasks])


@pytest.fixture
def no_leaks(request: pytest.FixtureRequest) -> Iterator[Baseline]:
    """The test leaves nothing behind; arguments are those of the mark `no_leaks`: `settle` and `ignore`.

    Raises:
        UsageError: The mark has another argument.
    """
    from runtime.errors import LeaksFound  # lazy: as above
    from runtime.profile.leak_check.clean import (  # lazy: 60 ms for who does not ask for it
        SETTLE_S,
        Baseline,
        assert_clean,
        labelled,
    )

    mark = request.node.get_closest_marker(_NAME)
    asked: dict[str, Any] = {"settle": SETTLE_S, "ignore": ()}
    if mark is not None:
        if mark.args or mark.kwargs.keys() - asked.keys():
            raise pytest.UsageError(f"{request.node.nodeid}: the mark {_NAME} takes settle= and ignore= only: {mark!r}")
        asked |= mark.kwargs
    label = request.node.nodeid[-_LABEL_CHARS:]
    request.node.stash[_FAILED] = False
    baseline = request.node.stash[_BASELINE] = Baseline(label, events=True)
    text, test = "", getattr(request.node, "obj", None)
    if inspect.iscoroutinefunction(test):
        from runtime.profile.leak_check.coroutines import ends_clean  # lazy: as above

        def fail(left: LeaksFound) -> None:
            pytest.fail(f"{request.node.nodeid}: {left}", pytrace=False)

        request.node.obj = ends_clean(test, label, asked["settle"], asked["ignore"], fail)
    try:
        with labelled(label):
            yield baseline
        if not request.node.stash[_FAILED]:
            assert_clean(asked["settle"], asked["ignore"], baseline=baseline)
    except LeaksFound as found:
        text = f"{request.node.nodeid}: {found}"
    finally:
        baseline.close()
        del request.node.stash[_BASELINE]
        if inspect.iscoroutinefunction(test):
            request.node.obj = test
    if text:
        pytest.fail(text, pytrace=False)
