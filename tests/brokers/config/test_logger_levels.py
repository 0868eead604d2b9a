"""Tests of the levels of loggers, which may change while a broker runs."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import structlog

from understudy.brokers.config.logger_levels import LEVELS, LOGGERS, ROOT, WITHOUT_LINES, LoggerLevels
from understudy.brokers.config.operations import AlterConfigOperation, RequestedConfig
from understudy.brokers.machine.operator_log import LogIdentity, configure_operator_log

PRODUCT = Path(__file__).resolve().parents[3]


def test_every_logger_has_a_level() -> None:
    packages = ("foundation", "controller", "brokers")
    texts = [path.read_text() for package in packages for path in sorted((PRODUCT / package).rglob("*.py"))]
    named = {name for text in texts for name in re.findall(r'structlog\.get_logger\("([^"]+)"\)', text)}
    assert named
    assert named <= set(LOGGERS), "add it to understudy.brokers.config.logger_levels"


def test_a_logger_inherits_the_level_above_it() -> None:
    levels = LoggerLevels()
    assert levels.threshold("kafka.server.KafkaApis") == LEVELS["INFO"]
    levels.apply(
        [
            RequestedConfig("kafka", AlterConfigOperation.SET, "WARN"),
            RequestedConfig("kafka.server.KafkaApis", AlterConfigOperation.SET, "DEBUG"),
        ]
    )
    found = [
        levels.threshold(name) for name in ("kafka.server.KafkaApis", "kafka.server.KafkaServer", "kazoo.client", "")
    ]
    assert found == [LEVELS[name] for name in ("DEBUG", "WARN", "INFO", "INFO")]
    levels.apply(
        [
            RequestedConfig("kafka.server.KafkaApis", AlterConfigOperation.DELETE, None),
            RequestedConfig(ROOT, AlterConfigOperation.SET, "ERROR"),
        ]
    )
    assert [levels.threshold(name) for name in ("kafka.server.KafkaApis", "kazoo")] == [LEVELS["WARN"], LEVELS["ERROR"]]
    assert levels.describe()["kafka.server.KafkaApis"] == "WARN"


def test_the_loggers_of_kafkas_log4j_properties_have_levels() -> None:
    """A script that changes their levels works, also if nothing is written to them here."""
    levels = LoggerLevels()
    changes = [
        RequestedConfig("kafka.log.LogCleaner", AlterConfigOperation.SET, "DEBUG"),
        RequestedConfig("kafka.controller", AlterConfigOperation.SET, "WARN"),
    ]
    levels.check(changes)
    levels.apply(changes)
    described = levels.describe()
    assert (described["kafka.log.LogCleaner"], described["kafka.cluster.Replica"]) == ("DEBUG", "INFO")
    assert described["kafka.controller.KafkaController"] == "WARN"
    assert not set(WITHOUT_LINES) & set(LOGGERS)


def test_the_operators_log_follows_the_levels() -> None:
    levels = LoggerLevels()
    stream = io.StringIO()
    configure_operator_log(stream, identity=LogIdentity(1), levels=levels)
    log = structlog.get_logger("kafka.server.KafkaApis")
    log.debug("quiet")
    levels.apply([RequestedConfig("kafka.server.KafkaApis", AlterConfigOperation.SET, "DEBUG")])
    log.debug("loud")
    levels.apply([RequestedConfig("kafka.server.KafkaApis", AlterConfigOperation.SET, "ERROR")])
    log.warning("quiet again")
    log.error("wrong")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line["level"], line["logger"]) for line in lines] == [
        ("loud", "debug", "kafka.server.KafkaApis"),
        ("wrong", "error", "kafka.server.KafkaApis"),
    ]
