"""Numbers in sentences."""

from __future__ import annotations

from actors.protocol.words import asker, counted


def test_one_is_singular_all_else_plural() -> None:
    assert [counted(n, "node") for n in (0, 1, 2, 12_345)] == ["0 nodes", "1 node", "2 nodes", "12,345 nodes"]
    assert [counted(n, "process", "processes") for n in (1, 2)] == ["1 process", "2 processes"]


def test_a_command_is_called_so_and_a_session_by_its_name() -> None:
    assert [asker(session) for session in ("command 11", "6b0d-1", "", None)] == ["a command", "6b0d-1", "", ""]
