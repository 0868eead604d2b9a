"""Encodes and decodes the znodes of configs, of `/admin` and of the cluster as a whole.

As in `znodes`, they are written as Kafka 3.9 writes them and decoded if Kafka decodes them; all `decode` methods raise
`MalformedZNode`. Mirrors the second half of `kafka.zk.ZkData`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.zk.znodes import MalformedZNode, decode_json, encode_json

PERSISTENT_PATHS = (
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/changes",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""Paths that a starting broker creates, in this order, each with its parents and null data."""

# ------------------------------------------------------------------ configs

DEFAULT_ENTITY = "<default>"
"""The entity that holds the defaults of its type, in place of a name (ZN-10)."""


def desanitized(entity: str) -> str:
    """Return the name of a user, client or address whose znode has the name `entity`. Of `user/clients/client`, each
    part; `<default>` stays as it is. The names of topics and brokers are not encoded (ZN-10).

    Mirrors `Sanitizer`, which decodes what Java's `URLEncoder` has made of a name.
    """
    return "/".join(map(unquote, entity.split("/")))


def sanitized(name: str) -> str:
    """Return the name of the znode of a user or client: all but letters, digits, `.`, `-` and `_` are encoded."""
    return quote(name, safe="").replace("~", "%7E")


class _ConfigJson(msgspec.Struct):
    config: dict[str, str] = {}


class ConfigEntityZNode:
    _decoder = msgspec.json.Decoder(_ConfigJson)

    @staticmethod
    def path(entity_type: str, name: str) -> str:
        """Return the path; `entity_type` is `topics`, `brokers`, `users`, `clients` or `ips`."""
        return f"/config/{entity_type}/{name}"

    @staticmethod
    def encode(config: Mapping[str, str]) -> bytes:
        return encode_json({"version": 1, "config": dict(config)})

    @classmethod
    def decode(cls, path: str, data: bytes) -> dict[str, str]:
        return decode_json(cls._decoder, path, data).config if data else {}


class _ConfigChangeJson(msgspec.Struct):
    version: int
    entity_type: str | None = None
    entity_name: str | None = None
    entity_path: str | None = None


class ConfigEntityChangeNotificationZNode:
    path = "/config/changes"
    sequence_path = "/config/changes/config_change_"

    _decoder = msgspec.json.Decoder(_ConfigChangeJson)

    @staticmethod
    def encode(entity_path: str) -> bytes:
        """Encode version 2; `entity_path` is for example `topics/orders`."""
        return encode_json({"version": 2, "entity_path": entity_path})

    @classmethod
    def decode(cls, path: str, data: bytes) -> str:
        """Decode version 2, or version 1, which names topics and clients only; return the entity path."""
        found = decode_json(cls._decoder, path, data)
        if found.version == 1 and found.entity_type in ("topics", "clients") and found.entity_name:
            return f"{found.entity_type}/{found.entity_name}"
        if found.version == 2 and found.entity_path:
            return found.entity_path
        raise MalformedZNode(
            path, "expected version 1 with the name of a topic or client, or version 2 with an entity path", data
        )


# ------------------------------------------------------------------ administration


class _PartitionJson(msgspec.Struct):
    topic: str
    partition: int


class _PartitionsJson(msgspec.Struct):
    partitions: tuple[_PartitionJson, ...]


class _ReassignedJson(msgspec.Struct):
    topic: str
    partition: int
    replicas: tuple[BrokerId, ...]


class _ReassignmentJson(msgspec.Struct):
    partitions: tuple[_ReassignedJson, ...]


_partitions_decoder = msgspec.json.Decoder(_PartitionsJson)


def _encode_partitions(partitions: Collection[TopicPartition]) -> bytes:
    listed = [{"topic": topic, "partition": partition} for topic, partition in sorted(partitions)]
    return encode_json({"version": 1, "partitions": listed})


def _decode_partitions(path: str, data: bytes) -> tuple[TopicPartition, ...]:
    found = decode_json(_partitions_decoder, path, data)
    return tuple(sorted({TopicPartition(item.topic, item.partition) for item in found.partitions}))


class PreferredReplicaElectionZNode:
    path = "/admin/preferred_replica_election"
    encode = staticmethod(_encode_partitions)

    @classmethod
    def decode(cls, data: bytes) -> tuple[TopicPartition, ...]:
        return _decode_partitions(cls.path, data)


