"""What must hold of topics as a whole, and of what the controller hands out: deletions, moves, new partitions, producer
ids."""

from __future__ import annotations

import msgspec

from understudy.checkers.check import InvariantCheck
from understudy.checkers.facts import TOPICS, ClusterFacts, Partition
from understudy.checkers.history import OpKind, ZnodeOp, ZnodeTransaction

DELETE_TOPICS = "/admin/delete_topics/"
CONFIGS = "/config/topics/"
PRODUCER_IDS = "/latest_producer_id_block"


class DeletionsAreComplete(InvariantCheck):
    id = "A1"
    sentence = "the marker of a topic that is being deleted goes last: by then its znode and its configuration are gone"
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._begun: dict[str, bool] = {}
        """Topics with a marker of which something has been deleted, and whether their own znode has."""
        self._marked: set[str] = set()
        self._configs: dict[str, int] = {}

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        for op in transaction.ops:
            if op.kind is OpKind.CHECK:
                continue
            if op.path.startswith(DELETE_TOPICS):
                self._marker(transaction, op)
            elif op.path.startswith(TOPICS) and op.kind is OpKind.DELETE:
                topic, _, rest = op.path.removeprefix(TOPICS).partition("/")
                if topic in self._marked:
                    self._begun[topic] = self._begun.get(topic, False) or not rest
            elif op.path.startswith(CONFIGS):
                self._config(op)

    def _config(self, op: ZnodeOp) -> None:
        topic = op.path.removeprefix(CONFIGS)
        if op.kind is OpKind.DELETE:
            self._configs.pop(topic, None)
        elif not self._begun.get(topic, False):
            # One that is written after the topic has gone belongs to a successor of that name.
            self._configs[topic] = self.facts.last_zxid

    def _marker(self, transaction: ZnodeTransaction, op: ZnodeOp) -> None:
        topic = op.path.removeprefix(DELETE_TOPICS)
        if op.kind is OpKind.CREATE:
            self._marked.add(topic)
            return
        self._marked.discard(topic)
        gone = self._begun.pop(topic, None)
        if gone is None or transaction.session_id not in self.facts.broker_of_session:
            return
        self.judged += 1
        if not gone:
            self.violated(transaction, f"the marker of {topic} was removed and the topic is still there")
        elif topic in self._configs:
            self.violated(transaction, f"the marker of {topic} was removed and {CONFIGS}{topic} is still there")


class MovesKeepData(InvariantCheck):
    id = "A2"
    sentence = "a move ends only when somebody who stays is in sync, and nobody is led by a broker that leaves"
    reads_transactions = True

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        if transaction.session_id not in self.facts.broker_of_session:
            return
        for written in self.facts.placed:
            for partition, after in written.after.items():
                before = written.before.get(partition)
                if before is None or not before.is_moving or after.is_moving or after.replicas != before.targets:
                    continue
                self.judged += 1
                states = self.facts.states.get((written.topic, partition), ())
                state = states[-1] if states else None
                if state is None or state.leader is None:
                    continue
                name = f"{written.topic}-{partition}"
                if not set(state.isr) & set(after.replicas):
                    self.violated(transaction, f"{name} moved to {after.replicas} while {state.isr} were in sync")
                elif state.leader >= 0 and state.leader not in after.replicas:
                    self.violated(transaction, f"{name} moved to {after.replicas} while {state.leader} led it")


class TopicsKeepTheirPartitions(InvariantCheck):
    id = "A3"
    sentence = (
        "a topic never loses a partition while it lives, and never its id; one that is marked for "
        "deletion loses only what was "
        "added without ever having had a state"
    )
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._marked: set[str] = set()

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        for op in transaction.ops:
            if op.path.startswith(DELETE_TOPICS) and op.kind in (OpKind.CREATE, OpKind.DELETE):
                keep = self._marked.add if op.kind is OpKind.CREATE else self._marked.discard
                keep(op.path.removeprefix(DELETE_TOPICS))
        if transaction.session_id not in self.facts.broker_of_session:
            return
        for written in self.facts.placed:
            if not written.before or not written.after:
                continue
            self.judged += 1
            lost = sorted(written.before.keys() - written.after.keys())
            if written.topic in self._marked:
                lost = [partition for partition in lost if self._lives((written.topic, partition))]
            if lost:
                self.violated(transaction, f"{written.topic} lost partition {lost[0]}")
            elif written.topic_id_before and written.topic_id != written.topic_id_before:
                self.violated(
                    transaction, f"{written.topic} had the id {written.topic_id_before} and now has {written.topic_id}"
                )

    def _lives(self, partition: Partition) -> bool:
        """Whether it has a state; that of an earlier topic of this name has gone with it."""
        writes = self.facts.states.get(partition, [])
        return bool(writes) and writes[-1].leader is not None


class _Block(msgspec.Struct, frozen=True):
    block_start: str
    block_end: str


_decode_block = msgspec.json.Decoder(_Block).decode


class ProducerIdsAreGivenOnce(InvariantCheck):
    id = "A4"
    sentence = "each block of producer ids begins right after the one before it, the first at 0"
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
            self.judged += 1
            if int(block.block_start) != self._next:
                what = (
                    f"the block from {block.block_start} to {block.block_end} was given, the next "
                    f"one begins at {self._next}"
                )
                self.violated(transaction, what)
            self._next = int(block.block_end) + 1


CHECKS: tuple[type[InvariantCheck], ...] = (
    DeletionsAreComplete,
    MovesKeepData,
    TopicsKeepTheirPartitions,
    ProducerIdsAreGivenOnce,
)
