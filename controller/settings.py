"""What the controller takes from the broker's configuration, under Kafka's names, and the bounds that are our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from foundation.cluster.metadata_version import LATEST_PRODUCTION, MetadataVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    inter_broker_protocol_version: MetadataVersion = LATEST_PRODUCTION
    """Which requests the controller sends, in which version, and what it writes in ZooKeeper."""
    inter_broker_listener_name: str = "PLAINTEXT"
    control_plane_listener_name: str | None = None
    controller_socket_timeout_ms: int = 30_000
    """How long one attempt to connect to a broker may take."""
    request_timeout_ms: int = 30_000
    """How long a broker may take to answer a control request before it is sent again."""
    unclean_leader_election_enabled: Callable[[], bool] = lambda: False
    """The default of this broker, as it is now, for topics that do not say (PSM-17)."""
    auto_leader_rebalance_enable: bool = True
    """Whether leaderships are given back to preferred replicas from time to time (AR-1)."""
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    """A broker gets its leaderships back when more than this share of those it is preferred for has gone elsewhere."""
    zookeeper_connection_timeout_ms: int = 18_000
    """How long a new controller waits for its own write of `/feature` to come round (FO-1)."""
    delete_topic_enable: bool = True
    """False: markers of topics to be deleted are not heeded."""

    event_queue_bound: int = 10_000
    """Events waiting. Past it the controller answers and drops them all and resigns: its successor starts from
    ZooKeeper."""
    channel_queue_bound: int = 1_000
    """Requests waiting for one broker. Past it they are coalesced, partition by partition."""
    conflict_rounds: int = 10
    """How often a state that changed under us is read again before its partition fails and the others go on."""
    digest_partitions: int = 5_000
    """Up to this many partitions `ContextAtIdle` carries a digest; beyond, it would cost a takeover its speed."""
    close_timeout_ms: int = 5_000
    """How long a stopping controller waits for the event in progress before it cuts it short."""
    drain_timeout_ms: int = 1_000
    """How long a stopping controller waits for its brokers to answer what it has already decided. In Kafka the same
    comes of stopping everything else first; without it the last orders of a controlled shutdown of the controller would
    be lost."""

    @property
    def controller_to_broker_listener_name(self) -> str:
        """The listener control requests travel on: the control plane's where there is one."""
        return self.control_plane_listener_name or self.inter_broker_listener_name
