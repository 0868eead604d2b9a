"""Encodes and decodes the znodes of the controller, brokers, topics and partitions; `admin_znodes` has the others.

Each znode has a class named as in Kafka, with its path. The bytes written are those that Kafka 3.9 writes (its order of
keys, UTF-8, no spaces), except that partitions of a topic are written in order: Kafka's order is a hash map's. Decoding
accepts what Kafka accepts: unknown keys are ignored, and `version` is checked only if Kafka checks it. Mirrors
`kafka.zk.ZkData`.

All `decode` methods raise `MalformedZNode`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.broker import Broker, EndPoint, SecurityProtocol
from understudy.foundation.cluster.features import SupportedFeature
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition, topic_id_to_bytes
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch, LeaderRecoveryState

_T = TypeVar("_T")
encode_json = msgspec.json.Encoder().encode


class MalformedZNode(Exception):
    """A znode's data cannot be decoded. The message names the path, the mistake and the data."""

    def __init__(self, path: str, why: str, data: bytes) -> None:
        shown = data[:200].decode("utf-8", "replace") + ("…" if len(data) > 200 else "")
        super().__init__(f"{path} holds {shown!r}: {why}")
        self.path = path


def decode_json(decoder: msgspec.json.Decoder[_T], path: str, data: bytes) -> _T:
    """Decode the JSON of the znode at `path`; raises `MalformedZNode`."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedZNode(path, str(error), data) from error


def parent(path: str) -> str:
    """Return the path one level up; `/` for a top-level znode."""
    return path.rpartition("/")[0] or "/"


# ------------------------------------------------------------------ controller


class _ControllerJson(msgspec.Struct):
    brokerid: BrokerId
    kraftControllerEpoch: int | None = None  # noqa: N815 (Kafka's key)


class ControllerZNodeData(NamedTuple):
    """The content of `/controller`."""

    broker_id: BrokerId
    kraft_epoch: int
    """Above 0: a KRaft controller of a migration owns the znode. −1 otherwise and if the key is absent."""


class ControllerZNode:
    path = "/controller"
    _decoder = msgspec.json.Decoder(_ControllerJson)

    @staticmethod
    def encode(broker_id: BrokerId, timestamp_ms: int) -> bytes:
        return b'{"version":2,"brokerid":%d,"timestamp":"%d","kraftControllerEpoch":-1}' % (broker_id, timestamp_ms)

    @classmethod
    def decode(cls, data: bytes) -> ControllerZNodeData:
        found = decode_json(cls._decoder, cls.path, data)
        return ControllerZNodeData(
            found.brokerid, -1 if found.kraftControllerEpoch is None else found.kraftControllerEpoch
        )


class ControllerEpochZNode:
    path = "/controller_epoch"

    @staticmethod
    def encode(epoch: int) -> bytes:
        return b"%d" % epoch

    @classmethod
    def decode(cls, data: bytes) -> int:
        try:
            return int(data)
        except ValueError as error:
            raise MalformedZNode(cls.path, "expected a decimal number", data) from error


# ------------------------------------------------------------------ brokers


class _BrokerJson(msgspec.Struct):
    version: int
    jmx_port: int
    endpoints: tuple[str, ...] | None = None
    host: str | None = None
    port: int | None = None
    rack: str | None = None
    listener_security_protocol_map: dict[str, str] | None = None
    features: dict[str, dict[str, int]] | None = None


class BrokerIdsZNode:
    path = "/brokers/ids"


class BrokerIdZNode:
    """A broker's registration, an ephemeral znode. Its czxid is the broker epoch."""

    VERSION = 5
    _decoder = msgspec.json.Decoder(_BrokerJson)
    _endpoint = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")

    @staticmethod
    def path(broker_id: int) -> str:
        return f"/brokers/ids/{broker_id}"

    @staticmethod
    def encode(broker: Broker, *, timestamp_ms: int, jmx_port: int = -1, version: int = VERSION) -> bytes:
        """Encode a registration; `host` and `port` come from the first PLAINTEXT endpoint, for old clients."""
        plaintext = next((e for e in broker.endpoints if e.security_protocol is SecurityProtocol.PLAINTEXT), None)
        fields: dict[str, Any] = {
            "features": {
                feature.name: {"min_version": feature.min_version, "max_version": feature.max_version}
                for feature in broker.features
            },
            "listener_security_protocol_map": {e.listener: e.security_protocol.name for e in broker.endpoints},
            "endpoints": [_connection_string(endpoint) for endpoint in broker.endpoints],
            "rack": broker.rack,
            "jmx_port": jmx_port,
            "port": -1 if plaintext is None else plaintext.port,
            "host": None if plaintext is None else plaintext.host,
            "version": version,
            "timestamp": str(timestamp_ms),
        }
        if version < 5:
            del fields["features"]
        if version < 4:
            del fields["listener_security_protocol_map"]
        if version < 3 or broker.rack is None:
            del fields["rack"]
        return encode_json(fields)

    @classmethod
    def decode(cls, broker_id: BrokerId, data: bytes) -> Broker:
        path = cls.path(broker_id)
        found = decode_json(cls._decoder, path, data)
        if found.version < 1:
            raise MalformedZNode(path, f"version {found.version} is below 1", data)
        features = _supported_features(found.features or {}, path, data)
        if found.version == 1:
            if found.host is None or found.port is None:
                raise MalformedZNode(path, "version 1 without host or port", data)
            only = EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, found.host, found.port)
            return Broker(id=broker_id, endpoints=(only,), rack=found.rack, features=features)
        if found.endpoints is None:
            raise MalformedZNode(path, f"version {found.version} without endpoints", data)
        endpoints = tuple(
            cls._parse(text, found.listener_security_protocol_map, path, data) for text in found.endpoints
        )
        return Broker(id=broker_id, endpoints=endpoints, rack=found.rack, features=features)

    @classmethod
    def _parse(cls, text: str, protocols: Mapping[str, str] | None, path: str, data: bytes) -> EndPoint:
        match = cls._endpoint.fullmatch(text)
        if match is None:
            raise MalformedZNode(path, f"endpoint {text!r} is not LISTENER://host:port", data)
        listener = match[1].upper()
        if protocols is None:
            protocol = listener
        else:
            protocol = {name.upper(): value for name, value in protocols.items()}.get(listener, "")
        if protocol not in SecurityProtocol.__members__:
            raise MalformedZNode(path, f"no security protocol is defined for listener {listener}", data)
        return EndPoint(listener, SecurityProtocol[protocol], match[2], int(match[3]))


