"""Decides whether a record of an event log is the event that a step waits for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from understudy.checks.check import broker_of
from understudy.clusters.values import Trigger, parse_partition, parse_target
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import (
    AnswerInjected,
    BrokerRegistered,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    Envelope,
    FenceHit,
    LeadershipWritten,
    LogTruncated,
    PointReached,
    SessionExpiredRecord,
    ZkWrite,
)

_BY_A_BROKER: Mapping[str, type] = {
    "elected": ControllerElected,
    "ready": ControllerReady,
    "resigned": ControllerResigned,
    "registered": BrokerRegistered,
    "session-expired": SessionExpiredRecord,
    "truncated": LogTruncated,
    "answer-injected": AnswerInjected,
}

IdsOf = Callable[[str], Collection[int]]
"""Function that returns the brokers that an argument, such as a bound name, stands for now."""


class TriggerState:
    """Counts the events of one trigger.

    Leaders and ISRs are compared with earlier ones, so it needs every record from the beginning.
    """

    def __init__(self, trigger: Trigger, ids_of: IdsOf) -> None:
        self._trigger = trigger
        self._ids_of = ids_of
        self._before: object = None
        self.count = 0
        """Number of events of the trigger so far."""

    def matches(self, record: Envelope, excluded: Collection[int]) -> bool:
        """Return whether a record is an event of the trigger, by a broker that is not excluded, and count it."""
        found = broker_of(record) not in excluded and self._is_event(record)
        self.count += found
        return found

    def _is_event(self, record: Envelope) -> bool:
        event, arguments = self._trigger.event, self._trigger.arguments
        data = record.data
        if event in _BY_A_BROKER:
            return isinstance(data, _BY_A_BROKER[event]) and self._is_by(record, arguments[:1])
        if event == "fenced":
            return isinstance(data, FenceHit) and data.fence == arguments[0]
        if event == "point":
            return isinstance(data, PointReached) and data.point == arguments[1] and self._is_by(record, arguments[:1])
        if event == "zk-write":
            is_write = isinstance(data, ZkWrite) and _is_below(data, arguments[1:])
            return is_write and self._is_by(record, arguments[:1])
        if event == "record":
            return type(data).__name__ == arguments[0] and self._is_by(record, arguments[1:])
        if isinstance(data, LeadershipWritten):
            return self._has_changed(data, parse_partition(arguments[0]))
        return False

    def _has_changed(self, written: LeadershipWritten, partition: TopicPartition) -> bool:
        """Whether the leader, or the ISR, of a partition differs from the one written before."""
        for each in written.partitions:
            if (each.topic, each.partition) == tuple(partition):
                now: object = each.leader if self._trigger.event == "leader-changed" else frozenset(each.isr)
                before, self._before = self._before, now
                return before is None or before != now
        return False

    def _is_by(self, record: Envelope, names: Collection[str]) -> bool:
        return all(broker_of(record) in self._ids_of(name) for name in names)


def _is_below(write: ZkWrite, prefixes: Collection[str]) -> bool:
    """Whether a write changes a znode below the prefix; True without a prefix."""
    return all(any(path.startswith(prefix) for path in write.paths) for prefix in prefixes)


def ids_of_argument(argument: str, bound: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The brokers of a trigger's argument: a bound name, which may not be bound yet, or a broker's id."""
    target = parse_target(argument)
    return bound.get(target.name, ()) if target.role == "bound" else (target.broker_id,)
