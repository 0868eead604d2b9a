"""Tests of faults of the controller's container: killed, paused past its session, disconnected from its network.

Meanwhile stock clients on this machine use the cluster.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

import pytest

from tests.clients.clients import NO_ANSWER, Confluent, KafkaPython, Refused, StockClient
from tests.compose.compose_cluster import BROKERS, ComposeCluster, NotInTime, eventually
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.admin_client import AdminClient
from understudy.foundation.eventlog.records import ControllerElected, ControllerResigned, Payload
from understudy.history.reading.reader import read

pytestmark = [
    pytest.mark.docker,
    pytest.mark.xdist_group("compose"),
    # For a test, the start of its cluster and a first build that downloads Spark, on a machine with much else to do.
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning"),
]

T = TypeVar("T")
P = TypeVar("P", bound=Payload)

TIMES = ("before", "during", "after")
PARTITIONS = 3
REQUEST_TIMEOUT_MS = 5_000
"""A request to a paused broker is not answered; the clients' own timeouts are 30 and 60 s."""


class Fault(NamedTuple):
    inject: Callable[[ComposeCluster, int], None]
    undo: Callable[[ComposeCluster, int], None]
    process_survives: bool
    """The process of the controller keeps running after the fault, and is notified that it was deposed."""


FAULTS = pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            Fault(ComposeCluster.kill, ComposeCluster.start, process_survives=False),
            id="killed",
            marks=pytest.mark.representative("a cluster in containers"),
        ),
        pytest.param(Fault(ComposeCluster.pause, ComposeCluster.resume, process_survives=True), id="paused"),
        pytest.param(
            Fault(ComposeCluster.disconnect, ComposeCluster.reconnect, process_survives=True), id="disconnected"
        ),
    ],
)


class Client:
    """A stock client that sends a request again until it is answered.

    Args:
        reopens: close the client after a failure and open another. kafka-python needs that: its admin client looks the
            controller up once, and again only when a broker answers NOT_CONTROLLER.

    Attributes:
        bootstrap: the brokers at which another client is opened, without a broker that is away: a kafka-python client
            that times out while it is opened leaves its thread behind.
    """

    def __init__(self, kind: type[KafkaPython | Confluent], bootstrap: str, *, reopens: bool) -> None:
        self.name = kind.__name__
        self.bootstrap = bootstrap
        self._kind = kind
        self._reopens = reopens
        self._client: StockClient | None = None
        self._last_error: Exception | None = None

    def create(self, topic: str, *, replication_factor: int) -> None:
        """Create `topic`. It may exist after a failed attempt: the controller can fail between its write and its
        response."""

        def attempt(client: StockClient) -> bool:
            try:
                client.create_topic(topic, PARTITIONS, replication_factor)
            except Refused as refused:
                if str(refused) != "TOPIC_ALREADY_EXISTS":
                    raise
            return True

        self.wait_until(attempt, f"topic {topic} is created")

    def wait_until(self, predicate: Callable[[StockClient], bool], what: str) -> None:
        """Evaluate `predicate` until it is answered, and true."""
        try:
            eventually(lambda: self._attempt(predicate), f"{self.name}: {what}")
        except NotInTime as late:
            raise NotInTime(f"{late}; its last error: {self._last_error!r}") from None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _attempt(self, predicate: Callable[[StockClient], bool]) -> bool:
        try:
            self._client = self._client or self._kind(self.bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS)
            return predicate(self._client)
        except NO_ANSWER as error:
            self._last_error = error
            if self._reopens:
                self.close()
            return False


@pytest.fixture
def clients(cluster: ComposeCluster, caplog: pytest.LogCaptureFixture) -> Iterator[list[Client]]:
    # pytest keeps what kafka-python logs, and with it the sockets of refused connections, beyond the test.
    caplog.set_level(logging.CRITICAL + 1, logger="kafka")
    eventually(cluster.is_whole, "three brokers, a controller and full ISRs before the fault")
    sockets_before = open_sockets()
    opened = [
        Client(KafkaPython, cluster.bootstrap(), reopens=True),
        Client(Confluent, cluster.bootstrap(), reopens=False),
    ]
    yield opened
    for client in opened:
        client.close()
    # kafka-python leaves the sockets of refused connections open: the warning about one would fail a later test.
    for left_open in open_sockets() - sockets_before:
        left_open.close()


