"""The history of the znodes: every transaction ZooKeeper committed, in the one order there is.

In simulation the server hands it over as it goes; of real servers it is read from ZooKeeper's own transaction log after
the run. Watching observers would miss states, because watches are one-shot and coalesce.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class OpKind(Enum):
    CREATE = "create"
    SET = "set"
    DELETE = "delete"
    CHECK = "check"


class ZnodeOp(NamedTuple):
    """One operation that was applied."""

    kind: OpKind
    path: str
    """Absolute, sequence number included, chroot removed."""
    data: bytes | None = None
    """What was written (None: null); None for a delete or check."""
    version: int = 0
    """The data version after a create (0) or set; for a check the version it expected (−1 for any; a real log shows the
    version it met instead); 0 for a delete."""
    ephemeral_owner: int = 0
    """The session of an ephemeral created; 0 otherwise."""


class ZnodeTransaction(NamedTuple):
    """One committed transaction. Failed ones and the opening of sessions change no znode and are left out."""

    zxid: int
    time_ms: float
    """The server's wall clock."""
    session_id: int
    """Who asked for it; for the end of a session the one that ended."""
    ops: tuple[ZnodeOp, ...]
    """All operations of a `multi` together, checks included. The end of a session: one delete per ephemeral it took
    along."""
    closed_session: bool = False
    """The session was closed by its owner or expired by the server."""

    @property
    def writes(self) -> tuple[ZnodeOp, ...]:
        return tuple(op for op in self.ops if op.kind is not OpKind.CHECK)


class Znode(NamedTuple):
    data: bytes | None
    version: int
    czxid: int
    mzxid: int
    ephemeral_owner: int = 0


def apply(tree: dict[str, Znode], transaction: ZnodeTransaction) -> None:
    """Bring `tree` (path to znode) to the state after `transaction`."""
    for op in transaction.ops:
        if op.kind is OpKind.CREATE:
            tree[op.path] = Znode(op.data, 0, transaction.zxid, transaction.zxid, op.ephemeral_owner)
        elif op.kind is OpKind.SET:
            czxid, owner = (before.czxid, before.ephemeral_owner) if (before := tree.get(op.path)) else (0, 0)
            tree[op.path] = Znode(op.data, op.version, czxid, transaction.zxid, owner)
        elif op.kind is OpKind.DELETE:
            tree.pop(op.path, None)


def tree_after(transactions: Sequence[ZnodeTransaction]) -> dict[str, Znode]:
    """The znodes once all of `transactions` were applied to an empty server."""
    tree: dict[str, Znode] = {}
    for transaction in transactions:
        apply(tree, transaction)
    return tree
