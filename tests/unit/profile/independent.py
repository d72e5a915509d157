"""Readers of Go's format that are not ours: one made by the package `protobuf`, and Go's own tool."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PROTO = """
ValueType: type=1 int64, unit=2 int64
Label: key=1 int64, str=2 int64, num=3 int64, num_unit=4 int64
Sample: location_id=1 uint64*, value=2 int64*, label=3 Label*
Mapping: id=1 uint64, memory_start=2 uint64, memory_limit=3 uint64, file_offset=4 uint64, filename=5 int64,
    build_id=6 int64, has_functions=7 bool, has_filenames=8 bool, has_line_numbers=9 bool, has_inline_frames=10 bool
Line: function_id=1 uint64, line=2 int64
Location: id=1 uint64, mapping_id=2 uint64, address=3 uint64, line=4 Line*, is_folded=5 bool
Function: id=1 uint64, name=2 int64, system_name=3 int64, filename=4 int64, start_line=5 int64
Profile: sample_type=1 ValueType*, sample=2 Sample*, mapping=3 Mapping*, location=4 Location*, function=5 Function*,
    string_table=6 string*, drop_frames=7 int64, keep_frames=8 int64, time_nanos=9 int64, duration_nanos=10 int64,
    period_type=11 ValueType, period=12 int64, comment=13 int64*, default_sample_type=14 int64
"""
"""The public description, github.com/google/pprof `proto/profile.proto`; a star is "repeated"."""


def message() -> Any:
    """A class that parses profiles, made by the package `protobuf` from the description."""
    reason = "the package protobuf, an independent decoder, is not installed"
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason=reason)
    from google.protobuf import descriptor_pool, message_factory  # lazy: optional

    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools.profiles", syntax="proto3")
    kinds = {"int64": 3, "uint64": 4, "bool": 8, "string": 9}
    for line in PROTO.replace(",\n   ", ",").strip().splitlines():
        name, _, rest = line.partition(": ")
        made = file.message_type.add(name=name)
        for part in rest.split(", "):
            field, _, kind = part.partition(" ")
            title, _, number = field.partition("=")
            one = made.field.add(name=title, number=int(number), label=3 if kind.endswith("*") else 1)
            kind = kind.rstrip("*")
            one.type = kinds.get(kind, 11)
            if one.type == 11:
                one.type_name = f".perftools.profiles.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.profiles.Profile"))


def independent(content: bytes) -> Any:
    """The file as the other decoder sees it."""
    found = message()()
    found.ParseFromString(gzip.decompress(content))
    return found


def stacks(found: Any) -> dict[tuple[Any, ...], list[int]]:
    """Stacks (names and lines, root first) and labels, with their values, by the tables of the file."""
    text = found.string_table
    functions = {one.id: (text[one.name], text[one.filename]) for one in found.function}
    places = {one.id: (*functions[one.line[0].function_id], one.line[0].line) for one in found.location}
    assert len(places) == len(found.location)
    assert 0 not in places
    rows = {}
    for one in found.sample:
        labels = tuple(sorted((text[two.key], text[two.str] if two.str else two.num) for two in one.label))
        rows[tuple(places[at] for at in reversed(one.location_id)), labels] = list(one.value)
    return rows


def tool() -> list[str]:
    """Go's tool. Skips where there is none."""
    if found := shutil.which("pprof"):
        return [found]
    if found := shutil.which("go"):
        return [found, "tool", "pprof"]
    pytest.skip("neither pprof nor go is installed")


def has_tool() -> bool:
    """Whether Go's tool is there."""
    return bool(shutil.which("pprof") or shutil.which("go"))


def go_says(folder: Path, *words: str) -> str:
    """What Go's tool prints. A file or an address is the last of `words`."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PPROF_TMPDIR": str(folder)}
    environment |= {name: os.environ[name] for name in ("GOROOT", "GOTOOLDIR") if name in os.environ}
    command = [*tool(), *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout
