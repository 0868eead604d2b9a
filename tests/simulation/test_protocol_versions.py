"""Clusters with older inter-broker protocol versions, several at once, and a control plane listener."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.simulation.test_log_events import produce
from understudy.brokers.network.kafka_apis import KafkaApis
from understudy.clusters.clients.producer import DeliveryOutcome
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicPartition
from understudy.foundation.eventlog.records import RequestReceived, RequestSent
from understudy.foundation.wire.headers import decode_request_header
from understudy.foundation.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from understudy.foundation.wire.registry import api_by_key
from understudy.foundation.zk.client import Failure
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import judge

CONTROL_PORT = 9093


def properties(version: str) -> dict[str, str]:
    """`server.properties` for a protocol version: Kafka refuses one that is older than the message format."""
    old = {"log.message.format.version": version} if version.startswith("0.") else {}
    return {"inter.broker.protocol.version": version, **old}


def cluster_of(*versions: str, seed: int = 3) -> SimulatedCluster:
    return SimulatedCluster(seed, brokers=len(versions), own_settings=[properties(version) for version in versions])


def sent(cluster: SimulatedCluster) -> dict[str, set[tuple[str, int]]]:
    """The control requests that each node has sent, with their versions, by node."""
    found: dict[str, set[tuple[str, int]]] = {}
    for record in map(decode_record, cluster.log_lines):
        if isinstance(record.data, RequestSent):
            found.setdefault(record.node, set()).add((record.data.api, record.data.api_version))
    return found


def znode(cluster: SimulatedCluster, path: str) -> Any:
    node = cluster.zookeeper.tree.get(path)
    assert not isinstance(node, Failure), path
    return json.loads(node.data)


def notifications(cluster: SimulatedCluster) -> Iterator[tuple[str, Any]]:
    """The operation and data of every write to an ISR change notification."""
    for transaction in cluster.zookeeper.transactions:
        for op in transaction.ops:
            if op.path.startswith("/isr_change_notification/"):
                yield op.kind.value, json.loads(op.data) if op.data else None


def failover_and_return(cluster: SimulatedCluster) -> None:
    """Kill the controller, which shrinks the ISRs, and start it again, which expands them."""
    cluster.start()
    cluster.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.settle()
    killed = cluster.controller()
    killed.kill()
    cluster.settle()
    killed.begin_start()
    cluster.settle()
    cluster.run_for(10_000)
    cluster.settle()


def assert_all_brokers_have_the_isrs(cluster: SimulatedCluster) -> None:
    """Assert that the metadata of every broker has the ISRs in ZooKeeper, also those that leaders wrote themselves."""
    for partition in (TopicPartition("orders", number) for number in range(3)):
        written = cluster.znodes.state(partition)
        assert written is not None
        assert sorted(written.isr) == [1, 2, 3]
        for broker in cluster.brokers:
            assert broker.instance is not None
            known = broker.instance.metadata.snapshot.partition(*partition)
            assert known is not None
            assert (known.leader, known.isr, known.zk_version) == (written.leader, written.isr, written.partition_epoch)


@pytest.mark.spec("IO-3", "ZN-4", "IS-16", "IS-18")
@pytest.mark.parametrize(
    ("version", "leader_and_isr", "update_metadata", "registration", "notified"),
    [
        ("2.6", 4, 6, 4, True),
        ("0.10.2", 0, 3, 4, True),
        ("0.9.0", 0, 1, 2, True),
        ("2.7", 4, 6, 5, False),
        ("3.3", 6, 7, 5, False),
    ],
)
def test_a_cluster_at_an_older_protocol_uses_its_request_versions_and_znodes(
    version: str, leader_and_isr: int, update_metadata: int, registration: int, notified: bool
) -> None:
    with cluster_of(version, version, version) as cluster:
        failover_and_return(cluster)
        assert_all_brokers_have_the_isrs(cluster)
        assert znode(cluster, "/brokers/ids/1")["version"] == registration
        assert ("topic_id" in znode(cluster, "/brokers/topics/orders")) == (version == "3.3")
        for requests in sent(cluster).values():
            assert requests == {("LeaderAndIsr", leader_and_isr), ("UpdateMetadata", update_metadata)}
        assert ("create" in dict(notifications(cluster))) == notified
    assert judge(cluster).problems == ()


@pytest.mark.spec("CS-2", "AP-3")
@pytest.mark.parametrize(("version", "request_version"), [("2.6", 3), ("2.4-IV0", 2), ("2.1", 1), ("0.8.2", 0)])
def test_controlled_shutdown_has_the_version_of_the_protocol(version: str, request_version: int) -> None:
    with cluster_of(version, version, version) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment={0: [3, 1], 1: [1, 3]})
        cluster.settle()
        assert cluster.controller_id() == 1
        cluster.broker(3).begin_stop()
        cluster.settle()
        assert [cluster.leader_id("orders", number) for number in (0, 1)] == [1, 1]
        received = [
            record.data for record in map(decode_record, cluster.log_lines) if isinstance(record.data, RequestReceived)
        ]
        sent_versions = [(data.api_version, data.client_id) for data in received if data.api == "ControlledShutdown"]
        assert sent_versions == [(request_version, "3" if request_version else "")], (
            "version 0 has no client id in its header"
        )
    assert judge(cluster).problems == ()


@pytest.mark.spec("RB-9")
@pytest.mark.parametrize(("version", "stop_replica"), [("2.6", 3), ("2.5", 2), ("2.3", 1), ("0.10.2", 0)])
def test_stop_replica_has_the_version_of_the_protocol(version: str, stop_replica: int) -> None:
    with cluster_of(version, version, version) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment={0: [3, 1], 1: [1, 2]})
        cluster.settle()
        cluster.ask(cluster.admin.delete_topics("orders"))
        cluster.settle()
        assert cluster.znodes.topics() == {}
        assert all(broker.instance is not None and not broker.instance.hosted for broker in cluster.brokers)
        versions = {version for api, version in sent(cluster)["broker-1"] if api == "StopReplica"}
        assert versions == {stop_replica}
    assert judge(cluster).problems == ()


@pytest.mark.spec("IS-4", "IS-16", "IS-17", "IS-18")
@pytest.mark.parametrize("versions", [("3.9", "2.6", "2.8"), ("2.6", "2.3", "3.9"), ("2.8", "3.9", "0.11.0")])
def test_brokers_of_several_protocols_form_one_cluster(versions: Sequence[str]) -> None:
    with cluster_of(*versions) as cluster:
        failover_and_return(cluster)
        assert_all_brokers_have_the_isrs(cluster)
        assert len(set(map(frozenset, sent(cluster).values()))) == 2, "two controllers, each at its own protocol"
        done = [what for what, _ in notifications(cluster)]
        assert done.count("create") == done.count("delete") > 0
    assert judge(cluster).problems == ()


@pytest.mark.spec("TC-6", "ZN-5")
@pytest.mark.parametrize(("version", "has_id"), [("2.8-IV0", True), ("2.7", False)])
def test_a_topic_has_an_id_where_the_protocol_has_topic_ids(version: str, has_id: bool) -> None:
    """The config is written before the topic in both cases."""
    with cluster_of(version, version) as cluster:
        cluster.start()
        request = CreateTopicsRequest(topics=(CreatableTopic(name="orders", num_partitions=1, replication_factor=2),))
        response = cluster.ask(cluster.admin.ask(f"broker-{cluster.controller_id()}", PORT, request))
        assert isinstance(response, CreateTopicsResponse)
        cluster.settle()
        written = znode(cluster, "/brokers/topics/orders")
        assert written.get("topic_id", NO_TOPIC_ID) == response.topics[0].topic_id
        assert (response.topics[0].topic_id != NO_TOPIC_ID) == has_id
        written_paths = [
            op.path
            for transaction in cluster.zookeeper.transactions
            for op in transaction.ops
            if op.path.endswith("/orders")
        ]
        assert list(dict.fromkeys(written_paths)) == ["/config/topics/orders", "/brokers/topics/orders"]


@pytest.mark.spec("RA-8", "RA-13", "ZC-3")
def test_a_reassignment_ends_when_a_leader_has_written_the_isr_with_the_new_replica() -> None:
    """The controller watches the state znodes of reassigned partitions, and needs no ISR change notification."""
    with cluster_of("2.6", "2.6", "2.6") as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment={0: [2, 3]})
        cluster.settle()
        moved = cluster.ask(cluster.admin.alter_partition_reassignments({TopicPartition("orders", 0): [2, 1]}))
        assert moved == {TopicPartition("orders", 0): None}
        cluster.run_for(1_500)
        assert znode(cluster, "/brokers/topics/orders")["partitions"] == {"0": [2, 1]}
        assert list(notifications(cluster)) == []
        cluster.settle()
        cluster.run_for(20_000)
        cluster.settle()
        assert sorted(cluster.isr("orders", 0)) == [1, 2]
    assert judge(cluster).problems == ()


@pytest.mark.spec("PSM-18")
@pytest.mark.parametrize(("version", "recovering"), [("3.2", True), ("3.1", False)])
def test_an_unclean_election_writes_the_leader_recovery_state_where_the_protocol_has_it(
    version: str, recovering: bool
) -> None:
    allowed = {"unclean.leader.election.enable": "true", **properties(version)}
    with SimulatedCluster(3, brokers=3, settings=allowed) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment={0: [2, 3]})
        cluster.settle()
        cluster.broker(3).kill()
        cluster.run_for(12_000)
        assert cluster.isr("orders", 0) == (2,)
        cluster.broker(2).kill()
        cluster.run_for(12_000)
        cluster.broker(3).begin_start()
        cluster.run_for(12_000)
        written = [
            json.loads(op.data)
            for transaction in cluster.zookeeper.transactions
            for op in transaction.ops
            if op.path == "/brokers/topics/orders/partitions/0/state" and op.data
        ]
        elected = next(state for state in written if state["leader"] == 3)
        assert elected.get("leader_recovery_state", 0) == recovering


@pytest.mark.spec("SN-2", "IS-5")
def test_the_control_plane_listener_receives_control_requests_and_alter_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    received_apis: set[tuple[str, str]] = set()
    handle = KafkaApis.handle

    async def handle_and_record(apis: KafkaApis, frame: bytes, *, listener: str, peer: str) -> bytes | None:
        api = api_by_key(decode_request_header(frame)[0].api_key)
        assert api is not None
        received_apis.add((api.name, listener))
        return await handle(apis, frame, listener=listener, peer=peer)

    monkeypatch.setattr(KafkaApis, "handle", handle_and_record)
    own_settings = [
        {
            "listeners": f"PLAINTEXT://broker-{number}:{PORT},CONTROL://broker-{number}:{CONTROL_PORT}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
            "control.plane.listener.name": "CONTROL",
        }
        for number in (1, 2, 3)
    ]
    with SimulatedCluster(3, brokers=3, own_settings=own_settings) as cluster:
        failover_and_return(cluster)
        cluster.ask(cluster.admin.delete_topics("orders"))
        cluster.settle()
        cluster.broker(3).begin_stop()
        cluster.settle()
    of_control_plane = {
        ("LeaderAndIsr", "CONTROL"),
        ("UpdateMetadata", "CONTROL"),
        ("StopReplica", "CONTROL"),
        ("AlterPartition", "CONTROL"),
    }
    assert {(name, listener) for name, listener in received_apis if listener == "CONTROL"} == of_control_plane | {
        ("ApiVersions", "CONTROL")
    }
    assert {("Fetch", "PLAINTEXT"), ("ControlledShutdown", "PLAINTEXT")} <= received_apis
    assert (
        not {("LeaderAndIsr", "PLAINTEXT"), ("UpdateMetadata", "PLAINTEXT"), ("AlterPartition", "PLAINTEXT")}
        & received_apis
    )
    assert judge(cluster).problems == ()


@pytest.mark.parametrize("version", ["0.11.0", "2.6", "2.7", "3.0"])
def test_followers_get_the_records_of_a_leader_at_every_protocol(version: str) -> None:
    """The second batch is fetched from a log whose last record has a leader epoch, which older Fetches cannot name."""
    with cluster_of(version, version, version) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment={0: [1, 2, 3]})
        cluster.settle()
        assert [produce(cluster, value).outcome for value in (b"a", b"b")] == [DeliveryOutcome.ACKNOWLEDGED] * 2
        cluster.settle()
        state = cluster.znodes.state(TopicPartition("orders", 0))
        assert state is not None
        assert state.isr == (1, 2, 3)