class ReassignPartitionsZNode:
    path = "/admin/reassign_partitions"
    _decoder = msgspec.json.Decoder(_ReassignmentJson)

    @staticmethod
    def encode(replicas_by_partition: Mapping[TopicPartition, Collection[BrokerId]]) -> bytes:
        listed = [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in sorted(replicas_by_partition.items())
        ]
        return encode_json({"version": 1, "partitions": listed})

    @classmethod
    def decode(cls, data: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
        found = decode_json(cls._decoder, cls.path, data)
        return {TopicPartition(item.topic, item.partition): item.replicas for item in found.partitions}


class DeleteTopicsZNode:
    path = "/admin/delete_topics"


class DeleteTopicsTopicZNode:
    """The marker of a topic that shall be deleted."""

    @staticmethod
    def path(topic: str) -> str:
        return f"/admin/delete_topics/{topic}"


class IsrChangeNotificationZNode:
    path = "/isr_change_notification"
    sequence_path = "/isr_change_notification/isr_change_"
    encode = staticmethod(_encode_partitions)

    @classmethod
    def decode(cls, data: bytes) -> tuple[TopicPartition, ...]:
        return _decode_partitions(cls.path, data)


class _LogDirEventJson(msgspec.Struct):
    broker: BrokerId


class LogDirEventNotificationZNode:
    path = "/log_dir_event_notification"
    sequence_path = "/log_dir_event_notification/log_dir_event_"
    _decoder = msgspec.json.Decoder(_LogDirEventJson)

    @staticmethod
    def encode(broker_id: BrokerId) -> bytes:
        """Encode event 1, the only one: a log directory has failed."""
        return b'{"version":1,"broker":%d,"event":1}' % broker_id

    @classmethod
    def decode(cls, data: bytes) -> BrokerId:
        return decode_json(cls._decoder, cls.path, data).broker


# ------------------------------------------------------------------ the cluster


class _ClusterIdJson(msgspec.Struct):
    id: str


class ClusterIdZNode:
    path = "/cluster/id"
    _decoder = msgspec.json.Decoder(_ClusterIdJson)

    @staticmethod
    def encode(cluster_id: str) -> bytes:
        """Encode the id; `version` is a string, as in Kafka."""
        return encode_json({"version": "1", "id": cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> str:
        return decode_json(cls._decoder, cls.path, data).id


class _FeatureJson(msgspec.Struct):
    version: int
    status: int
    features: dict[str, dict[str, int]]


class Features(NamedTuple):
    """The content of `/feature`: `features` maps a feature to its finalized max version level."""

    version: int
    enabled: bool
    features: dict[str, int]


class FeatureZNode:
    path = "/feature"
    _decoder = msgspec.json.Decoder(_FeatureJson)

    @staticmethod
    def encode(node: Features) -> bytes:
        def levels(level: int) -> dict[str, int]:
            return {"max_version_level": level} | ({"min_version_level": level} if node.version == 1 else {})

        features = {feature: levels(level) for feature, level in node.features.items()}
        return encode_json({"features": features, "version": node.version, "status": int(node.enabled)})

    @classmethod
    def decode(cls, data: bytes) -> Features:
        found = decode_json(cls._decoder, cls.path, data)
        if found.version not in (1, 2):
            raise MalformedZNode(cls.path, f"version {found.version} is neither 1 nor 2", data)
        if found.status not in (0, 1):
            raise MalformedZNode(cls.path, f"status {found.status} is neither 0 nor 1", data)
        for feature, levels in found.features.items():
            highest = levels.get("max_version_level", 0)
            lowest = levels.get("min_version_level", 0) if found.version == 1 else 1
            if not 1 <= lowest <= highest:
                raise MalformedZNode(cls.path, f"feature {feature} has levels {levels}", data)
        features = {feature: levels["max_version_level"] for feature, levels in found.features.items()}
        return Features(found.version, bool(found.status), features)


MAX_PRODUCER_ID = 2**63 - 1


class _ProducerIdBlockJson(msgspec.Struct):
    broker: BrokerId
    block_start: str
    block_end: str


class ProducerIdBlock(NamedTuple):
    """Producer ids from `first` to `last`, both included, and the broker to which they were allocated."""

    broker_id: BrokerId
    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class ProducerIdBlockZNode:
    path = "/latest_producer_id_block"
    _decoder = msgspec.json.Decoder(_ProducerIdBlockJson)
    _number = re.compile(r"[0-9]+")

    @staticmethod
    def encode(block: ProducerIdBlock) -> bytes:
        return b'{"version":1,"broker":%d,"block_start":"%d","block_end":"%d"}' % block

    @classmethod
    def decode(cls, data: bytes) -> ProducerIdBlock:
        found = decode_json(cls._decoder, cls.path, data)
        if not (cls._number.fullmatch(found.block_start) and cls._number.fullmatch(found.block_end)):
            raise MalformedZNode(cls.path, "a block is two decimal numbers", data)
        block = ProducerIdBlock(found.broker, int(found.block_start), int(found.block_end))
        if not block.first <= block.last <= MAX_PRODUCER_ID:
            raise MalformedZNode(cls.path, f"a block ends between its start and {MAX_PRODUCER_ID}", data)
        return block
