from __future__ import annotations

import asyncio

import pytest

from brokers.membership.registration import Registration, RegistrationRefused
from foundation.cluster.broker import Broker, BrokerAndEpoch, EndPoint, SecurityProtocol
from foundation.cluster.identifiers import BrokerId
from foundation.zk.client import Failure
from tests.brokers.stage import Recorder, StillClock
from understudy.simulator.cluster import SimulatedCluster


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
    asyncio.run(registration.check_endpoints(Store()))  # type: ignore[arg-type]


@pytest.mark.spec("BR-2")
def test_an_address_belongs_to_one_broker_under_whatever_listeners_name() -> None:
    check(at(1, 9092, 9093), at(2, 9094), at(3, 9092, host="elsewhere"))
    check(at(1, 9092), at(1, 9092))  # its former life
    with pytest.raises(RegistrationRefused) as refused:
        check(at(1, 9092, 9093), at(2, 9094), at(3, 9095, 9093))
    said = "Configured end points h:9093 in advertised listeners are already registered by broker 3; give broker 1 another port"
    assert str(refused.value) == said


@pytest.mark.spec("BR-2")
def test_a_broker_that_advertises_the_address_of_another_does_not_start() -> None:
    with SimulatedCluster(
        3, brokers=2, own_settings=[{}, {"advertised.listeners": "PLAINTEXT://broker-1:9092"}]
    ) as cluster:
        cluster.broker(1).launch()
        cluster.run_for(1_000)
        cluster.broker(2).launch()
        cluster.run_for(1_000)
        (exit_,) = cluster.exits
        assert (exit_.node, type(exit_.error)) == ("broker-2", RegistrationRefused)
        assert cluster.zookeeper.tree.exists("/brokers/ids/2") is Failure.NO_NODE
        assert not isinstance(cluster.zookeeper.tree.exists("/brokers/ids/1"), Failure)


@pytest.mark.spec("BR-5")
def test_addresses_that_change_while_a_new_session_registers_are_not_lost() -> None:
    """The znode of the session before is still there, takes the new addresses, and is then deleted to be made anew."""

    class Store:
        session_id = 2
        written = at(1, 9092)

        @property
        def brokers(self) -> Store:
            return self

        async def register(self, broker: Broker, **_: object) -> int:
            await registration.change(at(1, 9093), self)  # type: ignore[arg-type]
            self.written = broker
            return 7

        async def update(self, broker: Broker, **_: object) -> None:
            self.written = broker

    registration, store = Registration(at(1, 9092), znode_version=5, clock=StillClock(), events=Recorder().log), Store()
    assert asyncio.run(registration.register(store)) == 7  # type: ignore[arg-type]
    assert store.written == registration.broker == at(1, 9093)
