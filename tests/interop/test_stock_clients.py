"""Stock clients report no error across a fault in our cluster that they do not report with Kafka's.

The script is from `tests/durability/test_clients_across_faults.py`. The errors of a client's records count, and errors
in its log that it retries. Which of several errors a client meets after one fault depends on the moment of
its request (whether the connection ends, the request times out, or the old leader answers that it leads no more), with
Kafka as with us. Our errors are therefore compared with all that the client reported with Kafka across the four faults,
each of which moves a leader or an ISR; every other error, for example of sequences or of epochs, fails the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.durability.across_faults import (
    FAULTS,
    client_errors,
    close_sockets_without_peer,
    produce_across,
)
from tests.durability.stock_clients import Variant
from tests.shares import at_night
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster

pytestmark = pytest.mark.xdist_group("stock clients")

CLIENTS = ("librdkafka", "kafka-python", "aiokafka")
VARIANTS = tuple(
    variant
    for client in CLIENTS
    for variant in (
        Variant(client, 1),
        Variant(client, -1),
        Variant(client, -1, is_idempotent=True, compression="gzip"),
    )
)
BROKERS = (1, 2, 3)
PROPERTIES = {"auto.leader.rebalance.enable": "false", **SMALL_BROKER}
SESSION_TIMEOUT_MS = 4_000
"""Longer than the clients wait for an answer, so that they time out while a dead follower is still in the ISR."""
PAUSE_S = 0.02
"""The time between two records of a producer. Kafka's brokers start again much later beside busier clients."""

ANY_TIME = {
    "librdkafka": {"Unknown topic or partition", "Coordinator load in progress", "Retry operation"},
    "kafka-python": {"UnknownTopicOrPartitionError"},
    "aiokafka": {"UnknownTopicOrPartitionError"},
}
"""Errors that Kafka's brokers give in one run and not in another: before a broker has received the metadata of a new
topic, and before it has its first block of producer ids. `Retry operation` is librdkafka's own word for a request that
it takes out of its queue when it begins to use another producer id."""

NOT_THE_LEADER = {
    "librdkafka": "Not leader for partition",
    "kafka-python": "NotLeaderForPartitionError",
    "aiokafka": "NotLeaderForPartitionError",
}
"""The error of a request that reaches a running broker just after its leadership has moved. On a busy machine the
shutdown of Kafka's leader takes so long that clients have new metadata before, and none of them sees it."""
OLD_LEADER_ANSWERS = ("shut the leader down", "pause the leader")
"""The faults after which the old leader runs and is asked, so that a client may meet `NOT_THE_LEADER`."""

Errors: TypeAlias = dict[str, dict[str, set[str]]]
"""By fault and client."""


@pytest.fixture(autouse=True)
def sockets() -> Iterator[None]:
    yield
    close_sockets_without_peer()


@at_night("tests/durability takes the same clients across the same faults, and judges what they have sent and read")
def test_stock_clients_report_no_error_that_they_do_not_report_with_kafka(kafka: ApacheKafka, tmp_path: Path) -> None:
    kafkas = errors_across_faults(tmp_path / "kafka", kafka)
    ours = errors_across_faults(tmp_path / "ours", None)
    for fault in FAULTS:
        for client in CLIENTS:
            print(f"{fault} / {client}: ours {sorted(ours[fault][client])}, Kafka's {sorted(kafkas[fault][client])}")
    with_kafka = {client: set[str]().union(*(kafkas[fault][client] for fault in FAULTS)) for client in CLIENTS}
    with_ours = {client: set[str]().union(*(ours[fault][client] for fault in FAULTS)) for client in CLIENTS}
    for client, error in NOT_THE_LEADER.items():
        assert error in with_kafka[client] | with_ours[client], "the errors of this client were not collected"
    more = {
        (fault, client): left
        for fault in FAULTS
        for client in CLIENTS
        if (left := ours[fault][client] - with_kafka[client] - allowed(fault, client))
    }
    assert more == {}


def allowed(fault: str, client: str) -> set[str]:
    """The errors that `client` may report after `fault` even if it reported none of them with Kafka in this run."""
    return ANY_TIME[client] | ({NOT_THE_LEADER[client]} if fault in OLD_LEADER_ANSWERS else set())


def errors_across_faults(directory: Path, kafka: ApacheKafka | None) -> Errors:
    """The errors that each client reports across each fault, in a cluster of Kafka's brokers or of ours."""
    found: Errors = {}
    with LocalCluster(
        len(BROKERS),
        kafka_brokers=None if kafka is None else dict.fromkeys(BROKERS, kafka),
        directory=directory,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        properties=PROPERTIES,
    ) as cluster:
        for fault in FAULTS:
            with client_errors() as errors:
                errors.add_failed(produce_across(cluster, fault, VARIANTS, PAUSE_S))
            found[fault] = errors.found
    return found