def open_sockets() -> set[socket.socket]:
    """The open TCP sockets of this process."""
    gc.collect()
    found = [each for each in gc.get_objects() if issubclass(type(each), socket.socket)]
    return {each for each in found if each.family == socket.AF_INET and each.fileno() >= 0}


@FAULTS
def test_another_broker_takes_over_and_the_controller_returns(
    cluster: ComposeCluster, clients: list[Client], fault: Fault
) -> None:
    run = f"{time.time_ns():x}"
    for client in clients:
        client.create(f"before-{run}-{client.name}", replication_factor=3)
    eventually(cluster.is_whole, "full ISRs of the new topics")
    before = cluster.status()
    controller, epoch = before["controller"], before["controller_epoch"]
    others = set(BROKERS) - {controller}

    fault.inject(cluster, controller)
    try:
        for client in clients:
            client.bootstrap = cluster.bootstrap(others)
            topic = f"before-{run}-{client.name}"
            client.wait_until(lists(topic), f"{topic} is listed")
            client.create(f"during-{run}-{client.name}", replication_factor=2)
        during = eventually(lambda: successor(cluster, epoch), "another broker is controller")
        assert during["controller"] in others
        assert {broker["id"] for broker in during["brokers"]} == others
        for client in clients:
            client.wait_until(lambda stock: stock.brokers() == (others, during["controller"]), "two brokers are left")
    finally:
        fault.undo(cluster, controller)

    eventually(cluster.is_whole, "three brokers, a controller and full ISRs after the fault")
    for client in clients:
        client.create(f"after-{run}-{client.name}", replication_factor=3)
    eventually(cluster.is_whole, "full ISRs of all topics")
    for client in clients:
        client.wait_until(
            lambda stock: stock.brokers() == (set(BROKERS), cluster.status()["controller"]), "three brokers are back"
        )
        for made_by in clients:
            for when in TIMES:
                client.wait_until(
                    has_full_isr(f"{when}-{run}-{made_by.name}", 2 if when == "during" else 3), "full ISR"
                )

    elected = {(data.epoch, data.broker_id) for _, data in records(cluster, ControllerElected)}
    assert (epoch, controller) in elected
    assert (during["controller_epoch"], during["controller"]) in elected
    if fault.process_survives:
        resigned = {(node, data.epoch) for node, data in records(cluster, ControllerResigned)}
        assert (f"broker-{controller}", epoch) in resigned
    assert cluster.violations() == ""


def test_metadata_names_for_every_container_the_address_that_this_machine_reaches(cluster: ComposeCluster) -> None:
    eventually(cluster.is_whole, "three brokers and a controller")
    for host, port in cluster.addresses.values():
        client = AdminClient(SocketNetwork(), [f"{host}:{port}"])
        advertised = eventually(partial(addresses_of_all, client), f"{host}:{port} has metadata of all brokers")
        assert advertised == cluster.addresses


def addresses_of_all(client: AdminClient) -> dict[int, tuple[str, int]] | None:
    """Host and port of every broker in the metadata; None while one is missing."""
    brokers = asyncio.run(client.metadata()).brokers
    return {broker.node_id: (broker.host, broker.port) for broker in brokers} if len(brokers) == len(BROKERS) else None


def successor(cluster: ComposeCluster, epoch: int) -> dict[str, Any] | None:
    """The status of the cluster, once it has a controller of a later epoch."""
    status = cluster.status()
    return status if status["controller"] is not None and status["controller_epoch"] > epoch else None


def lists(topic: str) -> Callable[[StockClient], bool]:
    return lambda client: topic in client.topics()


def has_full_isr(topic: str, replicas: int) -> Callable[[StockClient], bool]:
    def predicate(client: StockClient) -> bool:
        isr = client.describe(topic).isr
        return len(isr) == PARTITIONS and all(len(brokers) == replicas for brokers in isr)

    return predicate


def records(cluster: ComposeCluster, kind: type[P]) -> list[tuple[str, P]]:
    """Node and data of every record of one type in the event logs, read on this machine."""
    return [
        (record.node, record.data) for record in read([cluster.run_folder]).records if isinstance(record.data, kind)
    ]
