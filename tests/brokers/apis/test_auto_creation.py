"""Topics that come to be because somebody asked for their metadata."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokers.topic_names import CLUSTER_METADATA_TOPIC
from foundation.cluster.errors import Errors
from foundation.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from understudy.simulator.cluster import SimulatedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=3, brokers=3) as cluster:
        cluster.start()
        yield cluster


def ask(
    cluster: SimulatedCluster, *names: str, version: int = 12, broker: int | None = None, may: bool = True
) -> dict[str, str]:
    """Name → error."""
    asked = MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=may)
    number = cluster.controller() if broker is None else broker
    response = cluster.ask(cluster.admin.ask(f"broker-{number}", 9092, asked, version=version))
    assert isinstance(response, MetadataResponse)
    return {str(topic.name): Errors(topic.error_code).name for topic in response.topics}


@pytest.mark.spec("TC-9")
def test_any_broker_makes_a_topic_that_is_asked_for(cluster: SimulatedCluster) -> None:
    other = next(number for number in cluster.brokers if number != cluster.controller())
    assert ask(cluster, "wanted", broker=other) == {"wanted": "LEADER_NOT_AVAILABLE"}
    cluster.run_for(2_000)
    assert ask(cluster, "wanted", broker=other) == {"wanted": "NONE"}
    assert cluster.leader_of("wanted", 0) is not None


@pytest.mark.spec("TC-9")
@pytest.mark.parametrize("version", [1, 4, 12])
def test_a_topic_that_exists_is_answered_beside_one_that_is_made(cluster: SimulatedCluster, version: int) -> None:
    cluster.create_topic(f"there-{version}")
    assert ask(cluster, f"there-{version}", f"new-{version}", "..", version=version) == {
        f"there-{version}": "NONE",
        f"new-{version}": "LEADER_NOT_AVAILABLE",
        "..": "INVALID_TOPIC_EXCEPTION",
    }


def test_an_entry_that_names_nothing_is_refused_beside_a_topic_that_is_made(cluster: SimulatedCluster) -> None:
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=None), MetadataRequestTopic(name="beside-nothing")))
    response = cluster.ask(cluster.admin.ask("broker-1", 9092, asked, version=12))
    assert isinstance(response, MetadataResponse)
    assert [(topic.name, Errors(topic.error_code).name) for topic in response.topics] == [
        (None, "INVALID_REQUEST"),
        ("beside-nothing", "LEADER_NOT_AVAILABLE"),
    ]


@pytest.mark.spec("TC-9")
def test_who_does_not_want_a_topic_made_gets_none(cluster: SimulatedCluster) -> None:
    assert ask(cluster, "unwanted", may=False) == {"unwanted": "UNKNOWN_TOPIC_OR_PARTITION"}
    cluster.run_for(1_000)
    assert ask(cluster, "unwanted", may=False) == {"unwanted": "UNKNOWN_TOPIC_OR_PARTITION"}


def test_topics_of_kafkas_own_are_not_made_by_asking(cluster: SimulatedCluster) -> None:
    for name in ("__consumer_offsets", "__transaction_state", CLUSTER_METADATA_TOPIC):
        assert ask(cluster, name) == {name: "UNKNOWN_TOPIC_OR_PARTITION"}


@pytest.mark.spec("TC-9")
def test_a_cluster_that_makes_no_topics_says_there_is_none() -> None:
    with SimulatedCluster(seed=3, brokers=1, settings={"auto.create.topics.enable": "false"}) as cluster:
        cluster.start()
        assert ask(cluster, "wanted") == {"wanted": "UNKNOWN_TOPIC_OR_PARTITION"}
