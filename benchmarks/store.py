"""Opens a `KafkaZkClient` with a session of its own, for a benchmark's changes by hand; its event log is discarded."""

from __future__ import annotations

from understudy.brokers.machine.real_world import MachineClock
from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.zk.client import ZooKeeperClient
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient
from understudy.foundation.zk.kazoo_client import KazooZooKeeper


async def open_store(zookeeper: str) -> tuple[KafkaZkClient, ZooKeeperClient]:
    """The typed client and the ZooKeeper client under it. Closing the former closes both."""
    session = await KazooZooKeeper(zookeeper, session_timeout_ms=30_000).connect(lambda _: None)
    events = EventLog(run="", node="bench", incarnation=1, clock=MachineClock(), write=len)
    return KafkaZkClient(session, events=events, fences=Fences(events)), session
