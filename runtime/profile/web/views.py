"""What the HTTP server shows: Go's URLs with Go's meanings, and pages of our own.

    /debug/pprof/                           index
    /debug/pprof/profile?seconds=&hz=       CPU, of all processes
    /debug/pprof/block?seconds=&hz=         what suspended tasks wait for; without seconds the last minute
    /debug/pprof/goroutine?debug=0|1|2      threads and tasks: protobuf, merged with counts and labels, one by one
    /debug/pprof/goroutineleak?debug=       leaks; prove=1 searches what nobody can reach
    /debug/pprof/mutex, threadcreate        locks that are held, threads
    /debug/pprof/process, shm, fd, lease, message, and each kind of the ledger by its name
    /debug/pprof/cmdline, symbol            as `go tool pprof` asks for them
    /debug/runtime/flame?seconds=&kind=     a flame graph: cpu, await, live, flight
    /debug/runtime/leaks?format=html|json   findings
    /debug/runtime/processes                processes as JSON

Arguments everywhere: `proc=PID,PID` picks processes; `by=NAMES` keeps labels; `seconds=N` on a profile that counts
gives what became more or less meanwhile.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson

from runtime.profile.captures import capture
from runtime.profile.captures.capture import delta
from runtime.profile.formats import flame, leak_page, pprof
from runtime.profile.formats.plain import plain_report
from runtime.profile.ledger.kinds import DESCRIPTOR, KINDS, LEASE, LOCK, MESSAGE, NAMES, SEGMENT, THREAD
from runtime.profile.model import AWAIT, COUNT, LEAKS, Frame, Profile, StackSample
from runtime.profile.presence.processes import Looked, looked
from runtime.profile.web.request import Reply, WebRefusal, WebRequest
from runtime.profile.web.text import merged_text, single_text

PPROF: Final = "/debug/pprof/"
PAGES: Final = "/debug/runtime/"
PROFILE_S: Final = 30.0
SECONDS_MAX: Final = 600.0
NAMED: Final = {
    "mutex": LOCK,
    "threadcreate": THREAD,
    "shm": SEGMENT,
    "fd": DESCRIPTOR,
    "lease": LEASE,
    "message": MESSAGE,
}
"""Kinds of the ledger by the name that Go, or a system's user, has for them."""
SHOWN: Final = {
    "profile": "CPU time of all processes; ?seconds=30",
    "block": "what suspended tasks wait for; ?seconds=30",
    "goroutine": "threads and tasks, merged; ?debug=1 as text, ?debug=2 one by one",
    "goroutineleak": "what nothing can finish or release; ?debug=1, ?prove=1",
    "process": "processes",
    "cmdline": "the command line of the program",
}
_BINARY: Final = "application/octet-stream"
_HTML: Final = "text/html; charset=utf-8"
_JSON: Final = "application/json"


def view(asked: WebRequest) -> Reply:
    """The answer. Raises WebRefusal, and what a capture raises."""
    if asked.path.startswith(PPROF):
        return _of_go(asked, asked.path.removeprefix(PPROF))
    page = _PAGES.get(asked.path.removeprefix(PAGES)) if asked.path.startswith(PAGES) else None
    if page is not None:
        return page(asked)
    if asked.path in ("/", "/debug/pprof", "/debug", "/debug/"):
        return index(asked)
    raise WebRefusal(404, f"there is nothing at {asked.path}")


def _of_go(asked: WebRequest, name: str) -> Reply:
    if not name:
        return index(asked)
    if name == "cmdline":
        return Reply(command_line(asked))
    if name == "symbol":
        return Reply(b"num_symbols: 1\n")
    if name == "profile":
        return _packed(_recorded(asked, capture.cpu, capture.HZ, PROFILE_S), name)
    if name == "block":
        return _packed(_waits(asked), name)
    counted = _COUNTED.get(name)
    kind = NAMED.get(name, name)
    if counted is None and kind not in NAMES:
        raise WebRefusal(404, f"unknown profile {name!r}")
    debug = int(asked.number("debug", 0, 2))
    rated = "debug=2" if debug == 2 and name == "goroutine" else ""
    look: Callable[[], Profile] = (lambda: counted(asked)) if counted else (lambda: _held(asked, kind))
    profile = capture.kept(_counted(asked, look, rated), _by(asked))
    if not debug:
        return _packed(profile, name)
    return Reply((single_text if debug == 2 else merged_text)(profile, name).encode("utf-8", "replace"))


def _packed(profile: Profile, name: str) -> Reply:
    return Reply(pprof.encode(profile), _BINARY, name)


def _by(asked: WebRequest) -> tuple[str, ...]:
    return tuple(filter(None, asked.text("by").split(",")))


# --- recorded ---------------------------------------------------------------------------------------------------------


def _recorded(asked: WebRequest, record: Callable[..., Profile], hz: float, seconds: float) -> Profile:
    seconds = asked.number("seconds", seconds, SECONDS_MAX) or seconds
    hz = asked.number("hz", hz, capture.HZ_MAX) or hz
    with asked.alone(seconds):
        return record(asked.state_dir, seconds, hz=hz, by=_by(asked), pids=asked.pids(), stop=asked.stop)


def _waits(asked: WebRequest) -> Profile:
    if asked.text("seconds"):
        return _recorded(asked, capture.awaits, capture.AWAIT_HZ, PROFILE_S)
    found = capture.flight(asked.state_dir, pids=asked.pids(), kind=AWAIT)
    return capture.kept(found, _by(asked))


# --- counted ----------------------------------------------------------------------------------------------------------


