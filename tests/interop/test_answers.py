"""Unusual and malformed requests get the same response from our brokers as from Apache Kafka's, field by field.

Both clusters are in the same state and receive the same requests. Values that may differ are masked: ports, topic ids
(except whether there is one), the order of named elements. Requests that we answer differently on
purpose (docs/inside/fidelity.md) are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.interop.mixed import SESSION_TIMEOUT_MS, hand_over, settle
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.messages import alter_configs, incremental_alter_configs
from understudy.foundation.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from understudy.foundation.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from understudy.foundation.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from understudy.foundation.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from understudy.foundation.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from understudy.foundation.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from understudy.foundation.wire.messages.api_versions import ApiVersionsRequest
from understudy.foundation.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from understudy.foundation.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from understudy.foundation.wire.messages.create_acls import AclCreation, CreateAclsRequest
from understudy.foundation.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from understudy.foundation.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from understudy.foundation.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from understudy.foundation.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from understudy.foundation.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from understudy.foundation.wire.messages.describe_acls import DescribeAclsRequest
from understudy.foundation.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from understudy.foundation.wire.messages.describe_cluster import DescribeClusterRequest
from understudy.foundation.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from understudy.foundation.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from understudy.foundation.wire.messages.describe_transactions import DescribeTransactionsRequest
from understudy.foundation.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from understudy.foundation.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from understudy.foundation.wire.messages.end_txn import EndTxnRequest
from understudy.foundation.wire.messages.envelope import EnvelopeRequest
from understudy.foundation.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from understudy.foundation.wire.messages.find_coordinator import FindCoordinatorRequest
from understudy.foundation.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from understudy.foundation.wire.messages.list_transactions import ListTransactionsRequest
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from understudy.foundation.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from understudy.foundation.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from understudy.foundation.wire.messages.sasl_handshake import SaslHandshakeRequest
from understudy.foundation.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from understudy.foundation.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from understudy.foundation.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from understudy.foundation.wire.network import ConnectionLost
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.request_channel import RequestChannel
from understudy.foundation.wire.schema import Message

pytestmark = [pytest.mark.xdist_group("answers"), pytest.mark.timeout(600)]

BROKERS = (1, 2, 3)
CONTROLLER, OTHER = 1, 2
TOPIC, BROKER, LOGGER, METRICS = 2, 4, 8, 16
SET, DELETE, APPEND = 0, 1, 2
UNKNOWN_TOPIC_ID = TopicId("AAAAAAAAAAAAAAAAAAAAqg")
LONG_NAME = "x" * 250
PROPERTIES = {
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "log.retention.hours": "100",
    "min.insync.replicas": "2",
    "listener.name.plaintext.max.connections": "500",
    **SMALL_BROKER,
}
MASKED = frozenset({"port", "cluster_id"})
OF_THEIR_OWN = frozenset(
    {"log.dirs", "zookeeper.connect", "understudy.run.id", "understudy.run.testbed", "understudy.events.dir"}
    | {"understudy.points.file", "understudy.answers.file", "understudy.faults.file"}
)
"""Configs that differ between the two clusters."""


class Asked(NamedTuple):
    request: Message
    version: int
    broker: int = CONTROLLER

    def __str__(self) -> str:
        return f"{api_of(self.request).name} v{self.version} of broker {self.broker}: {self.request}"


class Both(NamedTuple):
    kafkas: LocalCluster
    ours: LocalCluster


@pytest.fixture(scope="module")
def both(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A cluster of Kafka's and one of ours, with the same topics and with broker 1 as controller."""
    with ExitStack() as clusters:
        started = [
            clusters.enter_context(
                LocalCluster(
                    len(BROKERS),
                    kafka_brokers=dict.fromkeys(BROKERS, kafka) if name == "kafka" else None,
                    directory=tmp_path_factory.mktemp(name),
                    session_timeout_ms=SESSION_TIMEOUT_MS,
                    properties=PROPERTIES,
                )
            )
            for name in ("kafka", "ours")
        ]
        for cluster in started:
            hand_over(cluster, to=[CONTROLLER])
            topics = (placed("a", (1, 2), (2, 1)), placed("b", (3,)), placed("c.d", (1,)))
            ask(cluster, Asked(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7))
            settle(cluster, BROKERS)
        yield Both(*started)


