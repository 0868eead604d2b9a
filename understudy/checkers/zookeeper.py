"""What we assume of ZooKeeper (Z1, Z2, Z4, Z6): a check of the simulator, and of how a transaction log was
read."""

from __future__ import annotations

from understudy.checkers.check import InvariantCheck
from understudy.checkers.facts import ClusterFacts
from understudy.checkers.history import OpKind, Znode, ZnodeOp, ZnodeTransaction, apply


class OneOrderOfTransactions(InvariantCheck):
    id = "Z1"
    sentence = "zxids strictly increase"
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._last = 0

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        self.judged += 1
        if transaction.zxid <= self._last:
            self.violated(transaction, f"zxid {transaction.zxid} follows {self._last}")
        self._last = transaction.zxid


class EphemeralsDieWithTheirSession(InvariantCheck):
    id = "Z2"
    sentence = "a session's end deletes all its ephemerals, and no session writes after its end"
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._ephemerals: dict[int, set[str]] = {}
        self._owner: dict[str, int] = {}
        self._ended: set[int] = set()

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        if transaction.session_id in self._ended:
            self.violated(transaction, f"session {transaction.session_id:#x} writes after its end")
        for op in transaction.ops:
            if op.kind is OpKind.CREATE and op.ephemeral_owner:
                self._owner[op.path] = op.ephemeral_owner
                self._ephemerals.setdefault(op.ephemeral_owner, set()).add(op.path)
            elif op.kind is OpKind.DELETE and op.path in self._owner:
                self._ephemerals[self._owner.pop(op.path)].discard(op.path)
        if transaction.closed_session:
            self.judged += 1
            self._ended.add(transaction.session_id)
            if left := sorted(self._ephemerals.pop(transaction.session_id, ())):
                self.violated(transaction, f"session {transaction.session_id:#x} ended and left {left[0]}")


class VersionsCount(InvariantCheck):
    id = "Z6"
    sentence = (
        "a create meets no znode, a delete or set meets one, a set raises the version by one, a check sees its version"
    )
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._tree = {
            path: Znode(None, 0, 0, 0) for path in ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")
        }

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        for op in transaction.ops:
            self.judged += 1
            if complaint := self._complaint(op):
                self.violated(transaction, f"{op.kind.value} {op.path}: {complaint}")
            apply(self._tree, transaction._replace(ops=(op,)))

    def _complaint(self, op: ZnodeOp) -> str | None:
        before = self._tree.get(op.path)
        if op.kind is OpKind.CREATE:
            return None if before is None else "it exists already"
        if before is None:
            return "there is no such znode"
        if op.kind is OpKind.SET and op.version != before.version + 1:
            return f"version {op.version} after {before.version}"
        if op.kind is OpKind.CHECK and op.version not in (-1, before.version):
            return f"expected version {op.version} passed at {before.version}"
        return None


CHECKS: tuple[type[InvariantCheck], ...] = (OneOrderOfTransactions, EphemeralsDieWithTheirSession, VersionsCount)
