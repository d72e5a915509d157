"""Options between arguments, for every command that has arguments which may be missing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from runtime.cli.app import parser
from runtime.cli.intermixed import IntermixedParser


def commands() -> dict[str, argparse.ArgumentParser]:
    (found,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)


def with_several() -> Iterator[str]:
    for name, command in commands().items():
        if any(action.nargs in ("?", "*", "+") for action in command._get_positional_actions()):
            yield name


def words_of(command: argparse.ArgumentParser) -> list[str]:
    """One word for each argument, two where there may be more."""
    words = []
    for action in command._get_positional_actions():
        word = next(iter(action.choices)) if action.choices else "5"
        words += [word] * (2 if action.nargs in ("*", "+") else 1)
    return words


def test_there_are_such_commands() -> None:
    assert {"query", "dead", "redrive", "discard", "drain", "why", "replay"} <= set(with_several())


@pytest.mark.parametrize("name", sorted(commands()))
def test_an_option_may_stand_anywhere(name: str) -> None:
    command = commands()[name]
    words, options = words_of(command), command._get_optional_actions()
    needed = [f"{option.option_strings[0]}=x" for option in options if option.required]
    flags = [option.option_strings[-1] for option in options if option.nargs == 0 and option.dest != "help"]
    flag = flags[0] if flags else "--input=x"
    expected = vars(parser().parse_args([name, *needed, flag, *words]))
    for place in range(len(words) + 1):
        assert vars(parser().parse_args([name, *words[:place], flag, *needed, *words[place:]])) == expected


def made() -> IntermixedParser:
    options = IntermixedParser(exit_on_error=False)
    options.add_argument("first")
    options.add_argument("more", nargs="*")
    options.add_argument("--size", type=int, default=3)
    return options


def test_an_unknown_option_is_refused_with_the_usage_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["query", "state", "--frob"], ["status", "state", "--frob"]):
        with pytest.raises(SystemExit):
            parser().parse_args(command)
        text = capsys.readouterr().err
        assert "unrecognized arguments: --frob" in text
        assert f" {command[0]} [-h]" in text.splitlines()[0]


def test_behind_two_hyphens_words_are_what_they_are() -> None:
    found = made().parse_args(["--size", "4", "a", "--", "--size", "-1"])
    assert (found.first, found.more, found.size) == ("a", ["--size", "-1"], 4)


def test_numbers_below_zero_are_no_options() -> None:
    assert made().parse_args(["a", "--size", "-4", "-5"]).more == ["-5"]
