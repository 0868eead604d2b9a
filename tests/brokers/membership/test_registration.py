"""Tests of broker registration: endpoints of other brokers, fixed ports, endpoints that change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.brokers.parts import Recorder, StillClock
from understudy.brokers.membership.registration import Registration, RegistrationRefused
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.clusters.simulated.network import NodeNetwork
from understudy.foundation.cluster.broker import Broker, BrokerAndEpoch, EndPoint, SecurityProtocol
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.wire.network import Connection, ConnectionFailed, ServerSocket
from understudy.foundation.zk.client import Failure


def at(broker: int, *ports: int, host: str = "h") -> Broker:
    plain = SecurityProtocol.PLAINTEXT
    endpoints = tuple(EndPoint(f"L{broker}_{port}", plain, host, port) for port in ports)
    return Broker(id=BrokerId(broker), endpoints=endpoints)


def check(broker: Broker, *registered: Broker) -> None:
    class Store:
        @property
        def brokers(self) -> Store:
            return self

        async def all(self) -> dict[BrokerId, BrokerAndEpoch]:
            return {other.id: BrokerAndEpoch(other, 7) for other in registered}

    registration = Registration(broker, znode_version=5, clock=StillClock(), events=Recorder().log)
    asyncio.run(registration.check_endpoints(Store(), broker.endpoints))  # type: ignore[arg-type]  # a fake of the store


@pytest.mark.spec("BR-2")
def test_endpoint_is_registered_by_one_broker_under_any_listener_name() -> None:
    check(at(1, 9092, 9093), at(2, 9094), at(3, 9092, host="elsewhere"))
    check(at(1, 9092), at(1, 9092))  # its own registration of an earlier session
    with pytest.raises(RegistrationRefused) as refused:
        check(at(1, 9092, 9093, 9094), at(2, 9095), at(3, 9096, 9093, 9092))
    assert str(refused.value) == (
        "Configured end points h:9093,h:9092 in advertised listeners are already registered by broker 3; "
        "give broker 1 another port"
    )


def starting(*own_settings: dict[str, str]) -> SimulatedCluster:
    """Create a cluster and start only broker 1."""
    cluster = SimulatedCluster(3, brokers=len(own_settings), own_settings=own_settings)
    cluster.broker(1).launch()
    cluster.run_for(1_000)
    return cluster


def is_registered(cluster: SimulatedCluster, broker: int) -> bool:
    return not isinstance(cluster.zookeeper.tree.exists(f"/brokers/ids/{broker}"), Failure)


@pytest.mark.spec("BR-2")
@pytest.mark.parametrize(
    "second",
    [
        pytest.param({"advertised.listeners": "PLAINTEXT://broker-1:9092"}, id="advertised"),
        pytest.param({"listeners": "PLAINTEXT://broker-1:9092"}, id="bound too"),
    ],
)
def test_a_broker_that_advertises_the_address_of_another_does_not_start(second: dict[str, str]) -> None:
    """As in Kafka the clash is found in ZooKeeper before a fixed port is bound: a taken port changes nothing."""
    with starting({}, second) as cluster:
        cluster.broker(2).launch()
        cluster.run_for(1_000)
        (exit_,) = cluster.exits
        assert (exit_.node, type(exit_.error)) == ("broker-2", RegistrationRefused)
        assert not is_registered(cluster, 2)
        assert is_registered(cluster, 1)


@pytest.mark.spec("BR-1")
@pytest.mark.parametrize(("port", "is_open_before"), [(9092, False), (0, True)])
def test_a_fixed_port_is_closed_until_the_broker_is_registered(
    monkeypatch: pytest.MonkeyPatch, port: int, is_open_before: bool
) -> None:
    """An open port means a broker that is ready. Port 0 is bound earlier, because its number has to be registered."""
    with starting({}, {"listeners": f"PLAINTEXT://broker-2:{port}"}) as cluster:
        bound: list[tuple[str, bool]] = []
        bind = NodeNetwork.bind

        async def observed(
            network: NodeNetwork, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]
        ) -> ServerSocket:
            bound.append((host, is_registered(cluster, 2)))
            return await bind(network, host, port, serve)

        monkeypatch.setattr(NodeNetwork, "bind", observed)
        cluster.broker(2).launch()
        cluster.run_for(1_000)
        cluster.settle()
        assert bound == [("broker-2", not is_open_before)]
        (endpoint,) = cluster.znodes.brokers()[BrokerId(2)].broker.endpoints
        assert endpoint.port != 0


@pytest.mark.spec("BR-1")
def test_a_broker_whose_fixed_port_is_taken_unregisters_and_never_becomes_controller() -> None:
    """Kafka's broker takes part in the controller election before it binds its port."""
    with SimulatedCluster(3, brokers=1) as cluster:
        broker = cluster.broker(1)
        process = cluster.loop.process("broker-1", 99)

        async def ignore(connection: Connection) -> None:
            connection.close()

        cluster.ask(cluster.network.node(process).bind("broker-1", PORT, ignore))
        broker.launch()
        cluster.run_for(500)
        (exit_,) = cluster.exits
        assert type(exit_.error) is ConnectionFailed
        assert not is_registered(cluster, 1)
        registered = [t for t in cluster.zookeeper.transactions if any(op.path == "/brokers/ids/1" for op in t.ops)]
        assert len(registered) == 2, "registered, and unregistered"
        assert isinstance(cluster.zookeeper.tree.exists("/controller"), Failure)
        assert not any(op.path == "/controller" for t in cluster.zookeeper.transactions for op in t.ops)


@pytest.mark.spec("BR-5")
def test_addresses_that_change_while_a_new_session_registers_are_not_lost() -> None:
    """The znode of the former session gets the new addresses, and is then deleted and created again."""

    class Store:
        session_id = 2
        written = at(1, 9092)

        @property
        def brokers(self) -> Store:
            return self

        async def register(self, broker: Broker, **_: object) -> int:
            await registration.change(at(1, 9093), self)  # type: ignore[arg-type]  # a fake of the store
            self.written = broker
            return 7

        async def update(self, broker: Broker, **_: object) -> None:
            self.written = broker

    registration, store = Registration(at(1, 9092), znode_version=5, clock=StillClock(), events=Recorder().log), Store()
    assert asyncio.run(registration.register(store)) == 7  # type: ignore[arg-type]  # a fake of the store
    assert store.written == registration.broker == at(1, 9093)
