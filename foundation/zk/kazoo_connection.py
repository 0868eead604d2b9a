"""Drives kazoo: the connection thread of one session, and the queue from it to the loop.

The only file that imports kazoo. kazoo opens the session, keeps it alive, reconnects, and sends and receives packets in
one thread for each session, the *connection thread*. Everything that this thread receives or notices (answers, watch
events, the connection lost or resumed, the session expired) reaches the loop through one queue, in the order of the
connection.

kazoo is used otherwise than it is meant in these points:

- Its two worker threads are not started: it would give answers to one and watch events to the other, and lose their
  order.
- Its table of watches is not used: kazoo clears it at every reconnect; `Watches` arms the watches again.
- It does not open a new session after an expired one: a handle belongs to one session.
- One byte in its pipe wakes it for all waiting requests. kazoo writes one for each; some three hundred fill the pipe,
  and then the loop and the connection thread would wait for each other.
- It leaves a silent server even while requests are being sent. kazoo counts each request as a ping and expects no
  answer.
- Each connection begins with an empty MultiRead. A server older than ZooKeeper 3.6 answers it with UNIMPLEMENTED and
  closes the connection, whatever else is under way on it: the answer has to come before the session is in use.
- A request that the loop sent before it was notified of a cut is not sent on the next connection.
- `select.poll` replaces a new epoll object for each wait, which halves the cost of an operation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    ConnectionDropped,
    ConnectionLoss,
    SessionExpiredError,
    UnimplementedError,
    ZookeeperError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import CloseInstance, Connect, Watch

from understudy.foundation.zk import jute
from understudy.foundation.zk.armed_watches import Arming, Watches
from understudy.foundation.zk.client import (
    Failure,
    Notification,
    SessionExpired,
    SessionResumed,
    SessionSuspended,
    WatchKind,
    ZNodeData,
)

CONNECT_TRIES = 3
"""Maximum number of connect requests that stay unanswered within one session timeout."""

_WATCH_KINDS = {1: WatchKind.CREATED, 2: WatchKind.DELETED, 3: WatchKind.CHANGED, 4: WatchKind.CHILDREN}
_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0, "max_jitter": 0.4}

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

# At DEBUG kazoo formats every request; at INFO it repeats what our own log has.
_kazoo_log = logging.getLogger("kazoo.client")
_kazoo_log.setLevel(logging.WARNING)
# kazoo logs this for every session that is stopped while it is not connected, for example an expired one.
_kazoo_log.addFilter(lambda record: "within the connection retry policy" not in record.getMessage())
# A server without MultiRead has a line of our own.
_NO_MULTI_READ = "the server has no MultiRead"
_kazoo_log.addFilter(lambda record: _NO_MULTI_READ not in record.getMessage())


class LoopSide(Protocol):
    """The handle of a session: receives everything on the loop, in the order of the connection."""

    def opened(self) -> None: ...
    def answered(self, future: asyncio.Future[Reply], reply: Reply) -> None: ...
    def watch_fired(self, path: str, kind: WatchKind) -> None:
        """`path` is the server's, chroot included."""

    def notified(self, notification: Notification) -> None: ...
    def thread_ended(self) -> None:
        """Called last: kazoo has ended its thread."""


Reply: TypeAlias = tuple[object, int]
"""The result or `Failure` of a request, and the zxid in the header of the answer."""


class Request(NamedTuple, Generic[_T]):
    """A request with the attributes that kazoo's connection needs to send it and to read its answer."""

    type: int
    body: bytes
    read: Callable[[bytes, int], _T]

    def serialize(self) -> bytes:
        return self.body

    def deserialize(self, data: bytes, offset: int) -> _T:
        return self.read(data, offset)


_EMPTY_MULTI_READ: Request[object] = Request(jute.MULTI_READ, jute.multi_read_request(()), jute.read_nothing)
_FIRST_XID = 1


def _set_watches(body: bytes) -> Request[bool]:
    return Request(jute.SET_WATCHES, body, jute.read_nothing)


