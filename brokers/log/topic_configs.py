"""Reads the configurations of topics whose logs are to be created. No notification announces the configuration of a new
topic.

Kafka's broker waits here until ZooKeeper answers, with all later control requests. Here a log is created without the
topic's configuration after `MAX_WAIT_MS`: with the broker's defaults, and until the configuration has been read every
replica has to have a record that is acknowledged, so that no `min.insync.replicas` is undercut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from understudy.brokers.log.log_manager import LogManager
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient, SessionLost, ZooKeeperFailure

MAX_WAIT_MS = 1_000
RETRY_MS = 1_000

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.log.LogManager")


class TopicConfigs:
    """Gives logs the configurations of their topics. `run` is a long-lived task.

    Args:
        zk: returns the client of the newest session.
    """

    def __init__(self, logs: LogManager, zk: Callable[[], KafkaZkClient]) -> None:
        self._logs = logs
        self._zk = zk
        self._unknown: dict[str, None] = {}
        self._is_due = asyncio.Event()

    async def read(self, topics: Sequence[str]) -> None:
        """Read the configurations of topics, and apply them to their logs, also to those created later.

        Those that are not answered within `MAX_WAIT_MS` are left to `run`.
        """
        try:
            async with asyncio.timeout(MAX_WAIT_MS / 1000):
                await self._read(topics)
        except (TimeoutError, SessionLost, ZooKeeperFailure) as failure:
            log.warning("topic configs are not known yet", topics=tuple(topics), why=repr(failure))
            for topic in topics:
                self._logs.topic_config_is_unknown(topic)
                self._unknown[topic] = None
            self._is_due.set()

    async def run(self) -> None:
        """Read what could not be read, without end."""
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            while self._unknown:
                try:
                    await self._read(tuple(self._unknown))
                except (SessionLost, ZooKeeperFailure):
                    await asyncio.sleep(RETRY_MS / 1000)

    async def _read(self, topics: Sequence[str]) -> None:
        found = await self._zk().configs.of_topics(topics)
        for topic in topics:
            # A config that cannot be decoded counts as empty.
            self._logs.update_topic_config(topic, found.get(topic, {}))
            self._unknown.pop(topic, None)
