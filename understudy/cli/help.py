"""`understudy help`: list every verb, or explain one as `understudy VERB --help` does."""

from __future__ import annotations

import argparse

from understudy.cli.arguments import Verbs


def register(verbs: Verbs) -> None:
    parser = verbs.add_parser("help", help="list all verbs, or explain one", description=__doc__)
    parser.add_argument(
        "words", nargs="*", metavar="VERB", help="the verb to explain, with its action if it has some: experiment run"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    # The module of the whole command line imports this one.
    from understudy.cli.main import main, parser
    from understudy.cli.overview import whole_list

    if options.words:
        return main([*options.words, "--help"])
    print(whole_list(parser().descriptions), end="")
    return 0
