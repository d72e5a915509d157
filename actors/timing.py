"""When nodes ran: read from the result frames that a run keeps as they came.

Results are entered by the batch; to note times node by node would cost more than all else. So a run keeps the frames,
each with the lowest and the highest node in it, and whoever asks for some nodes reads the frames that may hold them.
Nodes become ready in order, more or less, so a page of a million nodes is in few frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from actors.protocol.places import unpacked
from actors.rare import WHOLE
from actors.state_column import CANCELLED

if TYPE_CHECKING:
    from actors.run import Run

Timing = tuple[int, int, int]
"""Started, ended (wall clock ns), pid."""


ResultFrame = tuple[int, bytes, int, int]
"""What leads from the worker's clock to the wall clock (ns, as it was then), the frame, its lowest and highest node."""


def keep_frame(run: Run, offset_ns: int, raw: bytes, nodes: Sequence[int], group_bytes: int) -> None:
    """Keep a frame with results of these nodes of the run; one with several groups of them is kept once.

    Args:
        run: Whose results they are.
        offset_ns: From the worker's clock to the wall clock.
        raw: The frame.
        nodes: The nodes of one group of it.
        group_bytes: What a group of it takes, on average: the run's share, as others may be in the same frame.
    """
    run.results_bytes += group_bytes
    low, high = nodes[0], nodes[-1]
    if len(nodes) > 1 and type(nodes) is not range:
        low, high = min(nodes), max(nodes)
    frames = run.frames
    if frames and frames[-1][1] is raw:
        _, _, last_low, last_high = frames.pop()
        low, high = min(low, last_low), max(high, last_high)
    frames.append((offset_ns, raw, low, high))


def read_timing(run: Run, nodes: range) -> dict[int, Timing]:
    """Last started and ended times of those of the nodes that have any."""
    found: dict[int, Timing] = {}
    if not nodes:
        return found
    for offset_ns, raw, low, high in run.frames:
        if high < nodes[0] or low > nodes[-1]:
            continue
        pid, groups = orjson.loads(raw)
        for _, no, members, _, started_ns, ends in groups:
            if no != run.no:
                continue
            before = started_ns + offset_ns
            for node, end in zip(unpacked(members, len(ends)), ends, strict=True):
                after = started_ns + offset_ns + end
                if node in nodes:
                    found[node] = (before, after, pid)
                before = after
    ended = run.rare.ended
    found.update((node, ended[node]) for node in nodes if node in ended)
    return found


def end_ns(run: Run, node: int, timing: Timing | None) -> int | None:
    """When a node that has ended did so (wall clock); None: nobody noted it, as of one that was skipped.

    Args:
        run: Whose node it is.
        node: Its number.
        timing: What `read_timing` found of it.
    """
    rare = run.rare
    if node in rare.ended_early:
        return rare.ended_early[node]
    if run.state[node] == CANCELLED and WHOLE in rare.ended_early:  # an attempt before that may have failed
        return max(rare.ended_early[WHOLE], 0 if timing is None else timing[1])
    return rare.died.get(node) if timing is None else timing[1]


def first_start_ns(run: Run) -> int | None:
    """When the first attempt began that is known to have ended (wall clock); None when there was none."""
    starts = [times[0] for times in run.rare.ended.values()]
    for offset_ns, raw, _, _ in run.frames:
        starts += [offset_ns + started_ns for _, no, _, _, started_ns, _ in orjson.loads(raw)[1] if no == run.no]
    return min(starts, default=None)
