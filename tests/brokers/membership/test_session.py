"""Tests of the ZooKeeper session of a broker: expiry, the next session, callbacks of listeners and controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, cast

import pytest

from tests.brokers.parts import Recorder
from tests.operators_log import operators_log
from understudy.brokers.membership.session import BrokerSession
from understudy.brokers.supervisor import Supervisor
from understudy.clusters.simulated.loop import SimulatedLoop, new_loop
from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.zk import client as zookeeper
from understudy.foundation.zk.client import SessionExpired, WatchFired, WatchKind, ZooKeeperClient, ZooKeeperUnreachable
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient


class Client:
    def __init__(self, session_id: int, ensemble: Ensemble) -> None:
        self.session_id = session_id
        self.session_timeout_ms = 6_000
        self._ensemble = ensemble

    async def close(self) -> None:
        self._ensemble.note(f"session {self.session_id} closed")


class Ensemble:
    """Opens sessions 1, 2, 3 … and keeps a line of each event with its time in seconds."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.failing = 0
        """The number of next attempts to connect that fail."""
        self.connecting_takes_s = 0.0
        self.notes: list[str] = []
        self.listeners: list[zookeeper.Listener] = []

    def note(self, what: str) -> None:
        self.notes.append(f"{self.loop.time():g} {what}")

    async def connect(self, listener: zookeeper.Listener) -> ZooKeeperClient:
        await asyncio.sleep(self.connecting_takes_s)
        if self.failing:
            self.failing -= 1
            self.note("out of reach")
            raise ZooKeeperUnreachable("no server")
        self.listeners.append(listener)
        self.note(f"session {len(self.listeners)}")
        return cast(ZooKeeperClient, Client(len(self.listeners), self))


class Controller:
    """A controller that resigns in three seconds. If `broken`, every callback raises."""

    def __init__(self, ensemble: Ensemble, *, broken: bool = False) -> None:
        self._note = ensemble.note
        self._broken = broken

    def notified(self, notification: WatchFired) -> None:
        self._note(f"controller: {notification.path}")
        self._break()

    async def expire(self) -> None:
        self._note("controller: resigning")
        await asyncio.sleep(3)
        self._break()
        self._note("controller: resigned")

    def session_opened(self, zk: KafkaZkClient) -> None:
        self._note(f"controller: session {zk.session_id}")
        self._break()

    def _break(self) -> None:
        if self._broken:
            raise RuntimeError("the controller is broken")


class Listener:
    """A session listener that keeps a line of each callback. If `broken`, every callback raises."""

    def __init__(self, ensemble: Ensemble, name: str = "listener", *, broken: bool = False) -> None:
        self._note = ensemble.note
        self._name = name
        self._broken = broken

    def notified(self, notification: WatchFired) -> None:
        self._note(f"{self._name}: {notification.path}")
        self._break()

    def session_opened(self) -> None:
        self._note(f"{self._name}: another session")
        self._break()

    def _break(self) -> None:
        if self._broken:
            raise RuntimeError(f"{self._name} is broken")


class Outcome(NamedTuple):
    """The events, the recorded failures, and whether the broker was stopped."""

    notes: list[str]
    failed: list[str]
    is_stopped: bool


def run_session(
    action: Callable[[Ensemble, BrokerSession], object], *, broken: bool = False, seconds: float = 20
) -> Outcome:
    """Open a session, run `action`, and return what happens within `seconds`.

    The session has one listener; if `broken`, also a broken one before it and a broken controller.
    """
    loop = new_loop()
    ensemble = Ensemble(loop)
    recorder = Recorder()

    async def scenario() -> bool:
        controller = Controller(ensemble, broken=broken)
        supervisor = Supervisor(recorder.log)
        session = BrokerSession(
            zookeeper=ensemble,
            events=recorder.log,
            fences=Fences(recorder.log),
            supervisor=supervisor,
            owner=lambda: controller,
        )
        if broken:
            session.add_listener(Listener(ensemble, "broken listener", broken=True))
        session.add_listener(Listener(ensemble))
        await session.open()
        ensemble.notes.clear()
        done = action(ensemble, session)
        if asyncio.iscoroutine(done):
            await done
        await asyncio.sleep(seconds)
        return supervisor.failed.done()

    is_stopped = loop.run_until_complete(scenario())
    loop.close()
    failed = [f"{record['task']}: {str(record['error']).partition(' at ')[0]}" for record in recorder.of("TaskFailed")]
    return Outcome(ensemble.notes, failed, is_stopped)


