"""Parses the command lines of ZooKeeper's shell, with the messages of its exceptions.

Mirrors `ZooKeeperMain.MyCommandOptions`, the `DefaultParser` of Apache Commons CLI, which the shell uses for each
command, and `PathUtils`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

COMMANDS: Final[dict[str, str]] = {
    "addWatch": "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - "
    "default is PERSISTENT_RECURSIVE",
    "addauth": "scheme auth",
    "close": "",
    "config": "[-c] [-w] [-s]",
    "connect": "host:port",
    "create": "[-s] [-e] [-c] [-t ttl] path [data] [acl]",
    "delete": "[-v version] path",
    "deleteall": "path [-b batch size]",
    "delquota": "[-n|-b|-N|-B] path",
    "get": "[-s] [-w] path",
    "getAcl": "[-s] path",
    "getAllChildrenNumber": "path",
    "getEphemerals": "path",
    "history": "",
    "listquota": "path",
    "ls": "[-s] [-w] [-R] path",
    "printwatches": "on|off",
    "quit": "",
    "reconfig": "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | "
    "[-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
    "redo": "cmdno",
    "removewatches": "path [-c|-d|-a] [-l]",
    "set": "[-s] [-v version] path data",
    "setAcl": "[-s] [-v version] [-R] path acl",
    "setquota": "-n|-b|-N|-B val path",
    "stat": "[-w] path",
    "sync": "path",
    "version": "",
    "whoami": "",
}
"""The arguments of the commands of ZooKeeper 3.8's shell, in the order in which it lists them."""

NOT_FOUND: Final = 127
"""The exit code of a command that does not exist."""

_WORD: Final = re.compile(r"""\s*([^"']\S*|"[^"]*"|'[^']*')\s*""")
_CLI: Final = "org.apache.commons.cli."


class CommandError(Exception):
    """A command has failed. The message is what the shell prints.

    Args:
        code: the exit code of the shell if it is the last command.
    """

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def words_of(line: str) -> list[str]:
    """Return the words of a line; a word in quotes loses them."""
    words = [matched[1] for matched in _WORD.finditer(line)]
    return [word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word for word in words]


class Arguments:
    """The options and arguments of one command.

    Args:
        words: the command's name and what follows.
        flags: the letters of the options, and whether each has a value.

    Raises:
        CommandError: an option that the command does not have, or one without its value.
    """

    def __init__(self, words: Sequence[str], flags: Mapping[str, bool]) -> None:
        self._flags = flags
        self._given: dict[str, str] = {}
        self._waiting = ""
        self.args: list[str] = []
        """The arguments, the name of the command among them as the first."""
        are_options = True
        for word in words:
            if not are_options:
                self.args.append(word)
            elif word == "--":
                are_options = False
            elif self._waiting and not self._is_option(word):
                self._given[self._waiting], self._waiting = word, ""
            elif word.startswith("-") and word != "-":
                self._take(word)
            else:
                self.args.append(word)
        self._check_waiting()

    def has(self, letter: str) -> bool:
        return letter in self._given

    def number(self, letter: str, default: int) -> int:
        """Return the value of an option; raises CommandError if it is no number."""
        text = self._given.get(letter)
        if text is None:
            return default
        if not re.fullmatch(r"[+-]?\d+", text):
            raise CommandError(f'java.lang.NumberFormatException: For input string: "{text}"')
        return int(text)

    def path(self, usage: str) -> str:
        """Return the first argument; raises CommandError with the usage if there is none."""
        if len(self.args) < 2:
            raise CommandError(usage)
        return self.args[1]

    def _is_option(self, word: str) -> bool:
        return word.startswith("-") and word[1:2] in self._flags

    def _take(self, word: str) -> None:
        """Take one option, or several letters after one hyphen."""
        self._check_waiting()
        letters = word.removeprefix("-").removeprefix("-")
        for place, letter in enumerate(letters):
            if letter not in self._flags or word.startswith("--"):
                raise CommandError(f"{_CLI}UnrecognizedOptionException: Unrecognized option: {word}")
            self._given[letter] = ""
            if self._flags[letter]:
                rest = letters[place + 1 :].removeprefix("=")
                if rest:
                    self._given[letter] = rest
                else:
                    self._waiting = letter
                return

    def _check_waiting(self) -> None:
        if self._waiting:
            raise CommandError(f"{_CLI}MissingArgumentException: Missing argument for option: {self._waiting}")


def check_path(path: str, *, is_sequential: bool = False) -> None:
    """Raise CommandError if ZooKeeper's client would refuse a path before it asks a server.

    Args:
        is_sequential: a number will be added.
    """
    if is_sequential:
        path += "1"
    if not path:
        raise CommandError("Path length must be > 0")
    if not path.startswith("/"):
        raise CommandError("Path must start with / character")
    if path == "/":
        return
    if path.endswith("/"):
        raise CommandError("Path must not end with / character")
    if reason := _why_refused(path):
        raise CommandError(f'Invalid path string "{path}" caused by {reason}')


def _why_refused(path: str) -> str:
    place = 0
    for name in path[1:].split("/"):
        place += 1
        if not name:
            return f"empty node name specified @{place}"
        for offset, letter in enumerate(name):
            code = ord(letter)
            if code == 0:
                return f"null character not allowed @{place + offset}"
            if code <= 0x1F or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xF8FF or 0xFFF0 <= code <= 0xFFFF:
                return f"invalid character @{place + offset}"
        if name in (".", ".."):
            return f"relative paths not allowed @{place + len(name) - 1}"
        place += len(name)
    return ""
