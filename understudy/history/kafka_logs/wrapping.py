"""Takes lines of logs out of the forms in which Docker, Docker Compose and kubectl print and keep them.

A form puts the name of a container and the time at which the engine received the line before the text, or keeps the
text as JSON. The name selects the lines of one broker; the engine's time is not used, because a line of Kafka has its
own. A file has one form.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias, cast

import msgspec

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""Length after which the rest of a line is not read. A controller of 200,000 partitions writes lines of about 8 MB."""

DOCKER_PIECE_BYTES: Final = 16 * 1024
"""Length after which Docker cuts a line. Each piece gets a time, or a JSON object, of its own."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"
_TIME_BEFORE_PIECE = re.compile(_TIME.encode() + b" ")
_COMPOSE = r"(?P<name>[^\s|]+) *\|(?: |$)"
_POD = r"\[(?P<name>pod/[^\]\s]+)\](?: |$)"


class LogError(Exception):
    """A log file cannot be imported. The message names the file, the line and the expected input."""


class Piece(NamedTuple):
    """The text of a line, or of a part of it.

    Attributes:
        name: the container or pod that wrote it; empty if the form has no names.
        stream: the stream that later parts belong to; empty unless the form cuts lines.
        is_end: whether the line ends with this part.
    """

    text: str
    name: str = ""
    stream: str = ""
    is_end: bool = True


Unwrap: TypeAlias = Callable[[str], Piece | None]


class Form(NamedTuple):
    """A form of log lines.

    Attributes:
        title: the command or the files that have this form, for messages.
        has_names: whether each line has the name of a container or pod.
        unwrap: returns the text of a line; None if the line does not have the form.
    """

    title: str
    has_names: bool
    unwrap: Unwrap


class WrappedLine(NamedTuple):
    """A line of a file.

    Attributes:
        number: the number of the line in the file, from 1; of its first part if it was cut.
        name: the container or pod that wrote it, empty if the form has no names; None if the line does not have the
            form of the file.
    """

    number: int
    name: str | None
    text: str


class _JsonLine(msgspec.Struct):
    """A line of Docker's `json-file` log driver."""

    log: str
    stream: str = ""


_JSON_DECODER = msgspec.json.Decoder(_JsonLine)


def _plain(line: str) -> Piece:
    return Piece(line)


def _json(line: str) -> Piece | None:
    if not line.startswith("{"):
        return None
    try:
        found = _JSON_DECODER.decode(line)
    except msgspec.DecodeError:
        return None
    text = found.log.rstrip("\r\n")
    return Piece(_without_colours(text), stream=found.stream, is_end=found.log.endswith("\n"))


def _text_form(title: str, prefix: str, *, has_time: bool) -> Form:
    """Return a form that sets a name, a time or both before each line."""
    times = _TIME + "(?: |$)" if has_time else ""
    expression = re.compile(f"{prefix}{times}(?P<text>.*)", re.DOTALL)

    def unwrap(line: str) -> Piece | None:
        match = expression.fullmatch(line)
        if match is None:
            return None
        text = match["text"]
        return Piece(_without_inner_times(text) if has_time else text, match["name"] if prefix else "")

    return Form(title, bool(prefix), unwrap)


PLAIN: Final = Form("the lines as Kafka writes them", False, _plain)
FORMS: Final = (
    Form("Docker's JSON files", False, _json),
    _text_form("kubectl logs --prefix --timestamps", _POD, has_time=True),
    _text_form("kubectl logs --prefix", _POD, has_time=False),
    _text_form("docker compose logs -t", _COMPOSE, has_time=True),
    _text_form("docker compose logs", _COMPOSE, has_time=False),
    _text_form("docker logs -t, kubectl logs --timestamps", "", has_time=True),
    PLAIN,
)
"""Forms of log files, each before those that would read its lines as well."""


def numbered_lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines without their ends and colours, numbered from 1. Raises LogError if the file cannot be read."""
    try:
        with _opened(file) as stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES):
                number += 1
                rest = line
                while not rest.endswith(b"\n") and (rest := stream.readline(MAX_LINE_BYTES)):
                    pass
                yield number, _without_colours(line.rstrip(b"\r\n").decode("utf-8", "replace"))
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise LogError(f"{file}: it cannot be read: {reason}") from None


def unwrapped_lines(file: Path, form: Form, begun: dict[str, WrappedLine], *, is_last: bool) -> Iterator[WrappedLine]:
    """Yield the lines of a file, the parts of cut lines joined.

    Args:
        begun: the lines that the file before this one leaves unended, by stream; replaced by the unended lines of this
            file.
        is_last: whether no file follows, so that lines without an end are yielded as they are.

    Raises:
        LogError: the file cannot be read.
    """
    for stream, line in begun.items():
        begun[stream] = line._replace(number=1)
    for number, text in numbered_lines(file):
        piece = form.unwrap(text)
        if piece is None:
            yield WrappedLine(number, None, text)
            continue
        line = WrappedLine(number, piece.name, piece.text)
        if begun and (start := begun.pop(piece.stream, None)) is not None:
            line = start._replace(text=(start.text + piece.text)[:MAX_LINE_BYTES])
        if piece.is_end:
            yield line
        else:
            begun[piece.stream] = line
    if is_last:
        yield from begun.values()
        begun.clear()


def _without_colours(text: str) -> str:
    return _COLOUR.sub("", text) if "\x1b" in text else text


def _without_inner_times(text: str) -> str:
    """Remove the times that Docker sets before each piece of a long line."""
    if len(text) <= DOCKER_PIECE_BYTES // 4:
        return text
    line = text.encode()
    pieces = []
    start = 0
    while match := _TIME_BEFORE_PIECE.match(line, start + DOCKER_PIECE_BYTES):
        pieces.append(line[start : match.start()])
        start = match.end()
    return b"".join((*pieces, line[start:])).decode("utf-8", "replace") if pieces else text


def _opened(file: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(file, "rb")) if file.suffix == ".gz" else file.open("rb")
