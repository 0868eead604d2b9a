"""`Watches`: the watches that a session has armed, and the requests that arm them again on its next connection.

Java's client has such tables too (`ZKWatchManager`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from understudy.foundation.zk import jute
from understudy.foundation.zk.client import Failure, WatchKind

MULTI_READ_PATHS = 1_000
"""Maximum number of znodes read by one request: with more nothing gets faster, and an answer would grow past what one
should buffer."""

SET_WATCHES_BYTES = 128 * 1024
"""Number of bytes at which the watches to arm again are split over requests, as in Java's client."""


class Watches:
    """The watches of this session, by the kind of read that armed them. Used by the connection thread only.

    The server drops them with the connection. On the next connection they are armed again before anything else is sent,
    as of the last zxid seen, and the server reports at once what has changed since.
    """

    def __init__(self) -> None:
        self.data: dict[str, None] = {}
        self.existence: dict[str, None] = {}
        """Watches of absent znodes, which fire at their creation."""
        self.children: dict[str, None] = {}

    def fire(self, path: str, kind: WatchKind) -> bool:
        """Remove the watches that an event fires; return whether there were any.

        After a SetWatches the server may report one deletion twice, for the data and the child watch; the second report
        fires nothing.
        """
        used = []
        if kind is not WatchKind.CHILDREN:
            used += [self.data, self.existence]
        if kind in (WatchKind.CHILDREN, WatchKind.DELETED):
            used += [self.children]
        armed = [watches for watches in used if path in watches]
        for watches in armed:
            del watches[path]
        return bool(armed)

    def requests(self, since_zxid: int) -> list[bytes]:
        """Return the bodies of the SetWatches requests that arm all watches again."""
        bodies = []
        for position, watches in enumerate((self.data, self.existence, self.children)):
            for chunk in chunks(list(watches), SET_WATCHES_BYTES):
                lists: list[Sequence[str]] = [(), (), ()]
                lists[position] = chunk
                bodies.append(jute.set_watches_request(since_zxid, *lists))
        return bodies


Arming: TypeAlias = Callable[[Watches, object], None]
"""Adds the watch that a read with this answer has armed at the server."""


def arming(request_type: int, path: str) -> Arming:
    """Return what adds the watch of a read of this type: EXISTS, GET_DATA or GET_CHILDREN_2."""

    def arm(watches: Watches, result: object) -> None:
        if request_type == jute.EXISTS and result is Failure.NO_NODE:
            watches.existence[path] = None
        elif not isinstance(result, Failure):
            armed = watches.children if request_type == jute.GET_CHILDREN_2 else watches.data
            armed[path] = None

    return arm


def chunks(paths: Sequence[str], max_bytes: int) -> Iterator[Sequence[str]]:
    """Split `paths`, in order, into parts that fit into one request, by number and by size."""
    start = size = 0
    for at, path in enumerate(paths):
        added = len(path.encode()) + 16
        if at > start and (size + added > max_bytes or at - start == MULTI_READ_PATHS):
            yield paths[start:at]
            start, size = at, 0
        size += added
    if paths:
        yield paths[start:]
