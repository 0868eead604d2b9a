"""Starting brokers with and without an id, and stopping them while ZooKeeper cannot be reached.

The scenarios are from Kafka's `ServerGenerateBrokerIdTest` and `ServerShutdownTest`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from understudy.brokers.broker import KafkaBroker
from understudy.brokers.membership.meta_properties import FILE, InconsistentMetaProperties, read_meta_properties
from understudy.brokers.membership.registration import RegistrationRefused
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import PORT, SETTINGS, SimulatedCluster
from understudy.controller.settings import ControllerSettings
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import ProcessExiting, RequestReceived, RequestSent, ResponseReceived
from understudy.foundation.zk.client import ZooKeeperUnreachable
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import judge

SESSION_TIMEOUT_MS = int(SETTINGS["zookeeper.session.timeout.ms"])
STOP_WITHIN_MS = 2 * SESSION_TIMEOUT_MS + ControllerSettings().close_timeout_ms + ControllerSettings().drain_timeout_ms
"""The sum of the timeouts of a stop: reading the registered brokers, the controller's event in progress, its requests
without a response, and closing the session."""


def stored_id(broker: SimulatedBroker) -> int | None:
    return read_meta_properties(broker.node.disk.read(FILE)).broker_id


def with_properties(cluster: SimulatedCluster, broker: int, changes: Mapping[str, str]) -> SimulatedBroker:
    """A broker on the node and disk of `broker`, with a changed `server.properties`."""
    node = cluster.broker(broker).node
    own = {"broker.id": str(broker), "listeners": f"PLAINTEXT://{node.name}:{PORT}", **changes}
    return SimulatedBroker(cluster, BrokerId(broker), node, {**SETTINGS, **own}, peers=())


def start(cluster: SimulatedCluster, broker: SimulatedBroker, for_ms: float = 500) -> type[Exception] | None:
    """Start a broker once; return the type of the exception with which it ended, None if it runs."""
    before = len(cluster.exits)
    broker.launch()
    broker.should_run = False
    cluster.run_for(for_ms)
    ended = cluster.exits[before:]
    return type(ended[0].error) if ended and ended[0].error is not None else None


# ------------------------------------------------------------------ ids


@pytest.mark.spec("BR-1")
def test_brokers_without_an_id_get_one_above_reserved_broker_max_id_and_keep_it() -> None:
    without = {"broker.id": "-1"}
    with SimulatedCluster(2, brokers=3, own_settings=[without, {}, without]) as cluster:
        for broker in cluster.brokers:
            assert start(cluster, broker) is None
        assert list(cluster.znodes.brokers()) == [2, 1001, 1002]
        assert [stored_id(broker) for broker in cluster.brokers] == [1001, 2, 1002]
        for broker in cluster.brokers:
            broker.kill()
        cluster.run_for(2 * SESSION_TIMEOUT_MS)
        for broker in reversed(cluster.brokers):
            assert start(cluster, broker) is None
        assert list(cluster.znodes.brokers()) == [2, 1001, 1002]
        assert [stored_id(broker) for broker in cluster.brokers] == [1001, 2, 1002]


@pytest.mark.spec("BR-1", "BR-3")
def test_a_broker_whose_id_is_registered_already_still_writes_meta_properties() -> None:
    """Kafka writes `meta.properties` before it registers. The directory has that id until the file is deleted."""
    with SimulatedCluster(2, brokers=2) as cluster:
        assert start(cluster, cluster.broker(1)) is None
        assert start(cluster, with_properties(cluster, 2, {"broker.id": "1"})) is RegistrationRefused
        assert stored_id(cluster.broker(2)) == 1
        assert start(cluster, cluster.broker(2)) is InconsistentMetaProperties
        assert list(cluster.znodes.brokers()) == [1]
        cluster.broker(2).node.disk.delete(FILE)
        assert start(cluster, cluster.broker(2)) is None
        assert list(cluster.znodes.brokers()) == [1, 2]


@pytest.mark.spec("BR-1", "BR-3")
def test_a_broker_without_an_id_takes_the_one_that_a_refused_start_wrote_to_its_directory() -> None:
    with SimulatedCluster(2, brokers=2) as cluster:
        assert start(cluster, cluster.broker(1)) is None
        assert start(cluster, with_properties(cluster, 2, {"broker.id": "1"})) is RegistrationRefused
        without = with_properties(cluster, 2, {"broker.id": "-1"})
        assert start(cluster, without) is RegistrationRefused
        cluster.broker(1).kill()
        cluster.run_for(2 * SESSION_TIMEOUT_MS)
        assert start(cluster, without) is None
        (endpoint,) = cluster.znodes.brokers()[BrokerId(1)].broker.endpoints
        assert endpoint.host == "broker-2"


# ------------------------------------------------------------------ listeners


@pytest.mark.spec("BR-1")
def test_a_listener_without_a_host_on_every_interface_is_registered_with_the_machines_name() -> None:
    listeners = {
        "listeners": f"REPLICATION-9091://:{PORT},CLIENT://broker-1:9093",
        "listener.security.protocol.map": "REPLICATION-9091:PLAINTEXT,CLIENT:PLAINTEXT",
        "inter.broker.listener.name": "replication-9091",
        "understudy.listeners.empty.host": "0.0.0.0",
    }
    with SimulatedCluster(2, brokers=1, own_settings=[listeners]) as cluster:
        assert start(cluster, cluster.broker(1)) is None
        registered = cluster.znodes.brokers()[BrokerId(1)].broker
        assert registered.addresses == f"REPLICATION-9091://localhost:{PORT},CLIENT://broker-1:9093"


# ------------------------------------------------------------------ stopping


def running(broker: SimulatedBroker) -> KafkaBroker:
    assert broker.instance is not None
    return broker.instance


def start_with_a_topic(cluster: SimulatedCluster) -> None:
    cluster.start()
    cluster.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.settle()


@pytest.mark.spec("CS-4")
@pytest.mark.parametrize("is_controller", [False, True])
@pytest.mark.parametrize("is_silent", [False, True])
@pytest.mark.parametrize("since_ms", [0, 3 * SESSION_TIMEOUT_MS])
def test_a_broker_stops_within_a_bound_while_zookeeper_cannot_be_reached(
    is_controller: bool, is_silent: bool, since_ms: int
) -> None:
    """`ServerShutdownTest.testCleanShutdownWithZkUnavailable`: ZooKeeper is down, or does not answer."""
    with SimulatedCluster(4, brokers=3) as cluster:
        start_with_a_topic(cluster)
        number = next(n for n in cluster.broker_ids if (n == cluster.controller_id()) is is_controller)
        if is_silent:
            cluster.cut_from_zookeeper(number)
        else:
            cluster.stop_zookeeper()
        cluster.run_for(since_ms)
        stopping = cluster.broker(number)
        stopping.begin_stop()
        began_ms = cluster.now_ms
        while stopping.is_running and cluster.now_ms - began_ms < STOP_WITHIN_MS:
            cluster.run_for(100)
        assert not stopping.is_running, f"still stopping after {STOP_WITHIN_MS} ms"
        cluster.heal()
        cluster.settle()
    assert judge(cluster).problems == ()


@pytest.mark.spec("CS-4")
@pytest.mark.parametrize("is_stopped_first", [False, True])
def test_a_broker_that_is_stopped_while_it_opens_a_session_is_not_registered_afterwards(is_stopped_first: bool) -> None:
    """Its session has expired; ZooKeeper can be reached again while the broker stops, or after it has stopped."""
    with SimulatedCluster(4, brokers=3) as cluster:
        start_with_a_topic(cluster)
        number = next(n for n in cluster.broker_ids if n != cluster.controller_id())
        stopping = cluster.broker(number)
        cluster.cut_from_zookeeper(number)
        cluster.run_for(SESSION_TIMEOUT_MS // 2)
        stopping.expire_session()
        cluster.heal_zookeeper(number)
        cluster.run_for(1)
        cluster.cut_from_zookeeper(number)
        stopping.begin_stop()
        cluster.run_for(STOP_WITHIN_MS if is_stopped_first else 50)
        cluster.heal_zookeeper(number)
        cluster.run_for(STOP_WITHIN_MS + 2 * SESSION_TIMEOUT_MS)
        assert not stopping.is_running
        assert number not in cluster.znodes.brokers()
        cluster.heal()
        cluster.settle()
    assert judge(cluster).problems == ()


@pytest.mark.spec("CS-1", "CS-4")
def test_a_broker_that_is_stopped_twice_sends_controlled_shutdown_once() -> None:
    """`ServerShutdownTest.testConsecutiveShutdown`, and two calls at the same time."""
    with SimulatedCluster(4, brokers=3) as cluster:
        start_with_a_topic(cluster)
        number = next(n for n in cluster.broker_ids if n != cluster.controller_id())
        broker, process = running(cluster.broker(number)), cluster.broker(number).node.process
        assert process is not None
        ended: list[str] = []

        async def stop(name: str) -> None:
            await broker.shutdown()
            ended.append(f"{name}: {broker.state.name}")

        cluster.broker(number).should_run = False
        cluster.broker(number).is_stopping = True
        tasks = [process.spawn(stop("first")), process.spawn(stop("second"))]
        cluster.run_for(STOP_WITHIN_MS)
        assert all(task.done() for task in tasks)
        tasks.append(process.spawn(stop("third")))
        cluster.run_for(100)
        assert sorted(ended) == ["first: NOT_RUNNING", "second: NOT_RUNNING", "third: NOT_RUNNING"]
        records = [decode_record(line) for line in cluster.log_lines]
        received = [r for r in records if isinstance(r.data, RequestReceived) and r.data.api == "ControlledShutdown"]
        exits = [r for r in records if isinstance(r.data, ProcessExiting)]
        assert (len(received), [r.node for r in exits]) == (1, [f"broker-{number}"])
        assert number not in cluster.znodes.brokers()


@pytest.mark.spec("CS-4")
def test_a_broker_whose_start_failed_can_be_stopped() -> None:
    """`ServerShutdownTest.verifyCleanShutdownAfterFailedStartup`."""
    with SimulatedCluster(4, brokers=1) as cluster:
        cluster.stop_zookeeper()
        node = cluster.broker(1).node
        world = node.start(cluster.zookeeper, cluster.network, session_timeout_ms=6_000, connection_timeout_ms=1_000)
        broker = KafkaBroker(cluster.broker(1)._config, world)
        assert node.process is not None

        async def start_and_stop_twice() -> str:
            with pytest.raises(ZooKeeperUnreachable):
                await broker.start()
            before = broker.state.name
            await asyncio.gather(broker.shutdown(), broker.shutdown())
            return before

        state = cluster.loop.run_until_complete(node.process.spawn(start_and_stop_twice()))
        assert (state, broker.state.name) == ("NOT_RUNNING", "NOT_RUNNING")


@pytest.mark.spec("CS-4", "SN-3")
def test_a_controller_stops_without_waiting_for_a_broker_that_does_not_answer() -> None:
    """`ServerShutdownTest.testControllerShutdownDuringSend`: a broker has received its request and never answers."""
    timeout_ms = 20 * STOP_WITHIN_MS
    settings = {"controller.socket.timeout.ms": str(timeout_ms), "controlled.shutdown.enable": "false"}
    with SimulatedCluster(4, brokers=3, settings=settings) as cluster:
        cluster.start()
        stopping = cluster.controller()
        silent = next(broker for broker in cluster.brokers if broker is not stopping)
        silent.pause()
        client = cluster.admin.with_bootstrap(f"{stopping.node.name}:{PORT}")
        cluster.begin(client.create_topic("orders", assignment={0: [int(silent.id)]}))
        cluster.run_for(2_000)
        records = [decode_record(line) for line in cluster.log_lines]
        requests = [r.data for r in records if isinstance(r.data, RequestSent) and r.data.to == silent.id]
        answers = [r.data for r in records if isinstance(r.data, ResponseReceived) and r.data.sender == silent.id]
        assert len(requests) == len(answers) + 1, "one request is not answered"
        stopping.begin_stop()
        cluster.run_for(ControllerSettings().drain_timeout_ms + 100)
        assert not stopping.is_running
        cluster.heal()
        cluster.settle()
    assert judge(cluster).problems == ()
