"""Measures ZooKeeper sessions and request latencies. Mirrors the metrics of `kafka.zookeeper.ZooKeeperClient`.

`MeteredZooKeeper` wraps the `ZooKeeper` port of the World, so that the real and the simulated one are measured alike. A
bulk read, or a transaction, is one request here and is counted once; Kafka counts each znode.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeVar

from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.metrics.instruments import Histogram, Meter
from understudy.foundation.metrics.mbeans import MBean, MetricKind, MetricReading
from understudy.foundation.zk.client import (
    Children,
    Create,
    Delete,
    Failure,
    Listener,
    MultiFailed,
    MultiOk,
    Notification,
    Op,
    OpResult,
    SessionExpired,
    SessionResumed,
    SessionSuspended,
    SetData,
    Stat,
    ZNodeData,
    ZooKeeper,
    ZooKeeperClient,
)

_T = TypeVar("_T")


class SessionState(Enum):
    """The states of a ZooKeeper session. Mirrors `org.apache.zookeeper.ZooKeeper.States`, without those for SASL."""

    NOT_CONNECTED = "NOT_CONNECTED"
    """No session has been opened."""
    CONNECTING = "CONNECTING"
    CONNECTED = "CONNECTED"
    CLOSED = "CLOSED"


SESSION_STATE = MBean(
    "kafka.server",
    "SessionExpireListener",
    "SessionState",
    MetricKind.GAUGE,
    "1 for the state of this broker's ZooKeeper session, 0 for the others.",
    tag="state",
)
LATENCY = MBean(
    "kafka.server",
    "ZooKeeperClientMetrics",
    "ZooKeeperRequestLatencyMs",
    MetricKind.HISTOGRAM,
    "Time between a request to ZooKeeper and its answer.",
)


def _meter(what: str, doc: str) -> MBean:
    return MBean("kafka.server", "SessionExpireListener", f"ZooKeeper{what}PerSec", MetricKind.METER, doc)


DISCONNECTS = _meter("Disconnects", "Connections to ZooKeeper lost.")
SYNC_CONNECTS = _meter("SyncConnects", "Connections to ZooKeeper made, in a new session or an old one.")
AUTH_FAILURES = _meter("AuthFailures", "Always 0: this broker does not authenticate to ZooKeeper.")
READ_ONLY_CONNECTS = _meter("ReadOnlyConnects", "Always 0: this broker connects to no read-only server.")
SASL_AUTHENTICATIONS = _meter("SaslAuthentications", "Always 0: this broker does not authenticate to ZooKeeper.")
EXPIRES = _meter("Expires", "Sessions that have expired.")

_METERED = (DISCONNECTS, SYNC_CONNECTS, AUTH_FAILURES, READ_ONLY_CONNECTS, SASL_AUTHENTICATIONS, EXPIRES)
MBEANS: tuple[MBean, ...] = (SESSION_STATE, *_METERED, LATENCY)


class MeteredZooKeeper:
    """Passes every call on to another `ZooKeeper`, and measures it."""

    def __init__(self, zookeeper: ZooKeeper, clock: Clock) -> None:
        self.state = SessionState.NOT_CONNECTED
        self.latency = Histogram(clock)
        self._zookeeper = zookeeper
        self._clock = clock
        self._meters: Mapping[MBean, Meter] = {mbean: Meter(clock) for mbean in _METERED}

    async def connect(self, listener: Listener) -> ZooKeeperClient:
        def on_notification(notification: Notification) -> None:
            self._measure(notification)
            listener(notification)

        self.state = SessionState.CONNECTING
        client = await self._zookeeper.connect(on_notification)
        self._connected()
        return MeteredZooKeeperClient(client, self)

    def readings(self) -> Iterator[MetricReading]:
        for state in SessionState:
            yield MetricReading(SESSION_STATE, int(state is self.state), state.value)
        for mbean, meter in self._meters.items():
            yield MetricReading(mbean, meter)
        yield MetricReading(LATENCY, self.latency)

    async def timed(self, answer: Awaitable[_T]) -> _T:
        """Await `answer`, and add the time it takes to the latencies."""
        started_ms = self._clock.monotonic_ms()
        result = await answer
        self.latency.update(self._clock.monotonic_ms() - started_ms)
        return result

    def closed(self) -> None:
        """Note that the session has been closed."""
        self.state = SessionState.CLOSED

    def _connected(self) -> None:
        self.state = SessionState.CONNECTED
        self._meters[SYNC_CONNECTS].mark()

    def _measure(self, notification: Notification) -> None:
        match notification:
            case SessionSuspended():
                self.state = SessionState.CONNECTING
                self._meters[DISCONNECTS].mark()
            case SessionResumed():
                self._connected()
            case SessionExpired():
                self.state = SessionState.CLOSED
                self._meters[EXPIRES].mark()
            case _:
                pass


class MeteredZooKeeperClient:
    """Passes every call on to another `ZooKeeperClient`, and measures it."""

    def __init__(self, client: ZooKeeperClient, meters: MeteredZooKeeper) -> None:
        self._client = client
        self._meters = meters

    @property
    def session_id(self) -> int:
        return self._client.session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._client.session_timeout_ms

    @property
    def last_zxid(self) -> int:
        return self._client.last_zxid

    async def connected(self) -> bool:
        return await self._client.connected()

    async def get(self, path: str, *, watch: bool = False) -> ZNodeData | Failure:
        return await self._meters.timed(self._client.get(path, watch=watch))

    async def exists(self, path: str, *, watch: bool = False) -> Stat | Failure:
        return await self._meters.timed(self._client.exists(path, watch=watch))

    async def children(self, path: str, *, watch: bool = False) -> Children | Failure:
        return await self._meters.timed(self._client.children(path, watch=watch))

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[ZNodeData | Failure]:
        return await self._meters.timed(self._client.get_many(paths, watch=watch))

    async def write(self, op: Create | SetData | Delete) -> OpResult | Failure:
        return await self._meters.timed(self._client.write(op))

    async def multi(self, ops: Sequence[Op]) -> MultiOk | MultiFailed | Failure:
        return await self._meters.timed(self._client.multi(ops))

    async def close(self) -> None:
        self._meters.closed()
        await self._client.close()
