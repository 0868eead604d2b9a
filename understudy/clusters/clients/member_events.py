"""The events of a member of a group, as values for a history that a check can judge.

Times are monotonic milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from understudy.clusters.clients.member_states import MemberMoved
from understudy.clusters.clients.producer import DeliveryOutcome
from understudy.foundation.cluster.identifiers import TopicPartition


class JoinBegan(NamedTuple):
    """A member has begun to join its group, or to join it again."""

    at_ms: float


class JoinEnded(NamedTuple):
    """A member has an assignment, or has given up after `reason`.

    Attributes:
        reason: empty if it has an assignment.
    """

    at_ms: float
    reason: str = ""


class Assigned(NamedTuple):
    """A member has its assignment of a generation; it owns these partitions and no others."""

    at_ms: float
    generation: int
    member_id: str
    leader: str
    partitions: tuple[TopicPartition, ...]


class Released(NamedTuple):
    """A member owns nothing any more: it gives up what it has to join again, was removed, or leaves."""

    at_ms: float


class CommitEnded(NamedTuple):
    """A commit of offsets has ended.

    Attributes:
        generation: the generation in which it was sent.
    """

    began_ms: float
    at_ms: float
    generation: int
    member_id: str
    offsets: Mapping[TopicPartition, int]
    outcomes: Mapping[TopicPartition, DeliveryOutcome]


class OffsetsFetched(NamedTuple):
    """The coordinator has answered with committed offsets; −1 for a partition without one.

    Attributes:
        coordinator: the id of the broker that has answered.
    """

    began_ms: float
    at_ms: float
    offsets: Mapping[TopicPartition, int]
    coordinator: int


MemberEvent: TypeAlias = MemberMoved | JoinBegan | JoinEnded | Assigned | Released | CommitEnded | OffsetsFetched
