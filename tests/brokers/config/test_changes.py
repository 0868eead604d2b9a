"""Tests of config changes: every broker applies them, also after malformed notifications and lost sessions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, cast

import pytest

from tests.operators_log import operators_log
from understudy.brokers.config.changes import ConfigChangeListener
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.clusters.clients.config_requests import BROKER, TOPIC
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.loop import new_loop
from understudy.clusters.simulated.zookeeper_client import NodeZooKeeper
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.zk.client import (
    Children,
    Create,
    Delete,
    Failure,
    Notification,
    SetData,
    WatchFired,
    ZNodeData,
)
from understudy.foundation.zk.entity_configs import ConfigChange
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient, ZooKeeperFailure

MINUTE_MS = 60_000
KEY = "min.insync.replicas"


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=9, brokers=3, settings={KEY: "4"}) as cluster:
        cluster.start()
        yield cluster


def change(cluster: SimulatedCluster, broker: str, changes: Mapping[str, str | None]) -> None:
    """Alter the config of a broker, or with an empty name the default of all, and let half a second pass."""
    cluster.ask(cluster.admin.alter_config(BROKER, broker, changes))
    cluster.run_for(500)


def config(cluster: SimulatedCluster, broker: int) -> KafkaConfig:
    running = cluster.broker(broker).instance
    assert running is not None
    return running.config


def values(cluster: SimulatedCluster) -> list[int]:
    """The current `min.insync.replicas` of each broker."""
    return [config(cluster, number).min_insync_replicas for number in cluster.broker_ids]


def notifications(cluster: SimulatedCluster) -> list[str]:
    listed = cluster.zookeeper.tree.children("/config/changes")
    assert isinstance(listed, Children)
    return list(listed.names)


def announce(cluster: SimulatedCluster, data: bytes) -> None:
    assert cluster.zookeeper.operate([Create("/config/changes/config_change_", data, sequential=True)])


def write(cluster: SimulatedCluster, path: str, data: bytes) -> None:
    present = isinstance(cluster.zookeeper.tree.get(path), ZNodeData)
    assert cluster.zookeeper.operate([SetData(path, data) if present else Create(path, data)])


@pytest.mark.spec("CF-6")
@pytest.mark.spec("CF-2")
def test_config_of_a_broker_overrides_the_default_of_all_and_that_its_file(
    cluster: SimulatedCluster,
) -> None:
    assert values(cluster) == [4, 4, 4]
    change(cluster, "", {KEY: "3"})
    assert values(cluster) == [3, 3, 3]
    change(cluster, "2", {KEY: "2"})
    assert values(cluster) == [3, 2, 3]
    change(cluster, "", {KEY: None})
    assert values(cluster) == [4, 2, 4]
    change(cluster, "2", {KEY: None})
    assert values(cluster) == [4, 4, 4]


@pytest.mark.spec("CF-3")
def test_starting_broker_reads_earlier_config_changes(cluster: SimulatedCluster) -> None:
    change(cluster, "", {KEY: "3", "num.io.threads": "16"})
    change(cluster, "2", {KEY: "2"})
    change(cluster, "2", {"num.io.threads": "30"})
    for number in (1, 2):
        cluster.broker(number).kill()
    cluster.run_for(10_000)
    for number in (1, 2):
        cluster.broker(number).launch()
    cluster.run_for(200)
    cluster.settle()
    assert values(cluster) == [3, 2, 3]
    assert [config(cluster, number).originals["num.io.threads"] for number in (1, 2)] == ["16", "30"]


@pytest.mark.spec("CF-2")
def test_notification_of_version_1_is_read(cluster: SimulatedCluster) -> None:
    cluster.create_topic("orders", assignment={0: (2, 3)})
    leave_only_an_out_of_sync_replica(cluster)
    write(cluster, "/config/topics/orders", b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}')
    cluster.run_for(2_000)
    assert cluster.leader_id("orders", 0) is None
    announce(cluster, b'{"version":1,"entity_type":"topics","entity_name":"orders"}')
    cluster.run_for(2_000)
    assert cluster.leader_id("orders", 0) == 2


@pytest.mark.spec("CF-2")
def test_a_malformed_notification_is_skipped(cluster: SimulatedCluster) -> None:
    write(cluster, "/config/brokers/<default>", b'{"version":1,"config":{"min.insync.replicas":"3"}}')
    write(cluster, "/config/brokers/broken", b"]")
    for data in (
        b"no json",
        b"",
        b"[]",
        b'{"version":3,"entity_path":"brokers/<default>"}',
        b'{"version":2}',
        b'{"version":2,"entity_path":"brokers"}',
        b'{"version":2,"entity_path":"brokers/"}',
        b'{"version":2,"entity_path":"unknown/x"}',
        b'{"version":2,"entity_path":"topics/../../controller"}',
        b'{"version":2,"entity_path":"brokers/broken"}',
        b'{"version":1,"entity_type":"brokers","entity_name":"<default>"}',
    ):
        announce(cluster, data)
    assert cluster.zookeeper.operate([Create("/config/changes/of another program", b"")])
    cluster.run_for(1_000)
    assert values(cluster) == [4, 4, 4]
    announce(cluster, b'{"version":2,"entity_path":"brokers/<default>"}')
    cluster.run_for(1_000)
    assert values(cluster) == [3, 3, 3]
    assert not cluster.exits


@pytest.mark.spec("CF-2")
def test_notification_reads_the_current_config(cluster: SimulatedCluster) -> None:
    for value in (5, 6, 7):
        write(cluster, "/config/brokers/<default>", b'{"version":1,"config":{"min.insync.replicas":"%d"}}' % value)
        announce(cluster, b'{"version":2,"entity_path":"brokers/<default>"}')
    cluster.run_for(500)
    assert values(cluster) == [7, 7, 7]


@pytest.mark.spec("CF-2")
def test_notifications_whose_numbers_begin_again_are_handled(cluster: SimulatedCluster) -> None:
    """`/config/changes` was deleted by hand. Kafka's brokers ignore notifications until the old numbers are passed."""
    for value in ("5", "6"):
        change(cluster, "", {KEY: value})
    for name in notifications(cluster):
        assert cluster.zookeeper.operate([Delete(f"/config/changes/{name}")])
    assert cluster.zookeeper.operate([Delete("/config/changes")])
    cluster.run_for(500)
    change(cluster, "", {KEY: "7"})
    assert notifications(cluster) == ["config_change_0000000000"]
    assert values(cluster) == [7, 7, 7]


