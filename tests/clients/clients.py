"""One interface to kafka-python and confluent-kafka (librdkafka), so that both run the same tests."""

from __future__ import annotations

import warnings
from typing import NamedTuple, Protocol

import confluent_kafka
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own documentation imports these from here
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

with warnings.catch_warnings():
    # kafka-python reads its message definitions by a function of importlib that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import ConfigResource as KafkaPythonConfigResource
    from kafka.admin import ConfigResourceType, KafkaAdminClient
    from kafka.admin import NewTopic as KafkaPythonNewTopic
    from kafka.errors import KafkaError

TIMEOUT_S = 20.0


class Described(NamedTuple):
    """A topic as a client sees it: leader, replicas and ISR of each partition, in order; empty for an unknown topic."""

    leaders: tuple[int, ...]
    replicas: tuple[tuple[int, ...], ...]
    isr: tuple[tuple[int, ...], ...]


class Refused(Exception):
    """The cluster refused a request; the message is the name of Kafka's error in capitals."""


NO_ANSWER = (Refused, KafkaError, confluent_kafka.KafkaException, TimeoutError, RuntimeError)
"""The errors that a client raises while no broker, or no controller, responds.

kafka-python raises a bare RuntimeError if the broker that Metadata names is not the controller.
"""


class StockClient(Protocol):
    def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: dict[str, str] | None = None
    ) -> None:
        """Raises Refused."""

    def create_partitions(self, name: str, count: int) -> None:
        """Raises Refused."""

    def delete_topic(self, name: str) -> None:
        """Raises Refused."""

    def topics(self) -> set[str]: ...

    def describe(self, name: str) -> Described: ...

    def topic_config(self, name: str) -> dict[str, str]:
        """The topic's whole configuration, including defaults."""

    def alter_config(self, kind: str, name: str, changes: dict[str, str | None]) -> None:
        """`kind` is `topic` or `broker`; None deletes a key. Raises Refused."""

    def broker_config(self, broker: str) -> dict[str, tuple[str | None, bool]]:
        """The value of each key and whether it is read-only; an empty name means the cluster-wide dynamic defaults."""

    def brokers(self) -> tuple[set[int], int]:
        """The ids of the brokers, and the controller's."""

    def close(self) -> None: ...


class KafkaPython:
    def __init__(self, bootstrap: str, *, request_timeout_ms: int = 20_000) -> None:
        self._admin = KafkaAdminClient(
            bootstrap_servers=bootstrap, client_id="kafka-python", request_timeout_ms=request_timeout_ms
        )

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: dict[str, str] | None = None
    ) -> None:
        topic = KafkaPythonNewTopic(name, partitions, replication_factor, topic_configs=configs or {})
        try:
            self._admin.create_topics([topic], timeout_ms=int(TIMEOUT_S * 1000))
        except KafkaError as error:
            raise Refused(_capitals(type(error).__name__.removesuffix("Error"))) from error

    def create_partitions(self, name: str, count: int) -> None:
        try:
            self._admin.create_partitions({name: count}, timeout_ms=int(TIMEOUT_S * 1000))
        except KafkaError as error:
            raise Refused(_capitals(type(error).__name__.removesuffix("Error"))) from error

    def delete_topic(self, name: str) -> None:
        try:
            self._admin.delete_topics([name], timeout_ms=int(TIMEOUT_S * 1000))
        except KafkaError as error:
            raise Refused(_capitals(type(error).__name__.removesuffix("Error"))) from error

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def describe(self, name: str) -> Described:
        [topic] = self._admin.describe_topics([name])
        partitions = sorted(topic["partitions"], key=lambda each: each["partition_index"])
        return Described(
            tuple(each["leader_id"] for each in partitions),
            tuple(tuple(each["replica_nodes"]) for each in partitions),
            tuple(tuple(each["isr_nodes"]) for each in partitions),
        )

    def topic_config(self, name: str) -> dict[str, str]:
        resource = KafkaPythonConfigResource(ConfigResourceType.TOPIC, name)
        described = self._admin.describe_configs([resource], config_filter="all")
        return {key: entry["value"] for key, entry in described["topic"][name].items()}

    def alter_config(self, kind: str, name: str, changes: dict[str, str | None]) -> None:
        operations = {key: ("DELETE", None) if value is None else ("SET", value) for key, value in changes.items()}
        resource = KafkaPythonConfigResource(ConfigResourceType[kind.upper()], name, operations)
        answer: str = self._admin.alter_configs([resource])[kind][name]
        if answer != "OK":
            raise Refused(answer)

    def broker_config(self, broker: str) -> dict[str, tuple[str | None, bool]]:
        resource = KafkaPythonConfigResource(ConfigResourceType.BROKER, broker)
        described = self._admin.describe_configs([resource], config_filter="all")["broker"][broker]
        return {key: (entry["value"], entry["read_only"]) for key, entry in described.items()}

    def log_dirs(self) -> list[dict[str, object]]:
        return list(self._admin.describe_log_dirs())

    def brokers(self) -> tuple[set[int], int]:
        cluster = self._admin.describe_cluster()
        return {broker["broker_id"] for broker in cluster["brokers"]}, cluster["controller_id"]

    def features(self) -> dict[str, object]:
        """The supported and finalized features, by name."""
        return dict(self._admin.describe_features())

    def update_features(self, updates: dict[str, tuple[str, int]], *, validate_only: bool = False) -> dict[str, str]:
        """The answer for each feature; `updates` holds the type (UPGRADE, SAFE_DOWNGRADE …) and version of each."""
        return dict(self._admin.update_features(updates, validate_only=validate_only))

    def close(self) -> None:
        self._admin.close()


