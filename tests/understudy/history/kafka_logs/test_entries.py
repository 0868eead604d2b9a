"""Entries of log files: rotated and compressed files in order, stack traces, and files that are refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from understudy.history.kafka_logs import survey
from understudy.history.kafka_logs.entries import Entry, files_of_broker, log_sources
from understudy.history.kafka_logs.pattern import LinePattern, parse_zone
from understudy.history.kafka_logs.wrapping import LogError

NAME = "kafka.controller.KafkaController"


def line(time: str, message: str = "[Controller id=1] Resigned", day: str = "2026-05-01") -> str:
    return f"[{day} {time}] INFO {message} ({NAME})\n"


def log(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines))
    return path


def read(*files: Path, zone: str = "UTC") -> list[Entry]:
    pattern = LinePattern(zone=parse_zone(zone))
    (source,) = log_sources([(None, file) for file in files], pattern).sources
    return list(source.entries(pattern))


def test_rotated_files_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    newest = log(tmp_path / "controller.log", line("14:00:00,000", "[Controller id=1] third"))
    oldest = tmp_path / "controller.log.2026-05-01-12.gz"
    oldest.write_bytes(gzip.compress(line("12:59:59,999", "[Controller id=1] first").encode()))
    middle = log(tmp_path / "controller.log.2026-05-01-13", line("13:00:00,000", "[Controller id=1] second"))
    found = read(newest, oldest, middle)
    assert [entry.message.split()[-1] for entry in found] == ["first", "second", "third"]
    assert (found[0].file, found[0].line) == (oldest, 1)


def test_a_stack_trace_belongs_to_its_line(tmp_path: Path) -> None:
    trace = "java.io.IOException: gone\n\tat kafka.A.b(C.scala:1)\n"
    first, second = read(log(tmp_path / "controller.log", line("12:00:00,000"), trace, line("12:00:01,000")))
    assert first.rest == ("java.io.IOException: gone", "\tat kafka.A.b(C.scala:1)")
    assert (second.rest, second.line) == ((), 4)


def test_a_message_of_several_lines_gets_its_logger(tmp_path: Path) -> None:
    text = f"[2026-05-01 12:00:00,000] INFO [Controller id=1] one\ntwo ({NAME})\n\tat a.B\n"
    (entry,) = read(log(tmp_path / "controller.log", text))
    assert (entry.message, entry.logger, entry.rest) == ("[Controller id=1] one\ntwo", NAME, ("\tat a.B",))


def test_lines_that_are_out_of_order_by_a_moment_keep_their_order(tmp_path: Path) -> None:
    found = read(log(tmp_path / "controller.log", line("12:00:00,010"), line("12:00:00,003"), line("12:00:00,011")))
    assert [entry.ms - found[0].ms for entry in found] == [0, 0, 1]


def test_a_clock_that_goes_back_is_refused_with_file_and_line(tmp_path: Path) -> None:
    file = log(tmp_path / "controller.log", line("12:00:05,000"), "\tat a.B\n", line("12:00:03,000"))
    with pytest.raises(LogError, match=rf"{file}:3: the clock goes back by 2 s; expected files of one broker"):
        read(file)


def test_the_end_of_summer_time_is_no_clock_that_goes_back(tmp_path: Path) -> None:
    day = "2026-10-25"
    file = log(tmp_path / "controller.log", line("02:59:59,000", day=day), line("02:00:00,000", day=day))
    first, second = read(file, zone="Europe/Berlin")
    assert second.ms - first.ms == 1_000
    with pytest.raises(LogError, match=r"goes back by 1\.00 h"):
        read(file)


def test_a_file_that_begins_inside_a_stack_trace_is_read(tmp_path: Path) -> None:
    (entry,) = read(log(tmp_path / "controller.log", "\tat a.B\n", "\tat c.D\n", line("12:00:00,000")))
    assert entry.line == 3


def test_a_file_without_a_line_of_the_pattern_is_refused(tmp_path: Path) -> None:
    file = log(tmp_path / "controller.log", "hello\n")
    with pytest.raises(LogError, match=rf"{file}:1: no line has the pattern .*, as this one: 'hello'; expected"):
        read(file)


def test_a_file_that_turns_into_another_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "LEADING_LINES", 3)
    file = log(tmp_path / "controller.log", *["hello\n"] * 5, line("12:00:00,000"))
    with pytest.raises(LogError, match="no line has the pattern"):
        read(file)


def test_a_line_of_another_broker_is_refused(tmp_path: Path) -> None:
    file = log(tmp_path / "controller.log", line("12:00:00,000"), line("12:00:01,000", "[Controller id=2] Resigned"))
    with pytest.raises(LogError, match=rf"{file}:2: a line of broker 2 in a log of broker 1"):
        read(file)


def test_a_file_that_names_no_broker_is_refused_unless_it_is_given(tmp_path: Path) -> None:
    file = log(tmp_path / "controller.log", line("12:00:00,000", "no id"))
    with pytest.raises(LogError, match=r"do not name their broker.*--broker ID=DIR"):
        read(file)
    (source,) = log_sources([(7, file)], LinePattern()).sources
    assert source.broker == 7


def test_an_empty_file_is_left_out(tmp_path: Path) -> None:
    file = log(tmp_path / "controller.log")
    assert log_sources([(1, file)], LinePattern()) == ((), (file,), (), ())


def test_a_missing_or_broken_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="it cannot be read: No such file"):
        read(tmp_path / "controller.log")
    broken = tmp_path / "controller.log.gz"
    broken.write_bytes(gzip.compress(line("12:00:00,000").encode())[:-9])
    with pytest.raises(LogError, match=r"controller\.log\.gz: it cannot be read"):
        read(broken)


def test_the_files_of_a_brokers_folder(tmp_path: Path) -> None:
    names = [
        "controller.log",
        "controller.log.2026-05-01-13",
        "state-change.log.1.gz",
        "server.log",
        "server.log-20260501",
        "0123abcd-json.log",
        "0123abcd-json.log.1.gz",
    ]
    for name in [*names, "kafka-request.log", "controller.log.bak", "serverXlog"]:
        log(tmp_path / name)
    found = files_of_broker(tmp_path)
    assert sorted(path.name for path in found) == sorted(names)
    with pytest.raises(LogError, match=r"holds none of controller\.log"):
        files_of_broker(tmp_path.parent)
