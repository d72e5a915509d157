"""Kill -9 of each kind of process, alone and together, at random moments, with an independent count of effects.

`make chaos` runs 100 rounds (CHAOS_ROUNDS says how many), the normal suite a handful. What is held, whoever was killed:

- what was acknowledged has an effect, and exactly one final record in the log;
- what was in the log as completed at some moment has no effect after that moment (what was not yet acknowledged when
  everybody died may have had an effect and be unknown to the log: work does not wait for the disk, only words do);
- a node of a chain has no effect before its parent has;
- what the dead left is gone within two seconds, and the folder opens again at once.

A failure names its seed; CHAOS_SEED repeats the same choices, though not the same moments.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from runtime import NodeType, Runtime
from tests.scenarios.processes import Host, host_program, kill
from tests.scenarios.programs.restless import GONE
from tests.scenarios.record import LogStory, log_of
from tests.scenarios.waiting import await_gone, lines, until

pytestmark = pytest.mark.slow

ROUNDS_FEW: Final = 6
ROUNDS_MANY: Final = int(os.environ.get("CHAOS_ROUNDS", "100"))
KINDS: Final = ("worker", "engine", "spawner", "host")
GONE_S: Final = 2.0
DEAD: Final = -9


class Chaos:
    """One life of a state folder under fire."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.state_dir = folder / "state"
        self.effects = folder / "effects"
        self.acknowledged = folder / "acknowledged"
        self.random = random.Random(seed)
        self.starts = 0
        self.kills = 0
        self.moments: list[tuple[int, frozenset[str]]] = []
        self._stack = ExitStack()
        self.host: Host | None = None

    # --- rounds ---------------------------------------------------------------------------------------------------

    def round(self) -> None:
        """Let it work for a moment, kill somebody, see that what must be gone is gone."""
        host = self.host or self.start()
        pause = time.monotonic() + self.random.uniform(0.0, 0.4)
        until(lambda: time.monotonic() > pause or host.process.poll() is not None, "the moment")
        everybody = [host.pid, *host.family.all]
        victims = self.victims(host)
        kill(*victims)
        self.kills += len(victims)
        if host.pid in victims or host.process.poll() is not None:
            assert host.end() in (DEAD, GONE), f"the program ended with {host.end()}: {host.errors()}"
            self._stack.close()
            self.host = None
            await_gone(everybody, GONE_S)
        self.look()

    def start(self) -> Host:
        """Start the program, on the same folder."""
        self.starts += 1
        self.host = host = self._stack.enter_context(
            host_program("restless", self.state_dir, self.effects, self.acknowledged, self.starts)
        )
        assert host.read_line() == "open"
        return host

    def victims(self, host: Host) -> list[int]:
        """Some of the processes that are there, in any order."""
        chosen = self.random.sample(KINDS, self.random.choice((1, 1, 2, 3, 4)))
        found: list[int] = []
        for kind in chosen:
            if kind == "host":
                found.append(host.pid)
            elif kind == "worker":
                found += self.random.sample(workers, 1) if (workers := host.family.workers) else []
            else:
                found += host.family.named(f"ms-{kind}")
        return found

    def look(self) -> None:
        """Remember what the log says is completed, and which effects there were after it was read."""
        story = log_of(self.state_dir, live=True)
        completed = frozenset(word_of(story, place) for place in story.completed)
        self.moments.append((len(lines(self.effects)), completed))

    # --- the end --------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Kill what is left, let another program finish the work, and judge."""
        if self.host is not None:
            kill(self.host.pid)
            self.host.end()
        self._stack.close()
        with Runtime(self.state_dir, node_types=[NodeType("default", workers=2)], checkpoint_bytes=None) as rt:
            until(lambda: rt.statistics()["runs_live"] == 0, "all that was acknowledged to end")
        self.judge(log_of(self.state_dir))

    def judge(self, story: LogStory) -> None:
        """Hold the log and the effects against each other."""
        effects = [line.word for line in lines(self.effects)]
        acknowledged = {line.word for line in lines(self.acknowledged)}
        assert acknowledged, "nothing was submitted between the kills"
        endings = story.endings()
        assert set(endings.values()) == {1}, "a task ended twice"
        assert set(endings) == set(story.items), "a task of the log did not end"
        submitted = {item[1] for item in story.items.values()}
        assert acknowledged <= submitted, "what was acknowledged is not in the log"
        assert submitted <= set(effects), "a task has no effect"
        for count, completed in self.moments:
            again = completed.intersection(effects[count:])
            assert not again, f"completed in the log, and run again: {sorted(again)[:5]}"
        first = {word: i for i, word in reversed(list(enumerate(effects)))}
        for word in submitted:
            if word[-1] in "bc":
                parent = word[:-1] + ("a" if word.endswith("b") else "b")
                assert first[parent] < first[word], f"{word} ran before {parent}"


def word_of(story: LogStory, place: tuple[int, int]) -> str:
    """The word that the task of this place notes."""
    return str(story.items[place][1])


@contextmanager
def chaos(folder: Path) -> Iterator[Chaos]:
    """Chaos of some seed, which is named when something fails."""
    seed = int(os.environ.get("CHAOS_SEED", "0")) or random.randrange(1, 1 << 30)
    made = Chaos(folder, seed)
    try:
        yield made
    except BaseException as failed:
        failed.add_note(f"CHAOS_SEED={seed}, after {made.kills} kills and {made.starts} starts")
        raise
    finally:
        made._stack.close()


def run(folder: Path, rounds: int) -> None:
    """So many rounds, then judge."""
    with chaos(folder) as made:
        for _ in range(rounds):
            made.round()
        made.finish()


def test_a_few_rounds_of_kills(tmp_path: Path) -> None:
    run(tmp_path, ROUNDS_FEW)


@pytest.mark.chaos
def test_many_rounds_of_kills(tmp_path: Path) -> None:
    run(tmp_path, ROUNDS_MANY)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_process_killed_alone(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with chaos(tmp_path) as made:
        monkeypatch.setattr(made.random, "sample", lambda population, count: sample_of(population, kind))
        for _ in range(2):
            made.round()
        made.finish()


def sample_of(population: object, kind: str) -> list[object]:
    """Always this kind; of pids, the first."""
    return [kind] if population is KINDS else [next(iter(population))]  # type: ignore[call-overload]
