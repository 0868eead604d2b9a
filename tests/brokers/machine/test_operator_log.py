"""Tests of the operators' log: formats, levels, the options that choose them."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
import structlog

from understudy.brokers.__main__ import main
from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.logger_levels import LoggerLevels
from understudy.brokers.machine.operator_log import (
    LogFormat,
    LogIdentity,
    configure_operator_log,
    default_format,
    log_format,
    log_level,
    rendering,
)


class FullDisk(io.StringIO):
    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().write(text)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def no_context() -> Iterator[None]:
    structlog.contextvars.clear_contextvars()
    yield
    structlog.contextvars.clear_contextvars()


def test_line_that_cannot_be_written_raises_nothing() -> None:
    stream = FullDisk()
    configure_operator_log(stream, identity=LogIdentity(1), levels=LoggerLevels())
    log = structlog.get_logger("kafka.server.KafkaServer")
    log.info("lost")
    stream.full = False
    log.info("written")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["written"]


# ------------------------------------------------------------------ formats


def written(chosen: LogFormat | None, stream: io.StringIO | None = None) -> str:
    """Write three lines, and return the text."""
    out = stream or io.StringIO()
    configure_operator_log(out, identity=LogIdentity(7), levels=LoggerLevels(), log_format=chosen)
    with structlog.contextvars.bound_contextvars(controller_epoch=3):
        structlog.get_logger("kafka.controller.KafkaController").warning("resigned", why="session expired")
    structlog.get_logger("kafka.server.KafkaServer").debug("not written")
    logging.getLogger("kazoo.client").warning("a library's %s", "line")
    return out.getvalue()


def test_json_is_one_object_a_line() -> None:
    first, second = (json.loads(line) for line in written(LogFormat.JSON).splitlines())
    assert datetime.fromisoformat(first.pop("timestamp")).tzinfo is not None
    assert first == {
        "event": "resigned",
        "level": "warning",
        "logger": "kafka.controller.KafkaController",
        "node": "broker-7",
        "controller_epoch": 3,
        "why": "session expired",
    }
    assert (second["logger"], second["event"]) == ("kazoo.client", "a library's line")


def test_console_has_colours_on_a_terminal_only() -> None:
    plain, coloured = written(LogFormat.CONSOLE), written(LogFormat.CONSOLE, Terminal())
    assert re.search(r"\[warning +\] resigned +.*controller_epoch=3.*why='session expired'", plain)
    assert "\x1b[" not in plain
    assert "\x1b[" in coloured


def test_without_a_choice_a_terminal_gets_columns_and_a_file_json() -> None:
    assert (default_format(Terminal()), default_format(io.StringIO())) == (LogFormat.CONSOLE, LogFormat.JSON)
    assert json.loads(written(None).splitlines()[0])["event"] == "resigned"
    assert "\x1b[" in written(None, Terminal())


KAFKAS = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) .* \([\w.]+\)")
"""The pattern of lines in Kafka's log: `[%d] %p %m (%c)`."""


def test_kafkas_format_is_that_of_its_log4j() -> None:
    lines = written(LogFormat.KAFKA).splitlines()
    assert all(KAFKAS.fullmatch(line) for line in lines), lines
    assert [line.split("] ", 1)[1] for line in lines] == [
        'WARN [Controller id=7] resigned, why="session expired", controller_epoch=3 (kafka.controller.KafkaController)',
        "WARN a library's line (kazoo.client)",
    ]


def kafkas(logger: str, event: str, **fields: object) -> str:
    """A line in Kafka's format, without its time."""
    *before, renderer = rendering(
        LogFormat.KAFKA, identity=LogIdentity(7), now=lambda: datetime(2026, 11, 22, 3, 16, 17, 123_456)
    )
    line: object = {"event": event, "level": "info", "logger": logger, "node": "broker-7", **fields}
    for processor in before:
        line = processor(None, "info", line)  # type: ignore[arg-type]  # structlog passes a plain dict here
    text = renderer(None, "info", line)  # type: ignore[arg-type]  # structlog passes a plain dict here
    assert isinstance(text, str)
    assert text.startswith("[2026-11-22 03:16:17,123] INFO ")
    return text.removeprefix("[2026-11-22 03:16:17,123] INFO ")


