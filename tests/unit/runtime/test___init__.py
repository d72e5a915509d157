"""The package's names are loaded when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import runtime


def test_every_name_can_be_had() -> None:
    for name in runtime.__all__:
        assert getattr(runtime, name) is not None
        assert name in dir(runtime)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = runtime.nonsense


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, runtime; print(sorted({'orjson', 'asyncio', 'uvloop'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_blocking_face_does_without_asyncio() -> None:
    code = (
        "from runtime import Runtime, Flow; import sys; print(sorted({'asyncio', 'uvloop', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"
