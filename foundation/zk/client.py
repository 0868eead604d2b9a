"""The `ZooKeeper` port: sessions, reads, conditional writes and watches.

`ZooKeeper.connect` opens one session and returns its handle, a `ZooKeeperClient`. The handle belongs to this session:
once it has expired or was closed, every operation answers `Failure.SESSION_EXPIRED`, and another session has to be
opened.

Outcomes are values. `Failure.UNKNOWN` means that the connection was lost: the operation may have been applied, refused
or never sent, and the caller has to find out. It is never turned into another failure here.

Notifications (watch events and session changes) reach the session's listener one at a time, on the loop, in the order
of the connection: a watch event comes before any answer that already reflects its change, and `SessionExpired` is the
last notification of a handle. The listener must not block and must not raise.

Watches fire once. A read with `watch=True` arms them, and they survive a reconnect of the same session: the port arms
them again and reports at once what has changed meanwhile, as Java's client does with `setWatches`. A watch that has
fired is gone until the next read arms it.

Mirrors `kafka.zookeeper.ZooKeeperClient`. Implemented by `kazoo_client` and by the simulator; `tests/contracts` holds
both to the same cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol, TypeAlias

import msgspec

MATCH_ANY_VERSION = -1

MAX_REQUEST_BYTES = 1_000_000
"""Maximum size of a request, in bytes: ZooKeeper closes the connection on a packet above `jute.maxbuffer`
(1,048,575)."""


class Failure(Enum):
    """Why an operation has no result."""

    NO_NODE = "NoNode"
    NODE_EXISTS = "NodeExists"
    BAD_VERSION = "BadVersion"
    NOT_EMPTY = "NotEmpty"
    NO_CHILDREN_FOR_EPHEMERALS = "NoChildrenForEphemerals"
    NO_AUTH = "NoAuth"
    BAD_ARGUMENTS = "BadArguments"
    TOO_LARGE = "TooLarge"
    """Refused before it was sent: it would exceed `MAX_REQUEST_BYTES`."""
    ROLLED_BACK = "RolledBack"
    """In a failed `multi`: another operation failed, and this one was undone."""
    UNKNOWN = "Unknown"
    """The connection was lost before the answer came; the operation may or may not have been applied."""
    SESSION_EXPIRED = "SessionExpired"


class Stat(msgspec.Struct, frozen=True, gc=False):
    """A znode's metadata, under ZooKeeper's names."""

    czxid: int
    mzxid: int
    version: int
    cversion: int = 0
    ephemeral_owner: int = 0
    data_length: int = 0
    num_children: int = 0
    ctime_ms: int = 0
    """When it was created: milliseconds since 1970 by the server's wall clock."""
    mtime_ms: int = 0
    """When its data was last set, as `ctime_ms`."""
    pzxid: int = 0
    """The transaction that last created or deleted a child of it."""
    acl_version: int = 0
    """Number of times that its ACL was set, ZooKeeper's `aversion`."""


class ZNodeData(msgspec.Struct, frozen=True, gc=False):
    """A znode's data and its stat, as `get` reads them."""

    data: bytes
    stat: Stat
    is_null: bool = False
    """Whether null is stored, which `data` has as empty."""


class Children(msgspec.Struct, frozen=True, gc=False):
    """Names (not paths) of a znode's children, sorted, and the znode's own stat."""

    names: tuple[str, ...]
    stat: Stat


class Create(msgspec.Struct, frozen=True, gc=False):
    path: str
    data: bytes | None = None
    """None is stored as null, which is read back as empty: Kafka's persistent folders have null data."""
    ephemeral: bool = False
    sequential: bool = False


class SetData(msgspec.Struct, frozen=True, gc=False):
    path: str
    data: bytes
    version: int = MATCH_ANY_VERSION


class Delete(msgspec.Struct, frozen=True, gc=False):
    path: str
    version: int = MATCH_ANY_VERSION


class Check(msgspec.Struct, frozen=True, gc=False):
    path: str
    version: int


Op: TypeAlias = Create | SetData | Delete | Check


