"""Which folder is meant where nobody says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.protocol.profile_errors import ProfileUnavailable
from runtime.host import kernel
from runtime.profile.presence import find
from runtime.profile.presence.find import Running, running, state_dir_of, the_only_one
from tests.unit.profile.pages import opened_page

HERE = Running("/a/state", 11)


@pytest.mark.parametrize(
    "where",
    ["/a/state", Path("/a/state"), SimpleNamespace(state_dir="/a/state"),
     SimpleNamespace(config=SimpleNamespace(state_dir="/a/state"))],
)  # fmt: skip
def test_a_runtime_or_a_path_says_which(where: object) -> None:
    assert state_dir_of(where) == "/a/state"


def test_of_several_none_is_taken_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [HERE]
    monkeypatch.setattr(find, "running", lambda: found)
    assert the_only_one() == HERE
    assert state_dir_of(None) == "/a/state"
    found.append(Running("/b/state", 12))
    with pytest.raises(ProfileUnavailable, match=r"say which: /a/state \(pid 11\), /b/state \(pid 12\)") as several:
        state_dir_of(None)
    assert several.value.hint == "name one of these folders"
    found.clear()
    with pytest.raises(ProfileUnavailable, match="no program of this user has a state folder open here"):
        state_dir_of(None)


@pytest.mark.skipif(not kernel.LINUX, reason="needs /proc")
def test_an_open_folder_is_found_as_long_as_it_is_open(state_dir: Path) -> None:
    """By its page, which nobody else needs to keep a file about."""
    with opened_page(state_dir) as page:
        assert str(state_dir) in [one.state_dir for one in running()]
        assert page.words[0], "and it is still open here"
    assert str(state_dir) not in [one.state_dir for one in running()]
