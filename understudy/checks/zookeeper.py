"""Invariants of ZooKeeper itself (Z1, Z2, Z6). They test the simulated ZooKeeper and the reader of transaction logs."""

from __future__ import annotations

from understudy.checks.check import InvariantCheck
from understudy.checks.facts import ClusterFacts
from understudy.checks.history import OpKind, Znode, ZnodeOp, ZnodeTransaction, apply
from understudy.checks.missing import RefutedBy


class ZxidsIncrease(InvariantCheck):
    id = "Z1"
    sentence = "zxids strictly increase"
    refuted_by = RefutedBy.NOTHING
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._last = 0

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        self.times_tested += 1
        if transaction.zxid <= self._last:
            self.violated(transaction, f"zxid {transaction.zxid} follows {self._last}")
        self._last = transaction.zxid


class EphemeralsEndWithTheirSession(InvariantCheck):
    id = "Z2"
    sentence = "the end of a session deletes all its ephemeral znodes, and no session writes after its end"
    refuted_by = RefutedBy.NOTHING
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
            self.times_tested += 1
            self._ended.add(transaction.session_id)
            if left := sorted(self._ephemerals.pop(transaction.session_id, ())):
                self.violated(transaction, f"session {transaction.session_id:#x} ended and left {left[0]}")


class VersionsAreConsecutive(InvariantCheck):
    id = "Z6"
    sentence = (
        "a create finds no znode, a delete or set finds one, a set raises the version by one, and a check passes only "
        "at the version it names"
    )
    refuted_by = RefutedBy.NOTHING
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._tree = {
            path: Znode(None, 0, 0, 0) for path in ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")
        }

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        for op in transaction.ops:
            self.times_tested += 1
            if contradiction := self._contradiction(op):
                self.violated(transaction, f"{op.kind.value} {op.path}: {contradiction}")
            apply(self._tree, transaction._replace(ops=(op,)))

    def _contradiction(self, op: ZnodeOp) -> str | None:
        before = self._tree.get(op.path)
        if op.kind is OpKind.CREATE:
            return None if before is None else "the znode exists already"
        if before is None:
            return "the znode does not exist"
        if op.kind is OpKind.SET and op.version != before.version + 1:
            return f"version {op.version} after {before.version}"
        if op.kind is OpKind.CHECK and op.version not in (-1, before.version):
            return f"expected version {op.version} passed at {before.version}"
        return None


CHECKS: tuple[type[InvariantCheck], ...] = (ZxidsIncrease, EphemeralsEndWithTheirSession, VersionsAreConsecutive)
