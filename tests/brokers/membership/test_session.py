from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from brokers.membership.session import BrokerSession
from brokers.supervisor import Supervisor
from foundation.eventlog.fences import Fences
from foundation.zk import client as zookeeper
from foundation.zk.client import SessionExpired, WatchFired, WatchKind, ZooKeeperClient, ZooKeeperUnreachable
from foundation.zk.kafka_zk_client import KafkaZkClient
from tests.brokers.stage import Recorder
from understudy.simulator.loop import SimulatedLoop, new_loop


class Client:
    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.session_timeout_ms = 6_000

    async def close(self) -> None:
        pass


class Ensemble:
    """Opens sessions 1, 2, 3 …, but not while it is `down`; writes down what happens, and at what second."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.down = 0
        """How many attempts will fail."""
        self.story: list[str] = []
        self.listeners: list[zookeeper.Listener] = []

    def says(self, what: str) -> None:
        self.story.append(f"{self.loop.time():g} {what}")

    async def connect(self, listener: zookeeper.Listener) -> ZooKeeperClient:
        if self.down:
            self.down -= 1
            self.says("out of reach")
            raise ZooKeeperUnreachable("no server")
        self.listeners.append(listener)
        self.says(f"session {len(self.listeners)}")
        return Client(len(self.listeners))  # type: ignore[return-value]


class Tenant:
    """The controller, which takes three seconds to resign."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.says = ensemble.says

    def notified(self, notification: WatchFired) -> None:
        self.says(f"controller: {notification.path}")

    async def expire(self) -> None:
        self.says("controller: resigning")
        await asyncio.sleep(3)
        self.says("controller: resigned")

    def session_opened(self, zk: KafkaZkClient) -> None:
        self.says(f"controller: session {zk.session_id}")


class Listener:
    def __init__(self, ensemble: Ensemble) -> None:
        self.says = ensemble.says

    def notified(self, notification: WatchFired) -> None:
        self.says(f"listener: {notification.path}")

    def session_opened(self) -> None:
        self.says("listener: another session")


def play(act: Callable[[Ensemble, BrokerSession], object], *, seconds: float = 20) -> list[str]:
    """What happens after `act` has been done to an open session."""
    loop = new_loop()
    ensemble = Ensemble(loop)

    async def scene() -> None:
        events = Recorder().log
        tenant = Tenant(ensemble)
        session = BrokerSession(
            zookeeper=ensemble,
            events=events,
            fences=Fences(events),
            supervisor=Supervisor(events),
            tenant=lambda: tenant,
        )
        session.add_listener(Listener(ensemble))
        await session.open()
        ensemble.story.clear()
        done = act(ensemble, session)
        if asyncio.iscoroutine(done):
            await done
        await asyncio.sleep(seconds)

    loop.run_until_complete(scene())
    loop.close()
    return ensemble.story


@pytest.mark.spec("ZC-6", "EL-12")
def test_the_controller_resigns_then_a_session_is_opened_however_long_it_takes_then_all_hear_of_it() -> None:
    def expire(ensemble: Ensemble, _: BrokerSession) -> None:
        ensemble.down = 2
        ensemble.listeners[0](SessionExpired())

    assert play(expire) == [
        "0 controller: resigning",
        "3 controller: resigned",
        "3 out of reach",
        "4 out of reach",
        "5 session 2",
        "5 controller: session 2",
        "5 listener: another session",
    ]


@pytest.mark.spec("ZC-6")
def test_what_an_earlier_session_still_says_is_not_heard() -> None:
    async def expire(ensemble: Ensemble, _: BrokerSession) -> None:
        ensemble.listeners[0](SessionExpired())
        await asyncio.sleep(10)
        ensemble.story.clear()
        for listener in ensemble.listeners:
            listener(WatchFired("/controller", WatchKind.DELETED))
        ensemble.listeners[0](SessionExpired())

    assert play(expire) == ["10 listener: /controller", "10 controller: /controller"]


@pytest.mark.spec("ZC-6")
def test_a_broker_that_is_leaving_opens_no_other_session() -> None:
    async def leave(ensemble: Ensemble, session: BrokerSession) -> None:
        await session.close()
        ensemble.listeners[0](SessionExpired())

    assert play(leave) == []
