"""Tests of topics that are created because a Metadata or FindCoordinator request names them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from understudy.brokers.apis.auto_creation import creatable_topic
from understudy.brokers.config.description import ConfigSource
from understudy.brokers.config.reading import read_config
from understudy.brokers.metadata.metadata_cache import MetadataSnapshot
from understudy.brokers.metadata.topic_names import CLUSTER_METADATA_TOPIC
from understudy.clusters.clients.config_requests import TOPIC
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=3, brokers=3) as cluster:
        cluster.start()
        yield cluster


def ask(
    cluster: SimulatedCluster, *names: str, version: int = 12, broker: int | None = None, may: bool = True
) -> dict[str, str]:
    """Send a Metadata request; return topic → error."""
    asked = MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=may
    )
    number = cluster.controller_id() if broker is None else broker
    response = cluster.ask(cluster.admin.ask(f"broker-{number}", 9092, asked, version=version))
    assert isinstance(response, MetadataResponse)
    return {str(topic.name): Errors(topic.error_code).name for topic in response.topics}


def replicas_of(cluster: SimulatedCluster, topic: str) -> list[tuple[int, ...]]:
    [described] = cluster.ask(cluster.admin.metadata([topic])).topics
    return [partition.replica_nodes for partition in described.partitions]


def config_of(cluster: SimulatedCluster, topic: str) -> dict[str, str | None]:
    """The configs that are set on the topic itself."""
    described = cluster.ask(cluster.admin.describe_config(TOPIC, topic))
    return {name: entry.value for name, entry in sorted(described.items()) if entry.config_source == ConfigSource.TOPIC}


@pytest.mark.spec("TC-9")
def test_any_broker_creates_a_topic_whose_metadata_is_requested(cluster: SimulatedCluster) -> None:
    other = next(number for number in cluster.broker_ids if number != cluster.controller_id())
    assert ask(cluster, "wanted", broker=other) == {"wanted": "LEADER_NOT_AVAILABLE"}
    cluster.run_for(2_000)
    assert ask(cluster, "wanted", broker=other) == {"wanted": "NONE"}
    assert cluster.leader_id("wanted", 0) is not None


@pytest.mark.spec("TC-9")
@pytest.mark.parametrize("version", [1, 4, 12])
def test_existing_and_created_topics_are_in_one_response(cluster: SimulatedCluster, version: int) -> None:
    cluster.create_topic(f"there-{version}")
    assert ask(cluster, f"there-{version}", f"new-{version}", "..", version=version) == {
        f"there-{version}": "NONE",
        f"new-{version}": "LEADER_NOT_AVAILABLE",
        "..": "INVALID_TOPIC_EXCEPTION",
    }


def test_an_entry_without_name_and_id_is_refused_and_the_others_are_created(cluster: SimulatedCluster) -> None:
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=None), MetadataRequestTopic(name="beside-nothing")))
    response = cluster.ask(cluster.admin.ask("broker-1", 9092, asked, version=12))
    assert isinstance(response, MetadataResponse)
    assert [(topic.name, Errors(topic.error_code).name) for topic in response.topics] == [
        (None, "INVALID_REQUEST"),
        ("beside-nothing", "LEADER_NOT_AVAILABLE"),
    ]


@pytest.mark.spec("TC-9")
def test_no_topic_is_created_without_allow_auto_topic_creation(cluster: SimulatedCluster) -> None:
    assert ask(cluster, "unwanted", may=False) == {"unwanted": "UNKNOWN_TOPIC_OR_PARTITION"}
    cluster.run_for(1_000)
    assert ask(cluster, "unwanted", may=False) == {"unwanted": "UNKNOWN_TOPIC_OR_PARTITION"}


@pytest.mark.spec("TC-9", "MC-5")
@pytest.mark.parametrize(
    ("has_live_brokers", "error"), [(False, "INVALID_REPLICATION_FACTOR"), (True, "LEADER_NOT_AVAILABLE")]
)
def test_a_broker_without_its_topics_answers_as_kafka_does(has_live_brokers: bool, error: str) -> None:
    """A started broker has no metadata, then the live brokers. tests/interop/test_client_failures.py asks Kafka."""
    with SimulatedCluster(seed=3, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders")
        other = next(number for number in cluster.broker_ids if number != cluster.controller_id())
        instance = cluster.broker(other).instance
        assert instance is not None
        live = instance.metadata.snapshot.live_brokers
        instance.metadata.snapshot = MetadataSnapshot(live_brokers=live if has_live_brokers else {})
        assert ask(cluster, "orders", broker=other) == {"orders": error}
        assert ask(cluster, "orders", broker=other, may=False) == {"orders": "UNKNOWN_TOPIC_OR_PARTITION"}


@pytest.mark.spec("TC-10")
def test_the_coordinators_topics_have_settings_of_their_own(cluster: SimulatedCluster) -> None:
    names = ("__consumer_offsets", "__transaction_state")
    assert ask(cluster, *names) == dict.fromkeys(names, "LEADER_NOT_AVAILABLE")
    cluster.run_for(2_000)
    assert ask(cluster, *names) == dict.fromkeys(names, "NONE")
    for name in names:
        assert {len(replicas) for replicas in replicas_of(cluster, name)} == {3}
        assert len(replicas_of(cluster, name)) == 50
    assert config_of(cluster, "__consumer_offsets") == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert config_of(cluster, "__transaction_state") == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


@pytest.mark.spec("TC-10")
def test_the_coordinators_topics_follow_their_configuration() -> None:
    config = read_config(
        {
            "zookeeper.connect": "z",
            "offsets.topic.num.partitions": "3",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.segment.bytes": "1000",
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": "2",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.segment.bytes": "2000",
        }
    )
    offsets, transactions = (creatable_topic(name, config) for name in ("__consumer_offsets", "__transaction_state"))
    assert (offsets.num_partitions, offsets.replication_factor) == (3, 1)
    assert (transactions.num_partitions, transactions.replication_factor) == (4, 2)
    values = [{config.name: config.value for config in topic.configs} for topic in (offsets, transactions)]
    assert [each["segment.bytes"] for each in values] == ["1000", "2000"]
    assert values[1]["min.insync.replicas"] == "1"


@pytest.mark.spec("TC-9", "TC-10")
def test_the_topic_of_share_groups_is_one_like_any_other_and_that_of_kraft_is_none(cluster: SimulatedCluster) -> None:
    assert ask(cluster, "__share_group_state", CLUSTER_METADATA_TOPIC) == {
        "__share_group_state": "LEADER_NOT_AVAILABLE",
        CLUSTER_METADATA_TOPIC: "UNKNOWN_TOPIC_OR_PARTITION",
    }
    cluster.run_for(2_000)
    assert [len(replicas) for replicas in replicas_of(cluster, "__share_group_state")] == [1]


@pytest.mark.spec("TC-9")
def test_without_auto_creation_a_topic_is_unknown() -> None:
    with SimulatedCluster(seed=3, brokers=1, settings={"auto.create.topics.enable": "false"}) as cluster:
        cluster.start()
        assert ask(cluster, "wanted") == {"wanted": "UNKNOWN_TOPIC_OR_PARTITION"}
