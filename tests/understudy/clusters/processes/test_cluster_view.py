"""`ClusterView`: the state of a cluster in ZooKeeper, read without `await`."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient

from understudy.clusters.processes import cluster_view
from understudy.clusters.processes.cluster_view import ClusterView
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.foundation.cluster.broker import Broker, EndPoint, SecurityProtocol
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.zk.client import ZooKeeperUnreachable
from understudy.foundation.zk.znodes import BrokerIdZNode, ControllerZNode

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def chroot(zookeeper: EmbeddedZooKeeper) -> str:
    return f"{zookeeper.connect_string}/view-{secrets.token_hex(4)}/deep"


@pytest.fixture
def view(chroot: str) -> Iterator[ClusterView]:
    with ClusterView(chroot) as view:
        yield view


@pytest.fixture
def create(view: ClusterView, chroot: str) -> Iterator[Callable[[str, bytes], object]]:
    view.controller_id()  # the first read creates the chroot
    client = KazooClient(chroot, timeout=30)
    client.start(timeout=30)
    yield lambda path, data: client.create(path, data, makepath=True)
    client.stop()
    client.close()


def broker(broker_id: int) -> bytes:
    endpoint = EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 9000 + broker_id)
    return BrokerIdZNode.encode(Broker(id=BrokerId(broker_id), endpoints=(endpoint,), rack="north"), timestamp_ms=0)


def state(leader: int, isr: str) -> bytes:
    return f'{{"controller_epoch":7,"leader":{leader},"version":1,"leader_epoch":3,"isr":[{isr}]}}'.encode()


def test_an_empty_zookeeper_has_no_controller_brokers_or_partitions(view: ClusterView) -> None:
    assert view.controller_id() is None
    assert view.brokers() == {}
    assert view.leader(ORDERS_0) is None
    picture = view.picture()
    assert (picture.controller, picture.controller_epoch, picture.brokers, picture.partitions) == (None, 0, {}, {})


def test_the_controller_the_brokers_and_the_partition_states_are_read(
    view: ClusterView, create: Callable[[str, bytes], object]
) -> None:
    create("/controller", ControllerZNode.encode(BrokerId(2), 0))
    create("/controller_epoch", b"7")
    for broker_id in (2, 10):
        create(f"/brokers/ids/{broker_id}", broker(broker_id))
    create(
        "/brokers/topics/orders",
        b'{"version":2,"partitions":{"0":[2,10],"1":[10,2]},"adding_replicas":{},"removing_replicas":{}}',
    )
    create("/brokers/topics/orders/partitions/0/state", state(2, "2,10"))
    assert view.controller_id() == 2
    assert [*view.brokers()] == [2, 10]
    registered, epoch = view.brokers()[BrokerId(2)]
    endpoint = registered.endpoints[0]
    assert (endpoint.host, endpoint.port, registered.rack) == ("127.0.0.1", 9002, "north")
    assert epoch > 0
    assert view.leader(ORDERS_0) == 2
    picture = view.picture()
    assert (picture.controller, picture.controller_epoch) == (2, 7)
    led = picture.partitions[ORDERS_0].state
    assert led is not None
    assert (led.leader_and_isr.leader, led.controller_epoch) == (2, 7)
    assert picture.partitions[ORDERS_1].state is None
    assert picture.partitions[ORDERS_1].assignment.replicas == (10, 2)


def test_a_view_can_read_after_a_restart_of_the_server() -> None:
    with EmbeddedZooKeeper() as server, ClusterView(server.connect_string) as view:
        assert view.controller_id() is None
        server.kill()
        server.start()
        assert view.controller_id() is None


def test_a_read_without_a_server_raises_an_error_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_view, "CONNECTION_TIMEOUT_MS", 300)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with ClusterView(address) as view, pytest.raises(ZooKeeperUnreachable, match=address):
            view.controller_id()


def test_closing_twice_is_harmless(view: ClusterView) -> None:
    view.close()
    view.close()
