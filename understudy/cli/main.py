"""The entry point of the `understudy` command: its verbs, its errors and its exit codes.

`overview.VERBS` names the module of each verb, which has two functions: `add_arguments(parser)` describes the verb to
argparse, and `run(options)` runs it. It is imported when the verb is used, so that `understudy --help` is fast.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from understudy.cli.arguments import BadInput, Failed, os_error, version
from understudy.cli.command_parser import UnderstudyParser
from understudy.cli.overview import SLOGAN, VERBS
from understudy.extras import MissingExtra
from understudy.history.storage.paths import StoreFailed

EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit code.

    It is 0 after success, 1 after a failure, 2 if the command line or something that it names is wrong, and 130 after
    an interruption.
    """
    words = sys.argv[1:] if arguments is None else arguments
    whole = parser(next((word for word in words if not word.startswith("-")), ""))
    if not words:
        whole.print_help(sys.stderr)
        return BadInput.exit_code
    options = whole.parse_args(words)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except (Failed, MissingExtra) as failure:
        print(f"understudy {options.verb}: {failure}", file=sys.stderr)
        return failure.exit_code if isinstance(failure, Failed) else Failed.exit_code
    except StoreFailed as failure:
        print(f"understudy {options.verb}: {os_error(failure)}", file=sys.stderr)
        return Failed.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader, for example `head`, has closed the pipe; Python would raise again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def parser(verb: str | None = None) -> UnderstudyParser:
    """Return the parser of the whole command line.

    Args:
        verb: the only verb whose arguments it has, so that no other one is imported; None for all.
    """
    whole = UnderstudyParser(prog="understudy", description=SLOGAN)
    whole.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    for name, (meaning, module_name) in VERBS.items():
        below = whole.verbs.add_parser(name, help=meaning)
        if verb in (None, name):
            module = importlib.import_module(f"understudy.cli.{module_name}")
            below.description = module.__doc__
            below.set_defaults(run=module.run, usage_error=below.error)
            module.add_arguments(below)
    return whole


class _Version(argparse.Action):
    """Prints the version of the installed package and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"understudy {version()}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
