"""Reads the state of a cluster from ZooKeeper, for code that is not in an event loop.

A `ClusterView` has one session, on its own loop and thread. It serves the waits of `LocalCluster`, its look-ups
of roles, and `understudy status`. It writes only in `delete_controller`, and to create a chroot that does not exist.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from understudy.brokers.machine.real_world import MachineClock
from understudy.clusters.picture import NOTIFICATION_QUEUES, ClusterPicture, PartitionPicture
from understudy.clusters.processes.loop_thread import LoopThread
from understudy.foundation.cluster.broker import BrokerAndEpoch
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderIsrAndControllerEpoch
from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.zk.admin_znodes import (
    DeleteTopicsZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from understudy.foundation.zk.client import (
    Create,
    Delete,
    Failure,
    Notification,
    SetData,
    ZooKeeperClient,
    ZooKeeperUnreachable,
)
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient, SessionLost, ZooKeeperFailure
from understudy.foundation.zk.kazoo_client import KazooZooKeeper
from understudy.foundation.zk.znodes import ControllerEpochZNode, ControllerZNode, MalformedZNode

T = TypeVar("T")

# Reads fail with an exception if the connection is broken: kazoo need not print it unless logging is configured.
logging.getLogger("kazoo").addHandler(logging.NullHandler())

SESSION_TIMEOUT_MS = CONNECTION_TIMEOUT_MS = 10_000
ANSWER_TIMEOUT_S = 30.0
_ATTEMPTS = 3

NO_ANSWER = (MalformedZNode, SessionLost, TimeoutError, ZooKeeperFailure, ZooKeeperUnreachable)
"""Exceptions of a read: no server answers, none answers in time, or a znode cannot be decoded."""


@dataclass(slots=True)
class _ViewSession:
    """An open session: its client, and Kafka's reads over it."""

    handle: ZooKeeperClient
    store: KafkaZkClient


class ClusterView:
    """The state of the cluster at `zookeeper_connect`, read on demand; the first read opens the session.

    All reads may raise the exceptions of `NO_ANSWER`: for example `ZooKeeperUnreachable` if no server answers,
    `TimeoutError` if it stops answering, `MalformedZNode` if a znode cannot be decoded.

    Args:
        answer_timeout_s: the time that one read may take.
    """

    def __init__(self, zookeeper_connect: str, *, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._connect_string = zookeeper_connect
        self._answer_timeout_s = answer_timeout_s
        self._session: _ViewSession | None = None
        self._thread = LoopThread("understudy-view")

    def controller_id(self) -> int | None:
        """The id of the broker that owns `/controller`; None if there is no controller."""
        return self._read(lambda session: session.store.controller.id())

    def brokers(self) -> dict[BrokerId, BrokerAndEpoch]:
        """The registered brokers, in order of id."""
        return self._read(lambda session: session.store.brokers.all())

    def leader(self, partition: TopicPartition) -> int | None:
        """The leader in the partition's state znode; None if it has no leader or does not exist."""
        state = self._read(lambda session: session.store.states.read([partition]))[partition]
        if isinstance(state, Failure) or state.leader_and_isr.leader < 0:
            return None
        return state.leader_and_isr.leader

    def isr(self, partition: TopicPartition) -> tuple[BrokerId, ...]:
        """The in-sync replicas in the partition's state znode; empty if there is no such partition."""
        state = self._read(lambda session: session.store.states.read([partition]))[partition]
        return () if isinstance(state, Failure) else state.leader_and_isr.isr

    def delete_controller(self, broker_id: int) -> None:
        """Delete `/controller` if `broker_id` owns it."""
        self._read(lambda session: _delete_controller(session.handle, broker_id))

    def write(self, path: str, data: bytes) -> bool:
        """Set the data of a znode, or create it, as an operator does; return whether that was possible."""
        return self._read(lambda session: _write(session.handle, path, data))

    def delete(self, path: str) -> bool:
        """Delete a znode, as an operator does; return whether that was possible."""
        return not isinstance(self._read(lambda session: session.handle.write(Delete(path))), Failure)

    def picture(self) -> ClusterPicture:
        """Read the whole state of the cluster; the reads are not atomic."""
        return self._read(_picture)

    def close(self) -> None:
        """End the session and the thread. Closing twice is harmless."""
        if not self._thread.is_closed:
            self._thread.ask(self._close_session(), ANSWER_TIMEOUT_S)
            self._thread.close()

    def __enter__(self) -> ClusterView:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, read: Callable[[_ViewSession], Awaitable[T]]) -> T:
        return self.run(self._read_on_session(read))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the view's loop, and return its result.

        Raises TimeoutError, and what the coroutine raises.
        """
        try:
            return self._thread.ask(coroutine, self._answer_timeout_s)
        except TimeoutError:
            raise TimeoutError(
                f"ZooKeeper at {self._connect_string} gave no answer within {self._answer_timeout_s:g} s"
            ) from None

    async def _read_on_session(self, read: Callable[[_ViewSession], Awaitable[T]]) -> T:
        """Read, on a new session if the old one has expired."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await read(await self._open_session())
            except SessionLost:
                self._session = None
        return await read(await self._open_session())

    async def _open_session(self) -> _ViewSession:
        if self._session is None:
            self._session = await _open(self._connect_string)
        return self._session

    async def _close_session(self) -> None:
        if self._session is not None:
            await self._session.store.close()
            self._session = None