def ask(cluster: LocalCluster, asked: Asked) -> Message:
    async def answer() -> Message:
        port = cluster.broker(asked.broker).process.port
        connection = await SocketNetwork().connect("127.0.0.1", port or 0, timeout_ms=5_000)
        channel = RequestChannel(connection, client_id="odd")
        try:
            return await channel.request(asked.request, asked.version, timeout_ms=15_000)
        finally:
            channel.close()

    return asyncio.run(answer())


def shown(value: Any) -> Any:
    """A response as it is compared, with masked values."""
    match value:
        case dict():
            fields = {key: shown(each) for key, each in value.items() if key not in MASKED}
            if "topic_id" in fields:
                fields["topic_id"] = fields["topic_id"] == NO_TOPIC_ID
            return fields
        case list() | tuple():
            kept = [shown(each) for each in value if not (isinstance(each, dict) and each.get("name") in OF_THEIR_OWN)]
            return sorted(kept, key=repr) if kept and isinstance(kept[0], dict) else kept
    return value


def check(both: Both, questions: Iterable[Asked]) -> None:
    different = []
    for asked in questions:
        kafkas, ours = (shown(msgspec.to_builtins(ask(cluster, asked))) for cluster in both)
        if kafkas != ours:
            different.append(f"{asked}\n  Kafka: {kafkas}\n  ours:  {ours}")
    assert not different, "\n".join(different)


# ------------------------------------------------------------------ topics


def placed(name: str, *replicas: tuple[int, ...], **configs: str | None) -> CreatableTopic:
    """A topic with an explicit assignment, so that both clusters have the same."""
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=i, broker_ids=each) for i, each in enumerate(replicas)
    )
    return msgspec.structs.replace(counted(name, -1, -1, **configs), assignments=assignments)


def counted(name: str, partitions: int, replication_factor: int, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()),
    )


BAD_TOPICS = (
    *(counted(name, 1, 1) for name in ("", ".", "..", "a b", "é", LONG_NAME, "__cluster_metadata", "a", "c_d")),
    *(counted(f"n{n}-{r}", n, r) for n, r in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 4), (0, 9), (-1, -1))),
    placed("differ", (1,), (1, 2)),
    placed("doubled", (1, 2, 1), (3, 2, 1)),
    CreatableTopic(name="hole", num_partitions=-1, replication_factor=-1,
                   assignments=tuple(CreatableReplicaAssignment(partition_index=i, broker_ids=(1,)) for i in (0, 2))),
    CreatableTopic(name="both", num_partitions=1, replication_factor=-1,
                   assignments=(CreatableReplicaAssignment(broker_ids=(1,)),)),
)  # fmt: skip

CONFIGS: tuple[dict[str, str | None], ...] = (
    {"cleanup_policy": "bad", "zzz": "1"},
    {"cleanup_policy": "bad", "retention_ms": " x "},
    {"min_compaction_lag_ms": "10", "max_compaction_lag_ms": "5"},
    {"remote_storage_enable": "true"},
    {"remote_log_copy_disable": "true"},
    {"cleanup_policy": "compact, delete,"},
    {"preallocate": "TRUE ", "retention_ms": " 100 "},
    {"segment_bytes": ""},
    {"segment_bytes": "13"},
    {"compression_gzip_level": "0"},
    {"compression_type": "gzip "},
    {"message_format_version": "9.9"},
    {"min_cleanable_dirty_ratio": "1.5"},
    {"leader_replication_throttled_replicas": "a:b"},
    {"retention_ms": "99999999999999999999"},
    {"flush_ms": None, "a": None},
)