class LoopCalls:
    """A queue of calls from the connection thread to the loop, made there in the order in which they were put."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._awake = False

    def put(self, call: Callable[..., object], *args: object) -> None:
        self._calls.append((call, args))
        if not self._awake:
            self._awake = True
            # The loop may be closed already.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        # Cleared first: a call that is put from here on is either seen below or wakes the loop again.
        self._awake = False
        while self._calls:
            call, args = self._calls.popleft()
            try:
                call(*args)
            except Exception as error:  # noqa: BLE001 - a listener's failure must not stop the session
                self._loop.call_exception_handler({"message": "a ZooKeeper listener raised", "exception": error})


class _Answer:
    """kazoo's async result: receives the answer in the connection thread and passes it to the loop."""

    def __init__(
        self, link: KazooLink, future: asyncio.Future[Reply], arming: Arming | None, watched: Sequence[str], cuts: int
    ) -> None:
        self.cuts = cuts
        """How many cuts the loop had been notified of when it sent the request."""
        self._link = link
        self._future = future
        self._arming = arming
        self._watched = watched

    def set(self, value: object) -> None:
        # kazoo answers an exists of an absent znode with None.
        result = Failure.NO_NODE if value is None else value
        if self._arming is not None:
            self._arming(self._link.watches, result)
        if self._watched:
            found = zip(self._watched, cast(list[object], value), strict=True)
            paths = [path for path, node in found if isinstance(node, ZNodeData)]
            self._watched = ()
            if paths:
                self._link.arm(paths, _Armed(self, value))
                return
        self._link.answered(self._future, result)

    def set_exception(self, error: Exception) -> None:
        failure = _failure(error)
        if self._arming is not None:
            self._arming(self._link.watches, failure)
        if isinstance(error, ConnectionLoss):
            self._link.suspended()
        self._link.answered(self._future, failure)


class _Armed:
    """The answer to the SetWatches that follows a read; the read is answered only now."""

    def __init__(self, answer: _Answer, value: object) -> None:
        self.cuts = answer.cuts
        self._answer = answer
        self._value = value

    def set(self, _: object) -> None:
        self._answer.set(self._value)

    def set_exception(self, error: Exception) -> None:
        self._answer.set_exception(error)


class _ArmedAgain:
    """The answer to the last SetWatches that arms watches again after a reconnect."""

    def __init__(self, link: KazooLink) -> None:
        self._link = link

    def set(self, _: object) -> None:
        self._link.armed_again()

    def set_exception(self, error: Exception) -> None:
        """Do nothing: the next connection arms all watches again."""


def _failure(error: Exception) -> Failure:
    code = error.code if isinstance(error, ZookeeperError) else None
    if code in jute.FAILURES:
        return jute.FAILURES[code]
    if not isinstance(error, ConnectionLoss):
        _log.warning("ZooKeeper answered with %r, which leaves the outcome of the request unknown", error)
    return Failure.UNKNOWN


# ------------------------------------------------------------------ in the connection thread


