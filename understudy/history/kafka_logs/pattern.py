"""`LinePattern`: splits a line of a log4j file into its time, level, message and logger.

The pattern is given in log4j's own notation (`PatternLayout`), because operators can copy it from `log4j.properties`.
"""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DEFAULT_PATTERN: Final = "[%d] %p %m (%c)%n"
"""The pattern of every appender in the `config/log4j.properties` that Apache Kafka ships."""

_NAMED_FORMATS: Final = {
    "": "yyyy-MM-dd HH:mm:ss,SSS",
    "ISO8601": "yyyy-MM-dd HH:mm:ss,SSS",
    "DATE": "dd MMM yyyy HH:mm:ss,SSS",
}
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE_FIELDS: Final = {
    "yyyy": r"(?P<year>\d{4})",
    "MMM": rf"(?P<month_name>{'|'.join(_MONTHS)})",
    "MM": r"(?P<month>\d\d)",
    "dd": r"(?P<day>\d\d)",
    "HH": r"(?P<hour>\d\d)",
    "mm": r"(?P<minute>\d\d)",
    "ss": r"(?P<second>\d\d)",
    "SSS": r"(?P<ms>\d{3})",
    "XXX": r"(?P<offset>Z|[+-]\d\d:?\d\d)",
    "Z": r"(?P<offset>Z|[+-]\d\d:?\d\d)",
}
_DATE_TOKEN = re.compile(r"'(?P<quoted>[^']*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>.)", re.DOTALL)
_CONVERSION = re.compile(
    r"%(?:(?P<literal>%)|(?P<size>-?\d*(?:\.\d+)?)(?P<kind>[A-Za-z])(?:\{(?P<option>[^}]*)\})?)|(?P<text>[^%]+)"
)
_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)")


class WrongPattern(ValueError):
    """The pattern or the zone cannot be used. The message names the expected form."""


class LogLine(NamedTuple):
    """The first line of a log entry."""

    ms: int
    """Milliseconds since 1970-01-01 UTC."""
    later_ms: int
    """The same if the local clock shows this hour for the second time, because summer time has ended; else `ms`."""
    level: str
    """Empty if the pattern has no level."""
    logger: str
    """Empty if the pattern has none, or if the message continues in the next line."""
    message: str


class LinePattern:
    """Reads the lines that one `ConversionPattern` of log4j has written.

    Args:
        conversion: the pattern, with one `%d` and after it one `%m`.
        zone: the zone of times that name none.

    Raises:
        WrongPattern: `conversion` lacks a time or a message, or has a date format that names no day.
    """

    def __init__(self, conversion: str = DEFAULT_PATTERN, *, zone: tzinfo = UTC) -> None:
        self.conversion = conversion
        self._zone = zone
        before, after = _expressions(conversion)
        self._has_logger = "(?P<logger>" in before + after
        self._start = re.compile(before + "(?P<message>.*)", re.DOTALL)
        self._whole = re.compile(before + "(?P<message>.*)" + after, re.DOTALL)
        self._end = re.compile("(?P<message>.*)" + after, re.DOTALL)
        self._second_ms = functools.lru_cache(maxsize=4_096)(self._uncached_second_ms)

    def read(self, line: str) -> LogLine | None:
        """Read the first line of an entry; return None if `line` belongs to the entry before, as a stack trace does."""
        match = self._whole.fullmatch(line) or self._start.fullmatch(line)
        if match is None:
            return None
        found = match.groupdict()
        month = _MONTHS.index(found["month_name"]) + 1 if found.get("month_name") else int(found["month"])
        times = self._second_ms(
            int(found["year"]), month, int(found["day"]), found["hour"], found["minute"], found["second"],
            found.get("offset") or "",
        )  # fmt: skip
        if times is None:
            return None
        ms = int(found.get("ms") or 0)
        logger = found.get("logger") or ""
        return LogLine(times[0] + ms, times[1] + ms, found.get("level") or "", logger, found["message"])

    def read_end(self, line: str) -> tuple[str, str] | None:
        """Return the end of a message of several lines, and its logger; None if the message does not end here."""
        match = self._end.fullmatch(line) if self._has_logger else None
        return None if match is None else (match["message"], match.groupdict().get("logger") or "")

    def _uncached_second_ms(
        self, year: int, month: int, day: int, hour: str, minute: str, second: str, offset: str
    ) -> tuple[int, int] | None:
        """Return both meanings of a local time in milliseconds since 1970 UTC; None if there is no such time."""
        try:
            zone = parse_zone(offset) if offset else self._zone
            local = datetime(year, month, day, int(hour), int(minute), int(second), tzinfo=zone)
        except ValueError:
            return None
        first, later = local.timestamp(), local.replace(fold=1).timestamp()
        return round(first * 1000), round(max(first, later) * 1000)


