"""`python -m understudy.brokers server.properties [--override key=value …] [--log-format json|console|kafka]`: one
broker, until SIGTERM or SIGINT.

The first signal begins a controlled shutdown, a second one ends the process at once. Exit codes: 0 after a shutdown, 1
when the configuration is wrong, the broker could not start, or it failed; the reason is the last line of the log.

The environment: `LOG_FORMAT` stands for `--log-format`, `LOG_LEVEL` is the level of the root logger
(docs/reference/logs.md); without `UNDERSTUDY_EXPERIMENT`, which experiments set, a configuration that switches a
protection off is refused.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from understudy.brokers.broker import KafkaBroker
from understudy.brokers.config.accepted_keys import protections_without_effect
from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.logger_levels import LoggerLevels
from understudy.brokers.config.properties import MalformedProperties, parse_properties
from understudy.brokers.config.reading import read_config, unknown_keys
from understudy.brokers.exits import FAILED, TEMPORARY, TRY_AGAIN
from understudy.brokers.machine.operator_log import (
    LogFormat,
    LogIdentity,
    configure_operator_log,
    log_format,
    log_level,
)
from understudy.brokers.machine.real_world import EXPERIMENT_VARIABLE, real_world
from understudy.brokers.membership.finalized_features import IncompatibleFeatures
from understudy.brokers.membership.meta_properties import InconsistentMetaProperties
from understudy.brokers.supervisor import BrokerFailed
from understudy.brokers.world import DirectoryLocked
from understudy.foundation.wire.network import ConnectionFailed
from understudy.foundation.zk.kafka_zk_client import ZooKeeperFailure
from understudy.foundation.zk.znodes import MalformedZNode

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.Kafka")

START_FAILURES = (
    ConfigError,
    ConnectionFailed,
    DirectoryLocked,
    IncompatibleFeatures,
    InconsistentMetaProperties,
    MalformedZNode,
    OSError,
    ZooKeeperFailure,
    *TEMPORARY,
)
"""Exceptions that an operator can mend. Any other exception is a defect of the program and keeps its traceback."""

GARBAGE_COLLECTION = (100_000, 100, 10)
"""Thresholds of Python's garbage collector, far above its own. A controller of 100,000 partitions keeps a million
objects without reference cycles, and an event that changes all makes a million more; at Python's own thresholds a
takeover would spend a third of its time in collections."""

SWITCH_INTERVAL_S = 0.0005
"""Time for which the thread of the event loop or of the ZooKeeper connection may hold the interpreter while the other
waits. With Python's own 5 ms each answer to a pipelined write may wait that long."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        properties = read_properties(options.properties, options.override)
        config = read_config(properties)
        check_is_experiment(config, os.environ)
    except (ConfigError, MalformedProperties, OSError) as error:
        print(f"{options.properties}: {error}", file=sys.stderr)
        return FAILED
    try:
        chosen_format = log_format(options.log_format, os.environ)
        levels = LoggerLevels(log_level(os.environ))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return FAILED
    gc.set_threshold(*GARBAGE_COLLECTION)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    identity = LogIdentity(config.broker_id)
    configure_operator_log(sys.stderr, identity=identity, levels=levels, log_format=chosen_format)
    warn_of(properties, config)
    try:
        return asyncio.run(run(config, levels, identity))
    except START_FAILURES as error:
        log.error("exiting Kafka due to fatal exception during startup", error=type(error).__name__, why=str(error))
        return TRY_AGAIN if isinstance(error, TEMPORARY) else FAILED
    except BrokerFailed as error:
        log.error("exiting Kafka due to fatal exception", why=str(error), exc_info=error.__cause__)
        return FAILED


def warn_of(properties: Mapping[str, str], config: KafkaConfig) -> None:
    """Log what an operator may not expect of a configuration that is accepted."""
    unknown = unknown_keys(properties)
    if unknown:
        log.warning("these configurations are not known", keys=unknown)
    without_effect = protections_without_effect(properties)
    if without_effect:
        log.warning(
            "nothing protects this broker: configurations that authenticate, authorize, encrypt or limit clients have "
            "no effect",
            keys=without_effect,
        )
    out_of_reach = config.endpoints_out_of_reach()
    if out_of_reach:
        log.warning(
            "listeners that are advertised to other machines are bound to the loopback address only: give them a host "
            "in listeners, such as 0.0.0.0",
            endpoints=[f"{at.listener}://{at.host}:{at.port}" for at in out_of_reach],
        )
    if config.understudy_switches_off:
        off = config.understudy_switches_off
        log.warning("protections against known faults are switched off: this broker may lose data", switches=off)


def check_is_experiment(config: KafkaConfig, environment: Mapping[str, str]) -> None:
    """Raise ConfigError if protections are switched off outside an experiment."""
    if config.understudy_switches_off and not environment.get(EXPERIMENT_VARIABLE):
        names = ",".join(config.understudy_switches_off)
        raise ConfigError(
            f"understudy.switches.off={names}: protections can be switched off in experiments only; remove the key, or "
            "use `understudy experiment run FILE --without NAME`"
        )


def read_properties(path: Path, overrides: Sequence[str]) -> dict[str, str]:
    """Return the file's properties with `key=value` overrides on top.

    Raises:
        ConfigError: an override without `=`.
        MalformedProperties, OSError: the file cannot be read.
    """
    properties = parse_properties(_text(path.read_bytes()))
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--override {override}: expected key=value")
        properties[key.strip()] = value.strip()
    return properties


def _text(data: bytes) -> str:
    """Decode as UTF-8, as editors write; if that fails, as ISO 8859-1, as Java reads all of these files."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


async def run(config: KafkaConfig, levels: LoggerLevels, identity: LogIdentity) -> int:
    """Run one broker from start to end; return 0 after a shutdown by signal."""
    world = replace(real_world(config), loggers=levels, on_identified=identity.identify)
    broker = KafkaBroker(config, world)
    stop_requested = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _begin_shutdown, stop_requested)
    starting = asyncio.create_task(broker.start(), name="start")
    await _first_of(starting, stop_requested)
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return 0
    starting.result()
    running = asyncio.create_task(broker.wait_closed(), name="wait-closed")
    await _first_of(running, stop_requested)
    if not running.done():
        await broker.shutdown()
    await running
    return 0


def _begin_shutdown(stop_requested: asyncio.Event) -> None:
    """Begin the shutdown. A second signal meets the default handlers, and ends the process."""
    stop_requested.set()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)


async def _first_of(task: asyncio.Task[None], stop_requested: asyncio.Event) -> None:
    waiting = asyncio.ensure_future(stop_requested.wait())
    await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m understudy.brokers", description="One broker of a Kafka cluster in ZooKeeper mode."
    )
    parser.add_argument("properties", type=Path, help="server.properties, in Kafka's format")
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="set or replace one property"
    )
    parser.add_argument(
        "--log-format",
        metavar="|".join(each.value for each in LogFormat),
        help="how the log is written; default LOG_FORMAT, else console on a terminal and json elsewhere",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
