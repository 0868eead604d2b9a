"""The answers of a broker that coordinates no transactions.

Mirrors `kafka.coordinator.transaction.TransactionCoordinator` on a broker that coordinates no transactional id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from understudy.brokers.apis.services import BrokerServices
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition

NO_TRANSACTIONS = "Understudy coordinates no transactions yet: configure the client without a transactional id"
"""Sentence for a client that wants a transaction coordinator."""


def coordinator_error(transactional_id: str) -> Errors:
    """Return the error of a request to the coordinator of `transactional_id`."""
    return Errors.NOT_COORDINATOR if transactional_id else Errors.INVALID_REQUEST


def partition_errors(
    services: BrokerServices, partitions: Collection[TopicPartition], error: Errors
) -> Mapping[TopicPartition, Errors]:
    """Return `error` for each partition that exists, and UNKNOWN_TOPIC_OR_PARTITION for the others."""
    snapshot = services.metadata.snapshot
    return {
        at: error if snapshot.partition(*at) is not None else Errors.UNKNOWN_TOPIC_OR_PARTITION for at in partitions
    }
