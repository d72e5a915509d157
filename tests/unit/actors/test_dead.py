"""Dead letters are listed, looked at, replayed and discarded; singly, by filter and page by page."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.protocol import effects as fx
from actors.protocol import limits
from actors.protocol import messages as msg
from actors.protocol.records import RecordType
from tests.unit.actors.rig import Rig, kind, node_type, recovered


def fail_all(rig: Rig, failure_kind: str = "error") -> None:
    """Whatever is given fails."""
    failure = {"kind": failure_kind, "type": "builtins.ValueError", "message": "no", "traceback": "Traceback ..."}
    while leases := rig.taken(fx.LeaseWork):
        for lease in leases:
            for at, node in enumerate(lease.nodes):
                row = [lease.serial + at, lease.run.no, node, rig.now_ns, rig.now_ns + 5, failure]
                rig.say(msg.WorkerFailed(lease.worker, [row]))


def submit(rig: Rig, count: int, first: int = 1, **options: Any) -> None:
    rows = [[seq, first, seq * 10] for seq in range(first, first + count)]
    rig.say(msg.KindDefined("s", first, kind(**options)), msg.TasksSubmitted("s", rows, orjson.dumps(rows)))


def letters(rig: Rig, **args: Any) -> list[str]:
    return [row[0] for row in rig.ask("dead", **args)["rows"]]


def test_a_row_says_who_failed_how_and_when() -> None:
    rig = Rig()
    submit(rig, 2, tenant="acme", priority="high")
    fail_all(rig)
    first, second = rig.ask("dead")["rows"]
    assert first[:2] == ["s-1", "s-1"]
    assert second[:10] == ["s-2", "s-2", 0, "0", "m:f", "f", "error", "builtins.ValueError", "no", 1]
    assert 0 < first[10] < second[10] <= rig.wall_ns
    assert second[11:] == ["acme", "high"]
    assert recovered(rig.records).book.finished[1].rare.died == rig.core.scheduler.book.finished[1].rare.died


def test_nodes_and_items_have_numbers_and_every_name_is_found_again() -> None:
    rig = Rig()
    rig.submit_graph([[], [0]])
    rig.say(msg.KindDefined("s", 1, kind()), msg.MapSubmitted("s", 2, 1, [7, 8], b"[2,1,[7,8]]"))
    submit(rig, 2, 3)
    fail_all(rig)
    assert letters(rig) == ["s-3", "s-4", "s-2/0", "s-2/1", "s-1/0"]
    for letter in letters(rig):
        assert rig.ask("letter", letter=letter)["row"][0] == letter


def test_what_is_skipped_or_cancelled_is_no_letter() -> None:
    rig = Rig(boot=False)
    rig.submit_graph([[], [0]])
    rig.say(msg.CancelAsked("s", 5, "s-1", None))
    rig.told("Q")
    assert letters(rig) == []
    assert rig.ask("letter", letter="s-1/1")["code"] == "MS113"


def test_details_have_the_arguments_and_the_traceback() -> None:
    rig = Rig()
    submit(rig, 1, shape="call")
    fail_all(rig)
    found = rig.ask("letter", letter="s-1")
    assert (found["shape"], found["item"], found["cut"]) == ("call", 10, False)
    assert found["failure"]["traceback"] == "Traceback ..."


def test_arguments_that_do_not_fit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FRAME_BYTES_MAX", 20)
    rig = Rig()
    rig.say(msg.KindDefined("s", 1, kind()), msg.MapSubmitted("s", 1, 1, ["x" * 30], b'[1,1,["' + b"x" * 30 + b'"]]'))
    fail_all(rig)
    found = rig.ask("letter", letter="s-1")
    assert (found["item"], found["cut"]) == (None, True)


@pytest.mark.parametrize(
    ("letter", "code"),
    [("x-1", "MS121"), ("s-1/x", "MS121"), ("s-1/9", "MS113"), ("s-1/²", "MS121"), ("s-1", "MS113"), (7, "MS100")],
)
def test_names_of_nothing_are_refused(letter: object, code: str) -> None:
    rig = Rig()
    rig.submit_graph([[], []])
    fail_all(rig)
    assert rig.ask("letter", letter=letter)["code"] == code
    assert rig.ask("replay", letters=["s-1/0", letter])["code"] == code
    assert letters(rig) == ["s-1/0", "s-1/1"], "nothing was done, not even to the first"


def test_pages_go_on_where_they_ended() -> None:
    rig = Rig()
    submit(rig, 3)
    submit(rig, 4, 4)
    fail_all(rig)
    found: list[str] = []
    start = None
    while True:
        page = rig.ask("dead", limit=2, **{"from": start})
        assert len(page["rows"]) <= 2
        found += [row[0] for row in page["rows"]]
        start = page["next"]
        if start is None:
            break
    assert found == ["s-4", "s-5", "s-6", "s-7", "s-1", "s-2", "s-3"] == letters(rig)


def test_filters() -> None:
    rig = Rig(node_type(workers_min=2, workers_max=2))
    submit(rig, 2, tenant="a")
    fail_all(rig)
    submit(rig, 2, 3, handler="shop:pay")
    fail_all(rig, "timeout")
    assert letters(rig, filter={"tenant": "a"}) == ["s-1", "s-2"]
    assert letters(rig, filter={"handler": "shop:*"}) == ["s-3", "s-4"]
    assert letters(rig, filter={"kind": "timeout", "tenant": ""}) == ["s-3", "s-4"]
    assert letters(rig, filter={"run": "s-4"}) == ["s-4"]
    since = rig.ask("letter", letter="s-4")["row"][10]
    assert letters(rig, filter={"since_ns": since}) == ["s-4"]
    assert rig.ask("dead", filter={"kind": "cancelled"})["code"] == "MS101"
    assert rig.ask("replay", filter={"tenant": "a"}) == {"count": 2, "next": None}
    assert letters(rig) == ["s-3", "s-4"]


def test_a_filter_replays_page_by_page_whatever_fails_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LETTERS_PER_TURN", 2)
    rig = Rig()
    submit(rig, 5)
    fail_all(rig)
    counts, start = [], None
    while True:
        answer = rig.ask("replay", **{"from": start})
        fail_all(rig)
        counts.append(answer["count"])
        start = answer["next"]
        if start is None:
            break
    assert counts == [2, 2, 1]
    assert len(letters(rig)) == 5
    assert rig.ask("replay", letters=["s-1", "s-2", "s-3"])["code"] == "MS100"


def test_discarded_letters_are_gone_for_good_and_their_run_is_as_it_was() -> None:
    rig = Rig()
    rig.submit_graph([[], []])
    fail_all(rig)
    assert rig.ask("discard", letters=["s-1/0"]) == {"count": 1, "next": None}
    assert rig.ask("discard", letters=["s-1/0"]) == {"count": 0, "next": None}
    assert letters(rig) == ["s-1/1"]
    assert rig.ask("engine")["dead_letters"] == 1
    assert rig.ask("status", run="s-1")["state"] == "failed"
    assert recovered(rig.records).book.finished[1].rare.discarded == {0}
    assert [e[2] for e in rig.ask("story", run="s-1", node=0)["events"]][-1] == "discarded"
    assert rig.ask("replay") == {"count": 1, "next": None}
    rig.ask("rerun", run="s-1")
    fail_all(rig)
    assert letters(rig) == ["s-1/0", "s-1/1"], "what fails anew is a new letter"


def test_one_record_tells_of_all_letters_of_a_run() -> None:
    rig = Rig()
    submit(rig, 20)
    fail_all(rig)
    rig.ask("replay")
    assert sum(record.type == RecordType.DEAD for record in rig.records) == 1
    assert [e[2] for e in rig.ask("story", run="s-1")["events"]].count("replayed") == 1


def test_one_task_of_a_bundle_is_rerun_alone() -> None:
    rig = Rig()
    submit(rig, 3)
    fail_all(rig)
    assert rig.ask("rerun", run="s-2") == {"count": 1}
    assert letters(rig) == ["s-1", "s-3"]


def test_letters_of_a_run_that_is_being_cancelled_stay() -> None:
    rig = Rig(node_type(prefetch=1, workers_min=2, workers_max=2))
    rig.submit_graph([[], []])
    (first, second) = rig.leases()
    rig.fail(*first)
    rig.say(msg.CancelAsked("s", 5, "s-1", None))
    rig.told("Q")
    assert rig.ask("replay", letters=["s-1/0"])["code"] == "MS129"
    assert rig.ask("replay") == {"count": 0, "next": None}
    rig.fail(*second, failure_kind="cancelled")
    assert rig.ask("replay") == {"count": 1, "next": None}


def test_letters_go_with_their_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LETTER_RUNS_MAX", 0)
    rig = Rig()
    rig.core.scheduler.book.runs_max = 1
    submit(rig, 1)
    fail_all(rig)
    for seq in range(2, 5):
        rig.say(msg.MapSubmitted("s", seq, 1, [7], orjson.dumps([seq, 1, [7]])), msg.Told(1 << 40))
        fail_all(rig)
    assert "s-1" not in letters(rig)
    assert rig.ask("replay", letters=["s-1"])["code"] == "MS121"


def test_what_is_held_of_a_scope_is_counted_and_fetched_back() -> None:
    rig = Rig()
    submit(rig, 3, tenant="a")
    submit(rig, 1, 4)
    rig.ask("policy", change={"pause": ["tenant:a"]})
    assert rig.ask("held", scopes=["tenant:a"]) == {"held": 3}
    assert rig.ask("held", scopes=["tenant:b", "key:k"]) == {"held": 0}
    assert rig.ask("held", scopes=["class:normal"]) == {"held": 4}
    assert rig.taken(fx.Revoke) == []
    rig.ask("held", scopes=["tenant:a"], take_back=True)
    (revoke,) = rig.taken(fx.Revoke)
    won = revoke.serials[1:]
    rig.say(msg.LeasesRevoked(revoke.worker, won, revoke.serials))
    assert rig.ask("held", scopes=["tenant:a"]) == {"held": 1}
    assert rig.taken(fx.AskCancel) == [], "what runs goes on"
    assert rig.ask("held", scopes=["tenantA"])["code"] == "MS101"