@pytest.mark.spec("TC-3", "TC-4", "TC-5", "TC-7", "TC-8")
def test_create_topics(both: Both) -> None:
    configured = tuple(counted(f"cfg{number}", 1, 1, **configs) for number, configs in enumerate(CONFIGS))
    twice = (counted("twice", 1, 1), counted("twice", 1, 1), counted("__cluster_metadata", 1, 1))
    questions = [
        Asked(CreateTopicsRequest(topics=(*BAD_TOPICS, *configured), validate_only=True), version)
        for version in (1, 5, 7)
    ]
    questions += [Asked(CreateTopicsRequest(topics=twice), version, OTHER) for version in range(8)]
    questions += [
        Asked(CreateTopicsRequest(topics=twice), 7),
        Asked(CreateTopicsRequest(topics=(placed("good", (1,)), counted("bad", 0, 1)), timeout_ms=10_000), 7),
        Asked(CreateTopicsRequest(topics=(placed("hasty", (1,)), counted("bad", 0, 1)), timeout_ms=0), 7),
        Asked(CreateTopicsRequest(topics=(placed("away", (1, 9)), placed("lost", (9,))), timeout_ms=500), 7),
        Asked(CreateTopicsRequest(topics=(placed("blanks", (1,), retention_ms=" 100 "),), timeout_ms=10_000), 7),
        Asked(CreateTopicsRequest(), 7),
    ]
    check(both, questions)


@pytest.mark.spec("TP-1")
def test_create_partitions(both: Both) -> None:
    def more(name: str, count: int, *replicas: tuple[int, ...]) -> CreatePartitionsTopic:
        chosen = tuple(CreatePartitionsAssignment(broker_ids=each) for each in replicas) if replicas else None
        return CreatePartitionsTopic(name=name, count=count, assignments=chosen)

    requests = [
        (more("a", 2), more("b", 0), more("c.d", -1), more("nope", 3)),
        (more("a", 3), more("b", 2), more("a", 4)),
        (more("a", 3, (9, 8)), more("b", 3, (1,)), more("c.d", 2, (1, 1))),
        (more("a", 3, (3,)), more("b", 3, (1,), ())),
    ]
    questions = [Asked(CreatePartitionsRequest(topics=topics, validate_only=True), 3) for topics in requests]
    questions += [Asked(CreatePartitionsRequest(topics=requests[1]), version, OTHER) for version in range(4)]
    check(both, questions)


@pytest.mark.spec("TX-1")
def test_delete_topics(both: Both) -> None:
    names = ("nope", "a b", "", "__cluster_metadata")
    by_id = (DeleteTopicState(topic_id=UNKNOWN_TOPIC_ID), DeleteTopicState(), DeleteTopicState(name="nope"))
    mixed = (DeleteTopicState(name="b", topic_id=UNKNOWN_TOPIC_ID), DeleteTopicState(name="b"))
    questions = [
        Asked(DeleteTopicsRequest(topic_names=names), version, broker)
        for version in range(6)
        for broker in (CONTROLLER, OTHER)
    ]
    questions += [
        Asked(DeleteTopicsRequest(topics=topics), 6, broker) for topics in (by_id, mixed) for broker in (1, 2)
    ]
    check(both, questions)


@pytest.mark.spec("MC-3", "MC-4")
def test_metadata_and_describe_cluster(both: Both) -> None:
    names = ("a", "b", "a", "nope", "a b", LONG_NAME, "__consumer_offsets")
    named = tuple(MetadataRequestTopic(name=name) for name in names)
    refused = (
        MetadataRequestTopic(name="a"),
        MetadataRequestTopic(name="b", topic_id=UNKNOWN_TOPIC_ID),
        MetadataRequestTopic(name="a"),
    )
    questions = [Asked(MetadataRequest(topics=named), version, OTHER) for version in range(13)]
    questions += [Asked(MetadataRequest(topics=refused), version, OTHER) for version in (10, 11, 12)]
    questions += [Asked(MetadataRequest(topics=(), include_topic_authorized_operations=True), 12)]
    questions += [Asked(MetadataRequest(topics=refused, include_topic_authorized_operations=True), 12)]
    questions += [Asked(MetadataRequest(topics=named, include_cluster_authorized_operations=True), 9)]
    questions += [
        Asked(DescribeClusterRequest(endpoint_type=kind, include_cluster_authorized_operations=True), 1)
        for kind in range(-1, 4)
    ]
    check(both, questions)


# ------------------------------------------------------------------ configs


def described(kind: int, name: str, *keys: str) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)


