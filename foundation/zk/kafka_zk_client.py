"""`KafkaZkClient`: speaks brokers, topics and partitions, not paths. Mirrors its Kafka namesake.

Every write of the controller's state goes out in transactions that check `/controller_epoch` at the version of this
controller's election; there is no other way to write (EL-13). Many states share one transaction (decision D15). A lost
answer is looked into, never guessed: reads are repeated, a conditional write that conflicts after an UNKNOWN is
compared with what was meant and adopted if it is there (`transactions`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import structlog

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.broker import Broker, BrokerAndEpoch
from foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from foundation.eventlog.fences import Fences
from foundation.eventlog.log import EventLog
from foundation.zk.admin_znodes import (
    PERSISTENT_PATHS,
    ClusterIdZNode,
    ConfigEntityZNode,
    DeleteTopicsTopicZNode,
    DeleteTopicsZNode,
    Features,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ProducerIdBlock,
    ReassignPartitionsZNode,
)
from foundation.zk.client import (
    MATCH_ANY_VERSION,
    Create,
    Delete,
    Failure,
    Node,
    OpResult,
    SetData,
    Updated,
    ZooKeeperClient,
)
from foundation.zk.cluster_znodes import FeatureNode as FeatureNode
from foundation.zk.cluster_znodes import LatestProducerIdBlock as LatestProducerIdBlock
from foundation.zk.cluster_znodes import (
    read_features,
    read_producer_id_block,
    write_features,
    write_producer_id_block,
)
from foundation.zk.entity_configs import EntityConfigs
from foundation.zk.isr_changes import IsrChanges
from foundation.zk.partition_states import Heard, create_partition_states, read_partition_states, update_leader_and_isr
from foundation.zk.registrations import Elected as Elected
from foundation.zk.registrations import delete_left_over_controller, register_broker, register_controller
from foundation.zk.topic_removal import delete_topics
from foundation.zk.topic_rewrites import TopicRewrites
from foundation.zk.transactions import MAX_ROUNDS, Fenced, Transactions, tolerate
from foundation.zk.transactions import ControllerMoved as ControllerMoved
from foundation.zk.transactions import SessionLost as SessionLost
from foundation.zk.transactions import ZooKeeperFailure as ZooKeeperFailure
from foundation.zk.znodes import (
    BrokerIdsZNode,
    BrokerIdZNode,
    BrokerSequenceIdZNode,
    ControllerZNode,
    MalformedZNode,
    TopicPartitionsZNode,
    TopicsZNode,
    TopicZNode,
)
from foundation.zk.znodes import TopicAssignment as TopicAssignment

_log = structlog.get_logger(__name__)


class KafkaZkClient:
    """The store, over one session; a new session gets a new one.

    All methods raise `SessionLost` once the session has expired, `ZooKeeperFailure` where ZooKeeper refuses what must
    not fail or answers keep being lost, and `MalformedZNode` where a znode that cannot be done without does not hold
    what it should. Methods that take `epoch_zk_version` are fenced and raise `ControllerMoved` when that is no longer
    the version of `/controller_epoch`. `watch=True` arms the watch that Kafka's handler of the same name would.
    """

    def __init__(self, client: ZooKeeperClient, *, events: EventLog, fences: Fences) -> None:
        self._client = client
        self._transactions = Transactions(client, events=events, fences=fences)
        self.configs = EntityConfigs(self._transactions)
        self.isr_changes = IsrChanges(self._transactions)
        self._topics = TopicRewrites(self._transactions)

    @property
    def session_id(self) -> int:
        return self._client.session_id

    async def close(self) -> None:
        await self._client.close()

    # -- at the start of a broker (ZN-1, BR-1 … BR-3)

    async def create_top_level_paths(self) -> None:
        present = await self._transactions.get_many(PERSISTENT_PATHS)
        for path, node in zip(PERSISTENT_PATHS, present, strict=True):
            if isinstance(node, Failure):
                tolerate(
                    await self._transactions.create_recursive(path, None, "top-level-paths"), path, Failure.NODE_EXISTS
                )

    async def create_or_get_cluster_id(self, proposed: str) -> str:
        node = await self._transactions.get(ClusterIdZNode.path)
        if node is None:
            data = ClusterIdZNode.encode(proposed)
            refused = await self._transactions.create_recursive(ClusterIdZNode.path, data, "cluster-id")
            if refused is None:
                return proposed
            tolerate(refused, ClusterIdZNode.path, Failure.NODE_EXISTS)
            node = await self._transactions.must_get(ClusterIdZNode.path)
        return ClusterIdZNode.decode(node.data)

    async def generate_broker_id(self, reserved_max_id: int) -> BrokerId:
        """The next id above `reserved_max_id`. An id whose answer was lost is skipped."""
        path = BrokerSequenceIdZNode.path
        for _ in range(MAX_ROUNDS):
            match await self._transactions.write(SetData(path, b""), "broker-id"):
                case Updated(stat):
                    return BrokerId(reserved_max_id + stat.version)
                case Failure.NO_NODE:
                    refused = await self._transactions.create_recursive(path, None, "broker-id")
                    tolerate(refused, path, Failure.NODE_EXISTS)
                case other:
                    tolerate(other, path)
        raise ZooKeeperFailure(Failure.NO_NODE, path)

    async def register_broker(
        self,
        broker: Broker,
        *,
        timestamp_ms: int,
        previous_session_id: int | None,
        znode_version: int = BrokerIdZNode.VERSION,
    ) -> int:
        """BR-3. Returns the broker epoch. Raises ZooKeeperFailure(NODE_EXISTS) where another owns the id.

        Args:
            previous_session_id: the session of this process's last registration.
            znode_version: how it is written (ZN-4).
        """
        return await register_broker(self._transactions, broker, timestamp_ms, previous_session_id, znode_version)

    async def update_broker(
        self, broker: Broker, *, timestamp_ms: int, znode_version: int = BrokerIdZNode.VERSION
    ) -> None:
        """BR-5: rewrite a registration of this session at any version."""
        path = BrokerIdZNode.path(broker.id)
        data = BrokerIdZNode.encode(broker, timestamp_ms=timestamp_ms, version=znode_version)
        tolerate(await self._transactions.write(SetData(path, data), "registration"), path)

    # -- the controller election (EL-1 … EL-10)

    async def controller_id(self, *, watch: bool = False) -> BrokerId | None:
        """Who is registered as controller. `watch` uses exists, so that a watch stays on an absent znode."""
        if watch and await self._transactions.exists(ControllerZNode.path, watch=True) is None:
            return None
        node = await self._transactions.get(ControllerZNode.path)
        return None if node is None else ControllerZNode.decode(node.data).broker_id

    async def register_controller_and_increment_epoch(self, broker_id: BrokerId, *, timestamp_ms: int) -> Elected:
        """EL-3, EL-4, EL-6. Raises ControllerMoved where another won."""
        return await register_controller(self._transactions, broker_id, timestamp_ms)

    async def delete_controller(self, epoch_zk_version: int) -> None:
        await self._delete_fenced([ControllerZNode.path], "resignation", epoch_zk_version)

    async def delete_left_over_controller(self) -> None:
        """Delete a `/controller` of this session that has no term any more; fenced by the epoch as it is now."""
        await delete_left_over_controller(self._transactions)

    # -- brokers

    async def brokers(self, *, watch: bool = False) -> dict[BrokerId, BrokerAndEpoch]:
        """All registered brokers in order of id; one that vanishes between list and read is left out, and so is a name
        that is no broker's: it would end every takeover.

        Raises:
            MalformedZNode: a registration cannot be read.
        """
        listed = await self._transactions.children(BrokerIdsZNode.path, watch=watch)
        names = listed.names if listed else ()
        if strangers := sorted(name for name in names if not name.isdecimal()):
            _log.error("not a broker id", names=strangers, path=BrokerIdsZNode.path)
        broker_ids = sorted(BrokerId(int(name)) for name in names if name.isdecimal())
        nodes = await self._transactions.get_many([BrokerIdZNode.path(broker_id) for broker_id in broker_ids])
        return {
            broker_id: BrokerAndEpoch(BrokerIdZNode.decode(broker_id, node.data), node.stat.czxid)
            for broker_id, node in zip(broker_ids, nodes, strict=True)
            if not isinstance(node, Failure)
        }

    async def broker(self, broker_id: BrokerId, *, watch: bool = False) -> BrokerAndEpoch | None:
        node = await self._transactions.get(BrokerIdZNode.path(broker_id), watch=watch)
        return None if node is None else BrokerAndEpoch(BrokerIdZNode.decode(broker_id, node.data), node.stat.czxid)

    async def watch_brokers(self, broker_ids: Iterable[BrokerId]) -> None:
        """Arm the data watch of each registration (Kafka's BrokerModificationsHandler)."""
        paths = [BrokerIdZNode.path(broker_id) for broker_id in broker_ids]
        await asyncio.gather(*[self._transactions.exists(path, watch=True) for path in paths])

    # -- topics

    async def topics(self, *, watch: bool = False) -> tuple[str, ...]:
        listed = await self._transactions.children(TopicsZNode.path, watch=watch)
        return listed.names if listed else ()

    async def topic_exists(self, topic: str) -> bool:
        return await self._transactions.exists(TopicZNode.path(topic)) is not None

    async def topic_assignments(self, topics: Sequence[str], *, watch: bool = False) -> dict[str, TopicAssignment]:
        """Topics that do not exist are left out, and so are those that cannot be decoded: Kafka would take a topic
        without partitions for granted, or end the whole failover, and both are worse."""
        nodes = await self._transactions.get_many([TopicZNode.path(topic) for topic in topics], watch=watch)
        assignments = {}
        for topic, node in zip(topics, nodes, strict=True):
            if not isinstance(node, Failure):
                try:
                    assignments[topic] = TopicZNode.decode(topic, node.data)
                except MalformedZNode as error:
                    _log.error("topic left out", topic=topic, why=str(error))
        return assignments

    async def oldest_topic(self, topics: Sequence[str]) -> str:
        """Of these, at least one, that whose znode was created first; those that have vanished count as youngest."""
        nodes = await self._transactions.get_many([TopicZNode.path(topic) for topic in topics])
        born = {
            topic: node.stat.czxid for topic, node in zip(topics, nodes, strict=True) if not isinstance(node, Failure)
        }
        return min(born or topics, key=lambda topic: born.get(topic, 0))

    async def set_topic_ids(self, topic_ids: Mapping[str, TopicId], epoch_zk_version: int) -> None:
        """FO-5c: rewrite the nodes as version 3 with these ids; a topic that has vanished is skipped."""
        await self._topics.set_ids(topic_ids, Fenced(epoch_zk_version))

    async def update_topic_assignments(
        self, assignments: Mapping[str, TopicAssignment], epoch_zk_version: int
    ) -> dict[str, Failure]:
        """Put these partitions over what the nodes hold; others stay as they are. Returns topics that could not be
        written, and
        why: NO_NODE where there is no such topic, TOO_LARGE where ZooKeeper could not hold it."""
        return await self._topics.update(assignments, Fenced(epoch_zk_version))

    async def set_topic_assignments(
        self, assignments: Mapping[str, TopicAssignment], epoch_zk_version: int
    ) -> dict[str, Failure]:
        """As `update_topic_assignments`, but partitions that are not among these are dropped."""
        return await self._topics.overwrite(assignments, Fenced(epoch_zk_version))

    async def create_topic(
        self, topic: str, topic_id: TopicId | None, assignment: Mapping[int, ReplicaAssignment]
    ) -> Failure | None:
        """Unfenced (TC-6). NODE_EXISTS where it exists, TOO_LARGE where ZooKeeper could not hold it."""
        return await self._transactions.create_recursive(
            TopicZNode.path(topic), TopicZNode.encode(topic_id, assignment), "topic"
        )

    async def add_partitions(
        self,
        topic: str,
        topic_id: TopicId | None,
        assignment: Mapping[TopicPartition, ReplicaAssignment],
        *,
        over: Mapping[TopicPartition, ReplicaAssignment] | None = None,
    ) -> bool:
        """Unfenced rewrite of the whole node (TP-2). False where it does not hold `over` any more, if that is given."""
        return await self._topics.add_partitions(topic, topic_id, assignment, over)

    async def delete_topics(
        self, partitions_by_topic: Mapping[str, Iterable[TopicPartition]], epoch_zk_version: int
    ) -> None:
        """`/brokers/topics/T` of each topic with everything below, children first.

        Args:
            partitions_by_topic: what is known to be below; anything else is found.
        """
        await delete_topics(self._transactions, partitions_by_topic, Fenced(epoch_zk_version))

    async def delete_topic_configs(self, topics: Iterable[str], epoch_zk_version: int) -> None:
        paths = [ConfigEntityZNode.path("topics", topic) for topic in topics]
        await self._delete_fenced(paths, "topic-deletion", epoch_zk_version)

    async def partitions_in_zookeeper(self, topic: str) -> tuple[TopicPartition, ...]:
        """Those of `topic` that have a znode below its `/partitions`, whether or not the topic's own znode names
        them."""
        listed = await self._transactions.children(TopicPartitionsZNode.path(topic))
        names = listed.names if listed else ()
        return tuple(TopicPartition(topic, int(name)) for name in names if name.isdecimal())

    # -- partition states

    async def partition_states(
        self, partitions: Sequence[TopicPartition], *, watch: bool = False
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch | Failure]:
        """Failure where there is none or it cannot be decoded (BAD_ARGUMENTS)."""
        return await read_partition_states(self._transactions, partitions, watch=watch)

    async def create_partition_states(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        controller_epoch: int,
        epoch_zk_version: int,
        heard: Heard = lambda finished: None,
    ) -> None:
        """PSM-5: `/partitions`, `/partitions/P` and `state`, fenced. Folders that exist already are as good as created;
        what cannot be created fails alone.

        Args:
            heard: as in `update_leader_and_isr`; NODE_EXISTS of a state that is there already.
        """
        await create_partition_states(self._transactions, states, controller_epoch, Fenced(epoch_zk_version), heard)

    async def update_leader_and_isr(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        controller_epoch: int,
        epoch_zk_version: int,
        heard: Heard = lambda finished: None,
    ) -> tuple[TopicPartition, ...]:
        """Set each state expecting its `partition_epoch`; a conflict fails alone (D15).

        Args:
            heard: is told of each what ZooKeeper now holds, with its new partition epoch, or why not; in parts, while
                ZooKeeper works on the next.

        Returns:
            The conflicts: what has changed underneath.
        """
        return await update_leader_and_isr(
            self._transactions, states, controller_epoch, Fenced(epoch_zk_version), heard
        )

    # -- configs

    async def entity_config(self, entity_type: str, name: str) -> dict[str, str]:
        """Empty where there is no such znode."""
        return (await self.configs.read(entity_type, name)).config

    async def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Empty where a topic has none; a topic whose config cannot be decoded is left out (PSM-17)."""
        paths = [ConfigEntityZNode.path("topics", topic) for topic in topics]
        configs: dict[str, dict[str, str]] = {}
        for topic, path, node in zip(topics, paths, await self._transactions.get_many(paths), strict=True):
            try:
                configs[topic] = {} if isinstance(node, Failure) else ConfigEntityZNode.decode(path, node.data)
            except MalformedZNode as error:
                _log.error("topic config left out", topic=topic, why=str(error))
        return configs

    async def set_entity_config(self, entity_type: str, name: str, config: Mapping[str, str]) -> None:
        """ZN-9, whatever is there. Raises ControllerMoved where `/controller` is absent or changes underneath."""
        await self.configs.write(entity_type, name, config)

    # -- administration

    async def topic_deletions(self, *, watch: bool = False) -> tuple[str, ...]:
        listed = await self._transactions.children(DeleteTopicsZNode.path, watch=watch)
        return listed.names if listed else ()

    async def create_topic_deletion(self, topic: str) -> bool:
        """Mark `topic`, unfenced (TX-1); False where it was marked already."""
        path = DeleteTopicsTopicZNode.path(topic)
        refused = await self._transactions.create_recursive(path, None, "topic-deletion")
        tolerate(refused, path, Failure.NODE_EXISTS)
        return refused is None

    async def is_topic_marked_for_deletion(self, topic: str) -> bool:
        return await self._transactions.exists(DeleteTopicsTopicZNode.path(topic)) is not None

    async def delete_topic_deletions(self, topics: Sequence[str], epoch_zk_version: int) -> None:
        await self._delete_fenced(
            [DeleteTopicsTopicZNode.path(topic) for topic in topics], "topic-deletion", epoch_zk_version
        )

    async def preferred_replica_election(self, *, watch: bool = False) -> tuple[TopicPartition, ...] | None:
        """The partitions asked for, or None where there is no such znode; `watch` uses exists. A znode that an operator
        wrote badly asks for nothing."""
        if watch and await self._transactions.exists(PreferredReplicaElectionZNode.path, watch=True) is None:
            return None
        node = await self._transactions.get(PreferredReplicaElectionZNode.path)
        if node is None:
            return None
        try:
            return PreferredReplicaElectionZNode.decode(node.data)
        except MalformedZNode as error:
            _log.error("preferred replica election ignored", why=str(error))
            return ()

    async def delete_preferred_replica_election(self, epoch_zk_version: int) -> None:
        await self._delete_fenced([PreferredReplicaElectionZNode.path], "preferred-election", epoch_zk_version)

    async def watch_reassign_partitions(self) -> bool:
        """Arm the watch of `/admin/reassign_partitions`; whether it exists."""
        return await self._transactions.exists(ReassignPartitionsZNode.path, watch=True) is not None

    async def partition_reassignment(self, *, watch: bool = False) -> dict[TopicPartition, tuple[BrokerId, ...]] | None:
        """What `/admin/reassign_partitions` asks for, or None where there is no such znode; `watch` uses exists. A
        znode that an operator wrote badly asks for nothing (RA-6)."""
        if watch and not await self.watch_reassign_partitions():
            return None
        node = await self._transactions.get(ReassignPartitionsZNode.path)
        if node is None:
            return None
        try:
            return ReassignPartitionsZNode.decode(node.data)
        except MalformedZNode as error:
            _log.warning("partition reassignment ignored", why=str(error))
            return {}

    async def set_or_create_partition_reassignment(
        self, replicas_by_partition: Mapping[TopicPartition, Sequence[BrokerId]], epoch_zk_version: int
    ) -> None:
        """RA-14."""
        path, data = ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode(replicas_by_partition)
        for write in (SetData(path, data, MATCH_ANY_VERSION), Create(path, data)):
            result = (await self._fenced([write], "reassignment", epoch_zk_version))[0]
            if result is not Failure.NO_NODE:
                tolerate(result, path)
                return
        raise ZooKeeperFailure(Failure.NO_NODE, path)

    async def delete_partition_reassignment(self, epoch_zk_version: int) -> None:
        await self._delete_fenced([ReassignPartitionsZNode.path], "reassignment", epoch_zk_version)

    async def delete_log_dir_event_notifications(self, epoch_zk_version: int) -> None:
        """FO-4: list (arming the child watch) and delete all."""
        await self._delete_children(LogDirEventNotificationZNode.path, "log-dir-events", epoch_zk_version)

    async def log_dir_event_notifications(self) -> dict[str, BrokerId | None]:
        """LD-2: for each notification, by the name of its znode, the broker with a failed directory; None where it
        cannot be decoded. Arms the child watch."""
        notifications = await self._notifications(LogDirEventNotificationZNode.path)
        return {name: _broker_of(node) for name, node in notifications.items()}

    async def delete_log_dir_events(self, names: Iterable[str], epoch_zk_version: int) -> None:
        paths = [f"{LogDirEventNotificationZNode.path}/{name}" for name in names]
        await self._delete_fenced(paths, "log-dir-events", epoch_zk_version)

    async def delete_isr_change_notifications(self, epoch_zk_version: int) -> None:
        await self._delete_children(IsrChangeNotificationZNode.path, "isr-changes", epoch_zk_version)

    async def isr_change_notifications(self) -> dict[str, tuple[TopicPartition, ...]]:
        """IS-18: for each notification, by the name of its znode, the partitions whose ISR has changed; none where it
        cannot be decoded. Arms the child watch."""
        notifications = await self._notifications(IsrChangeNotificationZNode.path)
        return {name: _partitions_of(node) for name, node in notifications.items()}

    async def delete_isr_changes(self, names: Iterable[str], epoch_zk_version: int) -> None:
        paths = [f"{IsrChangeNotificationZNode.path}/{name}" for name in names]
        await self._delete_fenced(paths, "isr-changes", epoch_zk_version)

    # -- the cluster

    async def features(self, *, watch: bool = False) -> FeatureNode | None:
        """None where there is no such znode; `watch` arms its watch all the same."""
        return await read_features(self._transactions, watch=watch)

    async def set_features(self, features: Features, read: FeatureNode | None) -> int | None:
        """FO-1: over what was read, unfenced. The version written, or None where it is something else by now."""
        return await write_features(self._transactions, features, read)

    async def latest_producer_id_block(self) -> LatestProducerIdBlock:
        return await read_producer_id_block(self._transactions)

    async def set_producer_id_block(self, block: ProducerIdBlock, read: LatestProducerIdBlock) -> bool:
        """ZN-8: over what was read, unfenced. False where somebody else has written, or we have and cannot know."""
        return await write_producer_id_block(self._transactions, block, read)

    # -- how

    async def _fenced(
        self, ops: Sequence[Create | SetData | Delete], purpose: str, epoch_zk_version: int
    ) -> list[OpResult | Failure]:
        return await self._transactions.fenced(ops, purpose, Fenced(epoch_zk_version))

    async def _delete_fenced(self, paths: Sequence[str], purpose: str, epoch_zk_version: int) -> None:
        """Delete them all; one that is gone already is as good as deleted."""
        results = await self._fenced([Delete(path) for path in paths], purpose, epoch_zk_version)
        for path, result in zip(paths, results, strict=True):
            tolerate(result, path, Failure.NO_NODE)

    async def _notifications(self, path: str) -> dict[str, Node]:
        """By name; arms the child watch."""
        listed = await self._transactions.children(path, watch=True)
        names = listed.names if listed else ()
        nodes = await self._transactions.get_many([f"{path}/{name}" for name in names])
        return {name: node for name, node in zip(names, nodes, strict=True) if not isinstance(node, Failure)}

    async def _delete_children(self, path: str, purpose: str, epoch_zk_version: int) -> None:
        listed = await self._transactions.children(path, watch=True)
        if listed is not None:
            await self._delete_fenced([f"{path}/{name}" for name in listed.names], purpose, epoch_zk_version)


def _broker_of(notification: Node) -> BrokerId | None:
    try:
        return LogDirEventNotificationZNode.decode(notification.data)
    except MalformedZNode as error:
        _log.error("log dir event ignored", why=str(error))
        return None


def _partitions_of(notification: Node) -> tuple[TopicPartition, ...]:
    try:
        return IsrChangeNotificationZNode.decode(notification.data)
    except MalformedZNode as error:
        _log.error("ISR change notification ignored", why=str(error))
        return ()