@pytest.mark.spec("CF-2")
def test_old_notifications_are_purged_by_zookeepers_clock(cluster: SimulatedCluster) -> None:
    # By this broker's own clock every notification is a day old as soon as it is written.
    cluster.broker(3).node.clock.offset_ms += 24 * 60 * MINUTE_MS
    change(cluster, "", {KEY: "3"})
    change(cluster, "2", {KEY: "2"})
    assert notifications(cluster) == ["config_change_0000000000", "config_change_0000000001"]
    cluster.run_for(15 * MINUTE_MS - 10_000)
    change(cluster, "2", {KEY: "5"})
    assert len(notifications(cluster)) == 3
    cluster.run_for(20_000)
    change(cluster, "2", {KEY: "6"})
    assert notifications(cluster) == ["config_change_0000000002", "config_change_0000000003"]
    assert values(cluster) == [3, 6, 3]


@pytest.mark.spec("CF-2")
def test_changes_without_a_session_are_applied_by_the_next_session(cluster: SimulatedCluster) -> None:
    other = next(number for number in cluster.broker_ids if number != cluster.controller_id())
    cluster.cut_from_zookeeper(other)
    cluster.run_for(10_000)
    asked = next(f"broker-{number}:9092" for number in cluster.broker_ids if number != other)
    cluster.ask(cluster.admin.with_bootstrap(asked).alter_config(BROKER, "", {KEY: "3"}))
    cluster.run_for(500)
    # A later purge may have taken the notification away before this broker is back.
    for name in notifications(cluster):
        assert cluster.zookeeper.operate([Delete(f"/config/changes/{name}")])
    assert config(cluster, other).min_insync_replicas == 4
    cluster.heal()
    cluster.settle()
    cluster.run_for(1_000)
    assert values(cluster) == [3, 3, 3]


@pytest.mark.spec("CF-2")
def test_changes_during_a_connection_loss_are_applied(cluster: SimulatedCluster) -> None:
    other = next(number for number in cluster.broker_ids if number != cluster.controller_id())
    cluster.cut_from_zookeeper(other)
    asked = next(f"broker-{number}:9092" for number in cluster.broker_ids if number != other)
    for value in ("2", "3"):
        cluster.ask(cluster.admin.with_bootstrap(asked).alter_config(BROKER, "", {KEY: value}))
    cluster.heal()
    cluster.run_for(3_000)
    assert values(cluster) == [3, 3, 3]


