"""The tree of znodes of the simulated ZooKeeper: it applies transactions, and returns changes that may fire watches.

A failed `multi` changes nothing. Mirrors `org.apache.zookeeper.server.DataTree` and the checks of
`PrepRequestProcessor`. It has no connections and no clock; sessions are only ids here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from understudy.checks.history import OpKind, ZnodeOp
from understudy.foundation.zk.client import (
    MATCH_ANY_VERSION,
    Check,
    Checked,
    Children,
    Create,
    Created,
    Delete,
    Deleted,
    Failure,
    Op,
    OpResult,
    SetData,
    Stat,
    Updated,
    WatchKind,
    ZNodeData,
)
from understudy.foundation.zk.znodes import parent


class Touched(NamedTuple):
    """A change that may fire watches: `path` was created, changed or deleted, or its list of children changed."""

    path: str
    kind: WatchKind


class Applied(NamedTuple):
    """The result of one operation, its entry in the history, and the changes that may fire watches."""

    result: OpResult
    op: ZnodeOp
    touched: tuple[Touched, ...]


class Refusal(NamedTuple):
    """The failure of the operation at `position`; nothing of its transaction was applied."""

    position: int
    failure: Failure


@dataclass(slots=True)
class _Znode:
    data: bytes | None = None
    version: int = 0
    czxid: int = 0
    mzxid: int = 0
    pzxid: int = 0
    ctime_ms: int = 0
    mtime_ms: int = 0
    creates: int = 0
    """Number of children that were ever created; the number of the next sequential child."""
    ephemeral_owner: int = 0
    children: set[str] = field(default_factory=set)

    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            version=self.version,
            cversion=2 * self.creates - len(self.children),
            ephemeral_owner=self.ephemeral_owner,
            data_length=len(self.data or b""),
            num_children=len(self.children),
            ctime_ms=self.ctime_ms,
            mtime_ms=self.mtime_ms,
            pzxid=self.pzxid,
        )


class ZnodeTree:
    """All znodes, by path."""

    def __init__(self) -> None:
        self._znodes: dict[str, _Znode] = {"/": _Znode()}

    # ------------------------------------------------------------------ reading

    def get(self, path: str) -> ZNodeData | Failure:
        znode = self._find(path)
        if isinstance(znode, Failure):
            return znode
        return ZNodeData(znode.data or b"", znode.stat(), znode.data is None)

    def exists(self, path: str) -> Stat | Failure:
        znode = self._find(path)
        return znode if isinstance(znode, Failure) else znode.stat()

    def children(self, path: str) -> Children | Failure:
        znode = self._find(path)
        return znode if isinstance(znode, Failure) else Children(tuple(sorted(znode.children)), znode.stat())

    def children_changed_at(self, path: str) -> int | None:
        """The zxid of the last change to the list of children, or None if there is no such znode."""
        znode = self._znodes.get(path)
        return None if znode is None else znode.pzxid

    def ephemerals(self, session_id: int) -> tuple[str, ...]:
        """The paths of the ephemeral znodes of a session, sorted."""
        return tuple(sorted(path for path, znode in self._znodes.items() if znode.ephemeral_owner == session_id))

    def _find(self, path: str) -> _Znode | Failure:
        if not is_valid_path(path):
            return Failure.BAD_ARGUMENTS
        return self._znodes.get(path, Failure.NO_NODE)

    # ------------------------------------------------------------------ writing

    def transact(
        self, ops: Sequence[Op], *, zxid: int, session_id: int, wall_ms: float = 0.0
    ) -> list[Applied] | Refusal:
        """Apply all of `ops` as one transaction, or none of them.

        Args:
            wall_ms: the time of the transaction by the server's clock.
        """
        applied: list[Applied] = []
        undo: list[Callable[[], object]] = []
        for position, op in enumerate(ops):
            outcome = self._apply(op, zxid, session_id, int(wall_ms), undo)
            if isinstance(outcome, Failure):
                for step in reversed(undo):
                    step()
                return Refusal(position, outcome)
            applied.append(outcome)
        return applied

    def accepts(self, ops: Sequence[Op]) -> bool:
        """Whether a transaction of an operator would be applied now. It changes nothing."""
        undo: list[Callable[[], object]] = []
        outcomes = [self._apply(op, 0, 0, 0, undo) for op in ops]
        for step in reversed(undo):
            step()
        return not any(isinstance(outcome, Failure) for outcome in outcomes)

    def _apply(
        self, op: Op, zxid: int, session_id: int, now_ms: int, undo: list[Callable[[], object]]
    ) -> Applied | Failure:
        match op:
            case Create():
                return self._create(op, zxid, session_id, now_ms, undo)
            case SetData():
                return self._set(op, zxid, now_ms, undo)
            case Delete():
                return self._delete(op, zxid, undo)
            case Check():
                return self._check(op)

    def _create(
        self, op: Create, zxid: int, session_id: int, now_ms: int, undo: list[Callable[[], object]]
    ) -> Applied | Failure:
        if not is_valid_path(op.path + "0" if op.sequential else op.path) or op.path == "/":
            return Failure.BAD_ARGUMENTS if op.path != "/" else Failure.NODE_EXISTS
        parent_path = parent(op.path)
        folder = self._znodes.get(parent_path)
        if folder is None:
            return Failure.NO_NODE
        path = f"{op.path}{folder.creates:010d}" if op.sequential else op.path
        if path in self._znodes:
            return Failure.NODE_EXISTS
        if folder.ephemeral_owner:
            return Failure.NO_CHILDREN_FOR_EPHEMERALS
        owner = session_id if op.ephemeral else 0
        name = path.rpartition("/")[2]
        before = folder.creates, folder.pzxid
        self._znodes[path] = _Znode(
            data=op.data,
            czxid=zxid,
            mzxid=zxid,
            pzxid=zxid,
            ctime_ms=now_ms,
            mtime_ms=now_ms,
            ephemeral_owner=owner,
        )
        folder.children.add(name)
        folder.creates, folder.pzxid = folder.creates + 1, zxid

        def undo_create() -> None:
            del self._znodes[path]
            folder.children.discard(name)
            folder.creates, folder.pzxid = before

        undo.append(undo_create)
        return Applied(
            Created(path),
            ZnodeOp(OpKind.CREATE, path, op.data, 0, owner),
            (Touched(path, WatchKind.CREATED), Touched(parent_path, WatchKind.CHILDREN)),
        )

    def _set(self, op: SetData, zxid: int, now_ms: int, undo: list[Callable[[], object]]) -> Applied | Failure:
        znode = self._find(op.path)
        if isinstance(znode, Failure):
            return znode
        if op.version not in (MATCH_ANY_VERSION, znode.version):
            return Failure.BAD_VERSION
        before = znode.data, znode.version, znode.mzxid, znode.mtime_ms
        znode.data, znode.version, znode.mzxid, znode.mtime_ms = op.data, znode.version + 1, zxid, now_ms

        def undo_set() -> None:
            znode.data, znode.version, znode.mzxid, znode.mtime_ms = before

        undo.append(undo_set)
        return Applied(
            Updated(znode.stat()),
            ZnodeOp(OpKind.SET, op.path, op.data, znode.version),
            (Touched(op.path, WatchKind.CHANGED),),
        )

    def _delete(self, op: Delete, zxid: int, undo: list[Callable[[], object]]) -> Applied | Failure:
        znode = self._find(op.path)
        if op.path == "/":
            return Failure.BAD_ARGUMENTS
        if isinstance(znode, Failure):
            return znode
        if op.version not in (MATCH_ANY_VERSION, znode.version):
            return Failure.BAD_VERSION
        if znode.children:
            return Failure.NOT_EMPTY
        parent_path, name = parent(op.path), op.path.rpartition("/")[2]
        folder, removed = self._znodes[parent_path], znode
        before = folder.pzxid
        del self._znodes[op.path]
        folder.children.discard(name)
        folder.pzxid = zxid

        def undo_delete() -> None:
            self._znodes[op.path] = removed
            folder.children.add(name)
            folder.pzxid = before

        undo.append(undo_delete)
        return Applied(
            Deleted(),
            ZnodeOp(OpKind.DELETE, op.path),
            (Touched(op.path, WatchKind.DELETED), Touched(parent_path, WatchKind.CHILDREN)),
        )

    def _check(self, op: Check) -> Applied | Failure:
        znode = self._find(op.path)
        if isinstance(znode, Failure):
            return znode
        if op.version not in (MATCH_ANY_VERSION, znode.version):
            return Failure.BAD_VERSION
        return Applied(Checked(), ZnodeOp(OpKind.CHECK, op.path, None, op.version), ())


@lru_cache(maxsize=65_536)
def is_valid_path(path: str) -> bool:
    """Whether ZooKeeper accepts `path` (`PathUtils.validatePath`)."""
    if path == "/":
        return True
    if not path.startswith("/") or path.endswith("/"):
        return False
    if any(name in ("", ".", "..") for name in path[1:].split("/")):
        return False
    return not any(_is_forbidden(ord(letter)) for letter in path)


def _is_forbidden(code: int) -> bool:
    return code <= 0x1F or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xF8FF or 0xFFF0 <= code <= 0xFFFF
