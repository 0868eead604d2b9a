"""The actions that a step may have: faults, the ends of faults, and the requests of clients and operators.

An action is a value; actions with the same attributes share a class. `action_table` has their names, and how they are
written.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from understudy.clusters.answers import armed_answer
from understudy.clusters.request_rules import Direction
from understudy.clusters.values import CountRange, Span, Target
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.armed_answers import ArmedAnswer

AT_ONCE: Final = Span(0, 0)


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """An action on each of some brokers.

    Attributes:
        name: a key of `action_table.ACTIONS`.
        brokers: the brokers that it acts on.
        peers: further brokers that it names, for example the other side of a link.
        lasts: how long it lasts; None if it lasts to the end of the experiment, or has no duration. An attribute of
            other actions is also None if the step does not have its key.
        VALUE: the attribute that holds the value of the action's key.
    """

    VALUE: ClassVar[str] = "brokers"

    name: str
    brokers: tuple[Target, ...] = ()
    peers: tuple[Target, ...] = ()
    lasts: Span | None = None

    @property
    def lasts_ms(self) -> float:
        """The milliseconds that it lasts. Its step must have the key `for`."""
        assert self.lasts is not None, f"{self.name} needs the key `for`"
        return self.lasts.ms


class OnOneBroker(Action, frozen=True, kw_only=True):
    """An action on one broker."""


class OnZooKeeper(Action, frozen=True, kw_only=True):
    """An action on servers of ZooKeeper; `by` is how much longer they take to answer."""

    VALUE = "server"

    server: Target
    by: Span = AT_ONCE


class Repeated(Action, frozen=True, kw_only=True):
    """An action that is repeated."""

    every: Span | None = None


class Rated(Action, frozen=True, kw_only=True):
    """An action that lets a clock or a process run at a percentage of its speed."""

    percent: int


class Counted(Action, frozen=True, kw_only=True):
    """An action with a number of bytes, files or connections."""

    count: int | None = None


class DiskFault(Action, frozen=True, kw_only=True):
    """An action that lets operations of a disk fail or take longer."""

    by: Span = AT_ONCE


class StepClock(Action, frozen=True, kw_only=True):
    """A shift of the wall clock by milliseconds."""

    by: float


class Links(Action, frozen=True, kw_only=True):
    """An action on the links with other brokers. Its name decides which of `by` and `bytes` counts."""

    direction: Direction | None = None
    by: Span = AT_ONCE
    bytes: int = 0


class RequestFault(Action, frozen=True, kw_only=True):
    """An action on the next request to other brokers, of one kind or of any."""

    api: str | None = None
    by: Span = AT_ONCE
    count: int | None = None


class LoseAnswer(Action, frozen=True, kw_only=True):
    """The loss of ZooKeeper's answer to a write."""

    path: str
    applied: bool | None = None


class ArmPoint(Action, frozen=True, kw_only=True):
    """A fault at a named point."""

    point: str
    point_action: str


class Answer(Action, frozen=True, kw_only=True):
    """An error, or a throttle time, in the answers to the next requests of one kind."""

    api: str
    error: str = Errors.NONE.name
    times: int = 1
    topic: str | None = None
    partition: int | None = None
    client: str | None = None
    then: str | None = None
    throttle_ms: int | None = None

    def armed(self) -> ArmedAnswer:
        """Return the answer to arm. Raises BadValue if its values do not fit."""
        return armed_answer(
            self.api,
            self.error,
            times=self.times,
            topic=self.topic or "",
            partition=self.partition,
            client_id=self.client or "",
            then=self.then,
            throttle_ms=self.throttle_ms or 0,
        )


class OnZnode(Action, frozen=True, kw_only=True):
    """An action of an operator on a znode."""

    VALUE = "path"

    path: str
    data: str | None = None


class OnTopic(Action, frozen=True, kw_only=True):
    """An action of a client on a topic."""

    VALUE = "topic"

    topic: str
    partitions: int | None = None
    replicas: int | None = None


class OnPartition(Action, frozen=True, kw_only=True):
    """An action of a client on a partition."""

    VALUE = "partition"

    partition: TopicPartition
    count: CountRange | None = None
    acks: str | None = None


class JoinMembers(Action, frozen=True, kw_only=True):
    """More members for the group."""

    VALUE = "members"

    members: int


class Settle(Action, frozen=True, kw_only=True):
    """A wait until the cluster has settled."""

    VALUE = "at_most"

    at_most: Span
