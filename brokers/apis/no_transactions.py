"""The answers of a broker that coordinates no transactions.

Mirrors `kafka.coordinator.transaction.TransactionCoordinator` on a broker that coordinates no transactional id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from understudy.brokers.apis.services import BrokerServices
from understudy.brokers.coordinator.coordinators import partition_for
from understudy.brokers.metadata.topic_names import TRANSACTION_STATE_TOPIC
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition

NO_TRANSACTIONS = "Understudy coordinates no transactions yet: configure the client without a transactional id"
"""Sentence for a client that wants a transaction coordinator."""


def coordinator_error(transactional_id: str) -> Errors:
    """Return the error of a request to the coordinator of `transactional_id`."""
    return Errors.NOT_COORDINATOR if transactional_id else Errors.INVALID_REQUEST


def is_coordinated_elsewhere(services: BrokerServices, transactional_id: str) -> bool:
    """Return whether another broker, one of Kafka's, coordinates the transactional id, or will after an election."""
    partition = partition_for(transactional_id, services.coordinator_partitions[TRANSACTION_STATE_TOPIC])
    state = services.metadata.snapshot.partition(TRANSACTION_STATE_TOPIC, partition)
    return state is not None and state.leader != services.broker_id


def partition_errors(
    services: BrokerServices, partitions: Collection[TopicPartition], error: Errors
) -> Mapping[TopicPartition, Errors]:
    """Return `error` for each partition that exists, and UNKNOWN_TOPIC_OR_PARTITION for the others."""
    snapshot = services.metadata.snapshot
    return {
        at: error if snapshot.partition(*at) is not None else Errors.UNKNOWN_TOPIC_OR_PARTITION for at in partitions
    }
