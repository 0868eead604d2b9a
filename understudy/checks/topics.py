"""Invariants of topics and of producer ids: deletions, reassignments, added partitions, blocks of ids (A1 to A4)."""

from __future__ import annotations

import msgspec

from understudy.checks.check import InvariantCheck
from understudy.checks.facts import TOPICS, ClusterFacts, Partition
from understudy.checks.history import OpKind, ZnodeOp, ZnodeTransaction
from understudy.checks.missing import RefutedBy

DELETE_TOPICS = "/admin/delete_topics/"
CONFIGS = "/config/topics/"
PRODUCER_IDS = "/latest_producer_id_block"


class DeletionsAreComplete(InvariantCheck):
    id = "A1"
    sentence = "the marker of a topic's deletion is removed last, after the topic's znode and its configuration"
    refuted_by = RefutedBy.NOTHING
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._begun: dict[str, bool] = {}
        """Topics with a marker whose deletion has begun, and whether their own znode has been deleted."""
        self._marked: set[str] = set()
        self._configs: dict[str, int] = {}

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        for op in transaction.ops:
            if op.kind is OpKind.CHECK:
                continue
            if op.path.startswith(DELETE_TOPICS):
                self._apply_marker(transaction, op)
            elif op.path.startswith(TOPICS) and op.kind is OpKind.DELETE:
                topic, _, rest = op.path.removeprefix(TOPICS).partition("/")
                if topic in self._marked:
                    self._begun[topic] = self._begun.get(topic, False) or not rest
            elif op.path.startswith(CONFIGS):
                self._apply_config(op)

    def _apply_config(self, op: ZnodeOp) -> None:
        topic = op.path.removeprefix(CONFIGS)
        if op.kind is OpKind.DELETE:
            self._configs.pop(topic, None)
        elif not self._begun.get(topic, False):
            # A configuration that is written after the topic's znode was deleted belongs to a new topic of this name.
            self._configs[topic] = self.facts.last_zxid

    def _apply_marker(self, transaction: ZnodeTransaction, op: ZnodeOp) -> None:
        topic = op.path.removeprefix(DELETE_TOPICS)
        if op.kind is OpKind.CREATE:
            self._marked.add(topic)
            return
        self._marked.discard(topic)
        deleted = self._begun.pop(topic, None)
        if deleted is None or transaction.session_id not in self.facts.broker_of_session:
            return
        self.times_tested += 1
        if not deleted:
            self.violated(transaction, f"the marker of {topic} was removed, but the topic still exists")
        elif topic in self._configs:
            self.violated(transaction, f"the marker of {topic} was removed, but {CONFIGS}{topic} still exists")


class ReassignmentsKeepData(InvariantCheck):
    id = "A2"
    sentence = (
        "a reassignment ends only when at least one target replica is in the ISR, and no replica that it removes is "
        "the leader"
    )
    refuted_by = RefutedBy.NOTHING
    reads_transactions = True

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        if transaction.session_id not in self.facts.broker_of_session:
            return
        for topic in self.facts.topics_written:
            for partition, after in topic.after.items():
                before = topic.before.get(partition)
                if before is None or not before.is_being_reassigned or after.is_being_reassigned:
                    continue
                if after.replicas != before.target_replicas:
                    continue
                self.times_tested += 1
                states = self.facts.states.get((topic.name, partition), ())
                state = states[-1] if states else None
                if state is None or state.leader is None:
                    continue
                what = f"the reassignment of {topic.name}-{partition} to {after.replicas} ended"
                if not set(state.isr) & set(after.replicas):
                    self.violated(transaction, f"{what} with ISR {state.isr}")
                elif state.leader >= 0 and state.leader not in after.replicas:
                    self.violated(transaction, f"{what} with leader {state.leader}")


class TopicsKeepTheirPartitionsAndId(InvariantCheck):
    id = "A3"
    sentence = (
        "a topic that exists never loses a partition or its id, except that a topic marked for deletion may lose "
        "added partitions that have no state"
    )
    refuted_by = RefutedBy.NOTHING
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._marked: set[str] = set()

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        for op in transaction.ops:
            if op.path.startswith(DELETE_TOPICS) and op.kind in (OpKind.CREATE, OpKind.DELETE):
                change = self._marked.add if op.kind is OpKind.CREATE else self._marked.discard
                change(op.path.removeprefix(DELETE_TOPICS))
        if transaction.session_id not in self.facts.broker_of_session:
            return
        for topic in self.facts.topics_written:
            if not topic.before or not topic.after:
                continue
            self.times_tested += 1
            lost = sorted(topic.before.keys() - topic.after.keys())
            if topic.name in self._marked:
                lost = [partition for partition in lost if self._has_state((topic.name, partition))]
            if lost:
                self.violated(transaction, f"{topic.name} lost partition {lost[0]}")
            elif topic.id_before and topic.id_after != topic.id_before:
                self.violated(transaction, f"{topic.name} had the id {topic.id_before} and now has {topic.id_after}")

    def _has_state(self, partition: Partition) -> bool:
        """Return whether a state exists; the state of a deleted topic of the same name was deleted with it."""
        writes = self.facts.states.get(partition, [])
        return bool(writes) and writes[-1].leader is not None


class _Block(msgspec.Struct, frozen=True):
    block_start: str
    block_end: str


_decode_block = msgspec.json.Decoder(_Block).decode


class ProducerIdBlocksAreConsecutive(InvariantCheck):
    id = "A4"
    sentence = "each block of producer ids begins right after the previous block, and the first one at 0"
    refuted_by = RefutedBy.NOTHING
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._next = 0

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        for op in transaction.ops:
            if op.path != PRODUCER_IDS or op.kind is not OpKind.SET:
                continue
            try:
                block = _decode_block(op.data or b"")
            except msgspec.MsgspecError:
                continue
            self.times_tested += 1
            if int(block.block_start) != self._next:
                what = f"the block from {block.block_start} to {block.block_end} was allocated"
                self.violated(transaction, f"{what}, but the next one begins at {self._next}")
            self._next = int(block.block_end) + 1


CHECKS: tuple[type[InvariantCheck], ...] = (
    DeletionsAreComplete,
    ReassignmentsKeepData,
    TopicsKeepTheirPartitionsAndId,
    ProducerIdBlocksAreConsecutive,
)