@pytest.mark.spec("CF-7")
def test_describe_configs(both: Both) -> None:
    odd = (
        *(described(TOPIC, name) for name in ("nope", "", "a b")),
        *(described(kind, name) for kind in (BROKER, LOGGER) for name in ("1", "x", "99999999999")),
        *(described(kind, "") for kind in (LOGGER, METRICS)),
        described(LOGGER, "2", "root"),
        described(TOPIC, "b", "retention.ms", "no.such"),
    )
    all_keys = (described(TOPIC, "a"), described(BROKER, "2"), described(BROKER, ""))
    questions = [Asked(DescribeConfigsRequest(resources=odd), version, OTHER) for version in range(5)]
    questions += [
        Asked(DescribeConfigsRequest(resources=all_keys, include_synonyms=True), v, OTHER) for v in range(1, 5)
    ]
    questions += [
        Asked(DescribeConfigsRequest(resources=(*odd, described(kind, "x"))), 4, OTHER) for kind in (0, 3, 32)
    ]
    check(both, [*questions, Asked(DescribeConfigsRequest(resources=all_keys), 0, OTHER)])


BROKER_CONFIGS = (
    ("zzz", "1"), ("num.partitions", "3"), ("num.io.threads", "0"), ("num.io.threads", "100"),
    ("num.io.threads", "abc"), ("ssl.key.password", "x"), ("log.roll.ms", "0"), ("log.roll.jitter.ms", "-1"),
    ("log.cleaner.dedupe.buffer.size", "100"), ("log.local.retention.ms", "99999999999999"), ("max.connections", "-1"),
    ("unclean.leader.election.enable", "maybe"), ("listener.name.plaintext.max.connections", "x"),
    ("log.cleanup.policy", "x"), ("log.retention.hours", "5"), ("", "x"),
)  # fmt: skip


@pytest.mark.spec("CF-6", "CF-8")
def test_alter_configs(both: Both) -> None:
    def change(
        kind: int, name: str, *changes: tuple[str, int, str | None]
    ) -> incremental_alter_configs.IncrementalAlterConfigsResource:
        configs = (
            incremental_alter_configs.IncrementalAlterableConfig(name=k, config_operation=o, value=v)
            for k, o, v in changes
        )
        return incremental_alter_configs.IncrementalAlterConfigsResource(
            resource_type=kind, resource_name=name, configs=tuple(configs)
        )

    def whole(kind: int, name: str, *pairs: tuple[str, str | None]) -> alter_configs.AlterConfigsResource:
        configs = (alter_configs.AlterableConfig(name=key, value=value) for key, value in pairs)
        return alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=tuple(configs))

    odd = (
        change(TOPIC, "", ("k", SET, "1")),
        change(TOPIC, "nope", ("retention.ms", SET, "1")),
        change(TOPIC, "gone", ("retention.ms", APPEND, "1")),
        change(TOPIC, "a", ("retention.ms", SET, "x"), ("cleanup.policy", SET, "bad")),
        change(TOPIC, "b", ("retention.ms", SET, None), ("z", APPEND, None)),
        change(BROKER, "1"),
        change(BROKER, "x"),
        change(LOGGER, "2", ("root", SET, "LOUD")),
        change(METRICS, "m", ("interval.ms", SET, "1")),
        change(0, "z"),
        change(32, "z"),
    )
    twice = (
        change(TOPIC, "a", ("retention.ms", SET, "1")),
        change(TOPIC, "b", ("flush.ms", SET, "1"), ("flush.ms", DELETE, None)),
    )
    old = (
        *(whole(TOPIC, name) for name in ("", "a b", "nope")),
        whole(TOPIC, "a", ("k", None)),
        whole(TOPIC, "b", ("zzz", "1"), ("cleanup.policy", "bad")),
        *(whole(kind, name) for kind, name in ((BROKER, "1"), (BROKER, "x"), (LOGGER, "2"), (METRICS, "m"), (0, "z"))),
    )
    incremental = incremental_alter_configs.IncrementalAlterConfigsRequest
    questions = [Asked(incremental(resources=odd, validate_only=True), version, OTHER) for version in (0, 1)]
    questions += [Asked(incremental(resources=(*twice, twice[0]), validate_only=True), 1, OTHER)]
    questions += [
        Asked(alter_configs.AlterConfigsRequest(resources=old, validate_only=True), version, OTHER)
        for version in range(3)
    ]
    questions += [
        Asked(
            incremental(
                resources=tuple(change(BROKER, name, (key, SET, value)) for name in ("2", "")), validate_only=True
            ),
            1,
            OTHER,
        )
        for key, value in BROKER_CONFIGS
    ]
    check(both, questions)