@pytest.mark.spec("CF-4")
def test_topic_creation_writes_no_change_notification(cluster: SimulatedCluster) -> None:
    cluster.ask(cluster.admin.create_topic("orders", partitions=1, replication_factor=1, configs={"retention.ms": "7"}))
    assert isinstance(cluster.zookeeper.tree.get("/config/topics/orders"), ZNodeData)
    assert notifications(cluster) == []


def leave_only_an_out_of_sync_replica(cluster: SimulatedCluster) -> None:
    """Leave `orders-0` without a leader: replica 2 is alive but not in sync, replica 3 in sync but failed."""
    cluster.broker(2).kill()
    cluster.run_for(15_000)
    assert cluster.isr("orders", 0) == (3,)
    cluster.broker(3).kill()
    cluster.broker(3).should_run = False
    cluster.run_for(15_000)
    cluster.broker(2).launch()
    cluster.run_for(10_000)
    assert cluster.leader_id("orders", 0) is None


@pytest.mark.spec("CF-5")
def test_enabling_unclean_election_for_a_topic_elects_a_leader_at_once(cluster: SimulatedCluster) -> None:
    cluster.create_topic("orders", assignment={0: (2, 3)})
    leave_only_an_out_of_sync_replica(cluster)
    asked = cluster.admin.with_bootstrap("broker-1:9092")
    cluster.ask(asked.alter_config(TOPIC, "orders", {"retention.ms": "1", "unclean.leader.election.enable": "false"}))
    cluster.run_for(2_000)
    assert cluster.leader_id("orders", 0) is None
    cluster.ask(asked.alter_config(TOPIC, "orders", {"unclean.leader.election.enable": "true"}))
    cluster.run_for(2_000)
    assert cluster.leader_id("orders", 0) == 2


@pytest.mark.spec("CF-6")
@pytest.mark.spec("PSM-17")
def test_enabling_unclean_election_by_default_elects_a_leader_at_once(cluster: SimulatedCluster) -> None:
    cluster.create_topic("orders", assignment={0: (2, 3)})
    leave_only_an_out_of_sync_replica(cluster)
    asked = cluster.admin.with_bootstrap("broker-1:9092")
    cluster.ask(asked.alter_config(BROKER, "", {"unclean.leader.election.enable": "false"}))
    cluster.run_for(2_000)
    assert cluster.leader_id("orders", 0) is None
    cluster.ask(asked.alter_config(BROKER, "", {"unclean.leader.election.enable": "true"}))
    cluster.run_for(2_000)
    assert cluster.leader_id("orders", 0) == 2


@pytest.mark.spec("PSM-17")
def test_election_uses_the_current_default_of_unclean_election(cluster: SimulatedCluster) -> None:
    cluster.create_topic("orders", assignment={0: (2, 3)})
    change(cluster, "", {"unclean.leader.election.enable": "true"})
    cluster.broker(2).kill()
    cluster.run_for(15_000)
    cluster.broker(3).kill()
    cluster.broker(3).should_run = False
    cluster.run_for(15_000)
    cluster.broker(2).launch()
    cluster.run_for(10_000)
    assert cluster.leader_id("orders", 0) == 2


@pytest.mark.spec("CF-2")
def test_zookeeper_failure_of_a_handler_is_logged_and_later_changes_are_handled(
    cluster: SimulatedCluster,
) -> None:
    """The registration was deleted by hand, so the new addresses cannot be written to it. Kafka logs the error."""
    assert cluster.zookeeper.operate([Delete("/brokers/ids/2")])
    write(cluster, "/config/brokers/2", b'{"version":1,"config":{"listeners":"PLAINTEXT://broker-2:9093"}}')
    write(cluster, "/config/brokers/<default>", b'{"version":1,"config":{"min.insync.replicas":"3"}}')
    with operators_log(logging.ERROR) as lines:
        announce(cluster, b'{"version":2,"entity_path":"brokers/2"}')
        announce(cluster, b'{"version":2,"entity_path":"brokers/<default>"}')
        cluster.run_for(10_000)
    assert values(cluster) == [3, 3, 3]
    assert not cluster.exits
    logged = [line.fields["entity_path"] for line in lines if line.logger == "kafka.server.ZkConfigManager"]
    assert logged == ["brokers/2", "brokers/<default>"], "the second change tries to write the addresses once more"


