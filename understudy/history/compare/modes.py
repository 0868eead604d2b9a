"""Says which record ends each quantity in each mode of a cluster, and which quantities a mode does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from understudy.history.metrics.settings import KAFKA_KRAFT, KAFKA_ZK, UNDERSTUDY

CLOCKS: Final[Mapping[str, str]] = {
    UNDERSTUDY: "records of the brokers: the machine's monotonic clock, to the microsecond",
    KAFKA_ZK: "lines of Kafka's logs and ZooKeeper's transactions: wall clocks, to the millisecond",
    KAFKA_KRAFT: "batches of __cluster_metadata and lines of the nodes: wall clocks, to the millisecond",
}
"""The records of each mode, their clock and its resolution."""

MEASURED: Final[Mapping[str, Mapping[str, str]]] = {
    "detection": {
        UNDERSTUDY: "until a broker's watch of /controller fires",
        KAFKA_ZK: "until ZooKeeper's transaction that deletes /controller",
        KAFKA_KRAFT: "until another voter logs that it seeks election",
    },
    "election": {
        UNDERSTUDY: "until the winner has ZooKeeper's answer",
        KAFKA_ZK: "until ZooKeeper's transaction that creates /controller",
        KAFKA_KRAFT: "until the LeaderChange of the new epoch, votes without a winner included",
    },
    "takeover": {
        UNDERSTUDY: "until every request of the takeover is in its channel",
        KAFKA_ZK: "until the line “Ready to serve as the new controller”",
        KAFKA_KRAFT: "until the line “Becoming the active controller”, else the first batch",
    },
    "reading": {
        UNDERSTUDY: "until the znodes of brokers, topics and partitions are read",
        KAFKA_ZK: "until the last line about the brokers and topics that were read",
    },
    "propagation": {
        UNDERSTUDY: "until the last answer to a request of the takeover",
        KAFKA_ZK: "until the last line of a receiver about such a request",
    },
    "leaderless": {
        UNDERSTUDY: "until ZooKeeper's answer to the write of a state with a live leader",
        KAFKA_ZK: "until ZooKeeper's transaction with a state with a live leader",
        KAFKA_KRAFT: "until the batch with a state with a live leader, after the broker is fenced",
    },
}
"""The end of each quantity in each mode. A mode that a quantity lacks has no such thing."""

LACKING: Final[Mapping[tuple[str, str], str]] = {
    ("reading", KAFKA_KRAFT): "a voter has the metadata in memory, and reads nothing when it becomes controller",
    ("propagation", KAFKA_KRAFT): "a controller sends no requests; brokers fetch the metadata log",
}
"""The reason why a mode does not have a quantity, by both."""

NOT_COMPARABLE: Final = (
    "Times of computation do not compare: ours is Python, Kafka's JVMs have just started.",
    "Each failover begins with the injected fault, which is dated before it takes effect.",
    "Kafka's defaults are 18 s with ZooKeeper; in KRaft 2 s for a controller, 9 s for a broker.",
)
"""What one has to bear in mind when modes are compared, as sentences."""


def phases_of(mode: str, phases: tuple[str, ...]) -> tuple[str, ...]:
    """Return the quantities among `phases` that a mode has."""
    return tuple(phase for phase in phases if (phase, mode) not in LACKING)


def notes(quantity: str, modes: tuple[str, ...]) -> list[str]:
    """Return why groups of some modes have no value of a quantity, one sentence for each mode that has none."""
    return [f"{mode}: {LACKING[quantity, mode]}" for mode in modes if (quantity, mode) in LACKING]