def controller_if_known(zookeeper_connect: str) -> int | None:
    """The id of the controller; None if there is none, or ZooKeeper does not answer within two seconds."""
    try:
        with ClusterView(zookeeper_connect, answer_timeout_s=2.0) as view:
            return view.controller_id()
    except NO_ANSWER:
        return None


async def _open(connect_string: str) -> _ViewSession:
    zookeeper = KazooZooKeeper(
        connect_string, session_timeout_ms=SESSION_TIMEOUT_MS, connection_timeout_ms=CONNECTION_TIMEOUT_MS
    )
    handle = await zookeeper.connect(_ignore_notification)
    # The records of a reader are not kept.
    events = EventLog(run="", node="view", incarnation=1, clock=MachineClock(), write=len)
    return _ViewSession(handle, KafkaZkClient(handle, events=events, fences=Fences(events)))


async def _picture(session: _ViewSession) -> ClusterPicture:
    store = session.store
    # One transaction changes both: read in this order, the controller is at least as new as the epoch.
    epoch = await session.handle.get(ControllerEpochZNode.path)
    controller = await store.controller.id()
    brokers = await store.brokers.all()
    assignments = await store.topics.assignments(await store.topics.names())
    replicas = {
        partition: assignment for topic in assignments.values() for partition, assignment in topic.partitions.items()
    }
    states = await store.states.read(sorted(replicas))
    return ClusterPicture(
        controller=controller,
        controller_epoch=0 if isinstance(epoch, Failure) else ControllerEpochZNode.decode(epoch.data),
        brokers=brokers,
        partitions={
            partition: PartitionPicture(assignment=assignment, state=_readable(states[partition]))
            for partition, assignment in replicas.items()
        },
        topic_ids={name: topic.topic_id for name, topic in assignments.items()},
        topics_to_delete=await _children(session.handle, DeleteTopicsZNode.path),
        requested_moves=await _requested_moves(session.handle),
        controller_requests=tuple(await _controller_requests(session.handle)),
    )


async def _delete_controller(handle: ZooKeeperClient, broker_id: int) -> None:
    node = await handle.get(ControllerZNode.path)
    if not isinstance(node, Failure) and ControllerZNode.decode(node.data).broker_id == broker_id:
        await handle.write(Delete(ControllerZNode.path, node.stat.version))


async def _write(handle: ZooKeeperClient, path: str, data: bytes) -> bool:
    is_set = not isinstance(await handle.write(SetData(path, data)), Failure)
    return is_set or not isinstance(await handle.write(Create(path, data)), Failure)


async def _children(handle: ZooKeeperClient, path: str) -> tuple[str, ...]:
    """The names of a znode's children, sorted; none if there is no such znode."""
    children = await handle.children(path)
    return () if isinstance(children, Failure) else tuple(sorted(children.names))


async def _requested_moves(handle: ZooKeeperClient) -> tuple[TopicPartition, ...]:
    """The partitions that `/admin/reassign_partitions` names; none if it cannot be read."""
    node = await handle.get(ReassignPartitionsZNode.path)
    if isinstance(node, Failure):
        return ()
    with contextlib.suppress(MalformedZNode):
        return tuple(ReassignPartitionsZNode.decode(node.data))
    return ()


async def _controller_requests(handle: ZooKeeperClient) -> list[str]:
    """The paths of the znodes that notify the controller or ask it for an election."""
    found = [f"{queue}/{name}" for queue in NOTIFICATION_QUEUES for name in await _children(handle, queue)]
    elections = PreferredReplicaElectionZNode.path
    return found if isinstance(await handle.get(elections), Failure) else [*found, elections]


def _readable(state: LeaderIsrAndControllerEpoch | Failure) -> LeaderIsrAndControllerEpoch | None:
    return None if isinstance(state, Failure) else state


def _ignore_notification(notification: Notification) -> None:
    """Ignore a notification: no watch is set, and the next read fails if the session has ended."""
