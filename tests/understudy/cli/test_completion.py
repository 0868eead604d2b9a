"""Completion in bash, zsh and fish: verbs, flags, choices, names and files, by the real shells."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.understudy.cli.shells import COMPLETE, need
from understudy.cli.completion import SHELLS, script
from understudy.cli.main import main

UNIQUE = [
    ("understudy ki", "kill"),
    ("understudy help exp", "experiment"),
    ("understudy experiment expl", "explain"),
    ("understudy plan assignment mem", "members"),
    ("understudy up --brok", "--brokers"),
    ("understudy up --brokers 3 --prox", "--proxied"),
    ("understudy up --log-format js", "json"),
    ("understudy simulate --seed 3 --di", "--dir"),
    ("understudy kill a-run contr", "controller"),
    ("understudy topics --bootstrap-s", "--bootstrap-server"),
    ("understudy topics --list --excl", "--exclude-internal"),
    ("understudy lesson zom", "zombie"),
    ("understudy experiment run kill-c", "kill-controller"),
    ("understudy experiment run mi", "mine.yaml"),
    ("understudy lesson --answers mi", "mine.yaml"),
    ("understudy check a-r", "a-run/"),
    ("understudy up --dir a-r", "a-run/"),
    ("understudy topics --command-config mi", "mine.yaml"),
    ("understudy completion f", "fish"),
    ("understudy mirror --from a:9092 --to b:9092 --onc", "--once"),
]
"""A line, and its only possible last word."""


SEVERAL = [
    ("understudy lesson --re", ["--record", "--recorded"]),
    ("understudy plan ", ["assignment", "partitions"]),
    ("understudy sweep --out", []),  # a former flag
]
"""A line, and all words that may follow or complete it."""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, list[str]]]:
    """What a shell answers by the line; each shell is started once."""
    folder = tmp_path_factory.mktemp("folder")
    (folder / "a-run").mkdir()
    (folder / "mine.yaml").touch()

    @cache
    def of_shell(shell: str) -> dict[str, list[str]]:
        file = tmp_path_factory.mktemp(shell) / "script"
        file.write_text(script(shell), encoding="utf-8")
        lines = [line for line, _ in UNIQUE] + ([] if shell == "zsh" else [line for line, _ in SEVERAL])
        return dict(zip(lines, COMPLETE[shell](file, folder, lines), strict=True))

    return of_shell


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("line", "word"), UNIQUE)
def test_a_shell_completes(shell: str, line: str, word: str, answers: Callable[[str], dict[str, list[str]]]) -> None:
    need(shell)
    [found] = answers(shell)[line]
    assert found.rstrip("/") == word.rstrip("/")  # bash itself adds the slash of a folder


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(("line", "words"), SEVERAL)
def test_a_shell_lists_what_is_possible(
    shell: str, line: str, words: list[str], answers: Callable[[str], dict[str, list[str]]]
) -> None:
    need(shell)
    assert answers(shell)[line] == words


def test_the_script_is_printed_and_the_help_says_where_to_put_it(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        assert capsys.readouterr().out == script(shell)
    with pytest.raises(SystemExit):
        main(["completion", "--help"])
    shown = capsys.readouterr().out
    for shell in SHELLS:
        assert f"understudy completion {shell} > ~/" in shown


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "fsh"])
    assert "'fsh'; did you mean 'fish'? (choose from bash, zsh, fish)" in capsys.readouterr().err