# ------------------------------------------------------------------ the controller's


@pytest.mark.spec("PE-2", "PE-5")
def test_elect_leaders(both: Both) -> None:
    some = (TopicPartitions(topic="a", partitions=(0, 7, 0)), TopicPartitions(topic="nope", partitions=(0,)))
    questions = [
        Asked(ElectLeadersRequest(topic_partitions=topics, timeout_ms=5_000), version, broker)
        for version in range(3)
        for topics in (some, ())
        for broker in (CONTROLLER, OTHER)
    ]
    check(both, [*questions, Asked(ElectLeadersRequest(election_type=1, topic_partitions=some), 2)])


@pytest.mark.spec("RA-1", "RA-2", "RA-3", "RA-7")
def test_reassignments(both: Both) -> None:
    def move(name: str, *targets: tuple[int, ...] | None) -> ReassignableTopic:
        partitions = (ReassignablePartition(partition_index=i, replicas=each) for i, each in enumerate(targets))
        return ReassignableTopic(name=name, partitions=tuple(partitions))

    odd = (move("a", (), (1, 1)), move("b", (-1, 1), (9, 3)), move("c.d", None), move("nope", (1,), None, (9, 8)))
    questions: list[Asked] = []
    for topics in (odd, (move("a", (1, 2)), move("b")), ()):
        questions += [
            Asked(AlterPartitionReassignmentsRequest(topics=topics), 0, broker) for broker in (CONTROLLER, OTHER)
        ]
    questions += [
        Asked(ListPartitionReassignmentsRequest(topics=topics), 0, b) for topics in (None, ()) for b in (1, 2)
    ]
    check(both, questions)


def test_features_and_coordinators(both: Both) -> None:
    updates = (
        FeatureUpdateKey(feature="metadata.version", max_version_level=5),
        *(FeatureUpdateKey(feature=name, max_version_level=0) for name in ("", "x")),
        *(FeatureUpdateKey(feature=f"t{kind}", max_version_level=0, upgrade_type=kind) for kind in (2, 3, 9)),
        FeatureUpdateKey(feature="x", max_version_level=3),
    )
    questions = [Asked(UpdateFeaturesRequest(feature_updates=updates), 1, broker) for broker in (CONTROLLER, OTHER)]
    questions += [Asked(FindCoordinatorRequest(key="k", key_type=kind), v) for v in (1, 2, 3) for kind in (-1, 2, 3)]
    questions += [
        Asked(FindCoordinatorRequest(coordinator_keys=("k", "l"), key_type=kind), v)
        for v in (4, 5, 6)
        for kind in (-1, 2, 3)
    ]
    check(both, questions)


# ------------------------------------------------------------------ what a cluster without security is asked


def test_api_versions(both: Both) -> None:
    """Every API, in its versions, and the features."""
    hello = ApiVersionsRequest(client_software_name="odd", client_software_version="1")
    check(both, [Asked(hello, version, broker) for version in range(5) for broker in (CONTROLLER, OTHER)])


def test_requests_of_security(both: Both) -> None:
    acl = AclCreation(resource_type=2, resource_name="a", principal="User:b", host="*", operation=3, permission_type=3)
    named = DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
    acls = DeleteAclsFilter(resource_type_filter=2, operation=1, permission_type=1)
    renewers = (CreatableRenewers(principal_type="User", principal_name="b"),)
    by_versions: dict[Message, Iterable[int]] = {
        SaslHandshakeRequest(mechanism="PLAIN"): range(2),
        SaslAuthenticateRequest(auth_bytes=b"\0b\0c"): range(3),
        named: range(4),
        CreateAclsRequest(creations=(acl, acl)): range(4),
        CreateAclsRequest(): range(4),
        DeleteAclsRequest(filters=(acls, acls)): range(4),
        CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1): range(4),
        CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="b"): (3,),
        RenewDelegationTokenRequest(hmac=b"h"): range(3),
        ExpireDelegationTokenRequest(hmac=b"h"): range(3),
        DescribeDelegationTokenRequest(): range(4),
        DescribeUserScramCredentialsRequest(): (0,),
        DescribeUserScramCredentialsRequest(users=tuple(UserName(name=each) for each in ("x", "y", "y", ""))): (0,),
        AlterUserScramCredentialsRequest(): (0,),
        AlterUserScramCredentialsRequest(deletions=(ScramCredentialDeletion(name="x", mechanism=1),)): (0,),
    }
    check(both, [Asked(request, version) for request, versions in by_versions.items() for version in versions])


