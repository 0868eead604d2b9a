"""Imports what every broker logs: its process, its ZooKeeper session, and the control requests that it handles.

The statements are from `KafkaServer`, `KafkaZkClient`, `ReplicaManager`, `Partition`, `ZkMetadataCache`, `KafkaApis`,
and ZooKeeper's client. docs/guides/import-kafka.md has them in a table.
"""

from __future__ import annotations

import re
from typing import Final

from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    FenceHit,
    ProcessExiting,
    RequestReceived,
    ResponseSent,
    SessionExpiredRecord,
    SessionOpened,
    SessionResumedRecord,
    SessionSuspendedRecord,
    WatchFiredRecord,
)
from understudy.history.kafka_logs.broker_node import HandledRequest
from understudy.history.kafka_logs.kafka_text import (
    ISR_AND_VERSION,
    UNKNOWN,
    isr_and_version,
    session_id,
    topic_partition,
)
from understudy.history.kafka_logs.statements import STATE_CHANGE, Line, Statements

STATEMENTS: Final = Statements()
"""Statements whose lines become records, or are needed by later records."""

_SERVER = "kafka.server.KafkaServer"
_ZK_CLIENT = "kafka.zk.KafkaZkClient"
_ZOOKEEPER_CLIENT = "kafka.zookeeper.ZooKeeperClient"
_CONNECTION = "org.apache.zookeeper.ClientCnxn"
_REGISTRATION = "kafka.utils.Log4jControllerRegistration$"
_APIS = "kafka.server.KafkaApis"
_PARTITION = "kafka.cluster.Partition"
_EVENT_THREAD = "kafka.controller.ControllerEventManager$ControllerEventThread"
_FROM = r"correlationId (?P<correlation_id>\d+) from controller (?P<controller>\d+)"
_PARTITION_IDENT = re.compile(r"Partition (?P<partition>\S+) broker=\d+")
_WATCH_KINDS: Final = {
    "NodeCreated": "created",
    "NodeDeleted": "deleted",
    "NodeDataChanged": "changed",
    "NodeChildrenChanged": "children",
}

# ------------------------------------------------------------------ the process


@STATEMENTS.importing(_REGISTRATION, r"Registered kafka:type=kafka\.Log4jController MBean")
def process_began(line: Line) -> None:
    """Begin an incarnation at the first line of a process."""
    line.node.start_incarnation(line.ms)
    line.node.has_begun = True


@STATEMENTS.importing(_SERVER, r"starting$")
def process_started(line: Line) -> None:
    """Begin an incarnation, unless `process_began` has; older versions of Kafka do not log the line for that."""
    if not line.node.has_begun:
        line.node.start_incarnation(line.ms)
    line.node.has_begun = False


@STATEMENTS.importing(_EVENT_THREAD, r"Starting$")
def event_thread_started(line: Line) -> None:
    """Begin an incarnation if the thread starts again, as it may without a server.log: a process starts it once."""
    if line.node.had_event_thread:
        line.node.start_incarnation(line.ms)
    line.node.had_event_thread = True


@STATEMENTS.importing(_SERVER, r"shutting down$")
def process_stops(line: Line) -> None:
    line.node.stops_because = "the broker shuts down"


@STATEMENTS.importing(_SERVER, r"Fatal error during KafkaServer startup")
def start_failed(line: Line) -> None:
    line.node.stops_because = line.entry.rest[0] if line.entry.rest else "a fatal error"


@STATEMENTS.importing(_SERVER, r"shut down completed$")
def process_exiting(line: Line) -> None:
    line.write(ProcessExiting(reason=line.node.stops_because or "shut down completed"))


# ------------------------------------------------------------------ the ZooKeeper session


@STATEMENTS.importing(
    _CONNECTION,
    r"Session establishment complete on server .*, session ?id = 0x(?P<session>[0-9a-f]+), "
    r"negotiated timeout = (?P<timeout>\d+)",
)
def session_established(line: Line) -> None:
    opened = session_id(line.found["session"])
    node = line.node
    if opened == node.session_id:
        if not node.is_connected:
            line.write(SessionResumedRecord(session_id=opened))
    else:
        line.write(SessionOpened(session_id=opened, timeout_ms=line.number("timeout")))
    node.session_id = opened
    node.is_connected = True


