"""The MBeans that a broker serves on `metrics.port`, with the MBeans of its controller and its ZooKeeper client."""

from __future__ import annotations

from understudy.brokers.coordinator.group.group_metrics import GROUP_MBEANS
from understudy.brokers.log.cleaner_metrics import CLEANER_MBEANS
from understudy.brokers.metrics.broker_state import BROKER_STATE
from understudy.brokers.metrics.metered_zookeeper import MBEANS as ZOOKEEPER_MBEANS
from understudy.brokers.replication.fetch_session_metrics import FETCH_SESSION_MBEANS
from understudy.brokers.replication.replica_metrics import REPLICA_MBEANS
from understudy.controller.controller_metrics import MBEANS as CONTROLLER_MBEANS
from understudy.foundation.metrics.mbeans import MBean

MBEANS: tuple[MBean, ...] = (
    *CONTROLLER_MBEANS,
    BROKER_STATE,
    *REPLICA_MBEANS,
    *FETCH_SESSION_MBEANS,
    *GROUP_MBEANS,
    *CLEANER_MBEANS,
    *ZOOKEEPER_MBEANS,
)
"""MBeans of a broker, in the order of docs/reference/metrics.md."""
