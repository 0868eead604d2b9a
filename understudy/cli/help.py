"""`understudy help`: list every verb, or explain one as `understudy VERB --help` does."""

from __future__ import annotations

import argparse

from understudy.cli.main import main
from understudy.cli.overview import whole_list


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="VERB", help="the verb to explain, with its action if it has some: experiment run"
    )


def run(options: argparse.Namespace) -> int:
    if options.words:
        return main([*options.words, "--help"])
    print(whole_list(), end="")
    return 0
