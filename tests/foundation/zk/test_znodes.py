"""Znodes are read and written byte for byte as Apache Kafka 3.9.1 wrote them, and malformed ones are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.broker import Broker, EndPoint, SecurityProtocol
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from understudy.foundation.cluster.leadership import (
    NO_LEADER,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    LeaderRecoveryState,
)
from understudy.foundation.cluster.metadata_version import MetadataVersion
from understudy.foundation.zk.admin_znodes import (
    ClusterIdZNode,
    ConfigEntityChangeNotificationZNode,
    ConfigEntityZNode,
    Features,
    FeatureZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ProducerIdBlock,
    ProducerIdBlockZNode,
    ReassignPartitionsZNode,
)
from understudy.foundation.zk.znodes import (
    BrokerIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    ControllerZNodeData,
    MalformedZNode,
    TopicAssignment,
    TopicPartitionStateZNode,
    TopicZNode,
    parent,
)

TOPIC_ID = TopicId("GKx8qQpIQTi1jsQC9Pe1UQ")


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def endpoint(listener: str, protocol: SecurityProtocol, host: str = "h1", port: int = 9092) -> EndPoint:
    return EndPoint(listener, protocol, host, port)


# ------------------------------------------------------------------ controller


def test_controller_is_written_as_kafka_writes_it() -> None:
    written = ControllerZNode.encode(BrokerId(1), 1729700000000)
    assert written == b'{"version":2,"brokerid":1,"timestamp":"1729700000000","kraftControllerEpoch":-1}'
    assert ControllerZNode.decode(written) == ControllerZNodeData(BrokerId(1), -1)


@pytest.mark.spec("ZN-3")
def test_controller_is_read_with_and_without_a_kraft_epoch() -> None:
    assert ControllerZNode.decode(b'{"version":1,"brokerid":4,"timestamp":"1"}').kraft_epoch == -1
    assert ControllerZNode.decode(b'{"brokerid":3000,"kraftControllerEpoch":5}') == ControllerZNodeData(
        BrokerId(3000), 5
    )


def test_controller_epoch_is_decimal_not_json() -> None:
    assert ControllerEpochZNode.encode(17) == b"17"
    assert ControllerEpochZNode.decode(b"17") == 17


# ------------------------------------------------------------------ brokers


@pytest.mark.spec("ZN-4")
def test_broker_is_written_as_kafka_writes_it() -> None:
    broker = Broker(id=BrokerId(1), endpoints=(endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT),))
    written = BrokerIdZNode.encode(broker, timestamp_ms=5)
    assert written == (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h1:9092"],'
        b'"jmx_port":-1,"port":9092,"host":"h1","version":5,"timestamp":"5"}'
    )
    assert BrokerIdZNode.decode(BrokerId(1), written) == broker


@pytest.mark.spec("ZN-4")
def test_broker_with_rack_and_without_plaintext_has_no_host() -> None:
    secured = endpoint("REPLICATION", SecurityProtocol.SSL, "::1", 9093)
    broker = Broker(id=BrokerId(1), endpoints=(secured,), rack="zürich")
    written = BrokerIdZNode.encode(broker, timestamp_ms=5)
    assert written.endswith(
        '"endpoints":["REPLICATION://[::1]:9093"],"rack":"zürich","jmx_port":-1,"port":-1,"host":null,'
        '"version":5,"timestamp":"5"}'.encode()
    )
    assert BrokerIdZNode.decode(BrokerId(1), written) == broker


@pytest.mark.spec("ZN-4")
@pytest.mark.parametrize(
    ("protocol", "known_then"),
    [
        (
            "0.9.0",
            b'{"endpoints":["PLAINTEXT://h1:9092"],"jmx_port":-1,"port":9092,"host":"h1","version":2,"timestamp":"5"}',
        ),
        (
            "0.10.0",
            b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h1:9092"],"rack":"r1",'
            b'"jmx_port":-1,"port":9092,"host":"h1","version":4,"timestamp":"5"}',
        ),
        (
            "2.7",
            b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h1:9092"],'
            b'"rack":"r1","jmx_port":-1,"port":9092,"host":"h1","version":5,"timestamp":"5"}',
        ),
    ],
)
def test_a_broker_is_written_as_kafka_writes_it_at_each_protocol_version(protocol: str, known_then: bytes) -> None:
    broker = Broker(id=BrokerId(1), endpoints=(endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT),), rack="r1")
    version = MetadataVersion.parse(protocol).broker_registration_version
    assert BrokerIdZNode.encode(broker, timestamp_ms=5, version=version) == known_then


@pytest.mark.spec("ZN-4")
def test_every_version_of_a_broker_is_read() -> None:
    plaintext = (endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT),)
    v1 = b'{"version":1,"host":"h1","port":9092,"jmx_port":-1,"timestamp":"1"}'
    v2 = b'{"version":2,"host":"h1","port":9092,"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h1:9092"]}'
    v3 = v2.replace(b'"version":2', b'"version":3').replace(b"}", b',"rack":"r1"}')
    v4 = (
        b'{"version":4,"jmx_port":9999,"endpoints":["client://h1:9092"],'
        b'"listener_security_protocol_map":{"CLIENT":"SASL_SSL"},"rack":null,"unknown":{"key":1}}'
    )
    assert BrokerIdZNode.decode(BrokerId(1), v1) == Broker(id=BrokerId(1), endpoints=plaintext)
    assert BrokerIdZNode.decode(BrokerId(1), v2) == Broker(id=BrokerId(1), endpoints=plaintext)
    assert BrokerIdZNode.decode(BrokerId(1), v3) == Broker(id=BrokerId(1), endpoints=plaintext, rack="r1")
    assert BrokerIdZNode.decode(BrokerId(1), v4).endpoints == (endpoint("CLIENT", SecurityProtocol.SASL_SSL),)


# ------------------------------------------------------------------ topics and partitions


@pytest.mark.spec("ZN-5")
def test_topic_is_written_as_kafka_writes_it() -> None:
    assignment = {1: ReplicaAssignment(ids(1, 2, 0)), 0: ReplicaAssignment(ids(0, 1, 2))}
    assert TopicZNode.encode(TOPIC_ID, assignment) == (
        b'{"partitions":{"0":[0,1,2],"1":[1,2,0]},"topic_id":"GKx8qQpIQTi1jsQC9Pe1UQ",'
        b'"adding_replicas":{},"removing_replicas":{},"version":3}'
    )


@pytest.mark.spec("ZN-5")
def test_topic_under_reassignment_lists_adding_and_removing_replicas_of_moving_partitions() -> None:
    moving = ReplicaAssignment(ids(3, 1, 2), ids(3), ids(2))
    written = TopicZNode.encode(None, {10: ReplicaAssignment(ids(1)), 2: moving})
    assert written == (
        b'{"partitions":{"2":[3,1,2],"10":[1]},"adding_replicas":{"2":[3]},"removing_replicas":{"2":[2]},"version":3}'
    )
    read = TopicZNode.decode("orders", written)
    assert read == TopicAssignment(
        None, {TopicPartition("orders", 2): moving, TopicPartition("orders", 10): ReplicaAssignment(ids(1))}
    )


@pytest.mark.spec("ZN-5")
def test_every_version_of_a_topic_is_read() -> None:
    zero = {TopicPartition("t", 0): ReplicaAssignment(ids(1, 2))}
    assert TopicZNode.decode("t", b'{"version":1,"partitions":{"0":[1,2]}}') == TopicAssignment(None, zero)
    v2 = b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{},"removing_replicas":{}}'
    assert TopicZNode.decode("t", v2) == TopicAssignment(None, zero)
    v3 = b'{ "topic_id" : "GKx8qQpIQTi1jsQC9Pe1UQ", "partitions":{"0":[1,2]}, "version":3 }'
    assert TopicZNode.decode("t", v3) == TopicAssignment(TOPIC_ID, zero)


@pytest.mark.spec("ZN-6")
def test_state_is_written_as_kafka_writes_it() -> None:
    state = LeaderAndIsr(BrokerId(0), 0, ids(0, 1, 2))
    assert (
        TopicPartitionStateZNode.encode(state, 1)
        == b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0,1,2]}'
    )
    unclean = LeaderAndIsr(BrokerId(1), 3, ids(1), LeaderRecoveryState.RECOVERING, 9)
    assert (
        TopicPartitionStateZNode.encode(unclean, 1)
        == b'{"controller_epoch":1,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":3,"isr":[1]}'
    )


@pytest.mark.spec("ZN-6")
def test_state_is_read_with_its_version_as_partition_epoch() -> None:
    read = TopicPartitionStateZNode.decode(
        TopicPartition("t", 0), b'{"leader":-1,"isr":[],"leader_epoch":4,"controller_epoch":7,"extra":[]}', 12
    )
    assert read == LeaderIsrAndControllerEpoch(LeaderAndIsr(NO_LEADER, 4, (), LeaderRecoveryState.RECOVERED, 12), 7)
    assert isinstance(read.leader_and_isr.leader_recovery_state, LeaderRecoveryState)


# ------------------------------------------------------------------ the rest


def test_config_is_written_raw_in_utf_8() -> None:
    written = ConfigEntityZNode.encode({"retention.ms": "60000", "note": 'ü"\\'})
    assert written == '{"version":1,"config":{"retention.ms":"60000","note":"ü\\"\\\\"}}'.encode()
    assert ConfigEntityZNode.decode("/config/topics/t", written) == {"retention.ms": "60000", "note": 'ü"\\'}
    assert ConfigEntityZNode.decode("/config/topics/t", b"") == {}
    assert ConfigEntityChangeNotificationZNode.encode("topics/orders") == b'{"version":2,"entity_path":"topics/orders"}'


def test_cluster_id_has_a_string_for_version() -> None:
    written = ClusterIdZNode.encode("vPeOCWypqUOSepEvx0cbog")
    assert written == b'{"version":"1","id":"vPeOCWypqUOSepEvx0cbog"}'
    assert ClusterIdZNode.decode(written) == "vPeOCWypqUOSepEvx0cbog"


@pytest.mark.spec("ZN-7")
def test_feature_of_both_versions() -> None:
    assert FeatureZNode.encode(Features(2, True, {})) == b'{"features":{},"version":2,"status":1}'
    for node in (Features(2, True, {"f": 3}), Features(1, False, {"f": 3})):
        assert FeatureZNode.decode(FeatureZNode.encode(node)) == node


@pytest.mark.spec("ZN-8")
def test_producer_id_block_holds_its_numbers_as_strings() -> None:
    written = ProducerIdBlockZNode.encode(ProducerIdBlock(BrokerId(1), 0, 999))
    assert written == b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert ProducerIdBlockZNode.decode(written) == ProducerIdBlock(BrokerId(1), 0, 999)


def test_znodes_with_partition_lists() -> None:
    partitions = (TopicPartition("t", 0), TopicPartition("t", 3))
    listed = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":3}]}'
    assert PreferredReplicaElectionZNode.encode(partitions) == listed
    assert PreferredReplicaElectionZNode.decode(listed) == partitions
    assert IsrChangeNotificationZNode.decode(IsrChangeNotificationZNode.encode(partitions)) == partitions
    reassignment = {TopicPartition("t", 0): ids(4, 5, 6)}
    written = ReassignPartitionsZNode.encode(reassignment)
    assert written == b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[4,5,6]}]}'
    assert ReassignPartitionsZNode.decode(written) == reassignment


def test_log_dir_event() -> None:
    assert LogDirEventNotificationZNode.encode(BrokerId(2)) == b'{"version":1,"broker":2,"event":1}'
    assert LogDirEventNotificationZNode.decode(b'{"version":1,"broker":2,"event":1}') == 2


def state(data: bytes) -> object:
    return TopicPartitionStateZNode.decode(TopicPartition("t", 0), data, 0)


def topic(data: bytes) -> object:
    return TopicZNode.decode("t", data)


def broker(data: bytes) -> object:
    return BrokerIdZNode.decode(BrokerId(1), data)


@pytest.mark.parametrize(
    ("decode", "data", "why"),
    [
        (ControllerZNode.decode, b"{}", "brokerid"),
        (ControllerEpochZNode.decode, b"seven", "decimal"),
        (broker, b'{"version":0,"jmx_port":1,"host":"h","port":1}', "version 0"),
        (broker, b'{"version":1,"jmx_port":1}', "without host"),
        (broker, b'{"version":2,"jmx_port":1}', "without endpoints"),
        (broker, b'{"version":5,"endpoints":["A://h:1"]}', "jmx_port"),
        (broker, b'{"version":5,"jmx_port":1,"endpoints":["h:1"]}', "LISTENER://host:port"),
        (
            broker,
            b'{"version":5,"jmx_port":1,"endpoints":["A://h:1"]}',
            "no security protocol is defined for listener A",
        ),
        (topic, b"", "/brokers/topics/t"),
        (topic, b'{"partitions":{"zero":[1]}}', "zero"),
        (topic, b'{"partitions":{"0":[1]},"topic_id":"short"}', "/brokers/topics/t"),
        (topic, b"\xff\xfe", "/brokers/topics/t"),
        (state, b'{"leader":1,"isr":[1],"leader_epoch":0}', "controller_epoch"),
        (state, b'{"leader":"1","isr":[1],"leader_epoch":0,"controller_epoch":1}', "leader"),
        (
            state,
            b'{"leader":1,"isr":[1],"leader_epoch":0,"controller_epoch":1,"leader_recovery_state":-1}',
            "neither 0 nor 1",
        ),
        (state, b"[" * 10_000, "/brokers/topics/t/partitions/0/state"),
        (FeatureZNode.decode, b'{"features":{},"version":3,"status":1}', "version 3"),
        (FeatureZNode.decode, b'{"features":{},"version":2,"status":2}', "status 2"),
        (FeatureZNode.decode, b'{"features":{"f":{"max_version_level":0}},"version":2,"status":1}', "levels"),
        (FeatureZNode.decode, b'{"features":{"f":{"max_version_level":1}},"version":1,"status":1}', "levels"),
        (ProducerIdBlockZNode.decode, b'{"broker":1,"block_start":"x","block_end":"999"}', "x"),
    ],
)
def test_a_malformed_znode_is_refused_with_its_path(decode: Callable[[bytes], object], data: bytes, why: str) -> None:
    with pytest.raises(MalformedZNode, match=why):
        decode(data)


def test_the_parent_of_a_path() -> None:
    assert parent("/a/b") == "/a"
    assert parent("/a") == "/"
