"""Who shows how far runs are, in the simulation: takes what is said to have moved, and must know the counts of all."""

from __future__ import annotations

from actors.books import RunBook


class Shown:
    """Counts by run, kept as the host of an engine keeps those that it shows."""

    def __init__(self, book: RunBook) -> None:
        self._book = book
        self._counts = {no: run.counts() for no, run in book.live.items()}
        book.moved = {}

    def check(self) -> None:
        """Take what moved since the last time; raise AssertionError where something moved unsaid."""
        moved, self._book.moved = self._book.moved or {}, {}
        for no, run in moved.items():
            self._counts[no] = run.counts()
            if not run.open:
                del self._counts[no]
        now = {no: run.counts() for no, run in self._book.live.items()}
        if self._counts != now:
            wrong = [no for no in {*now, *self._counts} if self._counts.get(no) != now.get(no)]
            raise AssertionError(f"runs {wrong[:5]} moved, and nobody who shows them was told")
