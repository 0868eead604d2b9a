"""How much each logger of this broker says, to be changed while it runs (KIP-412). Mirrors `Log4jController` and
`RuntimeLoggerManager`. Nothing of it survives a restart.

A logger without a level of its own says as much as the nearest one above it, in the end as `root`. Names and levels are
those Kafka's operators know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from brokers.config.operations import Change, Operation
from foundation.cluster.errors import ApiError, Errors

ROOT = "root"

LEVELS: Mapping[str, int] = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
"""By name, what Python's loggers call them."""

LOGGERS = (
    "asyncio",
    "foundation.zk",
    "kafka",
    "kafka.Kafka",
    "kafka.cluster.Partition",
    "kafka.controller.ControllerChannelManager",
    "kafka.controller.KafkaController",
    "kafka.controller.TopicDeletionManager",
    "kafka.coordinator.transaction.ProducerIdManager",
    "kafka.network.Acceptor",
    "kafka.network.SocketServer",
    "kafka.server.ConfigAdminManager",
    "kafka.server.ConfigHandler",
    "kafka.server.DefaultAutoTopicCreationManager",
    "kafka.server.DynamicBrokerConfig",
    "kafka.server.FinalizedFeatureChangeListener",
    "kafka.server.KafkaApis",
    "kafka.server.KafkaServer",
    "kafka.server.MetricsServer",
    "kafka.server.ReplicaManager",
    "kafka.server.ZkAlterPartitionManager",
    "kafka.server.ZkConfigManager",
    "kafka.server.metadata.ZkMetadataCache",
    "kafka.zk.KafkaZkClient",
    "kafka.zookeeper.ZooKeeperClient",
    "kazoo",
    "state.change.logger",
)
"""All there are, and `kafka` above most of them."""


class LoggerLevels:
    def __init__(self) -> None:
        self._levels = {ROOT: "INFO"}
        self._resolved: dict[str, int] = {}
        """What `threshold` has found, until a level changes: it is asked at every line."""

    def describe(self) -> dict[str, str]:
        """The level of every logger, its own or the one it takes over."""
        return {name: self._level(name) for name in sorted((*LOGGERS, ROOT))}

    def threshold(self, name: str) -> int:
        """What a line of the logger `name` has to reach to be written; any name will do."""
        found = self._resolved.get(name)
        if found is None:
            found = self._resolved[name] = LEVELS[self._level(name)]
        return found

    def check(self, changes: Iterable[Change]) -> None:
        """Whether `apply` could do all of `changes`.

        Raises:
            ApiError: INVALID_CONFIG or INVALID_REQUEST, in Kafka's words.
        """
        for change in changes:
            match change.operation:
                case Operation.SET:
                    self._check_exists(change.name)
                    if change.value not in LEVELS:
                        raise ApiError(
                            Errors.INVALID_CONFIG,
                            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                            f"Valid log levels are {', '.join(sorted(LEVELS))}",
                        )
                case Operation.DELETE:
                    self._check_exists(change.name)
                    if change.name == ROOT:
                        raise ApiError(
                            Errors.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
                        )
                case _:
                    verb = Operation(change.operation).name
                    raise ApiError(
                        Errors.INVALID_REQUEST, f"{verb} operation is not allowed for the BROKER_LOGGER resource"
                    )

    def apply(self, changes: Iterable[Change]) -> None:
        """Do what `check` has let pass."""
        for change in changes:
            if change.operation == Operation.SET and change.value is not None:
                self._levels[change.name] = change.value
            else:
                self._levels.pop(change.name, None)
        self._resolved.clear()

    def _level(self, name: str) -> str:
        while name not in self._levels and name:
            name = name.rpartition(".")[0]
        return self._levels[name or ROOT]

    def _check_exists(self, name: str) -> None:
        if name != ROOT and name not in LOGGERS:
            raise ApiError(Errors.INVALID_CONFIG, f"Logger {name} does not exist!")
