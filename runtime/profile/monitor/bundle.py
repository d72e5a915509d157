"""Evidence of a moment, as a folder: STATE/profile/bundles/TIME-TRIGGER/.

    trigger.json   what was breached             stacks.json   all threads and tasks, merged
    flight.json    the last minute, recorded     leaks.json    findings, grown or proved
    cpu.json       seconds after it              diff.json     cpu against the last healthy hour, largest first
    await.json     the same seconds              cpu.html      the flame graph
    notes.txt      what could not be had, and why

The first rows of the difference are label sets, so the first names the node type that takes more than it did (`blame`).

The profiles are as `Profile.to_json` writes them, so `convert` and `diff` read them. All are recorded at the same
time, so that it takes no longer than the longest, whoever does not answer. What one part cannot do the others do.

Bounds: `BUNDLES_BYTES` for all bundles of a folder, the oldest go; at most one a trigger in `PAUSE_S`, across restarts
of who watches, for the folders' names say when the last one was.
Crash: a bundle is made under a name with "~" and renamed; what is left of one is removed when the next is made, or
somebody begins to watch. Who makes one holds a lock on its folder, which ends with him: so several may watch.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import orjson

from runtime.profile.captures import capture
from runtime.profile.leak_check.survey import Report, survey
from runtime.profile.model import Profile, dumped
from runtime.profile.presence.folders import Owner, make_folder, owner_of, write_anew
from runtime.profile.presence.here import FOLDER

BUNDLES: Final = "bundles"
BUNDLES_BYTES: Final = 256 << 20
PAUSE_S: Final = 600.0
RECORD_S: Final = 10.0
_HEALTHY: Final = "healthy.json"
_STAMP: Final = "%Y%m%dT%H%M%S"
_NAME: Final = re.compile(r"(\d{8}T\d{6})-(.+)")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_ROWS_MAX: Final = 200
_LEAKS_S: Final = 5.0
_TRIES: Final = 3


class Evidence:
    """Where the parts of a bundle come from; each may be replaced. They raise what they like.

    Args:
        seconds: How long cpu and await are recorded.
    """

    def __init__(self, seconds: float = RECORD_S) -> None:
        self.seconds = seconds

    def flight(self, state_dir: str) -> Profile:
        """The last minute."""
        return capture.flight(state_dir)

    def cpu(self, state_dir: str) -> Profile:
        """From now on."""
        return capture.cpu(state_dir, self.seconds)

    def awaits(self, state_dir: str) -> Profile:
        """From now on."""
        return capture.awaits(state_dir, self.seconds)

    def stacks(self, state_dir: str) -> Profile:
        """As they are."""
        return capture.live(state_dir, merge=True)

    def leaks(self, state_dir: str) -> Report:
        """Grown meanwhile, or proved."""
        seconds = min(_LEAKS_S, self.seconds)
        return survey(state_dir, seconds=seconds, timeout=max(_LEAKS_S, self.seconds - seconds))

    def page(self, profile: Profile) -> bytes:
        """The flame graph."""
        file = BytesIO()
        import_module("runtime.profile.formats").write(profile, file, "html")
        return file.getvalue()

    def diff(self, before: Profile, after: Profile) -> bytes:
        """What changed: first on whose account, and then in which functions of each, largest first."""
        found = import_module("runtime.profile.diff").diff(before, after, unit="function")
        rows = import_module("runtime.profile.monitor.blame").blamed(before, after)
        rows += [row._asdict() | {"change": row.change} for row in found.rows[:_ROWS_MAX]]
        body = {"unit": found.unit, "confidence": found.confidence, "rows": rows, "notes": list(found.notes)}
        return orjson.dumps(_plain(body), option=orjson.OPT_INDENT_2)


class Bundles:
    """The bundles of a state folder.

    Args:
        state_dir: The folder.
        evidence: Where the parts come from.
        bytes_max: For all of them.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str],
        evidence: Evidence | None = None,
        *,
        bytes_max: int = BUNDLES_BYTES,
    ) -> None:
        self.state_dir = os.fspath(state_dir)
        self.folder = Path(state_dir, FOLDER, BUNDLES)
        self._evidence, self._bytes_max = evidence or Evidence(), bytes_max

    def may(self, trigger: str, now: datetime) -> bool:
        """Whether the last one of this trigger is long enough ago."""
        slug = slug_of(trigger)
        times = [at for at, name in self._there() if name == slug]
        return not times or not 0 <= (now - max(times)).total_seconds() < PAUSE_S

    def save(self, trigger: str, facts: dict[str, Any], now: datetime) -> Path:
        """Make one. Blocks for as long as it records.

        Raises:
            OSError: It cannot be written.
        """
        owner = self._owner()
        make_folder(self.folder, owner)
        self.sweep()
        name = f"{now.strftime(_STAMP)}-{slug_of(trigger)}"
        made = self.folder / f"{name}~"
        lock = _made(made, owner)
        try:
            write_anew(made / "trigger.json", orjson.dumps(_plain(facts), option=orjson.OPT_INDENT_2), owner)
            _Writer(made, self.state_dir, self._evidence, self._healthy(), owner).write()
            os.rename(made, self.folder / name)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        finally:
            os.close(lock)
        self._keep_bounds(name)
        return self.folder / name

    def sweep(self) -> None:
        """Remove what is left of bundles whose makers died."""
        for left in self.folder.glob("*~"):
            lock = _locked(left)
            if lock is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)

    def keep_healthy(self, profile: Profile) -> None:
        """This is what it looks like while nothing is wrong. Raises OSError."""
        owner = self._owner()
        path = self.folder.parent / _HEALTHY
        aside = path.with_name(f"{_HEALTHY}~")
        write_anew(aside, profile.to_json(), owner)
        os.replace(aside, path)

    def _owner(self) -> Owner:
        """The user of the program: whose the folder around all bundles is, once somebody asked it; made if need be."""
        around = self.folder.parent
        if not around.exists():
            make_folder(around, owner_of(around.parent))
        return owner_of(around)

    def _healthy(self) -> Profile | None:
        with suppress(OSError, ValueError):
            return Profile.from_json((self.folder.parent / _HEALTHY).read_bytes())
        return None

    def _there(self) -> Iterable[tuple[datetime, str]]:
        with suppress(OSError):
            for path in self.folder.iterdir():
                found = _NAME.fullmatch(path.name.removesuffix("~"))
                if found is not None and (not path.name.endswith("~") or _is_held(path)):
                    yield datetime.strptime(found[1], _STAMP).replace(tzinfo=UTC), found[2]

    def _keep_bounds(self, newest: str) -> None:
        sizes = {path: _size_of(path) for path in sorted(self.folder.iterdir()) if not path.name.endswith("~")}
        total = sum(sizes.values())
        for path, size in sizes.items():
            if total <= self._bytes_max or path.name == newest:
                break
            shutil.rmtree(path, ignore_errors=True)
            total -= size


