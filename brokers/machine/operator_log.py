"""The operators' log of a broker process: structlog to standard error, under the names of Kafka's loggers.

It has three formats: JSON for programs, columns for a terminal, and lines like Kafka's log4j.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, MutableMapping
from datetime import datetime
from enum import Enum
from typing import TextIO, cast

import structlog

from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.logger_levels import LEVELS, LoggerLevels
from understudy.brokers.machine.kafka_log_lines import KafkaLogLines

FORMAT_VARIABLE = "LOG_FORMAT"
LEVEL_VARIABLE = "LOG_LEVEL"

_LEVEL_OF_STRUCTLOG = {"WARNING": "WARN", "CRITICAL": "FATAL"}


class LogFormat(Enum):
    JSON = "json"
    CONSOLE = "console"
    KAFKA = "kafka"


class OperatorLogger(structlog.PrintLogger):
    """A print logger with a name, such as `kafka.controller.KafkaController`."""

    def __init__(self, stream: TextIO, name: str) -> None:
        super().__init__(stream)
        self.name = name


class LogIdentity:
    """The id of the broker that each line of the log names.

    Args:
        broker_id: the configured id; −1 until a broker whose id ZooKeeper generates has it.
    """

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id

    def identify(self, broker_id: int) -> None:
        self.broker_id = broker_id


class _BestEffort:
    """A stream that drops what cannot be written: a full disk, or a closed pipe, costs lines and not the broker."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


class _Forwarding(logging.Handler):
    """Sends what kazoo and asyncio log to the same place."""

    def emit(self, record: logging.LogRecord) -> None:
        logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(record.name)
        logger.log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def log_format(option: str | None, environment: Mapping[str, str]) -> LogFormat | None:
    """The format that was asked for, the option before `LOG_FORMAT`; None if neither is given.

    Raises:
        ConfigError: there is no such format.
    """
    name, value = ("--log-format", option) if option else (FORMAT_VARIABLE, environment.get(FORMAT_VARIABLE))
    if not value:
        return None
    try:
        return LogFormat(value.lower())
    except ValueError:
        known = ", ".join(each.value for each in LogFormat)
        raise ConfigError(f"{name}={value} is not a log format; expected one of {known}") from None


def log_level(environment: Mapping[str, str]) -> str:
    """The level of the root logger, a name of `LEVELS`: the value of `LOG_LEVEL`, INFO if it is not set.

    Raises:
        ConfigError: there is no such level.
    """
    value = environment.get(LEVEL_VARIABLE) or "INFO"
    level = _LEVEL_OF_STRUCTLOG.get(value.upper(), value.upper())
    if level not in LEVELS:
        raise ConfigError(f"{LEVEL_VARIABLE}={value} is not a log level; expected one of {', '.join(LEVELS)}")
    return level


def configure_operator_log(
    stream: TextIO, *, identity: LogIdentity, levels: LoggerLevels, log_format: LogFormat | None = None
) -> None:
    """Send the log of this process to `stream`, as far as `levels` lets it pass. What cannot be written is dropped.

    Args:
        identity: the broker's id, which each line names.
        log_format: by default columns on a terminal, JSON elsewhere.
    """

    def drop_below_level(
        logger: OperatorLogger, method: str, event: MutableMapping[str, object]
    ) -> MutableMapping[str, object]:
        if structlog.processors.NAME_TO_LEVEL[method] < levels.threshold(logger.name):
            raise structlog.DropEvent
        return event

    def add_names(
        logger: OperatorLogger, _method: str, event: MutableMapping[str, object]
    ) -> MutableMapping[str, object]:
        event["logger"] = logger.name
        event["node"] = f"broker-{identity.broker_id}"
        return event

    class Leveled(structlog.make_filtering_bound_logger(logging.NOTSET)):  # type: ignore[misc]  # structlog makes it
        """Tells before a line is built whether it would be written."""

        def is_enabled_for(self, level: int) -> bool:
            return level >= levels.threshold(self._logger.name)

    out = cast(TextIO, _BestEffort(stream))
    structlog.configure(
        processors=[
            drop_below_level,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            add_names,
            *rendering(log_format or default_format(stream), identity=identity, is_terminal=stream.isatty()),
        ],
        wrapper_class=Leveled,
        logger_factory=lambda *names: OperatorLogger(out, names[0] if names else "kafka"),
        cache_logger_on_first_use=True,
    )
    logging.getLogger().handlers = [_Forwarding(logging.INFO)]


def default_format(stream: TextIO) -> LogFormat:
    return LogFormat.CONSOLE if stream.isatty() else LogFormat.JSON


def rendering(
    log_format: LogFormat,
    *,
    identity: LogIdentity,
    is_terminal: bool = False,
    now: Callable[[], datetime] = datetime.now,
) -> list[structlog.typing.Processor]:
    """The processors that turn the fields of a line into its text."""
    match log_format:
        case LogFormat.KAFKA:
            return [structlog.processors.format_exc_info, KafkaLogLines(lambda: identity.broker_id, now)]
        case LogFormat.CONSOLE:
            return [
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.dev.ConsoleRenderer(colors=is_terminal),
            ]
        case LogFormat.JSON:
            return [
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.dict_tracebacks,
                structlog.processors.JSONRenderer(),
            ]
