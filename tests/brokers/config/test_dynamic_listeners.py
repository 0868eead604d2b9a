"""Tests of listeners that change while a broker runs: it binds and registers the new ones (BR-5)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.clients.config_requests import BROKER
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataResponse
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost
from understudy.foundation.zk.client import ZNodeData

MAP = "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT"


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=4, brokers=3) as cluster:
        cluster.start()
        yield cluster


def change(cluster: SimulatedCluster, broker: int, changes: dict[str, str | None]) -> None:
    cluster.ask(cluster.admin.alter_config(BROKER, str(broker), changes))
    cluster.run_for(1_000)


def registration(cluster: SimulatedCluster, broker: int) -> tuple[list[str], int]:
    """The registered endpoints of `broker`, and its epoch."""
    node = cluster.zookeeper.tree.get(f"/brokers/ids/{broker}")
    assert isinstance(node, ZNodeData)
    endpoints: list[str] = msgspec.json.decode(node.data)["endpoints"]
    return endpoints, node.stat.czxid


def brokers_seen_at(cluster: SimulatedCluster, address: str) -> dict[int, int]:
    """Broker → port in the Metadata response of the broker at `address`."""
    host, _, port = address.rpartition(":")
    response = cluster.ask(cluster.admin.ask(host, int(port), MetadataRequest(topics=())))
    assert isinstance(response, MetadataResponse)
    return {broker.node_id: broker.port for broker in response.brokers}


@pytest.mark.spec("BR-5")
def test_a_listener_is_added_and_taken_away_again(cluster: SimulatedCluster) -> None:
    before, epoch = registration(cluster, 2)
    assert before == ["PLAINTEXT://broker-2:9092"]
    both = "PLAINTEXT://broker-2:9092,EXTERNAL://broker-2:9095"
    change(cluster, 2, {"listeners": both, "advertised.listeners": both, "listener.security.protocol.map": MAP})
    assert registration(cluster, 2) == (["PLAINTEXT://broker-2:9092", "EXTERNAL://broker-2:9095"], epoch)
    assert brokers_seen_at(cluster, "broker-2:9095") == {2: 9095}
    assert brokers_seen_at(cluster, "broker-1:9092") == {1: 9092, 2: 9092, 3: 9092}
    change(cluster, 2, {"listeners": None, "advertised.listeners": None, "listener.security.protocol.map": None})
    assert registration(cluster, 2) == (["PLAINTEXT://broker-2:9092"], epoch)
    with pytest.raises((ConnectionFailed, ConnectionLost)):
        brokers_seen_at(cluster, "broker-2:9095")
    assert brokers_seen_at(cluster, "broker-2:9092") == {1: 9092, 2: 9092, 3: 9092}
    cluster.settle()


@pytest.mark.spec("BR-5")
def test_a_new_session_registers_the_new_addresses(cluster: SimulatedCluster) -> None:
    both = "PLAINTEXT://broker-2:9092,EXTERNAL://broker-2:9095"
    change(cluster, 2, {"listeners": both, "advertised.listeners": both, "listener.security.protocol.map": MAP})
    _, epoch = registration(cluster, 2)
    cluster.cut_from_zookeeper(2)
    cluster.run_for(10_000)
    cluster.heal()
    cluster.settle()
    endpoints, later = registration(cluster, 2)
    assert (endpoints, later > epoch) == (["PLAINTEXT://broker-2:9092", "EXTERNAL://broker-2:9095"], True)


@pytest.mark.spec("BR-5")
def test_an_address_that_is_taken_is_not_advertised_and_the_others_stay(cluster: SimulatedCluster) -> None:
    taken = "PLAINTEXT://broker-2:9092,EXTERNAL://broker-2:9095,THIRD://broker-2:9092"
    protocols = MAP + ",THIRD:PLAINTEXT"
    with pytest.raises(Exception, match="Each listener must have a different port"):
        change(cluster, 2, {"listeners": taken, "listener.security.protocol.map": protocols})
    held = "PLAINTEXT://broker-1:9092,EXTERNAL://broker-1:9095"
    change(cluster, 1, {"listeners": held, "advertised.listeners": held, "listener.security.protocol.map": MAP})
    elsewhere = "PLAINTEXT://broker-2:9092,EXTERNAL://broker-1:9095"
    change(
        cluster, 2, {"listeners": elsewhere, "advertised.listeners": elsewhere, "listener.security.protocol.map": MAP}
    )
    assert registration(cluster, 2)[0] == ["PLAINTEXT://broker-2:9092"]
    assert brokers_seen_at(cluster, "broker-2:9092") == {1: 9092, 2: 9092, 3: 9092}


@pytest.mark.spec("BR-5")
def test_the_listener_between_brokers_cannot_be_taken_away(cluster: SimulatedCluster) -> None:
    with pytest.raises(Exception, match="must be a listener name defined in"):
        change(cluster, 2, {"listeners": "EXTERNAL://broker-2:9095", "listener.security.protocol.map": MAP})
    assert registration(cluster, 2)[0] == ["PLAINTEXT://broker-2:9092"]


@pytest.mark.spec("CF-7")
def test_the_number_of_connections_may_be_limited_later(cluster: SimulatedCluster) -> None:
    client = cluster.admin.with_bootstrap("broker-2:9092", timeout_ms=1_000)
    change(cluster, 2, {"max.connections.per.ip": "0"})
    with pytest.raises(NoBrokerAnswers):
        cluster.ask(client.metadata())
    cluster.ask(cluster.admin.with_bootstrap("broker-1:9092").alter_config(BROKER, "", {"max.connections.per.ip": "0"}))
    cluster.run_for(1_000)
    with pytest.raises(NoBrokerAnswers):
        cluster.ask(cluster.admin.with_bootstrap("broker-1:9092", timeout_ms=1_000).metadata())