def _supported_features(
    ranges: Mapping[str, Mapping[str, int]], path: str, data: bytes
) -> tuple[SupportedFeature, ...]:
    features = []
    for name, levels in sorted(ranges.items()):
        lowest, highest = levels.get("min_version", -1), levels.get("max_version", -1)
        if not 0 <= lowest <= highest:
            raise MalformedZNode(path, f"feature {name} has versions {levels}", data)
        features.append(SupportedFeature(name, lowest, highest))
    return tuple(features)


def _connection_string(endpoint: EndPoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


class BrokerSequenceIdZNode:
    """The counter for generated broker ids: the version of its data."""

    path = "/brokers/seqid"


# ------------------------------------------------------------------ topics


class _TopicJson(msgspec.Struct):
    partitions: dict[str, tuple[BrokerId, ...]] = {}
    adding_replicas: dict[str, tuple[BrokerId, ...]] = {}
    removing_replicas: dict[str, tuple[BrokerId, ...]] = {}
    topic_id: TopicId | None = None


class TopicAssignment(NamedTuple):
    """The content of a topic's znode; the id is None before version 3."""

    topic_id: TopicId | None
    partitions: dict[TopicPartition, ReplicaAssignment]


class TopicsZNode:
    path = "/brokers/topics"


class TopicZNode:
    _decoder = msgspec.json.Decoder(_TopicJson)

    @staticmethod
    def path(topic: str) -> str:
        return f"/brokers/topics/{topic}"

    @staticmethod
    def encode(topic_id: TopicId | None, assignment: Mapping[int, ReplicaAssignment]) -> bytes:
        """Encode version 3; `assignment` is by partition number, and a `topic_id` of None is left out."""
        ordered = sorted(assignment.items())
        partitions = ",".join([f'"{partition}":{_numbers(replicas.replicas)}' for partition, replicas in ordered])
        adding = ",".join([f'"{p}":{_numbers(r.adding_replicas)}' for p, r in ordered if r.adding_replicas])
        removing = ",".join([f'"{p}":{_numbers(r.removing_replicas)}' for p, r in ordered if r.removing_replicas])
        identity = "" if topic_id is None else f'"topic_id":"{topic_id}",'
        return (
            f'{{"partitions":{{{partitions}}},{identity}"adding_replicas":{{{adding}}},'
            f'"removing_replicas":{{{removing}}},"version":3}}'
        ).encode("ascii")

    @classmethod
    def decode(cls, topic: str, data: bytes) -> TopicAssignment:
        """Decode version 1 (partitions only), 2 (with adding and removing replicas) or 3 (with the topic id)."""
        path = cls.path(topic)
        found = decode_json(cls._decoder, path, data)
        adding, removing = found.adding_replicas, found.removing_replicas
        try:
            if found.topic_id is not None:
                topic_id_to_bytes(found.topic_id)
            partitions = {
                TopicPartition(topic, int(number)): ReplicaAssignment(
                    replicas, adding.get(number, ()), removing.get(number, ())
                )
                for number, replicas in found.partitions.items()
            }
        except ValueError as error:
            raise MalformedZNode(path, str(error), data) from error
        return TopicAssignment(found.topic_id, partitions)


class TopicPartitionsZNode:
    @staticmethod
    def path(topic: str) -> str:
        return f"/brokers/topics/{topic}/partitions"


class TopicPartitionZNode:
    @staticmethod
    def path(partition: TopicPartition) -> str:
        return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}"


