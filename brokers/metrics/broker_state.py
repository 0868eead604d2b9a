"""The state of a broker as a metric: `kafka.server:type=KafkaServer,name=BrokerState`."""

from __future__ import annotations

from enum import IntEnum

from understudy.foundation.metrics.mbeans import MBean, MetricKind


class BrokerState(IntEnum):
    """The state of a broker between start and end. Mirrors `org.apache.kafka.metadata.BrokerState`."""

    NOT_RUNNING = 0
    STARTING = 1
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


BROKER_STATE = MBean(
    "kafka.server",
    "KafkaServer",
    "BrokerState",
    MetricKind.GAUGE,
    "0 not running, 1 starting, 3 running, 6 pending controlled shutdown, 7 shutting down.",
)
