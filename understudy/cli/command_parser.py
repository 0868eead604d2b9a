"""The parsers of the command line: argparse's, with errors that propose the nearest word, and help on one screen."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from understudy.cli.overview import front_page
from understudy.clusters.nearest_word import did_you_mean


class HelpFormatter(argparse.HelpFormatter):
    """Adds the default of an argument to its help, as `(default 3)`, unless the help names another one."""

    def _get_help_string(self, action: argparse.Action) -> str:
        """Return the help of an argument. A part of argparse that formatters may override."""
        text, default = action.help or "", action.default
        if isinstance(default, tuple):
            default = ",".join(map(str, default))
        is_shown = isinstance(default, str | int | float | Path) and not isinstance(default, bool)
        if not is_shown or default in ("", argparse.SUPPRESS) or "(default" in text:
            return text
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        return f"{text} (default {shown.replace('%', '%%')})"


class PreformattedHelp(HelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of the description and the epilog."""


class CommandParser(argparse.ArgumentParser):
    """argparse's parser, with defaults in its help. The error about an unknown word proposes the nearest known one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, **settings})

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise `ArgumentError` if the value is none of the choices. A part of argparse that parsers may override."""
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            message = f"invalid choice: {value!r}{did_you_mean(str(value), known)} ({self._choices_in_words(known)})"
            raise argparse.ArgumentError(action, message)

    def _choices_in_words(self, known: Iterable[str]) -> str:
        return f"choose from {', '.join(known)}"


class UnderstudyParser(CommandParser):
    """The parser of the whole command line. Its help is the front page; `understudy help` lists all verbs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # The parsers of the verbs have argparse's own help.
        self.verbs = self.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=CommandParser)

    def format_help(self) -> str:
        return front_page(self.format_usage())

    def _choices_in_words(self, known: Iterable[str]) -> str:
        return "`understudy help` lists all verbs"