class _StateJson(msgspec.Struct, gc=False):
    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    controller_epoch: int
    leader_recovery_state: int = 0


_RECOVERY_STATES = {state.value: state for state in LeaderRecoveryState}


class TopicPartitionStateZNode:
    """A partition's leader and ISR. Encoded by hand, because a failover writes tens of thousands."""

    _decoder = msgspec.json.Decoder(_StateJson)

    @staticmethod
    def path(partition: TopicPartition) -> str:
        return f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"

    @staticmethod
    def encode(state: LeaderAndIsr, controller_epoch: int) -> bytes:
        recovery = state.leader_recovery_state
        recovering = f'"leader_recovery_state":{recovery:d},' if recovery else ""
        return (
            f'{{"controller_epoch":{controller_epoch},"leader":{state.leader},"version":1,{recovering}'
            f'"leader_epoch":{state.leader_epoch},"isr":{_numbers(state.isr)}}}'
        ).encode("ascii")

    @classmethod
    def decode(cls, partition: TopicPartition, data: bytes, version: int) -> LeaderIsrAndControllerEpoch:
        """Decode a state; `version` is the version of the znode's data, the partition epoch."""
        try:
            found = cls._decoder.decode(data)
            recovery = _RECOVERY_STATES[found.leader_recovery_state]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedZNode(cls.path(partition), str(error), data) from error
        except KeyError as error:
            raise MalformedZNode(cls.path(partition), "leader_recovery_state is neither 0 nor 1", data) from error
        state = LeaderAndIsr(found.leader, found.leader_epoch, found.isr, recovery, version)
        return LeaderIsrAndControllerEpoch(state, found.controller_epoch)


@functools.lru_cache(maxsize=4_096)
def _numbers(numbers: tuple[int, ...]) -> str:
    """Return `numbers` as a JSON array. Cached: a cluster has few different ISRs and writes each many times."""
    return "[" + ",".join([str(number) for number in numbers]) + "]"