def _counted(asked: WebRequest, look: Callable[[], Profile], rated: str = "") -> Profile:
    """How it is, or how it changes in so many seconds; `rated`: what is possible once a minute, if this is."""
    seconds, _ = asked.number("seconds", 0.0, SECONDS_MAX), asked.pids()
    if not seconds:
        asked.rated(rated)
        return look()
    with asked.alone(seconds):
        asked.rated(rated)
        before = look()
        capture.pass_time(seconds, asked.stop)
        return delta(before, look())


def _live(asked: WebRequest) -> Profile:
    """Merged, so that equal stacks are one, but for who wants them one by one."""
    return capture.live(asked.state_dir, merge=asked.text("debug") != "2", pids=asked.pids())


def _held(asked: WebRequest, kind: str) -> Profile:
    return capture.held(asked.state_dir, kind, pids=asked.pids())


def _processes(asked: WebRequest) -> Profile:
    profile, pids = Profile("process", COUNT), asked.pids()
    for row in looked(asked.state_dir):
        if pids is None or row.process.pid in pids:
            profile.add(StackSample((Frame(row.process.title),), (("role", row.process.role),), row.process), 1)
    return profile


def _leaks(asked: WebRequest) -> Profile:
    profile = Profile(LEAKS, COUNT)
    report = leak_report(asked)
    profile.notes += report.notes
    for one in report.findings:
        if str(one.grade) == "info":
            continue
        labels = {**dict(one.labels), "grade": str(one.grade), "kind": str(one.kind)}
        process = getattr(one, "process", None)
        sample = StackSample((*one.site, *one.wait), tuple(sorted(labels.items())), process)
        profile.add(sample, max(1, one.count))
    return profile


def leak_report(asked: WebRequest) -> Any:
    """Findings. A proof forks each process, so it is done once a minute at most."""
    prove, pids = asked.text("prove") not in ("", "0"), asked.pids()
    with asked.alone():
        asked.rated("a proof" if prove else "")
        return capture.leaks(asked.state_dir, prove=prove, pids=pids, stop=asked.stop)


_COUNTED: Final[dict[str, Callable[[WebRequest], Profile]]] = {
    "goroutine": _live,
    "goroutineleak": _leaks,
    "process": _processes,
}


def command_line(asked: WebRequest) -> bytes:
    """The arguments of the program that has the folder open, with zeros between, as Go gives them."""
    for row in looked(asked.state_dir, fresh=False):
        if row.process.role == "face":
            try:
                return Path(f"/proc/{row.process.pid}/cmdline").read_bytes().rstrip(b"\0")
            except OSError:
                break
    return os.fsencode(asked.state_dir)


# --- pages ------------------------------------------------------------------------------------------------------------


def index(asked: WebRequest) -> Reply:
    """What there is, with how many there are of it."""
    counts = dict.fromkeys(NAMES, 0)
    rows = looked(asked.state_dir)
    for row in rows:
        for kind, count in row.counts.items():
            counts[kind] = counts.get(kind, 0) + count.live
    token = f"?token={html.escape(asked.text('token'))}&amp;" if asked.text("token") else "?"
    lines = [f"<tr><td><td><a href='{PPROF}{name}{token}'>{name}</a><td>{text}" for name, text in SHOWN.items()]
    titles = {kind.name: kind.title for kind in KINDS}
    lines += [
        f"<tr><td>{count:,}<td><a href='{PPROF}{kind}{token}debug=1'>{html.escape(kind)}</a>"
        f"<td>{html.escape(titles.get(kind, ''))}"
        for kind, count in counts.items()
    ]
    lines += [f"<tr><td><td><a href='{PAGES}{name}{token}'>{PAGES}{name}</a><td>" for name in _PAGES]
    text = (
        "<!doctype html><meta charset=utf-8><title>/debug/pprof/</title>"
        "<style>body{font:14px system-ui;margin:2em}td{padding:1px 8px}td:first-child{text-align:right}</style>"
        f"<h1>{html.escape(asked.state_dir)}</h1><p>{len(rows)} processes</p><table>{''.join(lines)}</table>"
    )
    return Reply(text.encode("utf-8", "replace"), _HTML)


def _flame(asked: WebRequest) -> Reply:
    kind = asked.text("kind", "cpu")
    if kind == "cpu":
        profile = _recorded(asked, capture.cpu, capture.HZ, capture.SECONDS)
    elif kind == "await":
        profile = _recorded(asked, capture.awaits, capture.AWAIT_HZ, capture.SECONDS)
    elif kind == "live":
        profile = capture.live(asked.state_dir, merge=True, pids=asked.pids())
    elif kind == "flight":
        profile = capture.flight(asked.state_dir, pids=asked.pids())
    else:
        raise WebRefusal(400, f"kind is cpu, await, live or flight, not {kind!r}")
    return Reply(flame.page(profile, by=_by(asked)), _HTML)


def _leaks_page(asked: WebRequest) -> Reply:
    report = leak_report(asked)
    if asked.text("format", "html") == "json":
        return Reply(orjson.dumps(plain_report(report)), _JSON)
    return Reply(leak_page.page(report.findings, notes=report.notes), _HTML)


def _processes_json(asked: WebRequest) -> Reply:
    return Reply(orjson.dumps([_process_json(row) for row in looked(asked.state_dir)]), _JSON)


def _process_json(row: Looked) -> dict[str, Any]:
    found = row._asdict() | {"process": row.process._asdict(), "profiler_self_cpu_ratio": row.self_cpu_ratio}
    found["counts"] = {kind: count._asdict() for kind, count in row.counts.items()}
    return found


_PAGES: Final[dict[str, Callable[[WebRequest], Reply]]] = {
    "flame": _flame,
    "leaks": _leaks_page,
    "processes": _processes_json,
}
