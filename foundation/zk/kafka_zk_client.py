"""`KafkaZkClient`: speaks brokers, topics and partitions, not paths. Mirrors its Kafka namesake.

Every write of the controller's state goes out in transactions that check `/controller_epoch` at the version of this
controller's election; there is no other way to write (EL-13). Many states share one transaction (decision D15). A lost
answer is looked into, never guessed: reads are repeated, a conditional write that conflicts after an UNKNOWN is compared
with what was meant and adopted if it is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.broker import Broker, BrokerAndEpoch
from foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from foundation.eventlog.fences import Fences
from foundation.eventlog.log import EventLog
from foundation.zk.client import Failure, ZooKeeperClient


class ControllerMoved(Exception):
    """Another broker is controller now: the epoch check of a write failed, or the election was lost."""


class SessionLost(Exception):
    """The session under this client has expired; nothing it does will ever succeed again."""


class ZooKeeperFailure(Exception):
    """ZooKeeper refused something that must not fail here. The message names path and reason."""

    def __init__(self, failure: Failure, what: str) -> None:
        super().__init__(f"{what}: {failure.value}")
        self.failure = failure


class Elected(NamedTuple):
    epoch: int
    epoch_zk_version: int


class TopicAssignment(NamedTuple):
    topic_id: TopicId | None
    partitions: dict[TopicPartition, ReplicaAssignment]


class UpdateLeaderAndIsrResult(NamedTuple):
    """`finished`: what ZooKeeper now holds (with its new partition epoch), or why not; `conflicts`: changed under us."""

    finished: dict[TopicPartition, LeaderAndIsr | Failure]
    conflicts: tuple[TopicPartition, ...]


class KafkaZkClient:
    """The store, over one session; a new session gets a new one.

    All methods raise `SessionLost` once the session has expired. Methods that take `epoch_zk_version` are fenced and raise
    `ControllerMoved` when that is no longer the version of `/controller_epoch`. `watch=True` arms the watch that Kafka's
    handler of the same name would.
    """

    def __init__(self, client: ZooKeeperClient, *, events: EventLog, fences: Fences) -> None: ...

    @property
    def session_id(self) -> int: ...

    async def close(self) -> None: ...

    # -- at the start of a broker (ZN-1, BR-1 … BR-3)
    async def create_top_level_paths(self) -> None: ...
    async def create_or_get_cluster_id(self, proposed: str) -> str: ...
    async def generate_broker_id(self, reserved_max_id: int) -> BrokerId: ...
    async def register_broker(self, broker: Broker, *, timestamp_ms: int, previous_session_id: int | None) -> int:
        """BR-3. Returns the broker epoch. Raises ZooKeeperFailure(NODE_EXISTS) where another owns the id."""

    # -- the controller election (EL-1 … EL-10)
    async def controller_id(self, *, watch: bool = False) -> BrokerId | None:
        """Who is registered as controller. `watch` uses exists, so that a watch stays on an absent znode."""

    async def register_controller_and_increment_epoch(self, broker_id: BrokerId, *, timestamp_ms: int) -> Elected:
        """EL-3, EL-4, EL-6. Raises ControllerMoved where another won."""

    async def delete_controller(self, epoch_zk_version: int) -> None: ...

    # -- brokers
    async def brokers(self, *, watch: bool = False) -> dict[BrokerId, BrokerAndEpoch]:
        """All registered brokers in order of id; one that vanishes between list and read is left out."""

    async def broker(self, broker_id: BrokerId, *, watch: bool = False) -> BrokerAndEpoch | None: ...
    async def watch_brokers(self, broker_ids: Iterable[BrokerId]) -> None:
        """Arm the data watch of each registration (Kafka's BrokerModificationsHandler)."""

    # -- topics
    async def topics(self, *, watch: bool = False) -> tuple[str, ...]: ...
    async def topic_exists(self, topic: str) -> bool: ...
    async def topic_assignments(self, topics: Sequence[str], *, watch: bool = False) -> dict[str, TopicAssignment]:
        """Topics that do not exist are left out."""

    async def set_topic_ids(self, topic_ids: Mapping[str, TopicId], epoch_zk_version: int) -> None:
        """FO-5c: rewrite the nodes as version 3 with these ids."""

    async def set_topic_assignment(
        self,
        topic: str,
        topic_id: TopicId | None,
        assignment: Mapping[TopicPartition, ReplicaAssignment],
        epoch_zk_version: int,
    ) -> None: ...
    async def create_topic(
        self, topic: str, topic_id: TopicId | None, assignment: Mapping[int, ReplicaAssignment]
    ) -> Failure | None:
        """Unfenced (TC-6). NODE_EXISTS where it exists."""

    async def add_partitions(
        self, topic: str, topic_id: TopicId | None, assignment: Mapping[TopicPartition, ReplicaAssignment]
    ) -> None:
        """Unfenced rewrite of the whole node (TP-2)."""

    # -- partition states
    async def partition_states(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch | Failure]:
        """Failure where there is none or it cannot be decoded (BAD_ARGUMENTS)."""

    async def create_partition_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr], controller_epoch: int, epoch_zk_version: int
    ) -> dict[TopicPartition, LeaderAndIsr | Failure]:
        """PSM-5: `/partitions`, `/partitions/P` and `state`, fenced; what cannot be created fails alone."""

    async def update_leader_and_isr(
        self, states: Mapping[TopicPartition, LeaderAndIsr], controller_epoch: int, epoch_zk_version: int
    ) -> UpdateLeaderAndIsrResult:
        """Set each state expecting its `partition_epoch`; batched and pipelined; a conflict fails alone (D15)."""

    # -- configs
    async def entity_config(self, entity_type: str, name: str) -> dict[str, str]: ...
    async def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]: ...
    async def set_entity_config(self, entity_type: str, name: str, config: Mapping[str, str]) -> None:
        """ZN-9. Raises ControllerMoved where `/controller` is absent or changes underneath."""

    # -- administration
    async def topic_deletions(self, *, watch: bool = False) -> tuple[str, ...]: ...
    async def delete_topic_deletions(self, topics: Sequence[str], epoch_zk_version: int) -> None: ...
    async def preferred_replica_election(self, *, watch: bool = False) -> tuple[TopicPartition, ...] | None:
        """The partitions asked for, or None where there is no such znode; `watch` uses exists."""

    async def delete_preferred_replica_election(self, epoch_zk_version: int) -> None: ...
    async def watch_reassign_partitions(self) -> bool:
        """Arm the watch of `/admin/reassign_partitions`; whether it exists."""

    async def delete_log_dir_event_notifications(self, epoch_zk_version: int) -> None:
        """FO-4: list (arming the child watch) and delete all."""

    async def delete_isr_change_notifications(self, epoch_zk_version: int) -> None: ...

    # -- features
    async def ensure_feature_node(self) -> None:
        """FO-1 for IBP 3.9: create `/feature` version 2 status 1, or enable it as it is."""