@STATEMENTS.importing(
    _CONNECTION,
    r"(Client session timed out, have not heard from server in \d+ms for session ?id|Session|"
    r"Unable to read additional data from server sessionid|"
    r"An exception was thrown while closing send thread for session) 0x(?P<session>[0-9a-f]+)",
)
def session_suspended(line: Line) -> None:
    node = line.node
    if node.is_connected and session_id(line.found["session"]) == node.session_id:
        node.is_connected = False
        line.write(SessionSuspendedRecord(session_id=node.session_id))


@STATEMENTS.importing(
    _CONNECTION, r"Unable to reconnect to ZooKeeper service, session 0x(?P<session>[0-9a-f]+) has expired"
)
def session_expired(line: Line) -> None:
    node = line.node
    line.write(SessionExpiredRecord(session_id=session_id(line.found["session"])))
    node.session_id = 0
    node.is_connected = True


@STATEMENTS.importing(_ZK_CLIENT, r"Registered broker \d+ at path .*, czxid \(broker epoch\): (?P<epoch>\d+)")
def broker_registered(line: Line) -> None:
    node, epoch = line.node, line.number("epoch")
    registered = BrokerRegistered(broker_id=node.broker, broker_epoch=epoch, session_id=node.session_id)
    line.cluster.write_registration(node, line.ms, registered)


@STATEMENTS.importing(
    _ZOOKEEPER_CLIENT,
    rf"Received event: WatchedEvent state:\w+ type:(?P<type>{'|'.join(_WATCH_KINDS)}) path:(?P<path>[^ ]+)",
)
def watch_fired(line: Line) -> None:
    node = line.node
    kind = _WATCH_KINDS[line.found["type"]]
    is_election = line.found["path"] == "/controller" and kind == "deleted"
    if is_election and node.gone_cause is not None:
        return  # it is recorded from ZooKeeper's transaction log already
    seq = line.write(WatchFiredRecord(path=line.found["path"], kind=kind))
    if is_election:
        node.gone_cause = seq


@STATEMENTS.importing(_PARTITION, rf"ISR updated to {ISR_AND_VERSION}")
def isr_written(line: Line) -> None:
    """Record an ISR that a leader has written itself, as brokers do until `inter.broker.protocol.version` 2.7."""
    match = _PARTITION_IDENT.fullmatch(line.ident)
    partition = None if match is None else topic_partition(match["partition"])
    if partition is not None:
        line.cluster.write_isr(line.node, line.ms, partition, isr_and_version(line.found))


# ------------------------------------------------------------------ control requests


@STATEMENTS.importing(STATE_CHANGE, rf"Handling LeaderAndIsr request {_FROM} for \d+ partitions")
def leader_and_isr_received(line: Line) -> None:
    _received(line, "LeaderAndIsr")
    line.node.handling = HandledRequest(line.number("controller"), line.number("correlation_id"))


@STATEMENTS.importing(STATE_CHANGE, rf"Handling StopReplica request {_FROM} for \d+ partitions")
def stop_replica_received(line: Line) -> None:
    _received(line, "StopReplica")


@STATEMENTS.importing(
    STATE_CHANGE,
    r"Ignoring (?P<api>LeaderAndIsr|StopReplica) request from controller (?P<controller>\d+) with correlation id "
    r"(?P<correlation_id>\d+) since its controller epoch (?P<offered>\d+) is old\. "
    r"Latest known controller epoch is (?P<known>\d+)",
)
@STATEMENTS.importing(
    STATE_CHANGE,
    r"Received update metadata request with correlation id (?P<correlation_id>\d+) from an old controller "
    r"(?P<controller>\d+) with epoch (?P<offered>\d+)\. Latest known controller epoch is (?P<known>\d+)",
)
def refused_old_controller(line: Line) -> None:
    """Record that a broker refused a request of a controller with an older epoch."""
    api = "UpdateMetadata" if "update metadata" in line.found[0] else line.found["api"]
    _refused(line, Fence.BROKER_CONTROLLER_EPOCH, api)
    handling = line.node.handling
    if api == "LeaderAndIsr" and handling is not None:
        handling.error = "STALE_CONTROLLER_EPOCH"
    else:
        _answered(line, api, "STALE_CONTROLLER_EPOCH")


@STATEMENTS.importing(
    _APIS,
    r"Received (?P<api>LeaderAndIsr|StopReplica|UpdateMetadata) request with broker epoch (?P<offered>\d+) "
    r"smaller than the current broker epoch (?P<known>\d+) from controller (?P<controller>\d+)",
)
def refused_old_registration(line: Line) -> None:
    """Record that a broker refused a request that was meant for its earlier registration."""
    _refused(line, Fence.BROKER_EPOCH, line.found["api"])
    line.cluster.record_answer(
        line.ms,
        controller=line.number("controller"),
        sender=line.node.broker,
        api=line.found["api"],
        correlation_id=UNKNOWN,
        error="STALE_BROKER_EPOCH",
    )


