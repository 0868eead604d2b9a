"""Reads values out of messages of Apache Kafka: Scala's collections, partitions and partition states."""

from __future__ import annotations

import re
from typing import Final

from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import Leadership

UNKNOWN: Final = -1
"""Value for an id, epoch or version that a log does not state."""

_NUMBER = re.compile(r"-?\d+")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_COLLECTION = re.compile(r"[A-Za-z]*\((?P<items>.*)\)", re.DOTALL)
_SIGNED = 1 << 63

# Until Kafka 3.4 the ISR is a list of ids; until 3.1 the partition epoch is called zkVersion.
LEADER_AND_ISR: Final = (
    r"LeaderAndIsr\(leader=(?P<leader>-?\d+), leaderEpoch=(?P<leader_epoch>\d+), "
    r"(?:isr=List\((?P<isr>[\d, ]*)\)|isrWithBrokerEpoch=List\((?P<isr_states>.*?)\))"
    r"(?:, leaderRecoveryState=(?P<recovery>\w+))?, (?:partitionEpoch|zkVersion)=(?P<partition_epoch>\d+)\)"
)
"""Regular expression for the text of a `LeaderAndIsr` in Kafka's logs."""

LEADER_ISR_AND_EPOCH: Final = (
    r"\(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[\d,]*)(?:,LeaderRecoveryState:(?P<recovery>\w+))?"
    r",LeaderEpoch:(?P<leader_epoch>\d+),(?:ZkVersion|PartitionEpoch):(?P<partition_epoch>\d+)"
    r",ControllerEpoch:(?P<controller_epoch>\d+)\)"
)
"""Regular expression for the text of a `LeaderIsrAndControllerEpoch` in Kafka's logs."""

ISR_AND_VERSION: Final = r"\[(?P<isr>[\d,]*)\] and zkVersion updated to \[(?P<partition_epoch>\d+)\]"
"""Regular expression for the ISR of a partition and the version of its znode in the logs of Kafka until 2.8."""

_BROKER_STATE = re.compile(r"brokerId=(\d+)")


def numbers(text: str) -> tuple[int, ...]:
    """Return all whole numbers of `1,2,3` or `Set(1, 2, 3)`."""
    return tuple(int(number) for number in _NUMBER.findall(text))


def names(text: str) -> tuple[str, ...]:
    """Return the names of `Set(orders, payments)`, sorted."""
    match = _COLLECTION.fullmatch(text)
    return tuple(sorted(_NAME.findall(match["items"]))) if match else ()


def topic_partition(text: str) -> TopicPartition | None:
    """Return the partition of `orders-0`; None if the text has another form."""
    topic, dash, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition)) if dash and partition.isdecimal() else None


def leadership(partition: TopicPartition, state: re.Match[str], controller_epoch: int) -> Leadership:
    """Return the state that `LEADER_AND_ISR` or `LEADER_ISR_AND_EPOCH` has matched."""
    groups = state.groupdict()
    isr = _BROKER_STATE.findall(groups["isr_states"]) if groups.get("isr_states") else _NUMBER.findall(groups["isr"])
    return Leadership(
        partition.topic,
        partition.partition,
        int(groups["leader"]),
        int(groups["leader_epoch"]),
        tuple(int(replica) for replica in isr),
        int(groups["partition_epoch"]),
        controller_epoch,
        int(groups.get("recovery") == "RECOVERING"),
    )


def isr_and_version(found: re.Match[str]) -> tuple[tuple[int, ...], int]:
    """Return the ISR and the partition epoch that `ISR_AND_VERSION` has matched."""
    return numbers(found["isr"]), int(found["partition_epoch"])


def session_id(hexadecimal: str) -> int:
    """Return a ZooKeeper session id, which is a signed number of 64 bits, from its hexadecimal digits."""
    number = int(hexadecimal, 16)
    return number - 2 * _SIGNED if number >= _SIGNED else number
