"""The picture of a cluster that `tests.understudy.page.folding.fold` computes: immutable, of plain values.

Field names are the document's (`fold_document`), which the page's scripts also compute. Times are whole
microseconds of the monotonic clock. Keys of `topics` are a topic's name and then a partition's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

from understudy.foundation.eventlog.records import AssignedMember, Leadership
from understudy.history.reading.run_records import broker_node

K = TypeVar("K")
V = TypeVar("V")

Topics: TypeAlias = Mapping[str, Mapping[int, V]]
"""Values by topic and partition."""

MOST_WAITING: Final = 8
"""Maximum number of waiting requests that are kept for a channel; a broker that is away may have a thousand."""


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


class Life(Enum):
    """The state of a process."""

    UNKNOWN = "unknown"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    """Asked to end."""
    DEAD = "dead"
    """Killed, or ended by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSession:
    """A node's session, as the node itself knows it."""

    id: str
    """See `session_text`."""
    timeout_ms: int | None
    is_connected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerEvent:
    """An event of the controller that waits since, or is in progress since, `since_us`."""

    id: int
    event: str
    since_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """The term of a node that holds itself for the controller."""

    epoch: int
    is_ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PointPicture:
    """The named point at which a node was paused or crashed."""

    point: str
    action: str
    us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequest:
    """A control request that waits in a channel to be sent."""

    id: int
    """The sequence number of its `RequestQueued`, or of its last `RequestSent` if it has been sent before."""
    api: str
    epoch: int
    """The controller epoch in the request."""
    partitions: int
    event: str
    since_us: int
    """When it was queued, or sent last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """The controller's channel to a broker."""

    broker_epoch: int
    in_flight: str | None = None
    """The key of its request in `EventLogPicture.in_flight`; None if it waits for no answer."""
    unanswered: WaitingRequest | None = None
    """The request that was sent, got no answer, and is sent again before any that waits."""
    waiting: int = 0
    """How many requests wait that have not been sent yet."""
    first: tuple[WaitingRequest, ...] = ()
    """The first of them, at most `MOST_WAITING`; fewer also if earlier ones have been sent since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCut:
    """The offsets that a truncation has removed from a log: from `from_` up to, and without, `end`."""

    from_: int
    end: int
    us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """The largest offset of a partition that a producer has an answer for."""

    topic_id: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLog:
    """One replica's log. None if no record has said it."""

    topic_id: str
    role: str = ""
    leader_epoch: int = -1
    start: int | None = None
    end: int | None = None
    high_watermark: int | None = None
    epochs: tuple[tuple[int, int], ...] = ()
    """(leader epoch, its first offset)."""
    cut: LogCut | None = None
    """What its last truncation has removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPicture:
    """A consumer group, as its last coordinator has recorded it."""

    partition: int
    """Of `__consumer_offsets`."""
    coordinator: str = ""
    """The node that has loaded it; empty if that has forgotten it."""
    leader_epoch: int = -1
    """The leader epoch of the partition in which the coordinator has loaded it; −1 if that is not recorded."""
    state: str = ""
    generation: int = -1
    members: int = 0
    assigned_generation: int = -1
    """The generation that is stored, with `leader` and `assigned`: what the next coordinator loads."""
    leader: str = ""
    assigned: tuple[AssignedMember, ...] = ()
    offsets: Topics[int] = field(default_factory=_nothing)
    """The committed offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingBatch:
    """The records of a Produce that a client has not seen the end of."""

    records: int
    since_us: int
    """When its first attempt began."""
    attempt: int
    broker: str
    """Empty if it cannot be sent yet."""
    error: str | None
    """The error of the last attempt, empty for no answer; None while an attempt is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSend:
    """The last Produce of a client to a partition that has ended."""

    records: int
    offset: int
    error: str
    """`NONE` if it is acknowledged; empty if there was no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCommit:
    """An offset that a client commits, and has not seen the end of."""

    offset: int
    since_us: int
    """When its first attempt began."""
    broker: str
    """Empty if its coordinator has to be found."""
    error: str | None
    """As in `WaitingBatch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A partition that a client reads."""

    position: int
    broker: str
    """Empty if it knows no leader."""
    error: str | None
    """The error of the last Fetch, empty for no answer; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A request for metadata that is under way, or has failed."""

    broker: str
    since_us: int
    error: str | None
    """None while it is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnectionPicture:
    """A client's connection to a broker."""

    state: str
    since_us: int
    """When it began to connect, also if attempts have failed since; when it was connected."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A member's own view of its group."""

    state: str
    since_us: int
    generation: int
    member_id: str
    coordinator: int
    partitions: tuple[tuple[str, int], ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPicture:
    """A client of a process, by its records."""

    waiting: Topics[tuple[WaitingBatch, ...]] = field(default_factory=_nothing)
    """The oldest batch first."""
    sent: Topics[EndedSend] = field(default_factory=_nothing)
    reads: Topics[Reading] = field(default_factory=_nothing)
    commits: Topics[WaitingCommit] = field(default_factory=_nothing)
    lookup: Lookup | None = None
    connections: Mapping[str, ClientConnectionPicture] = field(default_factory=_nothing)
    """By the broker's node."""
    groups: Mapping[str, Membership] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingWrite:
    """A write to ZooKeeper without an outcome so far, as in `ZkWrite`."""

    purpose: str
    paths: tuple[str, ...]
    fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePicture:
    """One node: a process, by its own records and the faults injected into it."""

    life: Life = Life.UNKNOWN
    life_since_us: int = 0
    incarnation: int = 0
    role: str = ""
    broker_id: int = -1
    """−1 if it is no broker or has not recorded it yet."""
    pid: int = 0
    session: ZooKeeperSession | None = None
    silent_since_us: int | None = None
    """Since when ZooKeeper cannot get its heartbeats; None while it can."""
    broker_epoch: int | None = None
    """Of its registration; None while it has none."""
    controller_epoch: int = 0
    """The newest that it has received or won."""
    zxid: int = 0
    term: Term | None = None
    """From its election to its resignation, also if another controller has been elected since."""
    point: PointPicture | None = None
    """None if it is not at a named point."""
    event: ControllerEvent | None = None
    """The controller event that it is processing."""
    queue: tuple[ControllerEvent, ...] = ()
    """The events that wait."""
    writes: Mapping[str, PendingWrite] = field(default_factory=_nothing)
    """By the sequence number of the `ZkWrite`."""
    partition_states: Topics[str] = field(default_factory=_nothing)
    """Kafka's names of the states in its partition state machine."""
    replica_states: Topics[Mapping[int, str]] = field(default_factory=_nothing)
    """Kafka's names of the states in its replica state machine, by broker id."""
    channels: Mapping[int, Channel] = field(default_factory=_nothing)
    """By broker id."""
    believes: Topics[Leadership] = field(default_factory=_nothing)
    """The partitions that it leads or follows, by the LeaderAndIsr requests it has accepted."""
    metadata: Topics[Leadership] = field(default_factory=_nothing)
    """Its metadata cache, by the UpdateMetadata requests it has accepted."""
    metadata_controller: int = -1
    metadata_epoch: int = -1
    """The controller epoch of the last UpdateMetadata."""
    metadata_brokers: tuple[int, ...] = ()
    logs: Topics[PartitionLog] = field(default_factory=_nothing)
    coordinates: Mapping[int, int] = field(default_factory=_nothing)
    """The partitions of `__consumer_offsets` that it has loaded, with the leader epoch of each."""
    clients: Mapping[str, ClientPicture] = field(default_factory=_nothing)
    """The clients that run in its process, by client id."""
    last_seq: int = 0
    last_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPicture:
    """The controller elected last, even if it has lost the role."""

    broker_id: int
    epoch: int
    node: str
    incarnation: int
    is_ready: bool = False
    has_resigned: bool = False
    is_gone: bool = False
    """Its `/controller` is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerZNode:
    """`/controller`."""

    broker_id: int
    epoch: int
    node: str
    session: str | None
    zxid: int
    """The newest that its creator had seen then; 0 if that is not known."""
    created: int
    """The number of the record that has created it, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """`/brokers/ids/N`."""

    epoch: int | None
    """Its broker epoch, the zxid that created it; None if that is not known."""
    session: str | None
    node: str
    created: int | None
    """The number of the record that has created it, from 1; None if no record has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentZNode:
    """A znode that no record says more about than that it exists, and when it was written."""

    created: int | None
    """The number of the record that has created it, from 1; None if no record has."""
    changed: int | None
    """The number of the record that has changed it, or its children, last."""
    zxid: int
    """The newest that its writer had seen then; 0 if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperPicture:
    """ZooKeeper, as far as records show it."""

    life: Life = Life.UNKNOWN
    controller: ControllerZNode | None = None
    controller_epoch: int = 0
    controller_epoch_version: int | None = None
    """The version of `/controller_epoch`; None if that is not known."""
    controller_epoch_changed: int | None = None
    """The number of the record that has changed it last; None if no record has."""
    ids: Mapping[str, Registration] = field(default_factory=_nothing)
    """By broker id, as a text."""
    others: Mapping[str, PersistentZNode] = field(default_factory=_nothing)
    """The other znodes by path, but for the states of partitions and the znodes between them and their topics."""
    deleted: Mapping[str, int] = field(default_factory=_nothing)
    """The number of the record that has deleted a znode, by the path of each that is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """A control request without an answer so far."""

    us: int
    from_: str
    """The sender's node."""
    to: int
    api: str
    epoch: int
    """The controller epoch in the request."""
    partitions: int
    event: str
    attempt: int
    client_id: str
    correlation_id: int
    is_received: bool = False
    """The receiver has decoded it."""
    answer: str | None = None
    """Kafka's name of the error with which the receiver has answered, `NONE` for none; None before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPicture:
    """How the run was set up, as in `RunDescribed`."""

    world: str = ""
    brokers: int | None = None
    session_timeout_ms: int | None = None
    fault: str = ""
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogPicture:
    """Everything the records have said so far."""

    run: str = ""
    us: int = 0
    """The latest time of a record."""
    records: int = 0
    step: str = ""
    """The step that the scenario has reached."""
    last_fault: str = ""
    """The last fault, for example `kill broker-1`."""
    controller: ControllerPicture | None = None
    zookeeper: ZooKeeperPicture = ZooKeeperPicture()
    partitions: Topics[Leadership] = field(default_factory=_nothing)
    """The state of each partition in ZooKeeper, from the newest controller epoch."""
    written: Topics[int] = field(default_factory=_nothing)
    """The number of the record that says that the state was written; of a state that was only read there is none."""
    acknowledged: Topics[Acknowledged] = field(default_factory=_nothing)
    groups: Mapping[str, GroupPicture] = field(default_factory=_nothing)
    in_flight: Mapping[str, InFlight] = field(default_factory=_nothing)
    """By the sender's node and incarnation and the sequence number of its `RequestSent`: `broker-1/1/42`."""
    fences: Mapping[str, int] = field(default_factory=_nothing)
    """How often each fence was hit."""
    links: Mapping[str, str] = field(default_factory=_nothing)
    """The faults of links that last, for example `cut`, by `broker-1 -> broker-2` or `broker-1 -> all`."""
    settings: SettingsPicture = SettingsPicture()
    nodes: Mapping[str, NodePicture] = field(default_factory=_nothing)

    def node(self, name: str) -> NodePicture:
        return self.nodes.get(name, NodePicture())

    def broker(self, broker_id: int) -> NodePicture:
        return self.node(broker_node(broker_id))


EMPTY: Final = EventLogPicture()


# ------------------------------------------------------------------ values


def with_entry(mapping: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    """Return a mapping with one more entry, or another value."""
    return MappingProxyType({**mapping, key: value})


def without(mapping: Mapping[K, V], keys: Iterable[K]) -> Mapping[K, V]:
    """Return a mapping without some keys; it need not have them."""
    gone = {key for key in keys if key in mapping}
    return MappingProxyType({key: value for key, value in mapping.items() if key not in gone}) if gone else mapping


def changed(topics: Topics[V], changes: Iterable[tuple[str, int, V | None]]) -> Topics[V]:
    """Return values by topic and partition after some changes: (topic, partition, new value), None to remove it."""
    copies: dict[str, dict[int, V]] = {}
    for topic, partition, value in changes:
        if topic not in copies:
            copies[topic] = dict(topics.get(topic, {}))
        if value is None:
            copies[topic].pop(partition, None)
        else:
            copies[topic][partition] = value
    if not copies:
        return topics
    known = {**topics, **{topic: MappingProxyType(partitions) for topic, partitions in copies.items()}}
    return MappingProxyType({topic: partitions for topic, partitions in known.items() if partitions})


def value_of(topics: Topics[V], topic: str, partition: int) -> V | None:
    """Return the value of a partition; None if there is none."""
    partitions = topics.get(topic)
    return None if partitions is None else partitions.get(partition)
