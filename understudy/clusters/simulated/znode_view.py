"""Decodes the znodes of the simulated ZooKeeper, for tests, stories and findings. Brokers never use it."""

from __future__ import annotations

from understudy.clusters.picture import NOTIFICATION_QUEUES, ClusterPicture, PartitionPicture
from understudy.clusters.simulated.znode_tree import ZnodeTree
from understudy.foundation.cluster.broker import BrokerAndEpoch
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.zk.admin_znodes import (
    DeleteTopicsZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.znodes import (
    BrokerIdsZNode,
    BrokerIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    TopicAssignment,
    TopicPartitionStateZNode,
    TopicsZNode,
    TopicZNode,
)


class ZnodeView:
    """Reads the tree of the simulated ZooKeeper at this moment."""

    def __init__(self, tree: ZnodeTree) -> None:
        self._tree = tree

    def controller_id(self) -> BrokerId | None:
        """The id of the broker that owns `/controller`; None if there is no controller."""
        node = self._tree.get(ControllerZNode.path)
        return None if isinstance(node, Failure) else ControllerZNode.decode(node.data).broker_id

    def controller_epoch(self) -> int:
        """The epoch in `/controller_epoch`; 0 before the first election."""
        node = self._tree.get(ControllerEpochZNode.path)
        return 0 if isinstance(node, Failure) else ControllerEpochZNode.decode(node.data)

    def brokers(self) -> dict[BrokerId, BrokerAndEpoch]:
        """The registered brokers, in order of id."""
        found: dict[BrokerId, BrokerAndEpoch] = {}
        for name in sorted(self.children(BrokerIdsZNode.path), key=int):
            broker_id = BrokerId(int(name))
            node = self._tree.get(BrokerIdZNode.path(broker_id))
            assert not isinstance(node, Failure), "a listed child exists"
            found[broker_id] = BrokerAndEpoch(BrokerIdZNode.decode(broker_id, node.data), node.stat.czxid)
        return found

    def topics(self) -> dict[str, TopicAssignment]:
        """The assignment of every topic, in order of name."""
        found: dict[str, TopicAssignment] = {}
        for topic in self.children(TopicsZNode.path):
            node = self._tree.get(TopicZNode.path(topic))
            assert not isinstance(node, Failure), "a listed child exists"
            found[topic] = TopicZNode.decode(topic, node.data)
        return found

    def state(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """The partition's state; None while the controller has not created it."""
        state = self._state(partition)
        return None if state is None else state.leader_and_isr

    def _state(self, partition: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        node = self._tree.get(TopicPartitionStateZNode.path(partition))
        if isinstance(node, Failure):
            return None
        return TopicPartitionStateZNode.decode(partition, node.data, node.stat.version)

    def states(self) -> dict[TopicPartition, LeaderAndIsr | None]:
        """The state of every assigned partition, in order."""
        assigned = (partition for topic in self.topics().values() for partition in sorted(topic.partitions))
        return {partition: self.state(partition) for partition in assigned}

    def data(self, path: str) -> bytes | None:
        """The bytes of a znode; None if there is no such znode."""
        node = self._tree.get(path)
        return None if isinstance(node, Failure) else node.data

    def children(self, path: str) -> tuple[str, ...]:
        """The names of a znode's children, in order; none if there is no such znode."""
        children = self._tree.children(path)
        return () if isinstance(children, Failure) else tuple(sorted(children.names))

    def picture(self) -> ClusterPicture:
        """The state of the cluster in ZooKeeper at this moment."""
        topics = self.topics()
        moves = self.data(ReassignPartitionsZNode.path)
        return ClusterPicture(
            controller=self.controller_id(),
            controller_epoch=self.controller_epoch(),
            brokers=self.brokers(),
            partitions={
                partition: PartitionPicture(assignment=assignment, state=self._state(partition))
                for topic in topics.values()
                for partition, assignment in sorted(topic.partitions.items())
            },
            topic_ids={name: topic.topic_id for name, topic in topics.items()},
            topics_to_delete=self.children(DeleteTopicsZNode.path),
            requested_moves=() if moves is None else tuple(ReassignPartitionsZNode.decode(moves)),
            controller_requests=tuple(self._controller_requests()),
        )

    def _controller_requests(self) -> list[str]:
        """The paths of the znodes that notify the controller or ask it for an election."""
        found = [f"{queue}/{name}" for queue in NOTIFICATION_QUEUES for name in self.children(queue)]
        elections = PreferredReplicaElectionZNode.path
        return found if self.data(elections) is None else [*found, elections]