class Confluent:
    def __init__(self, bootstrap: str, *, request_timeout_ms: int = 60_000) -> None:
        self._admin = AdminClient(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "confluent",
                "log_level": 0,
                "socket.timeout.ms": request_timeout_ms,
            }
        )

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: dict[str, str] | None = None
    ) -> None:
        topic = NewTopic(name, partitions, replication_factor, config=configs or {})
        _result(self._admin.create_topics([topic], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[name])

    def create_partitions(self, name: str, count: int) -> None:
        asked = [NewPartitions(name, count)]
        _result(self._admin.create_partitions(asked, operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[name])

    def delete_topic(self, name: str) -> None:
        _result(self._admin.delete_topics([name], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[name])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=TIMEOUT_S).topics)

    def describe(self, name: str) -> Described:
        wanted = confluent_kafka.TopicCollection([name])
        try:
            topic = self._admin.describe_topics(wanted, request_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return Described((), (), ())
        partitions = sorted(topic.partitions, key=lambda each: each.id)
        return Described(
            tuple(-1 if each.leader is None else each.leader.id for each in partitions),
            tuple(tuple(node.id for node in each.replicas) for each in partitions),
            tuple(tuple(node.id for node in each.isr) for each in partitions),
        )

    def topic_config(self, name: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = self._admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result(TIMEOUT_S)
        return {key: entry.value for key, entry in entries.items()}

    def alter_config(self, kind: str, name: str, changes: dict[str, str | None]) -> None:
        incremental = [
            ConfigEntry(
                key,
                value,
                incremental_operation=AlterConfigOpType["DELETE" if value is None else "SET"],
            )
            for key, value in changes.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=incremental)
        _result(self._admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S)[resource])

    def broker_config(self, broker: str) -> dict[str, tuple[str | None, bool]]:
        resource = ConfigResource("broker", broker)
        entries = self._admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result(TIMEOUT_S)
        return {key: (entry.value, entry.is_read_only) for key, entry in entries.items()}

    def brokers(self) -> tuple[set[int], int]:
        cluster = self._admin.describe_cluster(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
        return {node.id for node in cluster.nodes}, cluster.controller.id

    def close(self) -> None:
        del self._admin  # librdkafka closes the connections of a handle that is released


def _result(future: object) -> None:
    try:
        future.result(TIMEOUT_S)  # type: ignore[attr-defined]  # confluent-kafka carries no types
    except confluent_kafka.KafkaException as error:
        raise Refused(error.args[0].name().removeprefix("_")) from error


def _capitals(name: str) -> str:
    """Turn `TopicAlreadyExists` into `TOPIC_ALREADY_EXISTS`."""
    return "".join(f"_{letter}" if letter.isupper() and index else letter for index, letter in enumerate(name)).upper()
