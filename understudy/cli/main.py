"""The entry point of the `understudy` command: its verbs, its errors and its exit codes.

A verb is a module of this package with two functions: `register(verbs)` describes it to argparse, and another function
runs it. That one imports what it needs only then, so that `understudy --help` is fast. The module `verbs` has all that
act on a running cluster.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from understudy.cli import (
    check,
    compare,
    completion,
    crash_points,
    demo,
    experiment,
    health,
    hunt,
    import_kafka,
    ingest,
    lesson,
    mirror,
    mutants,
    page,
    plan,
    replay,
    simulate,
    soak,
    status,
    sweep,
    tools,
    up,
    verbs,
    watch,
    zookeeper,
)
from understudy.cli import help as help_verb
from understudy.cli.arguments import BadInput, Failed, version
from understudy.cli.command_parser import UnderstudyParser
from understudy.cli.overview import SLOGAN
from understudy.extras import MissingExtra

VERBS = (
    demo,
    up,
    watch,
    page,
    status,
    verbs,
    tools,
    mirror,
    lesson,
    plan,
    soak,
    check,
    experiment,
    health,
    simulate,
    hunt,
    crash_points,
    mutants,
    sweep,
    replay,
    compare,
    ingest,
    import_kafka,
    zookeeper,
    help_verb,
    completion,
)
"""The modules of the verbs; `overview` groups them for the help."""

EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit code.

    It is 0 after success, 1 after a failure, 2 if the command line or something that it names is wrong, and 130 after
    an interruption.
    """
    whole = parser()
    words = sys.argv[1:] if arguments is None else arguments
    if not words:
        whole.print_help(sys.stderr)
        return BadInput.exit_code
    options = whole.parse_args(words)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except Failed as failure:
        print(f"understudy {options.verb}: {failure}", file=sys.stderr)
        return failure.exit_code
    except MissingExtra as missing:
        print(f"understudy {options.verb}: {missing}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader, for example `head`, has closed the pipe; Python would raise again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def parser() -> UnderstudyParser:
    """Return the parser of the whole command line."""
    whole = UnderstudyParser(prog="understudy", description=SLOGAN)
    whole.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    for module in VERBS:
        module.register(whole.verbs)
    return whole


class _Version(argparse.Action):
    """Prints the version of the installed package and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"understudy {version()}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