def parse_zone(name: str) -> tzinfo:
    """Return the zone of an IANA name such as `Europe/Berlin`, of `UTC`, or of an offset such as `+02:00`.

    Raises:
        WrongPattern: there is no such zone.
    """
    if name in ("UTC", "Z"):
        return UTC
    if match := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"]))
        if offset < timedelta(hours=24):
            return timezone(-offset if match["sign"] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise WrongPattern(
            f"{name!r} is no time zone; expected a name such as Europe/Berlin, or an offset such as +02:00"
        ) from None


def _expressions(conversion: str) -> tuple[str, str]:
    """Return regular expressions for the text before and after the message. Raises WrongPattern."""
    parts = {"before": "", "after": ""}
    where = "before"
    seen: set[str] = set()
    position = 0
    while position < len(conversion):
        match = _CONVERSION.match(conversion, position)
        if match is None:
            raise WrongPattern(f"the pattern {conversion!r} has a % at {position} that begins no conversion of log4j")
        position = match.end()
        kind = match["kind"]
        if kind == "m":
            if "m" in seen:
                raise WrongPattern(f"the pattern {conversion!r} has two messages (%m); expected one")
            seen.add("m")
            where = "after"
        elif kind is None:
            parts[where] += re.escape(match["text"] or "%")
        else:
            parts[where] += _expression(kind, match["option"], match["size"], seen)
            seen.add(kind)
    if "m" not in seen or "(?P<year>" not in parts["before"]:
        raise WrongPattern(f"the pattern {conversion!r} lacks a time (%d) followed by a message (%m)")
    return parts["before"], parts["after"].rstrip()


def _expression(kind: str, option: str | None, size: str, seen: set[str]) -> str:
    """Return the regular expression for one conversion other than the message. Raises WrongPattern."""
    if kind == "n":
        return ""
    if kind == "d" and "d" not in seen:
        expression = _date_expression(option or "")
    elif kind == "p" and "p" not in seen:
        expression = r"(?P<level>[A-Z]+)"
    elif kind == "c" and "c" not in seen:
        expression = r"(?P<logger>[^\s()\[\]]+)"
    else:
        expression = ".*?"
    # A size pads with blanks: on the left, or on the right if it is negative.
    return rf"\s*{expression}\s*" if size else expression


def _date_expression(option: str) -> str:
    text = _NAMED_FORMATS.get(option, option)
    expression = ""
    fields: set[str] = set()
    for token in _DATE_TOKEN.finditer(text):
        letters = token["letters"]
        if letters is None:
            expression += re.escape(token["other"] if token["quoted"] is None else token["quoted"] or "'")
        elif letters in _DATE_FIELDS and letters not in fields:
            fields.add(letters)
            expression += _DATE_FIELDS[letters]
        else:
            raise WrongPattern(f"the date format {option!r} has {letters!r}; expected {', '.join(_DATE_FIELDS)}")
    if not {"yyyy", "dd", "HH", "mm", "ss"} <= fields or not fields & {"MM", "MMM"}:
        raise WrongPattern(f"the date format {option!r} does not name year, month, day, hour, minute and second")
    return expression
