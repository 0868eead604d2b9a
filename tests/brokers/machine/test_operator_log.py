from __future__ import annotations

import io
import json

import structlog

from brokers.config.logger_levels import LoggerLevels
from brokers.machine.operator_log import configure_operator_log


class FullDisk(io.StringIO):
    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_a_line_that_cannot_be_written_costs_its_writer_nothing() -> None:
    stream = FullDisk()
    configure_operator_log(stream, node="broker-1", levels=LoggerLevels())
    log = structlog.get_logger("kafka.server.KafkaServer")
    log.info("lost")
    stream.full = False
    log.info("told")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["told"]
