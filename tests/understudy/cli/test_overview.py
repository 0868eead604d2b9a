"""`understudy --help` fits one screen, `understudy help` lists every verb, and each is described in a few words."""

from __future__ import annotations

import pytest

from understudy.cli.main import main, parser
from understudy.cli.overview import GROUPS

LINES, COLUMNS = 24, 80
"""The screen of a terminal that has not been made larger; one line is left for the prompt."""
MOST_CHARACTERS = 59
"""In the description of a verb."""

FRONT = [verb for group in GROUPS for verb in group.begin]


@pytest.fixture
def descriptions() -> dict[str, str]:
    return parser().descriptions


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


@pytest.mark.parametrize("verb", parser().descriptions)
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