class _Writer:
    """One bundle."""

    def __init__(self, made: Path, state_dir: str, evidence: Evidence, healthy: Profile | None, owner: Owner) -> None:
        self._made, self._state_dir, self._evidence, self._healthy = made, state_dir, evidence, healthy
        self._owner = owner
        self._notes: list[str] = []

    def write(self) -> None:
        """All parts; what failed is in the notes."""
        cpu: list[Profile] = []
        threads = [
            threading.Thread(target=work, name="mainspring-bundle", daemon=True)
            for work in (
                lambda: self._profile("flight.json", self._evidence.flight),
                lambda: cpu.extend(filter(None, [self._profile("cpu.json", self._evidence.cpu)])),
                lambda: self._profile("await.json", self._evidence.awaits),
                self._leaks,
            )
        ]
        for thread in threads:
            thread.start()
        self._profile("stacks.json", self._evidence.stacks)
        for thread in threads:
            thread.join()
        if cpu:
            self._put("cpu.html", lambda: self._evidence.page(cpu[0]))
            if (healthy := self._healthy) is None:
                self._notes.append("diff.json: nothing healthy was recorded before")
            else:
                self._put("diff.json", lambda: self._evidence.diff(healthy, cpu[0]))
        if self._notes:
            write_anew(self._made / "notes.txt", "\n".join([*self._notes, ""]).encode(), self._owner)

    def _profile(self, name: str, take: Callable[[str], Profile]) -> Profile | None:
        taken: list[Profile] = []

        def content() -> bytes:
            taken.append(take(self._state_dir))
            return taken[0].to_json()

        self._put(name, content)
        return taken[0] if taken else None

    def _leaks(self) -> None:
        def content() -> bytes:
            report = self._evidence.leaks(self._state_dir)
            return dumped({"findings": [one.as_json() for one in report.findings], "notes": report.notes})

        self._put("leaks.json", content)

    def _put(self, name: str, content: Callable[[], bytes]) -> None:
        try:
            write_anew(self._made / name, content(), self._owner)
        except Exception as broken:  # noqa: BLE001, RUF100 - the other parts are worth having
            self._notes.append(f"{name}: {type(broken).__name__}: {broken}")


def slug_of(trigger: str) -> str:
    """A trigger as part of a file's name."""
    return _UNFIT.sub("-", trigger).strip("-.")[:100] or "trigger"


def _made(folder: Path, owner: Owner) -> int:
    """Make a folder; returns a descriptor that locks it. Raises OSError."""
    for _ in range(_TRIES):
        make_folder(folder, owner, anew=True)
        lock = _locked(folder, fcntl.LOCK_EX)
        if lock is not None:
            if folder.exists():
                return lock
            os.close(lock)  # somebody swept it in between
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(folder))


def _locked(folder: Path, how: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> int | None:
    """A descriptor that locks a folder until it is closed, or its process ends; None: it is gone, or locked."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, how)
    except OSError:
        os.close(fd)
        return None
    return fd


def _is_held(folder: Path) -> bool:
    """Whether somebody makes it."""
    lock = _locked(folder)
    if lock is not None:
        os.close(lock)
    return lock is None


def _size_of(folder: Path) -> int:
    with suppress(OSError):
        return sum(path.stat().st_size for path in folder.iterdir())
    return 0


def _plain(value: Any) -> Any:
    """Data that JSON has."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
