"""Lines of log4j patterns: their time, level, logger and message."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from understudy.history.kafka_logs.pattern import DEFAULT_PATTERN, LinePattern, WrongPattern, parse_zone


def ms(year: int, month: int, day: int, hour: int, minute: int, second: int, millisecond: int = 0) -> int:
    return round(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp() * 1000) + millisecond


def test_kafkas_pattern() -> None:
    line = LinePattern().read(
        "[2026-05-01 12:00:01,234] INFO [Controller id=1] Resigned (kafka.controller.KafkaController)"
    )
    assert line is not None
    assert (line.ms, line.level) == (ms(2026, 5, 1, 12, 0, 1, 234), "INFO")
    assert (line.logger, line.message) == ("kafka.controller.KafkaController", "[Controller id=1] Resigned")


def test_a_message_keeps_its_parentheses() -> None:
    line = LinePattern().read("[2026-05-01 12:00:01,234] INFO a (b) c (d.E) (f.G$H)")
    assert line is not None
    assert (line.message, line.logger) == ("a (b) c (d.E)", "f.G$H")


@pytest.mark.parametrize(
    "text",
    ["\tat kafka.Kafka.main(Kafka.scala)", "", "java.io.IOException: gone", "[2026-13-41 12:00:01,234] INFO a (b)"],
)
def test_other_lines_begin_no_entry(text: str) -> None:
    assert LinePattern().read(text) is None


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("%d{ISO8601} %-5p %c: %m%n", "2026-05-01 12:00:01,234 WARN  a.B: gone"),
        ("%d{yyyy-MM-dd'T'HH:mm:ss.SSS} [%t] %p %c{1} - %m%n", "2026-05-01T12:00:01.234 [main] WARN a.B - gone"),
        ("%d{DATE} %5p [%c] %m%n", "01 May 2026 12:00:01,234  WARN [a.B] gone"),
        ("%d{yyyy-MM-dd HH:mm:ss,SSSZ} %p 100%% %m (%c)", "2026-05-01 14:00:01,234+0200 WARN 100% gone (a.B)"),
    ],
)
def test_other_patterns(pattern: str, line: str) -> None:
    found = LinePattern(pattern).read(line)
    assert found is not None
    assert found[0] == ms(2026, 5, 1, 12, 0, 1, 234)
    assert (found.level, found.logger, found.message) == ("WARN", "a.B", "gone")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("%p %m (%c)%n", "lacks a time"),
        ("[%d] %p (%c)%n", "lacks a time (%d) followed by a message"),
        ("%m [%d]", "followed by a message"),
        ("[%d] %m %m", "two messages"),
        ("[%d] %m %", "begins no conversion"),
        ("%d{HH:mm:ss} %m", "does not name year"),
        ("%d{ABSOLUTE} %m", "has 'A'"),
        ("%d{yyyy-MM-dd hh:mm:ss} %m", "has 'hh'"),
    ],
)
def test_patterns_that_cannot_be_used_are_refused(pattern: str, why: str) -> None:
    with pytest.raises(WrongPattern, match=why.replace("(", r"\(").replace(")", r"\)")):
        LinePattern(pattern)


def test_times_are_local_to_the_zone() -> None:
    text = "[2026-05-01 12:00:01,234] INFO a (b)"
    for zone, hour in (("Europe/Berlin", 10), ("-05:30", 17), ("UTC", 12)):
        line = LinePattern(DEFAULT_PATTERN, zone=parse_zone(zone)).read(text)
        assert line is not None
        assert line.ms == ms(2026, 5, 1, hour, 30 if zone == "-05:30" else 0, 1, 234)


def test_an_hour_that_occurs_twice_has_two_times() -> None:
    line = LinePattern(DEFAULT_PATTERN, zone=parse_zone("Europe/Berlin")).read("[2026-10-25 02:30:00,000] INFO a (b)")
    assert line is not None
    assert (line.ms, line.later_ms) == (ms(2026, 10, 25, 0, 30, 0), ms(2026, 10, 25, 1, 30, 0))


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "+25:00", "../etc/passwd"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(WrongPattern, match="is no time zone; expected a name such as Europe/Berlin"):
        parse_zone(zone)
