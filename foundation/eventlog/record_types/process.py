"""Records of a process, its ZooKeeper session and its writes to ZooKeeper."""

from __future__ import annotations

from typing import TypeAlias

from understudy.foundation.eventlog.record_types.base import RecordPayload


class ProcessStarted(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written first by every process that keeps an event log: a broker, or the testbed that runs the cluster."""

    role: str
    """`broker`, `testbed`, `simulator` or `client`; `controller` for a node of a KRaft cluster that is no broker."""
    broker_id: int = -1
    """The configured `broker.id`; −1 if none is configured or the process is no broker."""
    pid: int = 0
    """The process id; 0 in the simulator and if an imported log does not name it."""
    software: str = ""
    """The name of the program."""
    machine: str = ""
    """The host's name; empty if it is not known."""
    boot: str = ""
    """Identifies the monotonic clock: processes with the same text share it. Linux: the boot id, and the offset of the
    process's time namespace if it has one. Empty if the system has no such id."""
    after_seq: int = 0
    """The last `seq` in the log of this node's incarnation before; 0 if there is none, or it has no record."""
    has_testbed: bool = False
    """Whether a testbed keeps a log of this run's faults beside the brokers' logs."""


class LogSeen(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the testbed at its end, once for each node whose event log it can read, for the node's last
    incarnation: a log with fewer records has lost its end."""

    node: str
    """The node whose event log was seen."""
    incarnation: int
    """The last incarnation that has left a log."""
    seq: int
    """The last `seq` in that log: it has at least this many records."""


class ProcessExiting(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written last by a process that ends by itself; a killed one leaves no such record."""

    reason: str
    """Why it ends, in words."""


class StillRunning(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by `understudy import-kafka` for a broker's last log line before a second or more without any, if that
    line becomes no other record, and for a session that a broker without logs closed itself: it was running then. In
    the import of a KRaft cluster, batches of an active controller stand for its lines. Brokers of Understudy do not
    write it."""

    source: str
    """The log that has the line, for example `server.log` or `__cluster_metadata`."""


class TaskFailed(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker's supervisor when a task fails that must not. The broker stops, unless the task was a
    callback of its session or the handler of a config."""

    task: str
    """The name of the task."""
    error: str
    """Class and message of the exception, and where it was raised."""


class ConnectionRefused(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker's socket server when it closes a connection for what was sent over it, or as one too many.
    At most ten in a minute are written for one address, and a hundred for all."""

    peer: str
    """`host:port` of the other end."""
    reason: str
    """Why it was closed, in words."""
    left_out: int = 0
    """Connections that were closed since the last of these records, without a record."""


class _SessionRecord(RecordPayload, frozen=True, kw_only=True, gc=False):
    """The base class of the records of ZooKeeper sessions."""

    session_id: int
    """The session's id in ZooKeeper."""


class SessionOpened(_SessionRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it has opened a ZooKeeper session."""

    timeout_ms: int
    """The session timeout that ZooKeeper granted, in milliseconds."""


class SessionSuspendedRecord(_SessionRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker when its connection to ZooKeeper is lost; its session may continue."""


class SessionResumedRecord(_SessionRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it is connected to ZooKeeper again, in the same session."""


class SessionExpiredRecord(_SessionRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it learns that ZooKeeper has ended its session."""


class BrokerRegistered(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker when its registration `/brokers/ids/N` has been created."""

    broker_id: int
    """The broker's id N."""
    broker_epoch: int
    """The zxid of the transaction that created the registration (KIP-380); in a KRaft cluster the offset of the
    record."""
    session_id: int
    """The ZooKeeper session that owns it; 0 if an imported log does not name it, and in a KRaft cluster."""


class WatchFiredRecord(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it receives a watch event from ZooKeeper."""

    path: str
    """The znode, without the chroot."""
    kind: str
    """`created`, `deleted`, `changed` (its data) or `children` (their list)."""


class ZkWrite(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker's ZooKeeper client before it sends a write or a transaction."""

    purpose: str
    """What for: `election`, `registration`, `leader-and-isr`, `create-partitions`, `topic`, `topic-deletion` …"""
    paths: tuple[str, ...]
    """The first few znodes it changes."""
    operations: int
    """How many operations it has, the check of the controller epoch not counted."""
    fenced: bool
    """Whether it checks the version of `/controller_epoch`."""
    epoch_zk_version: int = -1
    """The version of `/controller_epoch` it expects; −1 if it is not fenced."""


class ZkWriteDone(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker's ZooKeeper client when it has the outcome of a write; `cause` is the `ZkWrite`."""

    outcome: str
    """`Ok`, or the failure: `BadVersion`, `NodeExists`, `Unknown` (the connection was lost) …"""
    zxid: int = -1
    """The transaction's zxid; −1 if it failed or the answer does not contain it."""


ProcessRecord: TypeAlias = (
    ProcessStarted
    | ProcessExiting
    | LogSeen
    | StillRunning
    | TaskFailed
    | ConnectionRefused
    | SessionOpened
    | SessionSuspendedRecord
    | SessionResumedRecord
    | SessionExpiredRecord
    | BrokerRegistered
    | WatchFiredRecord
    | ZkWrite
    | ZkWriteDone
)