@pytest.mark.spec("CF-2")
def test_the_next_session_registers_the_addresses_that_could_not_be_written(cluster: SimulatedCluster) -> None:
    assert cluster.zookeeper.operate([Delete("/brokers/ids/2")])
    write(cluster, "/config/brokers/2", b'{"version":1,"config":{"listeners":"PLAINTEXT://broker-2:9093"}}')
    announce(cluster, b'{"version":2,"entity_path":"brokers/2"}')
    cluster.run_for(2_000)
    cluster.cut_from_zookeeper(2)
    cluster.run_for(10_000)
    cluster.heal()
    cluster.settle()
    assert [(at.host, at.port) for at in cluster.znodes.brokers()[BrokerId(2)].broker.endpoints] == [("broker-2", 9093)]


class Handler:
    """A handler that keeps the names of entities, and raises for the entity `bad`."""

    def __init__(self) -> None:
        self.given: list[str] = []

    async def process_config_changes(self, entity: str, config: Mapping[str, str]) -> None:
        if entity == "bad":
            raise RuntimeError("this handler is broken")
        self.given.append(entity)


@pytest.mark.spec("CF-2")
def test_an_exception_of_a_handler_is_logged_and_the_next_change_is_handled() -> None:
    """Kafka's `ZkNodeChangeNotificationListener.processNotification` catches every exception of a handler."""
    with SimulatedCluster(seed=9, brokers=1) as cluster, operators_log(logging.ERROR) as lines:
        cluster.start()
        for name in (b"one", b"bad", b"two"):
            announce(cluster, b'{"version":2,"entity_path":"topics/%s"}' % name)
        handler = Handler()
        recorded: list[tuple[str, str]] = []

        def record(what: str, error: Exception) -> None:
            recorded.append((what, str(error)))

        async def follow() -> None:
            assert cluster.simulator.events is not None
            events = cluster.simulator.events
            below = NodeZooKeeper(cluster.zookeeper, "test", session_timeout_ms=6_000, connection_timeout_ms=6_000)
            listener: ConfigChangeListener | None = None

            def notified(notification: Notification) -> None:
                if isinstance(notification, WatchFired) and listener is not None:
                    listener.notified(notification)

            zk = KafkaZkClient(await below.connect(notified), events=events, fences=Fences(events))
            listener = ConfigChangeListener(BrokerId(7), {"topics": handler}, lambda: zk, record)
            following = asyncio.create_task(listener.run())
            await asyncio.sleep(1)
            announce(cluster, b'{"version":2,"entity_path":"topics/three"}')
            await asyncio.sleep(1)
            assert not following.done()
            following.cancel()

        cluster.ask(follow())
    assert handler.given == ["one", "two", "three"]
    assert recorded == [("handler of topics/bad", "this handler is broken")]
    (line,) = [line for line in lines if line.logger == "kafka.server.ZkConfigManager"]
    assert line.fields["entity_path"] == "topics/bad"
    assert isinstance(line.fields["exc_info"], RuntimeError)


@pytest.mark.spec("CF-2")
def test_notifications_that_cannot_be_purged_are_not_tried_again_before_the_next_change() -> None:
    class Configs:
        """Two notifications, the first one expired; ZooKeeper refuses its deletion."""

        created_ms: ClassVar = {"config_change_0000000001": 0, "config_change_0000000002": 16 * MINUTE_MS}

        async def changes(self) -> tuple[str, ...]:
            return tuple(self.created_ms)

        async def read_changes(self, names: Sequence[str]) -> list[ConfigChange]:
            return [ConfigChange(name, self.created_ms[name], None) for name in names]

        async def delete_changes(self, names: Sequence[str]) -> None:
            for name in names:
                raise ZooKeeperFailure(Failure.NO_AUTH, name)

    class Store:
        configs = Configs()

    loop = new_loop()
    with operators_log(logging.ERROR) as lines:
        store = cast(KafkaZkClient, Store())
        listener = ConfigChangeListener(BrokerId(7), {}, lambda: store, lambda what, error: None)
        loop.create_task(listener.run())
        loop.run_for(60)
    loop.close()
    assert [line.fields["why"] for line in lines] == ["config_change_0000000001: NoAuth"]
