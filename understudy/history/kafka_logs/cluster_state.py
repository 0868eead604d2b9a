"""`ImportedCluster`: the brokers of the imported cluster, and the partition states that the logs have named so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import msgspec

from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    ControllerElected,
    Leadership,
    ResponseReceived,
    RunDescribed,
)
from understudy.history.kafka_logs.broker_node import BrokerNode, HeldAnswer, Takeover
from understudy.history.kafka_logs.clock_offsets import ONE_MACHINE, ImportedClocks, clock_of_broker
from understudy.history.kafka_logs.survey import EntryKind
from understudy.history.kafka_logs.written_records import WrittenRecords

LEADERSHIP_REPEATED = "states of LeadershipWritten: recorded already"
_LEADERSHIP_WITHOUT_LEADER = "states of LeadershipWritten: the line lacks the leader, as do the lines before"


class KnownState(NamedTuple):
    """The newest state of a partition that the logs have named."""

    state: Leadership
    zxid: int
    """The transaction that wrote it; 0 if only a log line names it."""


class ImportedCluster:
    """The state of an import that reads the logs of all brokers in one order.

    Args:
        folder: receives the event-log files.
        run: the run id of every record.
        logs: the brokers whose logs are imported, each with the kind of log.
        knows_all_states: whether ZooKeeper's transaction log is imported from its first transaction.
        clocks: the wall clocks of the brokers.
        described: the record before all others; None if there is none.

    Attributes:
        written: how many records of each type have been written.
        left_out: how many records are left out because the logs lack something they need, by record and reason.
        states: the newest state of each partition.
        topics: the assignments in ZooKeeper's transaction log.
        records: the records that show which others are missing.
    """

    def __init__(
        self,
        folder: Path,
        run: str,
        *,
        logs: Collection[tuple[int, EntryKind]] = (),
        knows_all_states: bool = False,
        clocks: ImportedClocks = ONE_MACHINE,
        described: RunDescribed | None = None,
    ) -> None:
        self.folder = folder
        self.run = run
        self._logs = frozenset(logs)
        self.knows_all_states = knows_all_states
        self.written: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.states: dict[TopicPartition, KnownState] = {}
        self.topics: dict[str, dict[TopicPartition, ReplicaAssignment]] = {}
        self._elected: set[int] = set()
        """The controller epochs whose `ControllerElected` has been written."""
        self._registered: set[int] = set()
        """The broker epochs whose `BrokerRegistered` has been written."""
        self._nodes: dict[int, BrokerNode] = {}
        self.clocks = clocks
        self._described = described
        self.records = WrittenRecords()

    def node(self, broker: int) -> BrokerNode:
        if broker not in self._nodes:
            self._nodes[broker] = BrokerNode(
                broker,
                self.folder,
                self.run,
                written=self.written,
                left_out=self.left_out,
                clock=self.clocks.of(clock_of_broker(broker)),
                described=self._take_description,
                records=self.records,
            )
        return self._nodes[broker]

    def _take_description(self) -> RunDescribed | None:
        """Return the record before all others, the first time."""
        described, self._described = self._described, None
        return described

    def known_node(self, broker: int) -> BrokerNode | None:
        return self._nodes.get(broker)

    def has_log(self, broker: int, kind: EntryKind) -> bool:
        """Return whether this kind of log of a broker is imported. A state-change.log shows what the broker answers."""
        return (broker, kind) in self._logs

    def has_any_log(self, broker: int) -> bool:
        return any(self.has_log(broker, kind) for kind in EntryKind)

    @property
    def has_logs(self) -> bool:
        """Whether the log of any broker is imported, not only ZooKeeper's."""
        return bool(self._logs)

    @property
    def brokers(self) -> tuple[int, ...]:
        """The ids of the brokers that have an event log."""
        return tuple(sorted(self._nodes))

    def close(self) -> None:
        for node in self._nodes.values():
            node.close()

    def is_newer(self, state: Leadership, *, is_created: bool = False) -> bool:
        """Return whether `state` is newer than the known state of its partition.

        The partition epoch is the version of the state's znode, which grows with every write and begins at 0 again
        when a topic is created again.
        """
        known = self.states.get(TopicPartition(state.topic, state.partition))
        if known is None:
            return True
        if is_created:
            return known.state.partition_epoch != 0 or known.state.controller_epoch != state.controller_epoch
        return state.partition_epoch > known.state.partition_epoch

    def write_leadership(self, node: BrokerNode, ms: float, why: str, state: Leadership, *, zxid: int = 0) -> None:
        """Record a state that ZooKeeper has accepted, and remember it."""
        partition = TopicPartition(state.topic, state.partition)
        node.write_leadership(ms, why, state, zxid=zxid)
        self.states[partition] = KnownState(state, zxid)

    def write_isr(
        self, node: BrokerNode, ms: float, partition: TopicPartition, isr_and_version: tuple[tuple[int, ...], int]
    ) -> None:
        """Record a new ISR of a partition, and its partition epoch, with the leader of the state before."""
        known = self.states.get(partition)
        isr, partition_epoch = isr_and_version
        if known is None or (partition_epoch > known.state.partition_epoch + 1):
            self.left_out[_LEADERSHIP_WITHOUT_LEADER] += 1
            return
        state = msgspec.structs.replace(known.state, isr=isr, partition_epoch=partition_epoch)
        if self.is_newer(state):
            self.write_leadership(node, ms, "alter-partition", state)
        else:
            self.left_out[LEADERSHIP_REPEATED] += 1

    def write_election(self, node: BrokerNode, ms: float, elected: ControllerElected, *, zxid: int = 0) -> bool:
        """Record an election, unless it is recorded already; return whether it was not.

        ZooKeeper's transaction log and the broker's own log may both have it.
        """
        node.controller_epoch = max(node.controller_epoch, elected.epoch)
        if elected.epoch in self._elected:
            return False
        self._elected.add(elected.epoch)
        cause, node.gone_cause = node.gone_cause, None
        node.takeover = Takeover(elected.epoch, float(ms), cause, is_under_way=True)
        node.forget_requests()
        node.write(ms, elected, cause=cause, zxid=zxid)
        return True

    def write_registration(self, node: BrokerNode, ms: float, registered: BrokerRegistered, *, zxid: int = 0) -> None:
        """Record a registration, unless it is recorded already, as for `write_election`."""
        if registered.broker_epoch not in self._registered:
            self._registered.add(registered.broker_epoch)
            node.write(ms, registered, zxid=zxid)

    def forget_topic(self, topic: str) -> None:
        """Forget the states of a topic that has been deleted."""
        self.topics.pop(topic, None)
        for partition in [partition for partition in self.states if partition.topic == topic]:
            del self.states[partition]

    def record_answer(
        self,
        ms: float,
        *,
        controller: int,
        sender: int,
        api: str,
        correlation_id: int,
        error: str = "NONE",
        is_own_line: bool = False,
    ) -> None:
        """Record that a controller got the answer to its oldest unanswered request of this API to `sender`.

        Args:
            is_own_line: whether the answer is in the controller's own log; otherwise it is in `sender`'s log.
        """
        node = self._nodes.get(controller)
        request = None if node is None else node.next_answered(sender, api)
        if node is None or request is None:
            return
        sending_since = max(request.ms, node.answered_ms.get(sender, 0.0))
        node.answered_ms[sender] = ms
        answer = ResponseReceived(
            sender=sender,
            api=api,
            client_id=str(controller),
            correlation_id=correlation_id,
            error=error,
            took_ms=round(ms - sending_since, 3),
        )
        if is_own_line:
            node.write(ms, answer, cause=request.seq)
        else:
            node.hold_answer(HeldAnswer(ms, answer, request.seq))