@pytest.mark.parametrize(
    ("logger", "fields", "prefix"),
    [
        ("state.change.logger", {"controller_event": "Startup", "controller_epoch": 2}, "[Controller id=7 epoch=2] "),
        ("state.change.logger", {"controller_epoch": 2}, "[Broker id=7] "),
        ("kafka.cluster.Partition", {"partition": "orders-0"}, "[Partition orders-0 broker=7] "),
        ("kafka.server.KafkaApis", {}, "[KafkaApi-7] "),
        ("kafka.server.ZkConfigManager", {}, ""),
    ],
)
def test_messages_begin_as_those_of_kafkas_class(logger: str, fields: dict[str, object], prefix: str) -> None:
    assert kafkas(logger, "message", **fields).startswith(f"{prefix}message")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain-0.value", "plain-0.value"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        (
            "end)\n[2026-11-22 03:16:17,123] FATAL forged (kafka.Kafka",
            '"end)\\n[2026-11-22 03:16:17,123] FATAL forged (kafka.Kafka"',
        ),
        ("\x1b[2J", '"\\u001b[2J"'),
        (5, "5"),
        (None, "null"),
        ((1, 2), "[1, 2]"),
        ({"a": (1,)}, '{"a": [1]}'),
        (Path("/x"), '"/x"'),
    ],
)
def test_value_is_escaped_so_that_it_ends_neither_field_nor_line(value: object, text: str) -> None:
    assert kafkas("kafka.Kafka", "message", field=value) == f"message, field={text} (kafka.Kafka)"


def test_message_of_a_library_is_escaped_too() -> None:
    assert kafkas("kazoo", "one\ntwo") == '"one\\ntwo" (kazoo)'


def test_a_traceback_follows_its_line() -> None:
    try:
        raise ZeroDivisionError("by nothing")
    except ZeroDivisionError as error:
        first, *rest = kafkas("kafka.Kafka", "failed", exc_info=error).splitlines()
    assert first == "failed (kafka.Kafka)"
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1] == "ZeroDivisionError: by nothing"


# ------------------------------------------------------------------ the chosen format


@pytest.mark.parametrize(
    ("option", "environment", "chosen"),
    [
        (None, {}, None),
        (None, {"LOG_FORMAT": ""}, None),
        (None, {"LOG_FORMAT": "Kafka"}, LogFormat.KAFKA),
        ("json", {"LOG_FORMAT": "kafka"}, LogFormat.JSON),
        ("console", {"LOG_FORMAT": "nonsense"}, LogFormat.CONSOLE),
    ],
)
def test_the_option_is_stronger_than_the_environment(
    option: str | None, environment: dict[str, str], chosen: LogFormat | None
) -> None:
    assert log_format(option, environment) is chosen


@pytest.mark.parametrize(
    ("value", "level"),
    [(None, "INFO"), ("", "INFO"), ("DEBUG", "DEBUG"), ("warn", "WARN"), ("Warning", "WARN"), ("critical", "FATAL")],
)
def test_levels_have_the_names_of_log4j_and_of_structlog(value: str | None, level: str) -> None:
    assert log_level({} if value is None else {"LOG_LEVEL": value}) == level


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["--log-format", "xml"], {}, "--log-format=xml is not a log format; expected one of json, console, kafka"),
        ([], {"LOG_FORMAT": "xml"}, "LOG_FORMAT=xml is not a log format; expected one of json, console, kafka"),
        (
            [],
            {"LOG_LEVEL": "LOUD"},
            "LOG_LEVEL=LOUD is not a log level; expected one of TRACE, DEBUG, INFO, WARN, ERROR, FATAL",
        ),
    ],
)
def test_unknown_format_or_level_is_refused_before_the_start(
    arguments: list[str],
    environment: dict[str, str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"broker.id=1\nzookeeper.connect=127.0.0.1:1\nlog.dirs={tmp_path / 'data'}\n")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main([str(properties), *arguments]) == 1
    assert capsys.readouterr().err == f"{message}\n"
    assert not (tmp_path / "data").exists()


def test_unknown_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="LOG_LEVEL=5 is not a log level; expected one of TRACE, DEBUG, INFO"):
        log_level({"LOG_LEVEL": "5"})


def test_the_level_of_the_environment_is_that_of_the_root_logger() -> None:
    levels = LoggerLevels(log_level({"LOG_LEVEL": "ERROR"}))
    stream = io.StringIO()
    configure_operator_log(stream, identity=LogIdentity(1), levels=levels, log_format=LogFormat.KAFKA)
    log = structlog.get_logger("kafka.server.KafkaServer")
    log.warning("left out")
    log.error("written")
    assert levels.describe()["root"] == "ERROR"
    assert len(stream.getvalue().splitlines()) == 1
