"""What the simulated ZooKeeper holds, in the cluster's words: for tests, stories and liveness; brokers never see it."""

from __future__ import annotations

from foundation.cluster.broker import Broker
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.cluster.leadership import LeaderAndIsr
from foundation.zk.admin_znodes import DeleteTopicsZNode
from foundation.zk.client import Failure
from foundation.zk.znodes import (
    BrokerIdsZNode,
    BrokerIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    TopicAssignment,
    TopicPartitionStateZNode,
    TopicsZNode,
    TopicZNode,
)
from understudy.simulator.znode_tree import ZnodeTree


class ZnodeView:
    def __init__(self, tree: ZnodeTree) -> None:
        self._tree = tree

    def controller_id(self) -> BrokerId | None:
        """Who owns `/controller`."""
        node = self._tree.get(ControllerZNode.path)
        return None if isinstance(node, Failure) else ControllerZNode.decode(node.data).broker_id

    def controller_epoch(self) -> int:
        """0 before the first election."""
        node = self._tree.get(ControllerEpochZNode.path)
        return 0 if isinstance(node, Failure) else ControllerEpochZNode.decode(node.data)

    def brokers(self) -> dict[BrokerId, Broker]:
        """Registered brokers, in order of id."""
        found: dict[BrokerId, Broker] = {}
        for name in sorted(self.children(BrokerIdsZNode.path), key=int):
            broker_id = BrokerId(int(name))
            node = self._tree.get(BrokerIdZNode.path(broker_id))
            assert not isinstance(node, Failure), "a listed child exists"
            found[broker_id] = BrokerIdZNode.decode(broker_id, node.data)
        return found

    def topics(self) -> dict[str, TopicAssignment]:
        found: dict[str, TopicAssignment] = {}
        for topic in self.children(TopicsZNode.path):
            node = self._tree.get(TopicZNode.path(topic))
            assert not isinstance(node, Failure), "a listed child exists"
            found[topic] = TopicZNode.decode(topic, node.data)
        return found

    def state(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """None while the controller has not created it."""
        node = self._tree.get(TopicPartitionStateZNode.path(partition))
        if isinstance(node, Failure):
            return None
        return TopicPartitionStateZNode.decode(partition, node.data, node.stat.version).leader_and_isr

    def states(self) -> dict[TopicPartition, LeaderAndIsr | None]:
        """Every partition that is assigned, in order."""
        assigned = (partition for topic in self.topics().values() for partition in sorted(topic.partitions))
        return {partition: self.state(partition) for partition in assigned}

    def topics_to_be_deleted(self) -> tuple[str, ...]:
        """Those with a marker in `/admin/delete_topics`, whether they exist or not."""
        return self.children(DeleteTopicsZNode.path)

    def data(self, path: str) -> bytes | None:
        """None where there is no such znode."""
        node = self._tree.get(path)
        return None if isinstance(node, Failure) else node.data

    def children(self, path: str) -> tuple[str, ...]:
        """Their names, in order; none where there is no such znode."""
        children = self._tree.children(path)
        return () if isinstance(children, Failure) else tuple(sorted(children.names))
