"""Reads and writes the Java Properties format, the one of `server.properties` and `meta.properties`.

Mirrors `java.util.Properties.load` and `store`: `=`, `:` or white space end a key, a backslash escapes the next
character or continues the line, `#` and `!` begin comments only at the start of a line. The last of several equal keys
wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class MalformedProperties(ValueError):
    """A `\\u` is not followed by four hexadecimal digits. The message names the line."""


def parse_properties(text: str) -> dict[str, str]:
    """Return the values by key, in the order of the file.

    Raises:
        MalformedProperties: a broken `\\uXXXX` escape.
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        properties[_unescape(key, number)] = _unescape(value, number)
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """Return one line `key=value` for each key, escaped so that `parse_properties` reads the same mapping."""
    return "".join(f"{_escape(key, in_key=True)}={_escape(value, in_key=False)}\n" for key, value in properties.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their continuations joined, and the number of the first; without comments and blank lines."""
    natural = enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1)
    for number, raw in natural:
        line = raw.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            _, more = next(natural, (number, ""))
            line = line[:-1] + more.lstrip(_BLANKS)
        yield number, line


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Split at the first unescaped `=`, `:` or blank; blanks around one separator belong to neither side."""
    end = 0
    while end < len(line) and line[end] not in "=:" and line[end] not in _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            out.append(character)
        elif text[position : position + 1] == "u":
            out.append(_code_point(text[position + 1 : position + 5], line))
            position += 5
        elif position < len(text):
            out.append(_ESCAPES.get(text[position], text[position]))
            position += 1
    # Java's escapes are UTF-16 units, so that two of them make one character outside the basic plane.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _code_point(digits: str, line: int) -> str:
    if len(digits) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise MalformedProperties(
            f"line {line}: \\u{digits!s} is no character; expected four hexadecimal digits after \\u"
        )
    return chr(int(digits, 16))


def _escape(text: str, *, in_key: bool) -> str:
    out = text.replace("\\", "\\\\")
    for letter, character in _ESCAPES.items():
        out = out.replace(character, f"\\{letter}")
    for character in "=:#!":
        out = out.replace(character, f"\\{character}")
    if in_key:
        return out.replace(" ", "\\ ")
    return f"\\{out}" if out.startswith(" ") else out
