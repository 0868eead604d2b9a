"""A local cluster whose traffic goes through the proxy: isolation, cuts, unknown outcomes, and a stock client."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from understudy.clusters.cluster import ClusterError, Unsupported
from understudy.clusters.java import JavaRuntime
from understudy.clusters.processes import proxied_brokers
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.request_rules import Effect
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import (
    Envelope,
    FaultInjected,
    SessionExpiredRecord,
    SessionOpened,
    ZkWrite,
    ZkWriteDone,
)
from understudy.history.reading.reader import read

SESSION_MS = 3_000
ISR_LAG_MS = 2_000
FETCH_TIMEOUT_MS = 6_000
"""Time after which a follower opens another connection in place of one that was cut; Kafka's default is 30 seconds."""
PATIENCE_S = 40.0


@pytest.fixture(scope="module")
def shared(zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(
        3,
        zookeeper=zookeeper,
        directory=tmp_path_factory.mktemp("proxied"),
        session_timeout_ms=SESSION_MS,
        properties={
            "replica.lag.time.max.ms": str(ISR_LAG_MS),
            "replica.socket.timeout.ms": str(FETCH_TIMEOUT_MS),
            "auto.leader.rebalance.enable": "false",
        },
        proxied=True,
    ) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> Iterator[LocalCluster]:
    shared.settle()
    yield shared
    shared.heal_links()
    for broker in shared.brokers:
        if not broker.is_running:
            broker.start()
    shared.settle()
    # The controller notices a registration later, and creates no topic with more replicas than brokers it knows.
    shared.wait_until(lambda: len(shared.ask(shared.admin.metadata(())).brokers) == 3, "the controller knows of them")


def records(cluster: LocalCluster) -> Sequence[Envelope]:
    return read([cluster.directory]).records


def faults(cluster: LocalCluster) -> list[tuple[str, str, str]]:
    found = [record.data for record in records(cluster) if isinstance(record.data, FaultInjected)]
    return [(fault.fault, fault.target, fault.role) for fault in found if fault.fault != "start"]


def produce(cluster: LocalCluster, topic: str, count: int = 100, acks: str = "all") -> None:
    """Produce records, and require that all are acknowledged."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": acks})
    for number in range(count):
        producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def consumed(cluster: LocalCluster, topic: str, count: int) -> set[bytes | None]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return {message.value() for message in consumer.consume(count, PATIENCE_S) if message.error() is None}
    finally:
        consumer.close()


# ---------------------------------------------------------------------------- without a cluster


def test_without_a_proxy_every_fault_of_a_link_names_the_option(tmp_path: Path) -> None:
    cluster = LocalCluster(3, directory=tmp_path)
    for fault in (
        lambda: cluster.isolate_broker(1),
        lambda: cluster.cut(1, [2]),
        cluster.heal_links,
        lambda: cluster.reset(1, [2]),
        lambda: cluster.delay(1, [2], 100),
        lambda: cluster.add_rule(1, [2], Effect.HOLD),
        lambda: cluster.refuse(1, [2], True),
        lambda: cluster.throttle(1, [2], 1_000),
        lambda: cluster.refuse(1, [2], False),
        lambda: cluster.cut_from_clients(1),
        lambda: cluster.expire_session(1),
        lambda: cluster.heal_clients(1),
        lambda: cluster.heal_between(1, [2]),
        lambda: cluster.remove_rule("hold-1"),
        cluster.not_injected,
        lambda: cluster.heal_zookeeper(1),
        lambda: cluster.reset_zookeeper_connection(1),
        lambda: cluster.cut_from_zookeeper(1),
        lambda: cluster.lose_answer(1, "/controller", True),
    ):
        with pytest.raises(Unsupported, match="has no proxy between its processes; create it with proxied=True"):
            fault()


def test_unknown_brokers_and_apis_and_a_cluster_that_does_not_run_are_refused(tmp_path: Path) -> None:
    cluster = LocalCluster(3, directory=tmp_path, proxied=True)
    with pytest.raises(ClusterError, match="there is no broker 7; this cluster has 1, 2, 3"):
        cluster.cut(1, [7])
    with pytest.raises(ClusterError, match=r"there is no API 'Fetsch'; Kafka's are .*Fetch"):
        cluster.add_rule(1, [2], Effect.HOLD, api="Fetsch")
    with pytest.raises(ClusterError, match="this cluster does not run"):
        cluster.cut(1, [2])


def test_brokers_of_apache_kafka_cannot_be_proxied(tmp_path: Path) -> None:
    (tmp_path / "kafka_2.13-3.9.1.jar").touch()
    kafka = ApacheKafka(tmp_path, JavaRuntime(home=tmp_path, version=17, why="made up"))
    with pytest.raises(ClusterError, match="cannot have brokers of Apache Kafka"):
        LocalCluster(2, kafka_brokers={2: kafka}, proxied=True)


def test_a_system_without_further_loopback_addresses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxied_brokers, "address_of", lambda broker_id: "192.0.2.1")  # of no interface (RFC 5737)
    with pytest.raises(ClusterError, match=r"192\.0\.2\.1 cannot be bound .*which Linux has and macOS lacks"):
        proxied_brokers.ProxiedBrokers([1], "127.0.0.1:2181", {})


def test_each_broker_has_addresses_of_its_own() -> None:
    brokers = proxied_brokers.ProxiedBrokers([1, 300], "127.0.0.1:2181,127.0.0.1:2182/a/b", {})
    try:
        first, second = brokers.properties[1], brokers.properties[300]
        assert (first["understudy.source.address"], second["understudy.source.address"]) == ("127.0.1.1", "127.0.2.44")
        assert first["zookeeper.connect"].count("127.0.0.1:") == 2
        assert first["zookeeper.connect"].endswith("/a/b")
        assert not set(first.items()) & set(second.items())
        host, _, port = first["listeners"].removeprefix("PLAINTEXT://").partition(":")
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((host, int(port)))
        assert brokers.session_of("broker-1") is None
    finally:
        brokers.stop()


# ---------------------------------------------------------------------------- brokers, links, clients


def test_a_stock_client_produces_and_consumes_through_the_proxy(cluster: LocalCluster) -> None:
    cluster.create_topic("stock", partitions=1, replication_factor=3)
    cluster.settle()
    produce(cluster, "stock")
    assert consumed(cluster, "stock", 100) == {b"%d" % number for number in range(100)}
    assert cluster.proxy is not None
    assert cluster.proxy.connections > 0


def test_an_isolated_controller_is_replaced_and_rejoins_when_it_is_healed(cluster: LocalCluster) -> None:
    isolated = cluster.controller()
    isolated.isolate()
    elected = cluster.wait_until(
        lambda: (found := cluster.controller_id()) not in (None, isolated.id) and found, "another", PATIENCE_S
    )
    assert elected != isolated.id
    cluster.wait_until(lambda: isolated.id not in cluster.view.brokers(), "its session has ended", PATIENCE_S)
    assert isolated.is_running
    isolated.heal()
    isolated.heal()  # harmless
    cluster.wait_until(lambda: isolated.id in cluster.view.brokers(), "it has registered again", PATIENCE_S)
    cluster.settle()
    assert faults(cluster)[-3:] == [
        ("isolate", isolated.name, "controller"),
        ("heal", isolated.name, "controller"),
        ("heal", isolated.name, "controller"),
    ]


def test_healing_one_isolated_broker_leaves_the_other_isolated(cluster: LocalCluster) -> None:
    controller = cluster.controller_id()
    one, other = (broker for broker in cluster.brokers if broker.id != controller)
    for broker in (one, other):
        broker.isolate()
    cluster.wait_until(lambda: not {one.id, other.id} & set(cluster.view.brokers()), "both have gone", PATIENCE_S)
    one.heal()
    cluster.wait_until(lambda: one.id in cluster.view.brokers(), "it has registered again", PATIENCE_S)
    time.sleep(SESSION_MS / 1000)  # the other one could register in that time
    assert other.id not in cluster.view.brokers()
    other.heal()
    cluster.wait_until(lambda: other.id in cluster.view.brokers(), "it has registered again", PATIENCE_S)


def test_a_broker_that_is_down_cannot_be_isolated(cluster: LocalCluster) -> None:
    broker = next(broker for broker in cluster.brokers if broker.id != cluster.controller_id())
    broker.kill()
    with pytest.raises(ClusterError, match=f"isolate was not injected: {broker.name} is not running"):
        broker.isolate()
    broker.start()


def test_a_follower_that_is_cut_from_its_leader_leaves_the_isr_and_returns(cluster: LocalCluster) -> None:
    controller = cluster.controller_id()
    leader, follower = (broker_id for broker_id in cluster.broker_ids if broker_id != controller)
    cluster.create_topic("cut", assignment={0: [leader, follower]})
    cluster.settle()
    assert cluster.isr("cut", 0) == (leader, follower)
    cluster.cut(leader, [follower])
    produce(cluster, "cut", 1, acks="1")  # a follower that has the whole log stays in the ISR
    cluster.wait_until(lambda: cluster.isr("cut", 0) == (leader,), "the ISR has shrunk", PATIENCE_S)
    produce(cluster, "cut")
    cluster.heal_between(leader, [follower])
    cluster.wait_until(lambda: set(cluster.isr("cut", 0)) == {leader, follower}, "the ISR has expanded", PATIENCE_S)
    one, other = f"broker-{leader}", f"broker-{follower}"
    assert faults(cluster)[-2:] == [("cut", f"{one} -> {other}", ""), ("heal", f"{one} -> {other}", "")]


@pytest.mark.parametrize("applied", [True, False])
def test_a_controller_does_not_learn_the_outcome_of_its_write_and_repeats_it(
    cluster: LocalCluster, applied: bool
) -> None:
    controller, topic = cluster.controller(), f"unknown-{applied}"
    cluster.lose_answer(controller.id, f"/brokers/topics/{topic}/partitions", applied)
    cluster.create_topic(topic, partitions=2, replication_factor=3)
    cluster.wait_until(lambda: cluster.leader_id(topic, 1) is not None, "the partitions have leaders", PATIENCE_S)
    cluster.settle()
    written = {
        (record.incarnation, record.seq): record.data
        for record in records(cluster)
        if record.node == controller.name and isinstance(record.data, ZkWrite)
    }
    outcomes = [
        record.data.outcome
        for record in records(cluster)
        if isinstance(record.data, ZkWriteDone)
        and record.node == controller.name
        and (write := written.get((record.incarnation, record.cause or 0))) is not None
        and any(f"/{topic}/partitions" in path for path in write.paths)
    ]
    assert outcomes[0] == "Unknown"
    assert len(outcomes) > 1
    assert cluster.controller_id() == controller.id
    assert ("lose-answer", f"{controller.name} -> zookeeper", "") in faults(cluster)


def test_a_session_outlives_a_reset_of_its_connection(cluster: LocalCluster) -> None:
    broker = cluster.brokers[0]
    before = cluster.view.brokers()[BrokerId(broker.id)].epoch
    opened = sum(isinstance(record.data, SessionOpened) for record in records(cluster))
    cluster.reset_zookeeper_connection(broker.id)
    time.sleep(2 * SESSION_MS / 1000)  # a session without a connection would end
    assert cluster.view.brokers()[BrokerId(broker.id)].epoch == before
    assert sum(isinstance(record.data, SessionOpened) for record in records(cluster)) == opened


def test_an_expired_session_ends_at_once_and_the_broker_registers_again(cluster: LocalCluster) -> None:
    controller = cluster.controller()
    before = cluster.view.brokers()[BrokerId(controller.id)].epoch
    cluster.expire_session(controller.id, "controller")
    cluster.wait_until(
        lambda: (
            controller.id in cluster.view.brokers() and cluster.view.brokers()[BrokerId(controller.id)].epoch > before
        ),
        "it has registered again",
        PATIENCE_S,
    )
    assert controller.is_running
    assert ("expire", controller.name, "controller") in faults(cluster)
    expired = [record for record in records(cluster) if isinstance(record.data, SessionExpiredRecord)]
    assert any(record.node == controller.name for record in expired)
    killed = next(broker for broker in cluster.brokers if broker.id != cluster.controller_id())
    killed.kill()
    assert killed.id in cluster.view.brokers()
    cluster.expire_session(killed.id)
    assert killed.id not in cluster.view.brokers()
    cluster.expire_session(killed.id)  # harmless


def test_a_broker_that_is_cut_from_zookeeper_alone_loses_its_session(cluster: LocalCluster) -> None:
    broker = next(broker for broker in cluster.brokers if broker.id != cluster.controller_id())
    cluster.cut_from_zookeeper(broker.id)
    cluster.wait_until(lambda: broker.id not in cluster.view.brokers(), "its session has ended", PATIENCE_S)
    cluster.heal_zookeeper(broker.id)
    cluster.wait_until(lambda: broker.id in cluster.view.brokers(), "it has registered again", PATIENCE_S)


def test_a_held_request_of_the_controller_arrives_when_it_is_released(cluster: LocalCluster) -> None:
    controller = cluster.controller_id()
    assert controller is not None
    leader, follower = (broker_id for broker_id in cluster.broker_ids if broker_id != controller)
    held = cluster.add_rule(controller, [leader], Effect.HOLD, api="LeaderAndIsr")
    cluster.create_topic("held", assignment={0: [leader, follower]})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    delivered: list[object] = []
    producer.produce("held", b"record", on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(2) == 1, "the leader has not learnt that it leads the partition"
    cluster.remove_rule(held)
    assert producer.flush(PATIENCE_S) == 0
    assert delivered == [None]
    assert ("hold", f"broker-{controller} -> broker-{leader}: LeaderAndIsr", "") in faults(cluster)


def test_a_lost_answer_and_a_repeated_request_of_the_controller_do_no_harm(cluster: LocalCluster) -> None:
    controller = cluster.controller_id()
    assert controller is not None
    others = [broker_id for broker_id in cluster.broker_ids if broker_id != controller]
    cluster.add_rule(controller, others, Effect.DUPLICATE, api="LeaderAndIsr")
    cluster.add_rule(controller, others, Effect.LOSE_ANSWER, api="UpdateMetadata")
    cluster.create_topic("repeated", partitions=2, replication_factor=3)
    cluster.settle()
    produce(cluster, "repeated")


def test_a_delay_applies_to_requests_and_answers(cluster: LocalCluster) -> None:
    controller = cluster.controller_id()
    assert controller is not None
    leader, follower = (broker_id for broker_id in cluster.broker_ids if broker_id != controller)
    cluster.create_topic("delayed", assignment={0: [leader, follower]})
    cluster.settle()
    produce(cluster, "delayed", 1)
    cluster.delay(leader, [follower], 300)
    began = time.monotonic()
    produce(cluster, "delayed", 1)
    assert time.monotonic() - began >= 0.3
    cluster.delay(leader, [follower], 0)
    assert [fault for fault, _, _ in faults(cluster)[-2:]] == ["delay", "heal"]


def test_clients_alone_can_be_cut_off(cluster: LocalCluster) -> None:
    leader = cluster.brokers[0]
    others = [broker.id for broker in cluster.brokers[1:]]
    cluster.create_topic("alone", assignment={0: [leader.id, *others]})
    cluster.settle()
    cluster.cut_from_clients(leader.id)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    delivered: list[object] = []
    producer.produce("alone", b"record", on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(2) == 1
    assert leader.id in cluster.view.brokers()
    assert set(cluster.isr("alone", 0)) == set(cluster.broker_ids)
    cluster.heal_clients(leader.id)
    assert producer.flush(PATIENCE_S) == 0
    assert delivered == [None]


def test_a_broker_that_can_open_no_connection_does_not_replicate_until_it_can(cluster: LocalCluster) -> None:
    controller = cluster.controller_id()
    leader, follower = (broker_id for broker_id in cluster.broker_ids if broker_id != controller)
    cluster.create_topic("refused", assignment={0: [leader, follower]})
    cluster.settle()
    cluster.refuse(follower, [leader], True)
    cluster.reset(follower, [leader])
    produce(cluster, "refused", 1, acks="1")
    cluster.wait_until(lambda: cluster.isr("refused", 0) == (leader,), "the ISR has shrunk", PATIENCE_S)
    cluster.refuse(follower, [leader], False)
    cluster.wait_until(lambda: set(cluster.isr("refused", 0)) == {leader, follower}, "the ISR has expanded", PATIENCE_S)


def test_a_restarted_broker_keeps_its_addresses(cluster: LocalCluster) -> None:
    broker = next(broker for broker in cluster.brokers if broker.id != cluster.controller_id())
    before = broker.address
    broker.restart()
    assert broker.address == before
    cluster.settle()