@STATEMENTS.importing(STATE_CHANGE, rf"Finished LeaderAndIsr request in \d+ms {_FROM} for \d+ partitions")
def leader_and_isr_finished(line: Line) -> None:
    """Record the answer to a LeaderAndIsr. The applied states are left out: the lines of followers have no ISR."""
    handling = line.node.handling
    if handling is not None and handling.correlation_id == line.number("correlation_id"):
        _handled(line, handling)
    line.node.handling = None


@STATEMENTS.importing(
    STATE_CHANGE,
    r"Add \d+ partitions and deleted \d+ partitions from metadata cache in response to UpdateMetadata request "
    r"sent by controller (?P<controller>\d+) epoch (?P<epoch>\d+) with correlation id (?P<correlation_id>\d+)",
)
def metadata_updated(line: Line) -> None:
    """Record an UpdateMetadata and its answer. The applied states are left out: the line only has their number."""
    line.node.controller_epoch = max(line.node.controller_epoch, line.number("epoch"))
    _received(line, "UpdateMetadata", line.number("epoch"))
    _answered(line, "UpdateMetadata", "NONE")


def _received(line: Line, api: str, controller_epoch: int = UNKNOWN) -> None:
    handling = line.node.handling
    # Kafka 2.6 does not log the end of a LeaderAndIsr. A controller sends a broker one request at a time.
    if handling is not None and handling.controller == line.number("controller"):
        _handled(line, handling)
    line.write(
        RequestReceived(
            api=api,
            api_version=UNKNOWN,
            client_id=line.found["controller"],
            correlation_id=line.number("correlation_id"),
            controller_epoch=controller_epoch,
        ),
    )


def _handled(line: Line, handling: HandledRequest) -> None:
    line.node.handling = None
    _answered(line, "LeaderAndIsr", handling.error, handling.correlation_id)


def _refused(line: Line, fence: Fence, api: str) -> None:
    what = f"{api} from {line.number('controller')}"
    line.write(FenceHit(fence=fence.value, what=what, offered=line.number("offered"), known=line.number("known")))


def _answered(line: Line, api: str, error: str, correlation_id: int | None = None) -> None:
    """Record an answer in the broker's log, and in the controller's log if its own lines do not have it.

    Args:
        correlation_id: of the request; None if the line has it.
    """
    controller = line.number("controller")
    correlation_id = line.number("correlation_id") if correlation_id is None else correlation_id
    line.write(ResponseSent(api=api, client_id=str(controller), correlation_id=correlation_id, error=error))
    sender = line.cluster.known_node(controller)
    if sender is not None and not sender.traces_answers:
        line.cluster.record_answer(
            line.ms,
            controller=controller,
            sender=line.node.broker,
            api=api,
            correlation_id=correlation_id,
            error=error,
        )


WITHOUT_RECORD: Final = {
    STATE_CHANGE: (
        "Stopped fetchers as part of|Leader \\S+ with topic id|Follower \\S+ starts at leader epoch|"
        "(Skipped|Skipped the) (become|adding|update)|Deleted partition|Cached leader info|"
        "Ignoring (LeaderAndIsr|StopReplica) request from|Received LeaderAndIsrRequest with correlation id|"
        "Updating log for|The topic partition|Received LeaderAndIsr request|Received StopReplica request|"
        "Completed LeaderAndIsr request|"
        "Handling LeaderAndIsr request correlationId \\d+ from controller \\d+ epoch"
    ),
    _SERVER: (
        "Connecting to zookeeper|Cluster ID|Rewriting|started$|Starting controlled shutdown|"
        "Controlled shutdown request|Retrying controlled shutdown|Controlled shutdown succeeded|Remaining partitions"
    ),
    _EVENT_THREAD: "Shutting down|Stopped|Shutdown completed",
    _ZK_CLIENT: (
        "Creating /|Result of znode creation|Registered broker \\d+ at path .*\\)$|Stat of the created znode|"
        "Successfully created /controller_epoch"
    ),
    _ZOOKEEPER_CLIENT: "Initializing a new session|Waiting until connected|Connected|Closing|Closed|Session expired",
    _CONNECTION: "Opening socket connection|Socket connection established|EventThread shut down|zookeeper.request",
    _PARTITION: "Expanding ISR|Shrinking ISR|ISR updated",
}
"""Patterns of the lines of each logger that add nothing to other lines."""
