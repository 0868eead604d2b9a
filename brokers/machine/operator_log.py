"""Operators' logs: structlog to standard error, in Kafka's terms. For people on a terminal, as JSON everywhere else."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import MutableMapping
from typing import TextIO, cast

import structlog

from brokers.config.logger_levels import LoggerLevels


class OperatorLogger(structlog.PrintLogger):
    """A print logger that knows its name, such as `kafka.controller.KafkaController`."""

    def __init__(self, stream: TextIO, name: str) -> None:
        super().__init__(stream)
        self.name = name


class _BestEffort:
    """A stream whose failures stay with it: a full disk, or a reader that has gone, costs lines and not the broker."""

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
    """Lets the libraries underneath, kazoo and asyncio, speak in the same log."""

    def emit(self, record: logging.LogRecord) -> None:
        logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(record.name)
        logger.log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def configure_operator_log(stream: TextIO, *, node: str, levels: LoggerLevels) -> None:
    """Send the log of this process to `stream`, each line with its logger and `node`, as far as `levels` lets it pass.

    What cannot be written is left out.
    """

    def loud_enough(
        logger: OperatorLogger, method: str, event: MutableMapping[str, object]
    ) -> MutableMapping[str, object]:
        if structlog.processors.NAME_TO_LEVEL[method] < levels.threshold(logger.name):
            raise structlog.DropEvent
        return event

    def about(logger: OperatorLogger, _method: str, event: MutableMapping[str, object]) -> MutableMapping[str, object]:
        event["logger"] = logger.name
        event["node"] = node
        return event

    class Leveled(structlog.make_filtering_bound_logger(logging.NOTSET)):  # type: ignore[misc]  # structlog makes the class
        """Knows before a line is built whether it would be read."""

        def is_enabled_for(self, level: int) -> bool:
            return level >= levels.threshold(self._logger.name)

    out = cast(TextIO, _BestEffort(stream))
    rendering: list[structlog.typing.Processor]
    if stream.isatty():
        rendering = [structlog.dev.ConsoleRenderer()]
    else:
        rendering = [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[
            loud_enough,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            about,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *rendering,
        ],
        wrapper_class=Leveled,
        logger_factory=lambda *names: OperatorLogger(out, names[0] if names else "kafka"),
        cache_logger_on_first_use=True,
    )
    logging.getLogger().handlers = [_Forwarding(logging.INFO)]
