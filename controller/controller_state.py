"""`ControllerState`: the kind of the event in progress, and its number in the metric. Mirrors its Kafka namesake."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class ControllerState(IntEnum):
    """The kind of an event (MT-1). The member's name, without underscores, is Kafka's and part of its timer's name."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    CONTROLLER_SHUTDOWN = 12
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_METADATA_RESPONSE_RECEIVED = 16
    UPDATE_FEATURES = 17

    @property
    def label(self) -> str:
        """The name as Kafka writes it: `BrokerChange`."""
        return self.name.title().replace("_", "")

    @property
    def timer(self) -> str | None:
        """The name of the timer of these events (MT-2). Two are older than the states, and two states have none."""
        if self in (ControllerState.IDLE, ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED):
            return None
        return f"{_OLDER_NAMES.get(self, self.label)}RateAndTimeMs"


_OLDER_NAMES: Mapping[ControllerState, str] = {
    ControllerState.BROKER_CHANGE: "LeaderElection",
    ControllerState.ALTER_PARTITION_REASSIGNMENT: "PartitionReassignment",
}
