"""The controller's settings: the broker's configuration, under Kafka's names, and bounds of our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from understudy.foundation.cluster.metadata_version import LATEST_PRODUCTION, MetadataVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The settings of one controller; each time is in the unit at the end of its name."""

    inter_broker_protocol_version: MetadataVersion = LATEST_PRODUCTION
    """Decides which requests the controller sends, in which version, and what it writes to ZooKeeper."""
    inter_broker_listener_name: str = "PLAINTEXT"
    controller_to_broker_listener_name: str = "PLAINTEXT"
    """The listener for control requests: the control plane's if there is one."""
    controller_socket_timeout_ms: int = 30_000
    """Maximum time that an attempt to connect to a broker takes."""
    request_timeout_ms: int = 30_000
    """Maximum time in which a broker responds to a control request; then it is sent again."""
    unclean_leader_election_enabled: Callable[[], bool] = lambda: False
    """Returns this broker's current default for topics without a config of their own (PSM-17)."""
    auto_leader_rebalance_enable: bool = True
    """Whether leaderships are given back to preferred replicas from time to time (AR-1)."""
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    """Percentage of the partitions that prefer a broker above which, if another broker leads them, it gets its
    leaderships back."""
    zookeeper_connection_timeout_ms: int = 18_000
    """Maximum time that a new controller waits until its broker has read what it wrote to `/feature` (FO-1)."""
    delete_topic_enable: bool = True
    """False: markers of topics to be deleted are ignored."""

    event_queue_bound: int = 10_000
    """Maximum number of events that wait. Past it the controller drops them and resigns; its successor starts from
    ZooKeeper."""
    channel_queue_bound: int = 1_000
    """Maximum number of requests that wait for one broker. Past it they are coalesced, partition by partition."""
    conflict_rounds: int = 10
    """Maximum number of times that a conflicting state is read and decided again before its partition fails."""
    digest_partitions: int = 5_000
    """Maximum number of partitions with which `ContextAtIdle` carries a digest; with more it would slow down a
    takeover."""
    close_timeout_ms: int = 5_000
    """Maximum time that a stopping controller waits for the event in progress before it is cancelled."""
    drain_timeout_ms: int = 1_000
    """Maximum time that a stopping controller waits for responses to requests it has queued. In Kafka the rest of the
    broker stops first, which has the same effect; otherwise the last requests of the controller's own controlled
    shutdown would be lost."""
