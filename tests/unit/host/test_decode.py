"""Frames to messages: piles of single tasks, kinds, graphs in line and by reference, and what does not fit."""

from __future__ import annotations

import orjson
import pytest

from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.errors import ProtocolError
from actors.protocol.graph import encode
from actors.protocol.graph_builder import GraphBuilder
from runtime.host import decode


def no_blob(name: str) -> bytes:
    raise AssertionError(f"blob {name} was not expected")


def container() -> bytes:
    builder = GraphBuilder()
    builder.add(0)
    builder.add(0, [0])
    return encode(builder.finish(), {"name": "two", "kinds": []})


def graph_frame(seq: int, body: bytes) -> bytes:
    return b"G" + seq.to_bytes(decode.SEQ_BYTES, "little") + body


def test_single_tasks_in_a_row_are_one_message() -> None:
    frames = [b"T[1,1,5]", b"T[2,1,6]", b"K[2,{}]", b"T[3,2,7]"]
    first, kind, second = decode.face_submissions("s", frames, no_blob)
    assert first == msg.TasksSubmitted("s", [[1, 1, 5], [2, 1, 6]], b"[[1,1,5],[2,1,6]]")
    assert kind == msg.KindDefined("s", 2, {})
    assert second.tasks == [[3, 2, 7]]


def test_a_pile_is_bounded() -> None:
    frames = [b"T[%d,1,0]" % seq for seq in range(limits.BUNDLE_NODES_MAX + 1)]
    assert [len(m.tasks) for m in decode.face_submissions("s", frames, no_blob)] == [limits.BUNDLE_NODES_MAX, 1]


def test_the_raw_bytes_say_the_same_as_the_message() -> None:
    (message,) = decode.face_submissions("s", [b"M[4,1,[1,2,3]]"], no_blob)
    assert orjson.loads(message.raw) == [4, 1, [1, 2, 3]]
    assert (message.seq, message.kind_no, message.items) == (4, 1, [1, 2, 3])


def test_a_graph_comes_in_line_or_by_reference() -> None:
    body = container()
    frames = [graph_frame(7, body)], [graph_frame(7, b"@s-7/graph")]
    (direct,) = filter(None, decode.face_submissions("s", frames[0], no_blob))
    (referred,) = filter(None, decode.face_submissions("s", frames[1], lambda name: {"s-7/graph": body}[name]))
    assert direct.seq == referred.seq == 7
    assert direct.columns == referred.columns
    assert referred.raw == b"@s-7/graph"


def test_a_graph_that_cannot_be_read_is_refused_not_fatal() -> None:
    (message,) = decode.face_submissions("s", [graph_frame(9, b"\xff" * 40)], no_blob)
    assert isinstance(message, msg.SubmissionRefused)
    assert (message.seq, message.code) == (9, "MS903")


@pytest.mark.parametrize("frame", [b"", b"?[]", b"X"])
def test_unknown_frames_of_a_session(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(decode.face_submissions("s", [frame], no_blob))


def test_control_frames_of_a_session() -> None:
    assert decode.face_control("s", b'C[1,"s-1",null]') == msg.CancelAsked("s", 1, "s-1", None)
    assert decode.face_control("s", b'Q[2,"why",{"run":"s-1"}]') == msg.Queried("s", 2, "why", {"run": "s-1"})
    assert decode.face_control("s", b'Z{"drain":true,"timeout_s":1.5}') == msg.CloseAsked("s", True, 1_500_000_000)
    with pytest.raises(ProtocolError):
        decode.face_control("s", b"Y[]")


def test_what_a_worker_says_control_first() -> None:
    done = b"[7,[[1,2,[0],[5],10,[3]]]]"
    failed = b"E[7,[[2,2,1,5,9,{}]]]"
    hello, finished, other = decode.worker_messages(3, [b"H[7,99]"], [b"D" + done, failed], 12)
    assert hello == msg.WorkerHello(3, 7)
    assert finished == msg.WorkerDone(3, [[1, 2, [0], [5], 10, [3]]], done, 12)
    assert other == msg.WorkerFailed(3, [[2, 2, 1, 5, 9, {}]], 12)


def test_consecutive_nodes_of_a_worker_are_unpacked_for_all_who_read() -> None:
    done = b"[7,[[1,2,4,[5,6],10,[3,5]],[3,2,[9],[5],20,[3]]]]"
    ((_, first, _), (_, second, _)) = (
        (g[0], g[2], g[3]) for g in decode.worker_messages(3, [], [b"D" + done])[0].groups
    )
    assert (list(first), second) == ([4, 5], [9])


@pytest.mark.parametrize("frame", [b"", b"D", b"D{}", b"D[1]", b"E[1]", b"S[1,2]", b"H[]", b"?[]", b"P[1]"])
def test_a_malformed_frame_of_a_worker_names_it(frame: bytes) -> None:
    with pytest.raises(ProtocolError, match="worker 3"):
        decode.worker_messages(3, [], [frame])