@pytest.mark.spec("ZC-6", "EL-12")
def test_after_an_expiry_the_controller_resigns_before_a_new_session_is_opened() -> None:
    def expire(ensemble: Ensemble, _: BrokerSession) -> None:
        ensemble.failing = 2
        ensemble.listeners[0](SessionExpired())

    assert run_session(expire).notes == [
        "0 controller: resigning",
        "3 controller: resigned",
        "3 out of reach",
        "4 out of reach",
        "5 session 2",
        "5 controller: session 2",
        "5 listener: another session",
    ]


@pytest.mark.spec("ZC-6")
def test_notifications_of_an_earlier_session_are_ignored() -> None:
    async def expire(ensemble: Ensemble, _: BrokerSession) -> None:
        ensemble.listeners[0](SessionExpired())
        await asyncio.sleep(10)
        ensemble.notes.clear()
        for listener in ensemble.listeners:
            listener(WatchFired("/controller", WatchKind.DELETED))
        ensemble.listeners[0](SessionExpired())

    assert run_session(expire).notes == ["10 listener: /controller", "10 controller: /controller"]


@pytest.mark.spec("ZC-6")
def test_broker_that_shuts_down_opens_no_other_session() -> None:
    async def leave(ensemble: Ensemble, session: BrokerSession) -> None:
        await session.close()
        ensemble.listeners[0](SessionExpired())

    assert run_session(leave).notes == ["0 session 1 closed"]


@pytest.mark.spec("ZC-6")
def test_a_callback_that_raises_stops_neither_the_others_nor_the_broker() -> None:
    """Kafka's `ZooKeeperClient` logs what a handler throws, before and after a session is initialized."""

    async def notify_and_expire(ensemble: Ensemble, _: BrokerSession) -> None:
        ensemble.listeners[0](WatchFired("/controller", WatchKind.DELETED))
        ensemble.listeners[0](SessionExpired())

    with operators_log() as lines:
        outcome = run_session(notify_and_expire, broken=True)
    assert outcome.notes == [
        "0 broken listener: /controller",
        "0 listener: /controller",
        "0 controller: /controller",
        "0 controller: resigning",
        "3 session 2",
        "3 controller: session 2",
        "3 broken listener: another session",
        "3 listener: another session",
    ]
    by_the_listener = "session handler Listener: RuntimeError: broken listener is broken"
    by_the_controller = "session handler Controller: RuntimeError: the controller is broken"
    assert outcome.failed == [by_the_listener, *[by_the_controller] * 3, by_the_listener]
    logged = [line.fields["handler"] for line in lines if line.level == "error"]
    assert logged == ["Listener", "Controller", "Controller", "Controller", "Listener"]
    assert not outcome.is_stopped


@pytest.mark.spec("ZC-6")
@pytest.mark.parametrize("is_unreachable", [False, True])
def test_session_that_is_opened_while_the_broker_shuts_down_is_closed(is_unreachable: bool) -> None:
    async def leave_while_connecting(ensemble: Ensemble, session: BrokerSession) -> None:
        ensemble.connecting_takes_s = 5
        ensemble.failing = int(is_unreachable)
        ensemble.listeners[0](SessionExpired())
        await asyncio.sleep(4)
        await session.close()
        await session.close()

    expected = ["8 out of reach"] if is_unreachable else ["8 session 2", "8 session 2 closed"]
    assert run_session(leave_while_connecting).notes == [
        "0 controller: resigning",
        "3 controller: resigned",
        "4 session 1 closed",
        "4 session 1 closed",
        *expected,
    ]
