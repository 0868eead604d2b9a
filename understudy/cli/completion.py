"""`understudy completion`: print the script with which a shell completes verbs, flags, choices and files.

The script is written once, and no program runs when it completes. Write it again after an upgrade.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

import shtab

from understudy.cli.command_parser import CommandParser, PreformattedHelp, UnderstudyParser
from understudy.cli.main import parser
from understudy.cli.overview import VERBS
from understudy.clusters.verb_table import TARGETS
from understudy.kafka_tools.options import COMMON, Flag
from understudy.kafka_tools.tools import TOOLS
from understudy.trials.experiments.language.library import names as names_of_experiments
from understudy.trials.lessons.library import names as names_of_lessons

SHELLS = ("bash", "zsh", "fish")
_INSTALLATION = """\
installation:
  bash  understudy completion bash > ~/.understudy.bash
        and in ~/.bashrc the line: source ~/.understudy.bash
  zsh   mkdir -p ~/.zfunc && understudy completion zsh > ~/.zfunc/_understudy
        and in ~/.zshrc, before compinit, the line: fpath=(~/.zfunc $fpath)
  fish  understudy completion fish > ~/.config/fish/completions/understudy.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _INSTALLATION
    parser.formatter_class = PreformattedHelp
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def run(options: argparse.Namespace) -> int:
    print(script(options.shell), end="")
    return 0


def script(shell: str) -> str:
    """Return the completion script for one of `SHELLS`."""
    whole = parser()
    _describe(whole)
    return shtab.complete(whole, shell).rstrip("\n") + "\n"


def _describe(whole: UnderstudyParser) -> None:
    """Add to the parser everything that a shell can complete; it can no longer parse a command line."""
    verbs = whole.verbs.choices
    # These parse their flags themselves, as Kafka does.
    verbs.update({name: _tools_parser(name, tool.flags) for name, tool in TOOLS.items()})
    for name, verb in VERBS.items():
        verbs[name].description = verb.meaning
    _complete_names(whole)
    for action in _actions(whole):
        if isinstance(action.metavar, str):
            # In zsh a colon separates the name of a value from the way in which it is completed.
            action.metavar = action.metavar.replace(":", "\\:")
        if hasattr(action, "complete"):
            continue
        if action.metavar in ("DIR", "RUN") and action.nargs in (None, "?"):
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]  # where shtab looks for it
        elif action.type is Path or str(action.metavar).startswith(("FILE", "SOURCE")):
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks for it


def _tools_parser(name: str, flags: Iterable[Flag]) -> CommandParser:
    """Return a parser with the flags of one of Kafka's tools."""
    below = CommandParser(prog=f"understudy {name}", add_help=False)
    for flag in (*flags, *COMMON):
        words, text = f"--{flag.name}", flag.help.replace("%", "%%")
        if flag.value:
            nargs = "?" if flag.is_optional else None
            below.add_argument(words, help=text, metavar=flag.value, nargs=nargs, action="append")
        else:
            below.add_argument(words, help=text, action="store_true")
    return below


def _complete_names(whole: UnderstudyParser) -> None:
    """Let the shell complete names that are known before a command line is parsed."""
    for action in _actions(whole):
        if action.metavar == "TARGET":
            action.choices = [target for target in TARGETS if target.isalpha()]
    for action in _actions(whole.verbs.choices["help"]):
        if action.metavar == "VERB":
            action.choices = list(whole.verbs.choices)
    lessons = (*names_of_lessons(), "new", "check", "schema")
    for verb, metavar, words in (("lesson", "NAME", lessons), ("experiment", "FILE", names_of_experiments())):
        for action in _actions(whole.verbs.choices[verb]):
            if action.metavar == metavar:
                action.complete = _words_or_files(verb, words)  # type: ignore[attr-defined]  # for shtab


def _words_or_files(name: str, words: Iterable[str]) -> dict[str, str | dict[str, str]]:
    """Return what shtab needs to complete words and the names of files.

    Args:
        name: a part of the functions' names in the scripts.
    """
    function = f"_understudy_{name}_or_file"  # shtab's script for bash finds by `_file` that it completes files
    listed = " ".join(words)
    return {
        "bash": function,
        "zsh": function,
        "fish": f"({function})",
        "preamble": {
            "bash": f'{function}() {{\n  compgen -W "{listed}" -- "$1"\n  compgen -f -- "$1"\n}}',
            "zsh": f"{function}() {{\n  _alternative 'names:{name}:({listed})' 'files:file:_files'\n}}",
            "fish": f"function {function}\n  printf '%s\\n' {listed}\n  __fish_complete_path (commandline -ct)\nend",
        },
    }


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The flags and arguments of a parser and of the parsers of its verbs or actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
        else:
            yield action
