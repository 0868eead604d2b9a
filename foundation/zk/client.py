"""The `ZooKeeper` port: sessions, reads, conditional writes, watches, and what a lost answer means.

`ZooKeeper.connect` opens one session and returns its handle, a `ZooKeeperClient`. A handle lives and dies with its
session: once the session has expired or was closed every operation answers `Failure.SESSION_EXPIRED`, for ever. Whoever
wants to go on opens a new session.

Outcomes are values. `Failure.UNKNOWN` says that the connection was lost: the operation may have been applied, refused
or never sent, and the caller has to find out (reliability R-5, Z5). It is never turned into another failure here.

Notifications (watches and session changes) reach the session's listener one at a time, on the loop, in the order of the
connection: a watch is heard before any answer that already reflects the change it tells of, `SessionExpired` is the
last thing a handle ever says. The listener must not block and must not raise.

Watches are one-shot. They are armed by a read that was asked to, and survive a reconnect of the same session: the port
arms them again and reports at once what changed meanwhile (what Java's client does with `setWatches`). A watch that has
fired is gone until the next read arms it.

Mirrors `kafka.zookeeper.ZooKeeperClient`. Implemented by `kazoo_client` and by the simulator; `tests/contracts` holds
both to the same cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

import msgspec

MATCH_ANY_VERSION = -1

MAX_REQUEST_BYTES = 1_000_000
"""The largest request or answer sent: ZooKeeper drops the connection of a packet above `jute.maxbuffer` (1,048,575)."""


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
    """In a failed `multi`: this operation was not the one that failed."""
    UNKNOWN = "Unknown"
    """The connection was lost before the answer came; the operation may or may not have been applied."""
    SESSION_EXPIRED = "SessionExpired"


class Stat(msgspec.Struct, frozen=True, gc=False):
    czxid: int
    mzxid: int
    version: int
    cversion: int = 0
    ephemeral_owner: int = 0
    data_length: int = 0
    num_children: int = 0
    ctime_ms: int = 0
    """When it was created, by the server's wall clock."""


class Node(msgspec.Struct, frozen=True, gc=False):
    data: bytes
    stat: Stat


class Children(msgspec.Struct, frozen=True, gc=False):
    """Names (not paths) of a znode's children, sorted, and the znode's own stat."""

    names: tuple[str, ...]
    stat: Stat


class Create(msgspec.Struct, frozen=True, gc=False):
    path: str
    data: bytes | None = None
    """None is stored as null, which reads back as empty: Kafka's persistent folders have null data."""
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
    """The path really created: with its sequence number where one was asked for, without the chroot."""


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
    """Nothing was applied. `position` is the operation that failed, `failure` its reason."""

    position: int
    failure: Failure


class WatchKind(Enum):
    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


@dataclass(frozen=True, slots=True)
class WatchFired:
    path: str
    kind: WatchKind


@dataclass(frozen=True, slots=True)
class SessionSuspended:
    """The connection is lost; the session may live on. Operations under way answered UNKNOWN."""


@dataclass(frozen=True, slots=True)
class SessionResumed:
    """The same session is connected again."""


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """The session is over, its ephemerals and watches with it. Nothing follows from this handle."""


Notification: TypeAlias = WatchFired | SessionSuspended | SessionResumed | SessionExpired
Listener: TypeAlias = Callable[[Notification], None]


class ZooKeeperClient(Protocol):
    """A handle on one session."""

    @property
    def session_id(self) -> int: ...

    @property
    def session_timeout_ms(self) -> int:
        """What the server granted, which may differ from what was asked for."""

    @property
    def last_zxid(self) -> int:
        """The newest transaction any answer of this session has reflected."""

    async def connected(self) -> bool:
        """Wait until the session is connected: True; or until it has expired: False."""

    async def get(self, path: str, *, watch: bool = False) -> Node | Failure:
        """Data and stat. `watch` arms a watch for its change and deletion, only if the znode exists."""

    async def exists(self, path: str, *, watch: bool = False) -> Stat | Failure:
        """Stat, or NO_NODE. `watch` arms a watch for creation, change and deletion, whether or not it exists."""

    async def children(self, path: str, *, watch: bool = False) -> Children | Failure:
        """`watch` arms a watch for children created or deleted, and for the znode's own deletion."""

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | Failure]:
        """As `get`, for many; one result per path, in order. Without watches in as few requests as possible
        (MultiRead), split at `MAX_REQUEST_BYTES`. A lost connection answers UNKNOWN for those whose answer had not
        come."""

    async def write(self, op: Create | SetData | Delete) -> OpResult | Failure: ...

    async def multi(self, ops: Sequence[Op]) -> MultiOk | MultiFailed | Failure:
        """All or nothing, in one transaction. Never split: TOO_LARGE where it would exceed `MAX_REQUEST_BYTES`; see
        `request_bytes`. A bare Failure is UNKNOWN, SESSION_EXPIRED or TOO_LARGE."""

    async def close(self) -> None:
        """End the session: its ephemerals vanish now. No notification follows. Closing twice is harmless."""


class ZooKeeper(Protocol):
    """An ensemble that sessions can be opened on."""

    async def connect(self, listener: Listener) -> ZooKeeperClient:
        """Open a session.

        Raises:
            ZooKeeperUnreachable: no server answered within `zookeeper.connection.timeout.ms`, or the chroot cannot be
                made.
        """


class ZooKeeperUnreachable(Exception):
    """No session could be opened. The message names the connect string and the time waited, or what refused the
    chroot."""


def request_bytes(op: Op) -> int:
    """An upper bound on what `op` adds to a request, in bytes."""
    data = op.data if isinstance(op, (Create, SetData)) else None
    return len(op.path.encode()) + len(data or b"") + 96