class KazooLink:
    """kazoo's client of one session.

    `start`, `send` and `close` are called by the loop, all other methods by the connection thread.
    """

    def __init__(self, hosts: str, timeout_ms: int, session: LoopSide, calls_on_loop: LoopCalls) -> None:
        self.watches = Watches()
        self.credentials = (0, b"")
        self.granted_timeout_ms = timeout_ms
        self._session = session
        self._calls_on_loop = calls_on_loop
        self._suspended = False
        self._closing = False
        self._cuts = 0
        self._arming_since: int | None = None
        """The zxid as of which watches are being armed again, until the server has done so for all."""
        self._client = KazooClient(
            hosts=hosts,
            timeout=timeout_ms / 1000,
            handler=_Handler(self._thread_ended),
            connection_retry=dict(_RECONNECT),
        )
        self._connection = _Connection(self._client, self._granted, self._watch_event, self._is_late)
        self._client._connection = self._connection
        self._client.add_listener(self._state_changed)

    # ------------------------------------------------------------------ from the loop

    @property
    def lacks_multi_read(self) -> bool:
        """Whether the session has met a server without MultiRead, to which none may be sent: it closes the
        connection."""
        return self._connection.lacks_multi_read

    def start(self) -> None:
        self._client.start_async()

    def send(
        self,
        request: Request[Any],
        future: asyncio.Future[Reply],
        arming: Arming | None,
        watched: Sequence[str],
        cuts: int,
    ) -> None:
        """Queue a request; its answer resolves `future` by way of `LoopSide.answered`.

        Args:
            arming: registers the watch that the request arms at the server.
            watched: znodes on which a data watch is armed if they exist.
            cuts: how many SessionSuspended the loop has received. After the next one the handle answers the request
                itself, with UNKNOWN.
        """
        self._put(request, _Answer(self, future, arming, watched, cuts))

    def close(self) -> None:
        if self._client._stopped.is_set():
            return
        self._closing = True
        self._client._stopped.set()
        self._put(CloseInstance, None)
        if not self._client._live.is_set():
            self._connection.abandon()

    # ------------------------------------------------------------------ in the connection thread

    def answered(self, future: asyncio.Future[Reply], result: object) -> None:
        self._calls_on_loop.put(self._session.answered, future, (result, self._client.last_zxid))

    def suspended(self) -> None:
        """Notify the loop of a cut, once.

        Called for the first answer that is lost, or else by kazoo, so that the notification comes before every UNKNOWN
        of this cut.
        """
        if not self._suspended and not self._closing:
            self._suspended = True
            self._cuts += 1
            self._calls_on_loop.put(self._session.notified, SessionSuspended())

    def arm(self, paths: Sequence[str], answer: _Armed) -> None:
        """Arm data watches on znodes that the answer now being handled has read."""
        self.watches.data.update(dict.fromkeys(paths))
        self._put(_set_watches(jute.set_watches_request(self._client.last_zxid, paths, (), ())), answer)

    def _state_changed(self, state: str) -> None:
        if self._closing:
            return
        if state == KazooState.SUSPENDED:
            self.suspended()
        elif state == KazooState.LOST:
            # Without this kazoo would open another session.
            self._client._stopped.set()
            self._calls_on_loop.put(self._session.notified, SessionExpired())
        elif self._suspended:
            self._suspended = False
            self._arm_again()
            self._calls_on_loop.put(self._session.notified, SessionResumed())
        else:
            self.credentials = self._client.client_id
            self._calls_on_loop.put(self._session.opened)

    def _arm_again(self) -> None:
        """Queue the SetWatches before all waiting requests, so that no answer precedes the watch event of its change.

        The answer to one SetWatches moves the last zxid seen beyond changes that the next has yet to report. If the
        connection is lost between the two, all watches are armed as of the earlier zxid.
        """
        since_zxid = self._client.last_zxid if self._arming_since is None else self._arming_since
        requests = list(map(_set_watches, self.watches.requests(since_zxid)))
        self._arming_since = since_zxid if requests else None
        last = _ArmedAgain(self)
        self._client._queue.extendleft(
            (request, None if number else last) for number, request in enumerate(reversed(requests))
        )
        self._connection.wake()

    def armed_again(self) -> None:
        self._arming_since = None

    def _is_late(self, answer: object) -> bool:
        return isinstance(answer, _Answer | _Armed) and answer.cuts != self._cuts

    def _put(self, request: Any, answer: _Answer | _Armed | None) -> None:
        self._client._queue.append((request, answer))
        self._connection.wake()

    def _watch_event(self, path: str, event_type: int) -> None:
        kind = _WATCH_KINDS.get(event_type)
        if kind is not None and self.watches.fire(path, kind) and not self._closing:
            self._calls_on_loop.put(self._session.watch_fired, path, kind)

    def _granted(self, timeout_ms: int) -> None:
        self.granted_timeout_ms = timeout_ms

    def _thread_ended(self) -> None:
        self._client.close()
        self._calls_on_loop.put(self._session.thread_ended)


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection, with callbacks for the granted session timeout and for watch events."""

    def __init__(
        self,
        client: Any,
        granted: Callable[[int], None],
        watch_event: Callable[[str, int], None],
        is_late: Callable[[object], bool],
    ) -> None:
        super().__init__(client, client._conn_retry.copy(), logger=client.logger)
        self._granted = granted
        self._watch_event = watch_event
        self._is_late = is_late
        self.lacks_multi_read = False
        self._awake = False
        self._last_answer_s = 0.0

    def wake(self) -> None:
        """Make kazoo's `select` return; called by either thread. The pipe is gone once the thread has ended."""
        pipe = self._write_sock
        if pipe is not None and not self._awake:
            self._awake = True
            with contextlib.suppress(OSError):
                pipe.send(b"\0")

    def abandon(self) -> None:
        """Stop waiting for the answer to a connect request."""
        connecting = self._socket
        if connecting is not None:
            with contextlib.suppress(OSError):
                connecting.shutdown(socket.SHUT_RDWR)

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        if isinstance(request, Connect):
            # A starting server accepts connections and never answers the early ones. There must be time for another try
            # before the session expires, which kazoo and Java's client do not leave with a single server.
            timeout = min(timeout, self.client._session_timeout / 1000 / CONNECT_TRIES)
        answer = super()._invoke(timeout, request, xid)
        self._last_answer_s = time.monotonic()
        if isinstance(request, Connect) and answer[0].time_out > 0:
            self._granted(answer[0].time_out)
            if not self.lacks_multi_read:
                self._try_multi_read(timeout, answer[0])
        return answer

    def _try_multi_read(self, timeout: float, session: Connect) -> None:
        """Send an empty MultiRead; give the connection up if the server does not know the request.

        The zxid of the answer is not used: watches are armed again as of the last zxid before the connection.

        Raises:
            ConnectionDropped: the server has no MultiRead, or the request failed; the session continues.
            SessionExpiredError: the session expired meanwhile.
        """
        self._xid = _FIRST_XID
        try:
            super()._invoke(timeout, _EMPTY_MULTI_READ, _FIRST_XID)
        except UnimplementedError:
            _log.info(
                "this ZooKeeper is older than 3.6 and has no MultiRead; many znodes are read by one request for each"
            )
            self.lacks_multi_read = True
            self.client._session_id, self.client._session_passwd = session.session_id, session.passwd
            raise ConnectionDropped(_NO_MULTI_READ) from None
        except SessionExpiredError:
            raise
        except ZookeeperError as error:
            raise ConnectionDropped(f"an empty MultiRead failed with {error!r}") from None

    def _read_socket(self, read_timeout: float) -> Any:
        response = super()._read_socket(read_timeout)
        self._last_answer_s = time.monotonic()
        return response

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        if self.client._pending and time.monotonic() - self._last_answer_s > read_timeout:
            raise ConnectionDropped(f"no answer within {read_timeout:.1f} s")
        queue = self.client._queue
        while queue and self._is_late(queue[0][1]):
            queue.popleft()
        super()._send_request(read_timeout, connect_timeout)
        # kazoo has taken the byte. Cleared before looking: a request that is put from here on is either seen below or
        # wakes kazoo again.
        self._awake = False
        if queue:
            self.wake()

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        self._watch_event(event.path, event.type)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's handler without its worker threads; it calls `thread_ended` when the connection thread ends."""

    def __init__(self, thread_ended: Callable[[], None]) -> None:
        super().__init__()
        self._thread_ended = thread_ended

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def spawn(self, function: Callable[..., None], *args: Any, **kwargs: Any) -> threading.Thread:
        def run() -> None:
            try:
                function(*args, **kwargs)
            finally:
                self._thread_ended()

        thread = threading.Thread(target=run, name="zookeeper-connection", daemon=True)
        thread.start()
        return thread

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _: Sequence[Any], timeout: float | None = None
    ) -> Any:
        poller = select.poll()
        sockets = {}
        for waiting, events in [(reader, select.POLLIN) for reader in readers] + [
            (writer, select.POLLOUT) for writer in writers
        ]:
            sockets[waiting.fileno()] = waiting
            poller.register(waiting, events)
        ready = [
            sockets[descriptor] for descriptor, _ in poller.poll(None if timeout is None else math.ceil(timeout * 1000))
        ]
        return [reader for reader in readers if reader in ready], [writer for writer in writers if writer in ready], []
