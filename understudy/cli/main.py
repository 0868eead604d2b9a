"""The `understudy` command: which verbs there are, and what an error looks like.

A verb is a module of this package with `register(verbs)`, which describes it to argparse, and a function that runs it,
which
imports what it needs only then: `understudy --help` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from understudy.cli import check, crash_points, demo, health, replay, simulate, status, up, zookeeper
from understudy.cli.arguments import Failed

VERBS = (demo, up, status, check, health, simulate, crash_points, replay, zookeeper)
"""In the order of `--help`: the modules with `register`."""

EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code: 0 done, 1 failed, 2 the command line or what it names is wrong, 130
    interrupted."""
    options = parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except Failed as failure:
        print(f"understudy {options.verb}: {failure}", file=sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(prog="understudy", description="A Kafka control plane you can kill.")
    top.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs")
    for verb in VERBS:
        verb.register(verbs)
    return top


class _Version(argparse.Action):
    """Prints the version of the installed package and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        try:
            version = metadata.version("understudy")
        except metadata.PackageNotFoundError:
            version = "of unknown version: the package is not installed"
        print(f"understudy {version}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
