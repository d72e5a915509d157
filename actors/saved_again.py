"""A run that was saved is saved again: what records have touched is made, and nothing else.

    records ──► Touched.note ──► Touched.save ──► a change, or the pieces that may differ; and what stays (`Unchanged`)

Most records touch a run in a known way: results of some nodes come in, and with them move states, counts and what few
nodes have. That is a *change*: the results of these nodes, the frames that came since, and whole what is small (states,
what nodes wait for, rare facts). It comes to the pieces that are there; a reader takes all changes in their order. When
the changes of a run have come to `CHANGES_FACTOR` times as much as its pieces, these are made anew and the changes go,
so a reader takes no more than so many times what a run is, and what is written stays in proportion to what happened.

Of a run with more nodes than a piece of results has, the pieces are made anew whose nodes were touched; so states of a
million nodes are compared with what is there, and arguments and edges are not looked at.

Whatever else a record does (a run is submitted, grows, is revived, gets another class) makes all of the run anew.
That no record touches more than is noted here is what tests/sim compares at each record of simulated lives.

Invariants: `forms` has each run that is in the file, as it is there. Concurrency: none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Self

from actors.run import Run
from actors.saved_run import CHANGE, PIECE_VALUES, STILL, STILL_COLUMNS, Piece, save_change, save_run

CHANGE_NODES_MAX: Final = PIECE_VALUES
"""Of a run that has changes: all states are in each, of which next to nothing is left when it is packed."""
CHANGE_BASE_BYTES_MIN: Final = 2048
"""A run that takes less is written anew."""
CHANGES_FACTOR: Final = 2
"""How many times what its pieces take, the changes of a run may."""
_END: Final = 1 << 62


class Unchanged(NamedTuple):
    """What stays as it was saved: parts of a run, of one column (None: all that are there), of these values."""

    run: int
    column: str | None = None
    at: int = 0
    stop: int = _END

    def covers(self, column: str, at: int) -> bool:
        """Whether a part stays."""
        return self.column is None or (self.column == column and self.at <= at < self.stop)


class Form(NamedTuple):
    """How a run was saved.

    Attributes:
        frames: How many frames of it.
        apart: Whether what does not change is apart from what does.
        cut: Whether what changes is in pieces.
        base_bytes: What is made anew when there are too many changes.
        changes: How many there are.
        change_bytes: What they take.
    """

    frames: int
    apart: bool
    cut: bool
    base_bytes: int
    changes: int = 0
    change_bytes: int = 0

    @classmethod
    def of(cls, run: Run, pieces: Sequence[Piece]) -> Self:
        """The form of a run of which these pieces were read or written."""
        names = {name for name, _, _ in pieces}
        changes = [len(body) for name, _, body in pieces if name == CHANGE]
        base_bytes = sum(len(body) for name, _, body in pieces if name != CHANGE and name not in _APART)
        return cls(
            len(run.frames), not names.isdisjoint(_APART), "state" in names, base_bytes, len(changes), sum(changes)
        )


_APART: Final = frozenset({STILL, *STILL_COLUMNS})


class Touched:
    """Runs that records have touched since they were saved.

    Attributes:
        forms: How runs were saved, by number.
        nodes: By run: nodes whose results came (of a large run: the first nodes of their pieces); None: anything may
            be different.
    """

    __slots__ = ("forms", "nodes")

    def __init__(self) -> None:
        self.forms: dict[int, Form] = {}
        self.nodes: dict[int, set[int] | None] = {}

    def note(self, no: int, run: Run | None, nodes: Sequence[int] | None) -> None:
        """A record is about to touch a run: results of these nodes, or anything (None)."""
        if nodes is None:
            self.nodes[no] = None
        elif run is not None:
            known = self.nodes.setdefault(no, set())
            if known is None:
                return
            if run.size <= CHANGE_NODES_MAX:
                known.update(nodes)
            elif type(nodes) is range:
                known.update(range(nodes.start - nodes.start % PIECE_VALUES, nodes.stop, PIECE_VALUES))
            else:
                known.update({node - node % PIECE_VALUES for node in nodes})

    def save(self, run: Run) -> Iterator[Piece | Unchanged]:
        """What there is of a run that was touched; it counts as saved when all of that was taken."""
        nodes, form = self.nodes[run.no], self.forms.get(run.no)
        if nodes is None or form is None:
            pieces = save_run(run)
            yield from pieces
            self.forms[run.no] = Form.of(run, pieces)
        elif (change := _change(run, nodes, form)) is not None:
            yield Unchanged(run.no)
            yield CHANGE, form.changes, change
            grown = form.change_bytes + len(change)
            self.forms[run.no] = form._replace(frames=len(run.frames), changes=form.changes + 1, change_bytes=grown)
        else:
            yield from self._pieces(run, nodes, form)

    def _pieces(self, run: Run, nodes: set[int], form: Form) -> Iterator[Piece | Unchanged]:
        """Those that may differ from what is there."""
        blocks, frames = None, 0
        if form.apart:
            yield from (Unchanged(run.no, name) for name in (STILL, *STILL_COLUMNS))
        if form.cut and not form.changes:
            blocks = {node - node % PIECE_VALUES for node in nodes}
            frames = form.frames - form.frames % PIECE_VALUES
            yield Unchanged(run.no, "frames", 0, frames)
            for at in range(0, run.size, PIECE_VALUES):
                if at not in blocks:
                    yield Unchanged(run.no, "results", at, at + PIECE_VALUES)
        pieces = save_run(run, still=not form.apart, blocks=blocks, frames=frames)
        yield from pieces
        found = Form.of(run, pieces)
        self.forms[run.no] = found._replace(
            apart=form.apart or found.apart,
            base_bytes=found.base_bytes if blocks is None else max(form.base_bytes, found.base_bytes),
        )


def _change(run: Run, nodes: set[int], form: Form) -> bytes | None:
    """A change, where it is less than to make the pieces anew."""
    if run.size > CHANGE_NODES_MAX or 2 * len(nodes) > run.size or form.base_bytes < CHANGE_BASE_BYTES_MIN:
        return None
    made = save_change(run, sorted(nodes), form.frames)
    return made if form.change_bytes + len(made) <= CHANGES_FACTOR * form.base_bytes else None
