"""`KafkaZkClient`: ZooKeeper in terms of brokers, topics and partitions instead of paths. Mirrors its Kafka namesake.

Each part of it covers one family of znodes: `zk.states.update(...)`, `zk.topics.assignments(...)`. Every write of the
controller's state goes out in transactions that check `/controller_epoch` at the version of this controller's election;
there is no other way to write (EL-13). Many states share one transaction (docs/inside/decisions/0002). After a lost
answer, reads are repeated, and a conditional write that conflicts counts as written if ZooKeeper holds exactly what was
meant (`transactions`).
"""

from __future__ import annotations

from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.zk.admin_requests import PreferredElections, Reassignments, TopicDeletions
from understudy.foundation.zk.admin_znodes import PERSISTENT_PATHS, ClusterIdZNode
from understudy.foundation.zk.broker_registrations import BrokerRegistrations
from understudy.foundation.zk.client import Failure, ZooKeeperClient
from understudy.foundation.zk.cluster_znodes import FeatureNode as FeatureNode
from understudy.foundation.zk.cluster_znodes import FeatureZNodes, ProducerIdBlocks
from understudy.foundation.zk.cluster_znodes import LatestProducerIdBlock as LatestProducerIdBlock
from understudy.foundation.zk.consumer_offsets import ConsumerOffsets
from understudy.foundation.zk.controller_registration import ControllerRegistration
from understudy.foundation.zk.controller_registration import Elected as Elected
from understudy.foundation.zk.entity_configs import EntityConfigs
from understudy.foundation.zk.isr_changes import IsrChanges
from understudy.foundation.zk.log_dir_events import LogDirEvents
from understudy.foundation.zk.partition_states import OnWritten as OnWritten
from understudy.foundation.zk.partition_states import PartitionStates
from understudy.foundation.zk.topics import Topics
from understudy.foundation.zk.transactions import ControllerMoved as ControllerMoved
from understudy.foundation.zk.transactions import SessionLost as SessionLost
from understudy.foundation.zk.transactions import Transactions, tolerate
from understudy.foundation.zk.transactions import ZooKeeperFailure as ZooKeeperFailure
from understudy.foundation.zk.znodes import TopicAssignment as TopicAssignment


class KafkaZkClient:
    """The ZooKeeper client of one session; a new session gets a new one.

    All methods of all parts raise `SessionLost` once the session has expired, `ZooKeeperFailure` if ZooKeeper refuses
    what must not fail or answers keep being lost, and `MalformedZNode` if a required znode cannot be decoded. Methods
    that take `epoch_zk_version` are fenced and raise `ControllerMoved` when that is no longer the version of
    `/controller_epoch`. `watch=True` arms the watch that Kafka's handler for the same znode arms.

    Attributes:
        controller: `/controller` and `/controller_epoch`.
        brokers: `/brokers/ids`.
        topics: `/brokers/topics`.
        states: `/brokers/topics/T/partitions/P/state`.
        configs: `/config`.
        topic_deletions, preferred_elections, reassignments: `/admin`.
        isr_changes: `/isr_change_notification`.
        log_dir_events: `/log_dir_event_notification`.
        features: `/feature`.
        producer_ids: `/latest_producer_id_block`.
        consumer_offsets: `/consumers`.
    """

    def __init__(self, client: ZooKeeperClient, *, events: EventLog, fences: Fences) -> None:
        self._client = client
        transactions = self._transactions = Transactions(client, events=events, fences=fences)
        self.controller = ControllerRegistration(transactions)
        self.brokers = BrokerRegistrations(transactions)
        self.topics = Topics(transactions)
        self.states = PartitionStates(transactions)
        self.configs = EntityConfigs(transactions)
        self.topic_deletions = TopicDeletions(transactions)
        self.preferred_elections = PreferredElections(transactions)
        self.reassignments = Reassignments(transactions)
        self.isr_changes = IsrChanges(transactions)
        self.log_dir_events = LogDirEvents(transactions)
        self.features = FeatureZNodes(transactions)
        self.producer_ids = ProducerIdBlocks(transactions)
        self.consumer_offsets = ConsumerOffsets(transactions)

    @property
    def session_id(self) -> int:
        """The id of the ZooKeeper session."""
        return self._client.session_id

    async def close(self) -> None:
        """End the session."""
        await self._client.close()

    async def create_top_level_paths(self) -> None:
        """Create the persistent paths that every Kafka cluster has, if they are missing (ZN-1)."""
        present = await self._transactions.get_many(PERSISTENT_PATHS)
        for path, node in zip(PERSISTENT_PATHS, present, strict=True):
            if isinstance(node, Failure):
                created = await self._transactions.create_recursive(path, None, "top-level-paths")
                tolerate(created, path, Failure.NODE_EXISTS)

    async def create_or_get_cluster_id(self, proposed: str) -> str:
        """Return the cluster id in `/cluster/id`, or write `proposed` there if it has none."""
        node = await self._transactions.get(ClusterIdZNode.path)
        if node is None:
            data = ClusterIdZNode.encode(proposed)
            refused = await self._transactions.create_recursive(ClusterIdZNode.path, data, "cluster-id")
            if refused is None:
                return proposed
            tolerate(refused, ClusterIdZNode.path, Failure.NODE_EXISTS)
            node = await self._transactions.must_get(ClusterIdZNode.path)
        return ClusterIdZNode.decode(node.data)
