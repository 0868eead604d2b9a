"""`Processes` says where in `__cluster_metadata` the processes of the nodes begin, and which nodes are brokers.

A broker registers with an incarnation id of its process, since Kafka 3.7 a controller also; a node with both roles has
an id for each. A node that registers while it leads the quorum was started before its election: a node that is started
again does not lead before it has won an epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from understudy.foundation.cluster.identifiers import TopicId
from understudy.foundation.wire.messages.cluster_metadata import (
    LeaderChangeMessage,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from understudy.foundation.wire.schema import Message
from understudy.history.reading.run_records import broker_node

QUORUM_NODE: Final = "quorum"
"""Node of the records whose writer is not known, because the log begins after its election."""

_BROKER: Final = "broker"
_CONTROLLER: Final = "controller"


@dataclass(slots=True)
class Processes:
    """The processes that the records of a log name, gathered by one pass over it.

    Attributes:
        starts: the nodes whose next process is known to run, by the offset of the first record that shows it.
        brokers: the ids of the nodes that are brokers.
        leaders: the leader of each epoch.
    """

    starts: dict[int, list[int]] = field(default_factory=dict)
    brokers: set[int] = field(default_factory=set)
    leaders: dict[int, int] = field(default_factory=dict)
    _roles: dict[int, dict[str, TopicId]] = field(default_factory=dict)
    """The incarnation ids of the newest process of each node."""
    _leader: int = -1
    _leads_since: int = -1

    def add(self, offset: int, epoch: int, records: Iterable[Message]) -> None:
        """Look at the records of the next batch, which begins at `offset`."""
        for record in records:
            if isinstance(record, LeaderChangeMessage):
                self.leaders[epoch] = self._leader = record.leader_id
                self._leads_since = offset
            elif isinstance(record, RegisterBrokerRecord):
                self.brokers.add(record.broker_id)
                self._registered(offset, record.broker_id, _BROKER, record.incarnation_id)
            elif isinstance(record, RegisterControllerRecord):
                self._registered(offset, record.controller_id, _CONTROLLER, record.incarnation_id)

    def node(self, node_id: int) -> str:
        """Return the name of a node: a broker's, also if it is a controller as well, or a controller's."""
        return broker_node(node_id) if node_id in self.brokers else f"{_CONTROLLER}-{node_id}"

    def _registered(self, offset: int, node_id: int, role: str, incarnation: TopicId) -> None:
        roles = self._roles.setdefault(node_id, {})
        known = roles.get(role)
        if known is not None and known != incarnation:
            roles = self._roles[node_id] = {}
            began = self._leads_since if node_id == self._leader else offset
            self.starts.setdefault(began, []).append(node_id)
        roles[role] = incarnation