class Created(msgspec.Struct, frozen=True, gc=False):
    path: str
    """The path that was created: without the chroot, and with the number of a sequential znode."""


class Updated(msgspec.Struct, frozen=True, gc=False):
    stat: Stat


class Deleted(msgspec.Struct, frozen=True, gc=False):
    pass


class Checked(msgspec.Struct, frozen=True, gc=False):
    pass


OpResult: TypeAlias = Created | Updated | Deleted | Checked


class MultiOk(msgspec.Struct, frozen=True, gc=False):
    """All operations were applied in one transaction; `results` has one entry for each."""

    results: tuple[OpResult, ...]
    zxid: int


class MultiFailed(msgspec.Struct, frozen=True, gc=False):
    """The transaction was not applied: the operation at `position` failed, by `failure`."""

    position: int
    failure: Failure


class WatchKind(Enum):
    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class WatchFired(msgspec.Struct, frozen=True):
    """A watch has fired; `path` is without the chroot."""

    path: str
    kind: WatchKind


class SessionSuspended(msgspec.Struct, frozen=True):
    """The connection is lost; the session may continue. Requests under way are answered with UNKNOWN."""


class SessionResumed(msgspec.Struct, frozen=True):
    """The same session is connected again."""


class SessionExpired(msgspec.Struct, frozen=True):
    """The session has expired, and its ephemeral znodes and watches are gone. No notification follows."""


Notification: TypeAlias = WatchFired | SessionSuspended | SessionResumed | SessionExpired
Listener: TypeAlias = Callable[[Notification], None]


class ZooKeeperClient(Protocol):
    """A handle on one session."""

    @property
    def session_id(self) -> int: ...

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout that the server granted, in milliseconds; it may differ from the one requested."""

    @property
    def last_zxid(self) -> int:
        """The newest transaction that an answer to this session reflects."""

    async def connected(self) -> bool:
        """Wait until the session is connected (True) or has expired or been closed (False)."""

    async def get(self, path: str, *, watch: bool = False) -> ZNodeData | Failure:
        """Read data and stat. `watch` arms a watch for change and deletion, if the znode exists."""

    async def exists(self, path: str, *, watch: bool = False) -> Stat | Failure:
        """Read the stat; NO_NODE without the znode. `watch` arms a watch for creation, change and deletion."""

    async def children(self, path: str, *, watch: bool = False) -> Children | Failure:
        """List the children. `watch` arms a watch for children created or deleted, and for the znode's own deletion."""

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[ZNodeData | Failure]:
        """Read many znodes, as `get` does; one result for each path, in order.

        The real adapter reads with MultiRead, split at `MAX_REQUEST_BYTES`, and from servers older than ZooKeeper 3.6
        with pipelined requests. When the connection is lost, the paths without an answer are UNKNOWN.
        """

    async def write(self, op: Create | SetData | Delete) -> OpResult | Failure:
        """Send one write."""

    async def multi(self, ops: Sequence[Op]) -> MultiOk | MultiFailed | Failure:
        """Apply all operations or none, in one transaction.

        It is never split: TOO_LARGE if it would exceed `MAX_REQUEST_BYTES` (see `request_bytes`). A Failure is UNKNOWN,
        SESSION_EXPIRED or TOO_LARGE; an operation that fails is a `MultiFailed`.
        """

    async def close(self) -> None:
        """End the session; its ephemeral znodes are deleted. No notification follows. Closing twice is harmless."""


class ZooKeeper(Protocol):
    """A ZooKeeper ensemble on which sessions can be opened."""

    async def connect(self, listener: Listener) -> ZooKeeperClient:
        """Open a session.

        Raises:
            ZooKeeperUnreachable: no server answered within `zookeeper.connection.timeout.ms`, or the chroot cannot be
                created.
        """


class ZooKeeperUnreachable(Exception):
    """No session could be opened.

    The message names the connect string and the time waited, or the folder of the chroot that cannot be created.
    """


def request_bytes(op: Op) -> int:
    """Return an upper bound of the bytes that `op` adds to a request."""
    data = op.data if isinstance(op, (Create, SetData)) else None
    return len(op.path.encode()) + len(data or b"") + 96
