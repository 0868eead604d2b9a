"""Flags that once had another name can still be given by it; the help has one word for one thing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.cli.arguments import path_or_url
from understudy.cli.main import main, parser

FORMER = [
    ("replay run", "--output", "--dir"),
    ("replay run", "--sink", "--lake"),
    ("lesson zombie", "--output", "--dir"),
    ("lesson zombie", "-o", "--dir"),
    ("import-kafka", "--output", "--dir"),
    ("sweep", "--output", "--dir"),
    ("simulate --seed 1", "--events", "--dir"),
    ("crash-points", "--events", "--dir"),
]
"""A command line, a former word and the word of today."""


@pytest.mark.parametrize(("line", "former", "word"), FORMER)
def test_an_old_word_means_what_the_new_one_does(line: str, former: str, word: str) -> None:
    expected = vars(parser().parse_args([*line.split(), word, "a/folder"]))
    given = vars(parser().parse_args([*line.split(), former, "a/folder"]))
    assert expected[word.removeprefix("--")] == Path("a/folder")
    for options in (expected, given):
        options.pop("usage_error", None)  # a method of the parser, of which there are two
    assert given == expected


@pytest.mark.parametrize(("line", "former", "word"), FORMER)
def test_the_help_shows_only_the_new_word(
    line: str, former: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([line.split()[0], "--help"])
    shown = capsys.readouterr().out.split()
    assert word in shown
    assert former not in shown
    assert f"[{former}" not in shown


def test_an_old_word_is_said_in_no_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that reads the output of a command finds nothing new in it."""
    for word in ("--dir", "--events"):
        assert main(["simulate", "--seed", "3", "--seconds", "1", word, str(tmp_path / word)]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    first, second = output.out.replace("--events", "--dir").split("event logs:")[:2]
    assert second.partition("\n")[2] == first


def test_a_required_folder_is_named_by_its_new_word(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("sweep", "import-kafka"):
        with pytest.raises(SystemExit):
            main([verb])
        assert capsys.readouterr().err.endswith("the following arguments are required: --dir\n")


def flags(verb: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The flags of a verb and of its actions."""
    for action in verb._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from flags(below)
        elif action.option_strings:
            yield action


READ = {
    "--java-home": "a Java",
    "--zookeeper-log": "logs of ZooKeeper",
    "--lake": "a lake, which many commands add to",
    "--checkpoint": "what Spark notes for itself",
    "--kafka-libs": "jars of Apache Kafka",
}
"""The flags that take a folder which is not the one that the verb leaves."""


def test_the_folder_that_a_verb_leaves_is_always_dir() -> None:
    named = {word for flag in flags(parser()) if flag.metavar == "DIR" for word in flag.option_strings}
    assert named - set(READ) == {"--dir", "--site", "-o"}
    for flag in flags(parser()):
        if "--dir" in flag.option_strings:
            assert (flag.option_strings[-1], flag.metavar) == ("--dir", "DIR")
            assert flag.type in (Path, path_or_url)
        if "--output" in flag.option_strings:
            assert flag.metavar == "FILE"
