"""Parses command lines as Kafka's tools do: `--flag value`, `--flag=value`, no abbreviations.

Mirrors joptsimple's `OptionParser(false)` with the messages of its exceptions, and `CommandLineUtils`.
"""

from __future__ import annotations

import re
import textwrap
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from understudy.brokers.config.config_def import java_int
from understudy.kafka_tools.errors import JOPTSIMPLE, ToolError, UsageError, because_of

WIDTH = 100


class Flag(NamedTuple):
    """One flag of a tool.

    Attributes:
        value: the name of its value, for the help; empty if it takes none.
        is_int: the value is a whole number of 32 bits.
        is_optional: the value may be left out; it is empty then.
    """

    name: str
    help: str
    value: str = ""
    is_int: bool = False
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

    def number(self, name: str) -> int | None:
        """The value of a flag of a whole number, as `value`."""
        text = self.value(name)
        return None if text is None else int(text)

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
        ToolError: an unknown flag, a missing value, or one that is no number; with joptsimple's message.
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
        if flag.is_int and java_int(value) is None:
            raise cannot_parse(name, value)
        given.append((name, value))
    return Options(given)


def cannot_parse(name: str, value: str, cause: ToolError | None = None) -> ToolError:
    """Return joptsimple's error for a value of the wrong type."""
    kind = f"{JOPTSIMPLE}OptionArgumentConversionException"
    return ToolError(kind, f"Cannot parse argument '{value}' of option {name}", cause=cause)


def java_number(options: Options, name: str, default: int, *, is_long: bool = False) -> int:
    """Return the number that a flag has, and `default` without the flag; raises joptsimple's error with its causes.

    Tools look at such a flag when they need it; a flag that `is_int` is looked at first.

    Args:
        is_long: it may have 64 bits; 32 otherwise.
    """
    text = options.value(name)
    if text is None:
        return default
    bits = 64 if is_long else 32
    found = int(text) if re.fullmatch(r"[+-]?\d+", text) else None
    if found is None or not -(1 << bits - 1) <= found < 1 << bits - 1:
        malformed = ToolError("java.lang.NumberFormatException", f'For input string: "{text}"')
        raise cannot_parse(name, text, because_of(malformed, f"{JOPTSIMPLE}internal.ReflectionException"))
    return found


def usage(tool: str, purpose: str, flags: Iterable[Flag]) -> str:
    """Return the help of a tool."""
    lines = [f"usage: understudy {tool} --FLAG VALUE …", "", purpose, "", "flags:"]
    for flag in sorted((*flags, *COMMON)):
        lines.append(f"  --{flag.name} {flag.value}".rstrip())
        lines += textwrap.wrap(flag.help, WIDTH - 8, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines) + "\n"
