"""Parses command lines as Kafka's tools do: `--flag value`, `--flag=value`, no abbreviations.

Mirrors joptsimple's `OptionParser(false)` with the messages of its exceptions, and `CommandLineUtils`.
"""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from understudy.brokers.config.config_def import java_int, java_long
from understudy.kafka_tools.errors import JOPTSIMPLE, ToolError, UsageError, because_of

WIDTH = 100


class Flag(NamedTuple):
    """One flag of a tool.

    Attributes:
        value: the name of its value, for the help; empty if it takes none.
        is_optional: the value may be left out; it is empty then.
    """

    name: str
    help: str
    value: str = ""
    is_optional: bool = False


BOOTSTRAP_SERVER = Flag("bootstrap-server", "The brokers to connect to first.", "HOST:PORT,…")
COMMAND_CONFIG = Flag("command-config", "A properties file with the client's configuration.", "FILE")
COMMON = (Flag("help", "Print this help."), Flag("version", "Print the version."))


class Options:
    """The flags of one command line, in their order."""

    def __init__(self, given: Sequence[tuple[str, str]]) -> None:
        self._given = tuple(given)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the given flags in their order, with repetitions."""
        return tuple(name for name, _ in self._given)

    def has(self, name: str) -> bool:
        return name in self.names

    def values(self, name: str) -> list[str]:
        """The values of a flag that may be given several times."""
        return [value for given, value in self._given if given == name]

    def value(self, name: str) -> str | None:
        """The value of a flag, None if it was not given; raises ToolError if it was given twice."""
        found = self.values(name)
        if len(found) > 1:
            raise ToolError(
                f"{JOPTSIMPLE}MultipleArgumentsForOptionException",
                f"Found multiple arguments for option {name}, but you asked for only one",
            )
        return found[0] if found else None

    def number(self, name: str, *, is_long: bool = False) -> int | None:
        """The value of a flag of a whole number, as `value`; raises joptsimple's error for a value of another kind.

        joptsimple converts a value when a tool asks for it, so tools call this when Kafka's do.

        Args:
            is_long: it may have 64 bits; 32 otherwise.
        """
        for text in self.values(name):
            if (java_long if is_long else java_int)(text) is None:
                cause = because_of(number_format(text), f"{JOPTSIMPLE}internal.ReflectionException")
                raise cannot_parse(name, text, cause)
        found = self.value(name)
        return None if found is None else int(found)

    # ------------------------------------------------------------------ CommandLineUtils

    def require(self, *names: str) -> None:
        """Raise UsageError if a flag is missing."""
        for name in names:
            if not self.has(name):
                raise UsageError(f'Missing required argument "[{name}]"')

    def only_one_of(self, actions: Sequence[str], *, listed: str = "") -> str:
        """Return the action that was given; raises UsageError if there is none, or more than one."""
        given = [action for action in actions if self.has(action)]
        if len(given) != 1:
            listed = listed or ", ".join(f"--{action}" for action in actions)
            raise UsageError(f"Command must include exactly one action: {listed}")
        return given[0]

    def forbid(self, used: str, *others: str) -> None:
        """Raise UsageError if `used` was given together with one of `others`."""
        if self.has(used):
            for name in others:
                if self.has(name):
                    raise UsageError(f'Option "[{used}]" can\'t be used with option "[{name}]"')


def parse(flags: Iterable[Flag], words: Sequence[str]) -> Options:
    """Return the flags that `words` give. Words that belong to no flag are ignored, as joptsimple does by default.

    Raises:
        ToolError: an unknown flag or a missing value; with joptsimple's message.
    """
    known = {flag.name: flag for flag in (*flags, *COMMON)}
    given: list[tuple[str, str]] = []
    left = deque(words)
    while left:
        word = left.popleft()
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            continue
        name, equals, value = word.lstrip("-").partition("=")
        flag = known.get(name)
        if flag is None:
            raise ToolError(f"{JOPTSIMPLE}UnrecognizedOptionException", f"{name} is not a recognized option")
        if not flag.value:
            given.append((name, ""))
            continue
        if not equals and flag.is_optional:
            value = "" if not left or left[0].startswith("-") else left.popleft()
        elif not equals:
            following = left.popleft() if left else None
            if following is None:
                raise ToolError(
                    f"{JOPTSIMPLE}OptionMissingRequiredArgumentException", f"Option {name} requires an argument"
                )
            value = following
        given.append((name, value))
    return Options(given)


def cannot_parse(name: str, value: str, cause: ToolError | None = None) -> ToolError:
    """Return joptsimple's error for a value of the wrong type."""
    kind = f"{JOPTSIMPLE}OptionArgumentConversionException"
    return ToolError(kind, f"Cannot parse argument '{value}' of option {name}", cause=cause)


def java_number(options: Options, name: str, default: int, *, is_long: bool = False) -> int:
    """Return the number of a flag as `Options.number`, and `default` without the flag."""
    found = options.number(name, is_long=is_long)
    return default if found is None else found


def java_split(text: str, separator: str) -> list[str]:
    """Return the parts of a text as Java's `String.split` does, which leaves out empty ones at the end."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if parts[-1] or len(text) == 0 else []


def parse_int(text: str) -> int:
    """Return the number that Java's `Integer.parseInt` reads; raises ToolError if it refuses `text`."""
    found = java_int(text)
    if found is None:
        raise number_format(text)
    return found


def number_format(text: str) -> ToolError:
    """Return Java's error for a text that is no number."""
    return ToolError("java.lang.NumberFormatException", f'For input string: "{text}"')


def usage(tool: str, purpose: str, flags: Iterable[Flag]) -> str:
    """Return the help of a tool."""
    lines = [f"usage: understudy {tool} --FLAG VALUE …", "", purpose, "", "flags:"]
    for flag in sorted((*flags, *COMMON)):
        lines.append(f"  --{flag.name} {flag.value}".rstrip())
        lines += textwrap.wrap(flag.help, WIDTH - 8, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines) + "\n"
