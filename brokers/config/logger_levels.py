"""The level of each logger of this broker, which may be changed while it runs (KIP-412). Mirrors `Log4jController` and
`RuntimeLoggerManager`. A restart forgets all changes.

A logger without a level of its own has the level of the nearest logger above it that has one, in the end of `root`.
Names and levels are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.brokers.config.operations import AlterConfigOperation, RequestedConfig
from understudy.foundation.cluster.errors import ApiError, Errors

ROOT = "root"

LEVELS: Mapping[str, int] = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""Numbers of levels in Python's loggers, by name."""

LOGGERS = (
    "asyncio",
    "understudy.foundation.zk",
    "kafka",
    "kafka.Kafka",
    "kafka.cluster.Partition",
    "kafka.controller.ControllerChannelManager",
    "kafka.controller.KafkaController",
    "kafka.controller.TopicDeletionManager",
    "kafka.coordinator.group.GroupCoordinator",
    "kafka.coordinator.group.GroupMetadataManager",
    "kafka.coordinator.transaction.ProducerIdManager",
    "kafka.log.LogCleaner",
    "kafka.log.LogConfig",
    "kafka.log.LogLoader",
    "kafka.log.LogManager",
    "kafka.log.ProducerStateManager",
    "kafka.log.UnifiedLog",
    "kafka.network.Acceptor",
    "kafka.network.SocketServer",
    "kafka.server.ConfigAdminManager",
    "kafka.server.ConfigHandler",
    "kafka.server.DefaultAutoTopicCreationManager",
    "kafka.server.DynamicBrokerConfig",
    "kafka.server.FetchManager",
    "kafka.server.FinalizedFeatureChangeListener",
    "kafka.server.KafkaApis",
    "kafka.server.KafkaServer",
    "kafka.server.MetricsServer",
    "kafka.server.NodeToControllerRequestThread",
    "kafka.server.ReplicaFetcherThread",
    "kafka.server.ReplicaManager",
    "kafka.server.ZkAlterPartitionManager",
    "kafka.server.ZkConfigManager",
    "kafka.server.metadata.ZkMetadataCache",
    "kafka.zk.KafkaZkClient",
    "kafka.zookeeper.ZooKeeperClient",
    "kazoo",
    "state.change.logger",
)
"""Every logger that writes, and `kafka` above most of them."""

WITHOUT_LINES = (
    "kafka.authorizer.logger",
    "kafka.cluster.Replica",
    "kafka.controller",
    "kafka.network.RequestChannel$",
    "kafka.request.logger",
    "org.apache.kafka",
    "org.apache.kafka.controller",
    "org.apache.zookeeper",
)
"""Loggers that every broker of Kafka has, most of them because its `log4j.properties` names them. Nothing is written to
them here, but tools and scripts may change their levels; the level of `kafka.controller` is inherited."""

_CONFIGURABLE = frozenset((*LOGGERS, *WITHOUT_LINES, ROOT))


class LoggerLevels:
    """Looks up and changes levels.

    Args:
        root: the level of the root logger, a name of `LEVELS`.
    """

    def __init__(self, root: str = "INFO") -> None:
        self._levels = {ROOT: root}
        self._resolved: dict[str, int] = {}
        """What `threshold` has found, until a level changes: it is called for every line."""

    def describe(self) -> dict[str, str]:
        """The level of every logger, its own or an inherited one."""
        return {name: self._level(name) for name in sorted(_CONFIGURABLE)}

    def threshold(self, name: str) -> int:
        """The lowest level at which the logger `name`, which need not be one of `LOGGERS`, writes a line."""
        found = self._resolved.get(name)
        if found is None:
            found = self._resolved[name] = LEVELS[self._level(name)]
        return found

    def check(self, changes: Iterable[RequestedConfig]) -> None:
        """Check that `apply` could make all of `changes`.

        Raises:
            ApiError: INVALID_CONFIG or INVALID_REQUEST, in Kafka's words.
        """
        for change in changes:
            match change.operation:
                case AlterConfigOperation.SET:
                    self._check_exists(change.name)
                    if change.value not in LEVELS:
                        raise ApiError(
                            Errors.INVALID_CONFIG,
                            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log "
                            f"level. Valid log levels are {', '.join(sorted(LEVELS))}",
                        )
                case AlterConfigOperation.DELETE:
                    self._check_exists(change.name)
                    if change.name == ROOT:
                        raise ApiError(
                            Errors.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
                        )
                case _:
                    verb = AlterConfigOperation(change.operation).name
                    raise ApiError(
                        Errors.INVALID_REQUEST, f"{verb} operation is not allowed for the BROKER_LOGGER resource"
                    )

    def apply(self, changes: Iterable[RequestedConfig]) -> None:
        """Make changes that `check` has accepted."""
        for change in changes:
            if change.operation == AlterConfigOperation.SET and change.value is not None:
                self._levels[change.name] = change.value
            else:
                self._levels.pop(change.name, None)
        self._resolved.clear()

    def _level(self, name: str) -> str:
        while name not in self._levels and name:
            name = name.rpartition(".")[0]
        return self._levels[name or ROOT]

    def _check_exists(self, name: str) -> None:
        if name not in _CONFIGURABLE:
            raise ApiError(Errors.INVALID_CONFIG, f"Logger {name} does not exist!")
