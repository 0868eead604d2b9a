"""Our brokers under a controller of Apache Kafka: topics, ISR changes, controlled shutdown, a paused controller."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.mixed import ALL_BROKERS, KAFKAS, OURS, PATIENCE_S, Complaints, mixed_cluster, restored, settle
from tests.interop.steps import create, leaders, whole
from tests.interop.tools import Tools
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import RequestReceived
from understudy.history.reading.reader import read

pytestmark = [pytest.mark.xdist_group("kafka's controller"), pytest.mark.usefixtures("complaints")]


@pytest.fixture(scope="module")
def shared(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with mixed_cluster(kafka, tmp_path_factory.mktemp("kafka-leads")) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> LocalCluster:
    return restored(shared, under=KAFKAS)


def requests_to(cluster: LocalCluster, broker: int) -> list[str]:
    """The received requests as `LeaderAndIsr v7`, in their order."""
    records = read([cluster.broker(broker).process.events]).records
    return [f"{data.api} v{data.api_version}" for record in records if isinstance(data := record.data, RequestReceived)]


@pytest.mark.spec("IO-9", "IO-10", "IO-11", "IO-13")
def test_our_brokers_apply_the_requests_of_kafkas_controller(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "applied", "--replica-assignment 1:2,2:1,1:3,3:1,4:2,2:4")
    assert leaders(cluster, "applied") == [1, 2, 1, 3, 4, 2]
    settle(cluster, ALL_BROKERS)
    tools.succeed(f"kafka-topics --bootstrap-server {cluster.bootstrap} --delete --topic applied")
    cluster.wait_until(lambda: not leaders(cluster, "applied"), "the topic is gone")
    settle(cluster, ALL_BROKERS)
    for broker in OURS:
        assert {"LeaderAndIsr v7", "UpdateMetadata v8", "StopReplica v4"} <= set(requests_to(cluster, broker))
        # Replicas of a deleted topic are renamed and deleted a minute later, so none returns after a restart.
        left = (cluster.broker(broker).process.directory / "data").glob("applied-*")
        assert all(folder.name.endswith("-delete") for folder in left)


@pytest.mark.spec("IO-12", "IO-13")
def test_our_leaders_shrink_and_expand_isrs_through_kafkas_controller(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "isr", "--replica-assignment 1:2,1:3,3:1")
    cluster.broker(2).kill()
    cluster.wait_until(lambda: 2 not in cluster.view.brokers(), "broker 2 is gone")
    cluster.broker(2).start()
    # Broker 1 proposes the ISR with broker 2 to Kafka's controller.
    cluster.wait_until(lambda: whole(cluster.view.picture(), "isr"), "broker 2 is in sync again")
    cluster.broker(1).kill()
    cluster.wait_until(lambda: leaders(cluster, "isr") == [2, 3, 3], "the live brokers are leaders")
    settle(cluster, (2, 3, 4))
    cluster.broker(1).start()
    # Broker 2 proposes the first partition's ISR, broker 3 the others' ISRs, from which our follower fetches.
    cluster.wait_until(lambda: whole(cluster.view.picture(), "isr"), "broker 1 is in sync again")
    settle(cluster, ALL_BROKERS)


@pytest.mark.spec("IO-9", "IO-10")
def test_a_controlled_shutdown_of_our_broker_under_kafkas_controller(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "leaving", "--replica-assignment 1:2,2:1,1:3")
    cluster.broker(1).stop(PATIENCE_S)
    assert leaders(cluster, "leaving") == [2, 2, 3]
    assert "controlled shutdown request returned successfully" in cluster.broker(1).process.log.read_text()
    settle(cluster, (2, 3, 4))
    cluster.broker(1).start()
    cluster.wait_until(lambda: whole(cluster.view.picture(), "leaving"), "broker 1 is in sync again")


@pytest.mark.spec("IO-10", "IO-11")
def test_our_brokers_refuse_requests_of_kafkas_deposed_controller(
    cluster: LocalCluster, tools: Tools, complaints: Complaints
) -> None:
    """It was paused and resumes after another election, so its requests carry an old controller epoch."""
    complaints.expect("ZooKeeperClientExpiredException|SessionExpiredException")
    create(tools, cluster, "paused", "--replica-assignment 1:2,2:1")
    first = cluster.controller()
    first.pause()
    cluster.wait_until(lambda: cluster.controller_id() not in (None, first.id), "another broker is controller")
    cluster.wait_until(lambda: first.id not in cluster.view.brokers(), f"broker {first.id} is gone")
    first.resume()
    cluster.wait_until(lambda: first.id in cluster.view.brokers(), f"broker {first.id} is back")
    settle(cluster, ALL_BROKERS)
    assert cluster.view.leader(TopicPartition("paused", 0)) == 1
