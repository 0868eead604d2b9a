"""`understudy --help` fits one screen, `understudy help` lists every verb, and each is described in a few words."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.cli.command_parser import CommandParser
from understudy.cli.main import main, parser
from understudy.cli.overview import GROUPS, VERBS
from understudy.kafka_tools.names import NAMES as TOOLS

LINES, COLUMNS = 24, 80
"""The screen of a terminal that has not been made larger; one line is left for the prompt."""
MOST_CHARACTERS = 59
"""In the description of a verb."""

FRONT = [verb for group in GROUPS for verb in group.begin]


@pytest.fixture
def descriptions() -> dict[str, str]:
    """What each verb does, as its parser says."""
    return {verb.dest: verb.help or "" for verb in parser().verbs._get_subactions()}


def test_the_front_page_fits_one_screen(capsys: pytest.CaptureFixture[str], descriptions: dict[str, str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < LINES
    assert max(map(len, lines)) <= COLUMNS
    rows = [line[line.index(verb) :].split(maxsplit=1) for line, verb in zip(lines[3:], FRONT, strict=False)]
    assert rows == [[verb, descriptions[verb]] for verb in FRONT]
    assert f"`understudy help` lists all {len(descriptions)} verbs" in lines[-1]


def test_the_whole_list_has_every_verb_once(capsys: pytest.CaptureFixture[str], descriptions: dict[str, str]) -> None:
    assert main(["help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    listed = [line.split(maxsplit=1) for line in lines if line.startswith("  ")]
    assert sorted(listed) == sorted([verb, text] for verb, text in descriptions.items())
    titles = [line for line in lines if line in {group.title for group in GROUPS}]
    assert titles == [group.title for group in GROUPS]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_described_in_a_few_words(verb: str, descriptions: dict[str, str]) -> None:
    text = descriptions[verb]
    assert 0 < len(text) <= MOST_CHARACTERS
    assert text[0].islower()
    assert not text.endswith(".")


def test_the_front_page_shows_verbs_of_every_group_but_the_last() -> None:
    for group in GROUPS[:-1]:
        assert set(group.begin) <= set(group.verbs)
        assert group.begin


@pytest.mark.parametrize("words", ["kill", "experiment run", "plan assignment keys", "topics", "help"])
def test_help_of_a_verb_is_what_the_verb_says(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    pages = []
    for line in (f"help {words}", f"{words} --help"):
        try:
            code: object = main(line.split())
        except SystemExit as ended:
            code = ended.code
        assert code == 0
        pages.append(capsys.readouterr().out)
    assert pages[0] == pages[1]
    assert pages[0].startswith(f"usage: understudy {words}")


def test_without_a_verb_the_front_page_is_printed_and_the_exit_code_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == parser().format_help()


def test_one_of_kafkas_tools_names_the_script_that_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", "--help"]) == 0
    assert "It has the flags, output and exit codes of kafka-dump-log.sh." in capsys.readouterr().out


# ------------------------------------------------------------------ the help of flags and arguments


def arguments_of(words: str, below: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    """The flags and arguments of a verb and of its actions, each with the words before it."""
    for action in below._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, parser_of_word in action.choices.items():
                if word not in TOOLS:
                    yield from arguments_of(f"{words} {word}", parser_of_word)
        else:
            yield f"{words} {'/'.join(action.option_strings) or action.metavar}", action


ARGUMENTS = dict(arguments_of("understudy", parser()))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_flag_is_explained(name: str) -> None:
    """In words: what it is, what its value is called, and its default as `(default …)`."""
    action = ARGUMENTS[name]
    assert action.help
    assert not re.search(r"\bwhere there\b|; default |\(default:|by default", action.help)
    assert not re.search(r"\((all|everywhere|%\(default\)\w|\d+)\)", action.help), "a default that is not called so"
    if action.nargs != 0 and action.choices is None:
        assert action.metavar is not None, "argparse would make a name of the flag"


def test_the_help_of_a_flag_has_its_default() -> None:
    below = CommandParser(prog="verb")
    for name, default in (("--a", 3), ("--b", 5.0), ("--c", (1, 2)), ("--d", "100%"), ("--e", Path("runs/x"))):
        below.add_argument(name, default=default, help=f"the value {name[2:]}")
    below.add_argument("--f", help="given (default the first time)", default=7)
    for name, nothing in (("--g", None), ("--h", ""), ("--i", False), ("--j", [])):
        below.add_argument(name, default=nothing, help=f"the value {name[2:]}")
    found = re.findall(r"(?:the value|given) .*", below.format_help())
    assert found == [
        "the value a (default 3)",
        "the value b (default 5)",
        "the value c (default 1,2)",
        "the value d (default 100%)",
        "the value e (default runs/x)",
        "given (default the first time)",
        "the value g",
        "the value h",
        "the value i",
        "the value j",
    ]


def test_an_action_of_a_verb_is_explained() -> None:
    for verb in ("experiment", "plan"):
        for each in parser().verbs.choices[verb]._actions:
            if isinstance(each, argparse._SubParsersAction):
                for name, action in each.choices.items():
                    assert action.description, f"{verb} {name}"
