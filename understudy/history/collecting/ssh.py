"""Reads event logs of another machine with the program `ssh`, so that its keys, hosts and settings are those in use.

The other machine needs `sh`, `find`, `head`, `tail`, `tr` and `wc`. Nothing is written there.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from understudy.foundation.eventlog.files import log_file
from understudy.history.collecting.sources import ByteRange, NoEventLogs, SourceFailed, SourceFile
from understudy.history.reading.lines import decode_header

_SSH: Final = (
    "ssh", "-T", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4", "--",
)  # fmt: skip
"""With these options it ends if it cannot connect, or the other machine is silent for a minute."""
_PIECE: Final = 1 << 18
_LARGEST_LISTING: Final = 1 << 28
_NO_SUCH_PATH: Final = 4

_URL: Final = re.compile(r"(?P<destination>ssh://[^/\s]+)(?P<path>/.*)")
_HOST_AND_PATH: Final = re.compile(
    r"(?P<user>[^/:@\[\s]+@)?(?P<host>\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^/:@\[\s]+):(?P<path>.*)"
)

_LIST: Final = """\
path={path}
[ -e "$path" ] || exit {no_such_path}
find -H "$path" -type f -name '*-*-*.jsonl' -exec sh -c '
    for file do
        first=$(head -n 1 "$file" | head -c 65536 | tr -d "\\000")
        printf "%s %s\\n%s\\n" "$(wc -c <"$file" | tr -d " ")" "$file" "$first"
    done' sh {{}} +
"""
"""Prints two lines for each file: its size and its path, and its first line."""


class SshSource:
    """A path of another machine.

    Args:
        destination: the argument of `ssh`, such as `user@host` or `ssh://host:2222`.
        path: a folder or a file; a path that is not absolute begins in the user's home.
        name: the source as the user has named it.
    """

    def __init__(self, destination: str, path: str, name: str) -> None:
        self.name = name
        self._destination = destination
        self._path = path

    def files(self) -> list[SourceFile]:
        listing = bytearray()
        try:
            for piece in self._run(_LIST.format(path=shlex.quote(self._path), no_such_path=_NO_SUCH_PATH)):
                listing += piece
                if len(listing) > _LARGEST_LISTING:
                    raise SourceFailed(f"{self.name} has too many files; give the folder of the event logs")
        except _NoSuchPath:
            raise NoEventLogs(f"{self.name}: no such file or folder; give the folder of the event logs") from None
        lines = listing.decode("utf-8", "surrogateescape").split("\n")
        found = [each for pair in zip(lines[::2], lines[1::2], strict=False) for each in self._file(*pair)]
        if not found:
            raise NoEventLogs(f"{self.name} has no event-log files; give the folder of the event logs")
        return sorted(found)

    def read(self, ranges: Sequence[ByteRange]) -> Iterator[bytes]:
        missing = sum(each.size for each in ranges)
        for piece in self._run("".join(map(_command, ranges))):
            missing -= len(piece)
            yield piece
        if missing:
            raise SourceFailed(
                f"{self.name}: {missing:,} bytes of {ranges[0].path} are missing; it was read as it grew"
            )

    def _file(self, place: str, first: str) -> Iterator[SourceFile]:
        size, _, path = place.partition(" ")
        file = log_file(Path(path))
        if file is not None and size.isdecimal():
            yield SourceFile(file, int(size), _run_in(first))

    def _run(self, script: str) -> Iterator[bytes]:
        """Run a script in `sh` on the other machine, and yield its output."""
        with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as said:
            told.write(script.encode("utf-8", "surrogateescape"))
            told.seek(0)
            try:
                process = subprocess.Popen(
                    (*_SSH, self._destination, "sh"), stdin=told, stdout=subprocess.PIPE, stderr=said
                )
            except OSError as error:
                raise SourceFailed(f"{self.name}: the program ssh does not start: {error.strerror}") from None
            with process:
                try:
                    assert process.stdout is not None
                    while piece := process.stdout.read(_PIECE):
                        yield piece
                except GeneratorExit:
                    process.terminate()
                    raise
            if process.returncode == _NO_SUCH_PATH:
                raise _NoSuchPath
            if process.returncode:
                raise SourceFailed(f"{self.name}: {_last_line(said) or f'ssh ended with {process.returncode}'}")


class _NoSuchPath(Exception):
    pass


def ssh_source(text: str) -> SshSource | None:
    """Parse `[user@]host:PATH` or `ssh://[user@]host[:port]/PATH`; return None for a text of another form.

    As for `scp`, a text is of the first form if it has a colon before any slash.
    """
    if url := _URL.fullmatch(text):
        return SshSource(url["destination"], url["path"], text)
    match = _HOST_AND_PATH.fullmatch(text)
    if match is None or match["path"].startswith("//"):
        return None
    destination = (match["user"] or "") + match["host"].strip("[]")
    path = match["path"].removeprefix("~/").removeprefix("~") or "."
    return SshSource(destination, path if path.startswith("/") else f"./{path}", text)


def _command(wanted: ByteRange) -> str:
    path, size = shlex.quote(str(wanted.path)), wanted.size
    # A redirection, because a path may begin with a dash.
    return f"tail -c +{wanted.begin + 1} <{path} | head -c {size}\n" if wanted.begin else f"head -c {size} <{path}\n"


def _run_in(line: str) -> str:
    try:
        return decode_header(line.encode("utf-8", "surrogateescape")).run
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return ""


def _last_line(said: BinaryIO) -> str:
    said.seek(0)
    lines = said.read(_PIECE).decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