def test_requests_of_quotas(both: Both) -> None:
    filters = ("", "user", "client-id", "ip", "host", "user client-id", "user ip", "user user", "ip ip")
    components = [
        tuple(ComponentData(entity_type=each, match_type=2) for each in entities.split(" ")) for entities in filters
    ]
    questions = [
        Asked(DescribeClientQuotasRequest(components=each), version)
        for each in ((), *components)
        for version in range(2)
    ]
    check(both, [*questions, *(Asked(AlterClientQuotasRequest(), version) for version in range(2))])


def test_requests_of_transactions_while_there_is_no_transaction_coordinator(both: Both) -> None:
    """No test of this module makes Kafka create `__transaction_state`."""

    def partitions(*topics: tuple[str, int]) -> tuple[AddPartitionsToTxnTopic, ...]:
        return tuple(AddPartitionsToTxnTopic(name=name, partitions=(index,)) for name, index in topics)

    existing, mixed = partitions(("a", 0), ("b", 0)), partitions(("a", 0), ("nope", 0))
    by_versions: dict[Message, Iterable[int]] = {}
    for name, topics in (("t", existing), ("", existing), ("t", mixed), ("t", ())):
        alone = AddPartitionsToTxnRequest(v3_and_below_transactional_id=name, v3_and_below_topics=topics)
        verified = AddPartitionsToTxnTransaction(transactional_id=f"{name}v", topics=topics, verify_only=True)
        added = AddPartitionsToTxnTransaction(transactional_id=name, topics=topics)
        by_versions[alone] = range(4)
        by_versions[AddPartitionsToTxnRequest(transactions=(added, verified))] = (4, 5)
        by_versions[AddOffsetsToTxnRequest(transactional_id=name, group_id="g")] = range(5)
        by_versions[EndTxnRequest(transactional_id=name, committed=True)] = range(5)
    unknown = WritableTxnMarkerTopic(name="nope", partition_indexes=(0, 1))
    by_versions |= {
        WriteTxnMarkersRequest(): range(2),
        WriteTxnMarkersRequest(markers=(WritableTxnMarker(producer_id=5, topics=(unknown,)),)): range(2),
        DescribeTransactionsRequest(transactional_ids=("t", "")): (0,),
        ListTransactionsRequest(): range(2),
        ListTransactionsRequest(state_filters=("Ongoing", "ongoing", "Dead")): range(2),
    }
    offsets = (TxnOffsetCommitRequestPartition(committed_offset=1),)
    commits = tuple(TxnOffsetCommitRequestTopic(name=name, partitions=offsets) for name in ("a", "nope"))
    by_versions[TxnOffsetCommitRequest(transactional_id="t", group_id="g", topics=commits)] = range(5)
    check(both, [Asked(request, version) for request, versions in by_versions.items() for version in versions])


def test_requests_of_the_consumer_protocol_and_of_log_directories(both: Both) -> None:
    nowhere = AlterReplicaLogDir(
        path="/nowhere", topics=(AlterReplicaLogDirTopic(name="a", partitions=(0,)), AlterReplicaLogDirTopic(name="x"))
    )
    questions = [Asked(AlterReplicaLogDirsRequest(dirs=(nowhere,)), version) for version in range(3)]
    questions += [
        Asked(ConsumerGroupHeartbeatRequest(group_id="g", subscribed_topic_names=("a",)), 0),
        Asked(ConsumerGroupDescribeRequest(group_ids=("g", "")), 0),
    ]
    check(both, questions)


def test_an_envelope_closes_its_connection(both: Both) -> None:
    for cluster in both:
        with pytest.raises(ConnectionLost):
            ask(cluster, Asked(EnvelopeRequest(request_data=b"\0", client_host_address=b"\x7f\0\0\1"), 0))
