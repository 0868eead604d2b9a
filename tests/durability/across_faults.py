"""The script of stock clients that produce while a fault is injected into a cluster, and the errors they report."""

from __future__ import annotations

import gc
import logging
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # as its documentation does

from tests.durability.stock_clients import LIBRDKAFKA, PAUSE_S, Journal, Variant
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.local_cluster import LocalCluster

FAULTS = ("kill the controller", "kill the leader", "shut the leader down", "pause the leader")
ACKNOWLEDGED_BEFORE, ACKNOWLEDGED_AFTER = 50, 50
TIMEOUT_S = 60.0


def produce_across(
    cluster: LocalCluster, fault: str, variants: Sequence[Variant], pause_s: float = PAUSE_S
) -> list[Journal]:
    """Produce with all variants at the same time, inject a fault and recover from it; what each has sent.

    Each produces to a topic of its own before the fault, during it, and until the cluster has settled again.
    """
    journals: list[Journal] = []
    try:
        topics = [f"{variant}-{FAULTS.index(fault)}" for variant in variants]
        create_topics(cluster, topics)
        for variant, topic in zip(variants, topics, strict=True):
            journals.append(Journal(cluster.bootstrap, variant, topic, pause_s))
            journals[-1].start()
        wait_for(cluster, journals, ACKNOWLEDGED_BEFORE)
        victim = cluster.controller() if fault.endswith("controller") else cluster.leader(journals[0].topic, 0)
        inject(fault, victim)
        if fault.startswith("pause"):
            cluster.wait_until(lambda: victim.id not in cluster.view.brokers(), "the session has expired", TIMEOUT_S)
        wait_for(cluster, journals, ACKNOWLEDGED_AFTER)
        recover(fault, victim)
        cluster.settle(timeout_s=TIMEOUT_S)
    finally:
        for journal in journals:
            journal.stop()
    cluster.check()
    return journals


def create_topics(cluster: LocalCluster, names: list[str]) -> None:
    """Create topics that a broker leads which is not the controller, so that the faults differ."""
    others = [broker.id for broker in cluster.brokers if broker.id != cluster.controller().id]
    replicas = [others[0], others[1], cluster.controller().id]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topics = [NewTopic(name, 1, replica_assignment=[replicas], config={"min.insync.replicas": "2"}) for name in names]
    for created in admin.create_topics(topics).values():
        created.result(30)
    cluster.settle()


def wait_for(cluster: LocalCluster, journals: list[Journal], count: int) -> None:
    """Wait until every producer has `count` more acknowledged records."""
    goals = [len(journal.acknowledged) + count for journal in journals]
    cluster.wait_until(
        lambda: all(len(journal.acknowledged) >= goal for journal, goal in zip(journals, goals, strict=True)),
        f"every producer has {count} more acknowledged records",
        TIMEOUT_S,
    )


def inject(fault: str, victim: LocalBroker) -> None:
    match fault.split()[0]:
        case "kill":
            victim.kill()
        case "pause":
            victim.pause()
        case _:
            victim.stop()


def recover(fault: str, victim: LocalBroker) -> None:
    if fault.startswith("pause"):
        victim.resume()
    else:
        victim.start()


class ClientErrors(logging.Handler):
    """Collects, by client, the names of the errors in the logs of the stock clients, also of those that they retry."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, set[str]] = {client: set() for client in LOGGERS.values()}

    def emit(self, record: logging.LogRecord) -> None:
        # At DEBUG librdkafka writes every request; the errors that brokers answer to Produce are among them.
        if record.levelno >= logging.WARNING or _REFUSED in record.getMessage():
            self.found[LOGGERS[record.name.partition(".")[0]]] |= errors_named(record.getMessage())

    def add_failed(self, journals: Sequence[Journal]) -> None:
        """Add the errors of the records that were not acknowledged."""
        for journal in journals:
            self.found[journal.variant.client] |= errors_named(" ".join(journal.failed))


LOGGERS = {"kafka": "kafka-python", "aiokafka": "aiokafka", LIBRDKAFKA: LIBRDKAFKA}
"""The client of each logger."""

_REFUSED = "encountered error: "
_NAMES = re.compile(r"\b(\w+Error)\b|\b(?:Broker|Local): ([A-Z][a-z ]+[a-z])|(?<!\w)(_[A-Z][A-Z_]+)\b")
"""The classes of the Python clients; librdkafka's descriptions, and its names for errors of its own."""

_SAME = {
    "NodeNotReadyError": "KafkaConnectionError",
    "Broker transport failure": "_TRANSPORT",
    "_ALL_BROKERS_DOWN": "_TRANSPORT",
    "KafkaTimeoutError": "RequestTimedOutError",
    "Timed out": "_TIMED_OUT",
    "Request timed out": "_TIMED_OUT",
}
"""What a client calls differently from one moment to the next: a connection that is refused, reset or not yet open;
and a timeout, of which the client's and the broker's end at the same time."""


def errors_named(message: str) -> set[str]:
    """The errors that a client's log message names."""
    names = (next(filter(None, found)) for found in _NAMES.findall(message))
    return {_SAME.get(name, name) for name in names}


@contextmanager
def client_errors() -> Iterator[ClientErrors]:
    """Collect the errors that clients write into their logs meanwhile."""
    handler = ClientErrors()
    before = {name: logging.getLogger(name).level for name in LOGGERS}
    for name in LOGGERS:
        logging.getLogger(name).addHandler(handler)
    logging.getLogger(LIBRDKAFKA).setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        for name, level in before.items():
            logging.getLogger(name).removeHandler(handler)
            logging.getLogger(name).setLevel(level)


def close_sockets_without_peer() -> None:
    """Close the sockets that kafka-python leaves open if a connection is refused; they have no peer."""
    for found in gc.get_objects():
        # Not `isinstance`: it asks a weak proxy for its class, which raises if the object is gone.
        if issubclass(type(found), socket.socket):
            close_without_peer(found)


def close_without_peer(found: socket.socket) -> None:
    """Close a stream socket that neither listens nor is connected."""
    try:
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if found.type == socket.SOCK_STREAM and not listens:
            found.getpeername()
    except OSError:
        found.close()
