"""The history of the znodes as values: every transaction that ZooKeeper committed, in order of zxid.

The simulated ZooKeeper appends to it during the run; for a real server `understudy.history.reading.transaction_log`
reads it from ZooKeeper's transaction log. Watches would not do: one that fires may stand for several changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class OpKind(Enum):
    """The kind of a `ZnodeOp`."""

    CREATE = "create"
    SET = "set"
    DELETE = "delete"
    CHECK = "check"


class ZnodeOp(NamedTuple):
    """One operation of a committed transaction."""

    kind: OpKind
    path: str
    """The absolute path below the chroot, with the number of a sequential znode."""
    data: bytes | None = None
    """The data of a create or set, None if it is null; None for a delete or check."""
    version: int = 0
    """The data version after a create (0) or set; 0 for a delete. For a check the expected version, −1 for any; a real
    transaction log has the version that was found instead."""
    ephemeral_owner: int = 0
    """The session that owns a created ephemeral znode; otherwise 0."""


class ZnodeTransaction(NamedTuple):
    """One committed transaction that changes znodes or ends a session.

    Failed transactions and the opening of sessions change no znode and are left out.
    """

    zxid: int
    time_ms: float
    """Milliseconds since 1970 by the server's wall clock."""
    session_id: int
    """The session that sent the request; for the end of a session, the session that ended."""
    ops: tuple[ZnodeOp, ...]
    """All operations of a `multi`, its checks included. The end of a session has one delete for each ephemeral znode
    that ZooKeeper removed with it."""
    closed_session: bool = False
    """Whether this transaction is the end of a session: closed by its client or expired by the server."""

    @property
    def writes(self) -> tuple[ZnodeOp, ...]:
        """All operations except the checks."""
        return tuple(op for op in self.ops if op.kind is not OpKind.CHECK)


class Znode(NamedTuple):
    """A znode after some transaction."""

    data: bytes | None
    version: int
    czxid: int
    mzxid: int
    ephemeral_owner: int = 0


def apply(tree: dict[str, Znode], transaction: ZnodeTransaction) -> None:
    """Change `tree` (path to znode) to its state after `transaction`."""
    for op in transaction.ops:
        if op.kind is OpKind.CREATE:
            tree[op.path] = Znode(op.data, 0, transaction.zxid, transaction.zxid, op.ephemeral_owner)
        elif op.kind is OpKind.SET:
            czxid, owner = (before.czxid, before.ephemeral_owner) if (before := tree.get(op.path)) else (0, 0)
            tree[op.path] = Znode(op.data, op.version, czxid, transaction.zxid, owner)
        elif op.kind is OpKind.DELETE:
            tree.pop(op.path, None)


def tree_after(transactions: Sequence[ZnodeTransaction]) -> dict[str, Znode]:
    """Return the znodes by path after `transactions`, which begin at an empty server."""
    tree: dict[str, Znode] = {}
    for transaction in transactions:
        apply(tree, transaction)
    return tree
