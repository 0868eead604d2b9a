"""Checks a topic that is to be created: its name, collisions and assignment. Mirrors `AdminZkClient`; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from understudy.brokers.metadata.topic_names import collisions, has_collision_characters, why_invalid
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.cluster.scala import scala_buffer


def validate_topic_create(name: str, assignment: Mapping[int, tuple[BrokerId, ...]], existing: Collection[str]) -> None:
    """Raise ApiError for the first check that fails (TC-4, TC-5).

    Args:
        existing: the topics in ZooKeeper; for a name without `.` and `_`, the topic of the same name is enough.
    """
    invalid = why_invalid(name)
    if invalid is not None:
        raise ApiError(Errors.INVALID_TOPIC_EXCEPTION, invalid)
    if name in existing:
        raise ApiError(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    colliding = collisions(name, existing) if has_collision_characters(name) else ()
    if colliding:
        raise ApiError(
            Errors.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topics: {', '.join(colliding)}"
        )
    _check_assignment(assignment)


def _check_assignment(assignment: Mapping[int, tuple[BrokerId, ...]]) -> None:
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise ApiError(Errors.INVALID_REPLICA_ASSIGNMENT, "All partitions should have the same number of replicas")
    for partition, replicas in assignment.items():
        if not replicas:  # Kafka writes such a topic; it can never have a leader
            raise ApiError(
                Errors.INVALID_REPLICA_ASSIGNMENT, f"Cannot have replication factor of 0 for partition id {partition}."
            )
        if len(set(replicas)) < len(replicas):
            shown = ", ".join(f"{index} -> {scala_buffer(brokers)}" for index, brokers in sorted(assignment.items()))
            raise ApiError(Errors.INVALID_REPLICA_ASSIGNMENT, f"Duplicate replica assignment found: HashMap({shown})")
    if sorted(assignment) != list(range(len(assignment))):
        raise ApiError(Errors.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
