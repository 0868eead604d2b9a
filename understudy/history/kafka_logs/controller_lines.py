"""Imports what a controller logs: its election and failover, brokers, topics, partition states and requests.

The statements are from `KafkaController`, `ControllerChannelManager`, `ZkPartitionStateMachine` and
`ZkReplicaStateMachine`. docs/guides/import-kafka.md has them in a table.
"""

from __future__ import annotations

import re
from typing import Final

from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import (
    BrokersChanged,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    ElectionLost,
    InvalidTransition,
    Leadership,
    LeadershipNotWritten,
    Refused,
    RequestFailed,
    RequestSent,
    TopicsChanged,
    Transition,
)
from understudy.history.kafka_logs.broker_node import SentRequest, Takeover
from understudy.history.kafka_logs.cluster_state import LEADERSHIP_REPEATED
from understudy.history.kafka_logs.kafka_text import (
    ISR_AND_VERSION,
    LEADER_AND_ISR,
    LEADER_ISR_AND_EPOCH,
    UNKNOWN,
    isr_and_version,
    leadership,
    names,
    numbers,
    topic_partition,
)
from understudy.history.kafka_logs.statements import CONTROLLER, STATE_CHANGE, Line, Statements
from understudy.history.kafka_logs.survey import EntryKind

STATEMENTS: Final = Statements()
"""Statements whose lines become records, or are needed by later records."""

_CHANNELS = "kafka.controller.ControllerChannelManager"
_SENDER = "kafka.controller.RequestSendThread"
_BATCH = "kafka.controller.ControllerBrokerRequestBatch"
_PARTITIONS = "kafka.controller.ZkPartitionStateMachine"
_REPLICAS = "kafka.controller.ZkReplicaStateMachine"
_OLD_PARTITIONS = "kafka.controller.PartitionStateMachine"
_OLD_REPLICAS = "kafka.controller.ReplicaStateMachine"
_EVENT_THREAD = "kafka.controller.ControllerEventManager$ControllerEventThread"
_DELETION = "kafka.controller.TopicDeletionManager"
_TO = r"(?P<node>\S+ \(id: (?P<to>\d+) rack: .*?\))"
_IDENT_EPOCH = re.compile(r"Controller id=\d+ epoch=(?P<epoch>\d+)")
_STRATEGY_REASONS: Final = {
    "Offline": "offline",
    "Preferred": "preferred",
    "Reassign": "reassignment",
    "Controlled": "controlled-shutdown",
}
_API_NAMES: Final = {
    "LEADER_AND_ISR": "LeaderAndIsr",
    "UPDATE_METADATA": "UpdateMetadata",
    "STOP_REPLICA": "StopReplica",
}
_ERROR_NAMES: Final = {error.value: error.name for error in Errors}
_BROKER_EPOCH = re.compile(r"(\d+) -> (\d+)")
_EXCEPTION = re.compile(r"(?:[\w$]+\.)*(?P<name>[\w$]+?)(?:Exception)?(?:: .*)?", re.DOTALL)


@STATEMENTS.importing(
    CONTROLLER,
    r"\d+ successfully elected as the controller\. Epoch incremented to (?P<epoch>\d+) "
    r"and epoch zk version is now (?P<version>\d+)",
)
def elected(line: Line) -> None:
    found = ControllerElected(
        broker_id=line.node.broker,
        epoch=line.number("epoch"),
        epoch_zk_version=line.number("version"),
        session_id=line.node.session_id,
    )
    line.cluster.write_election(line.node, line.ms, found)


@STATEMENTS.importing(CONTROLLER, r"Initialized controller epoch to \d+ and zk version (?P<version>\d+)")
def epoch_read(line: Line) -> None:
    line.node.read_epoch_version = line.number("version")


@STATEMENTS.importing(CONTROLLER, r"Epoch incremented to (?P<epoch>\d+)")
def epoch_incremented(line: Line) -> None:
    """Record the election of a controller of Kafka 1.1 or 2.0, which creates `/controller` before it has an epoch."""
    found = ControllerElected(
        broker_id=line.node.broker,
        epoch=line.number("epoch"),
        epoch_zk_version=line.node.read_epoch_version + 1,
        session_id=line.node.session_id,
    )
    line.node.read_epoch_version = UNKNOWN
    line.cluster.write_election(line.node, line.ms, found)


@STATEMENTS.importing(CONTROLLER, r"Initializing controller context")
def reading_begins(line: Line) -> None:
    line.node.takeover.reading_since_ms = line.ms


@STATEMENTS.importing(CONTROLLER, r"Initialized broker epochs cache: (?P<epochs>.*)")
def broker_epochs(line: Line) -> None:
    found = _BROKER_EPOCH.findall(line.found["epochs"])
    line.node.takeover.broker_epochs = tuple(sorted((int(broker), int(epoch)) for broker, epoch in found))


@STATEMENTS.importing(CONTROLLER, r"Currently active brokers in the cluster: (?P<brokers>.*)")
def active_brokers(line: Line) -> None:
    line.node.takeover.live_brokers = numbers(line.found["brokers"])


@STATEMENTS.importing(CONTROLLER, r"Currently shutting brokers in the cluster: (?P<brokers>.*)")
def shutting_down_brokers(line: Line) -> None:
    line.node.takeover.shutting_down = numbers(line.found["brokers"])


@STATEMENTS.importing(CONTROLLER, r"Current list of topics in the cluster: (?P<topics>.*)")
def topics_of_cluster(line: Line) -> None:
    """Record that the cluster's state has been read, with the partition states that the logs have named so far."""
    takeover = line.node.takeover
    if takeover.epoch == UNKNOWN:
        return
    takeover.topics = names(line.found["topics"])
    if takeover.broker_epochs is None or takeover.reading_since_ms is None:
        line.cluster.left_out["ContextLoaded: the log lacks the broker epochs, or when reading began"] += 1
        return
    line.write(
        ContextLoaded(
            epoch=takeover.epoch,
            live_brokers=takeover.broker_epochs,
            partitions=tuple(known.state for _, known in sorted(line.cluster.states.items())),
            took_ms=line.ms - takeover.reading_since_ms,
        ),
        cause=takeover.cause,
    )


@STATEMENTS.importing(_OLD_PARTITIONS, r"Started partition state machine with initial state -> (?P<states>.*)")
@STATEMENTS.importing(_PARTITIONS, r"Started partition state machine with initial state -> (?P<states>.*)")
def partition_states(line: Line) -> None:
    line.node.takeover.partitions = line.found["states"].count(" -> ")


@STATEMENTS.importing(CONTROLLER, r"Ready to serve as the new controller with epoch (?P<epoch>\d+)")
def ready(line: Line) -> None:
    takeover, epoch = line.node.takeover, line.number("epoch")
    if takeover.epoch != epoch or takeover.live_brokers is None or takeover.topics is None:
        line.cluster.left_out["ControllerReady: the log begins after the election"] += 1
        return
    partitions = takeover.partitions
    if partitions == UNKNOWN and line.cluster.knows_all_states:
        partitions = sum(map(len, line.cluster.topics.values()))
    line.write(
        ControllerReady(
            epoch=epoch,
            brokers=tuple(sorted({*takeover.live_brokers, *takeover.shutting_down})),
            topics=len(takeover.topics),
            partitions=partitions,
            took_ms=line.ms - takeover.elected_ms,
        ),
        cause=takeover.cause,
    )


@STATEMENTS.importing(CONTROLLER, r"Starting the controller scheduler")
def takeover_ended(line: Line) -> None:
    line.node.takeover.is_under_way = False


@STATEMENTS.importing(_EVENT_THREAD, r"Controller moved to another broker")
@STATEMENTS.importing(CONTROLLER, r"(Forcing the controller to resign|Controller moved to another broker)")
def resignation_reason(line: Line) -> None:
    line.node.resigns_because = line.entry.message.partition("] ")[2].rstrip(".")


@STATEMENTS.importing(CONTROLLER, r"(Resigning|Resigned)")
def resigned(line: Line) -> None:
    """Record a resignation once: Kafka logs `Resigning` at DEBUG, and `Resigned` when it has stopped its channels."""
    node = line.node
    was_logged, node.is_resigning = node.is_resigning, line.found[0] == "Resigning"
    # A broker that is not controller logs the same when it shuts down.
    if was_logged or node.takeover.epoch == UNKNOWN:
        return
    node.write(line.ms, ControllerResigned(epoch=node.takeover.epoch, why=node.resigns_because or node.stops_because))
    node.takeover = Takeover()
    node.resigns_because = ""
    node.forget_requests()


@STATEMENTS.importing(
    CONTROLLER,
    r"Broker (?P<winner>-?\d+) (has been elected as the controller, so stopping the election process"
    r"|was elected as controller instead of broker)",
)
@STATEMENTS.importing(CONTROLLER, r"A controller has been elected but just resigned")
def election_lost(line: Line) -> None:
    winner = line.found.groupdict().get("winner")
    line.write(ElectionLost(winner=-1 if winner is None else int(winner)), cause=line.node.gone_cause)
    line.node.gone_cause = None


@STATEMENTS.importing(
    CONTROLLER,
    r"Newly added brokers: (?P<new>[\d,]*), deleted brokers: (?P<dead>[\d,]*), "
    r"(?:bounced brokers: (?P<bounced>[\d,]*), )?all live brokers: (?P<live>[\d,]*)",
)
def brokers_changed(line: Line) -> None:
    """Record a change of the live brokers. Until Kafka 2.1 a controller does not notice that a broker has bounced."""
    found = {name: numbers(line.found[name] or "") for name in ("new", "dead", "bounced", "live")}
    line.write(
        BrokersChanged(new=found["new"], dead=found["dead"], bounced=found["bounced"], live=found["live"]),
    )
    for broker in (*found["dead"], *found["bounced"]):
        line.node.forget_requests(broker)


@STATEMENTS.importing(
    CONTROLLER,
    r"New topics: \[(?P<new>[^\]]*)\], deleted topics: \[(?P<deleted>[^\]]*)\], new partition replica assignment",
)
def topics_changed(line: Line) -> None:
    new, deleted = names(line.found["new"]), names(line.found["deleted"])
    if new or deleted:
        line.write(TopicsChanged(new=new, deleted=deleted))
    for topic in deleted:
        line.cluster.forget_topic(topic)


@STATEMENTS.importing(_DELETION, r"Deletion of topic (?P<topic>\S+) successfully completed")
def topic_deleted(line: Line) -> None:
    """Record the deletion of a topic. The controller forgets it, so its next line about topics does not list it."""
    line.write(TopicsChanged(new=(), deleted=(line.found["topic"],)))
    line.cluster.forget_topic(line.found["topic"])


@STATEMENTS.importing(CONTROLLER, rf"ISR for partition (?P<partition>\S+) updated to {LEADER_AND_ISR}")
def isr_updated(line: Line) -> None:
    _leadership(line, "alter-partition", line.node.takeover.epoch)


@STATEMENTS.importing(CONTROLLER, rf"ISR for partition (?P<partition>\S+) updated to {ISR_AND_VERSION}")
def isr_updated_by_version(line: Line) -> None:
    """Record an ISR of Kafka 2.7 or 2.8. The line lacks the leader and its epoch, which an AlterIsr does not change."""
    partition = topic_partition(line.found["partition"])
    if partition is not None:
        line.cluster.write_isr(line.node, line.ms, partition, isr_and_version(line.found))


@STATEMENTS.importing(CONTROLLER, r"Starting preferred replica leader election for partitions")
@STATEMENTS.importing(CONTROLLER, r"Starting replica leader election \((?P<type>\w+)\)")
def replica_election_begins(line: Line) -> None:
    line.node.why = "preferred" if line.found.groupdict().get("type") in (None, "PREFERRED") else ""


@STATEMENTS.importing(CONTROLLER, r"Leader -?\d+ for partition \S+ being reassigned")
def reassignment_elects(line: Line) -> None:
    line.node.why = "reassignment"


@STATEMENTS.importing(CONTROLLER, r"Shutting down broker \d+")
def controlled_shutdown_begins(line: Line) -> None:
    line.node.why = "controlled-shutdown"


@STATEMENTS.importing(_SENDER, rf"Controller \d+ epoch \d+ fails to send request .* to broker {_TO}")
@STATEMENTS.importing(_SENDER, rf"Controller \d+'s connection to broker {_TO} was unsuccessful")
def request_failed(line: Line) -> None:
    """Record that a request got no answer. The controller sends it again as long as the broker is live."""
    queue = line.node.sent.get(line.number("to"))
    if not queue:
        line.cluster.left_out["RequestFailed: its request has no record"] += 1
        return
    line.write(
        RequestFailed(
            to=line.number("to"),
            api=queue[0].api,
            client_id=str(line.node.broker),
            correlation_id=UNKNOWN,
            why=line.entry.rest[0] if line.entry.rest else "",
        ),
        cause=queue[0].seq,
    )


# ------------------------------------------------------------------ state-change.log


@STATEMENTS.importing(
    STATE_CHANGE,
    rf"Changed partition (?P<partition>\S+) from (?P<source>\w+) to (?P<target>\w+) with state {LEADER_AND_ISR}",
)
def partition_online(line: Line) -> None:
    """Record a partition that got a leader: its new state, and its transition."""
    partition = topic_partition(line.found["partition"])
    if partition is None:
        return
    source = line.found["source"]
    before = line.cluster.states.get(partition)
    state = leadership(partition, line.found, _epoch(line))
    if source == "NewPartition":
        why = "initialise"
    elif source == "OfflinePartition":
        left_isr = (
            before is not None
            and state.partition_epoch == before.state.partition_epoch + 1
            and state.leader not in before.state.isr
        )
        why = "unclean" if state.leader_recovery_state or left_isr else "offline"
    else:
        why = line.node.why
    _write_leadership(line, why, state, is_created=source == "NewPartition")
    moved(line)


@STATEMENTS.importing(
    STATE_CHANGE, r"Changed partition (?P<partition>\S+) state from (?P<source>\w+) to (?P<target>\w+)"
)
@STATEMENTS.importing(
    STATE_CHANGE,
    r"Changed state of replica (?P<replica>\d+) for partition (?P<partition>\S+) "
    r"from (?P<source>\w+) to (?P<target>\w+)",
)
def moved(line: Line) -> None:
    """Record a transition of a partition or of a replica."""
    partition = topic_partition(line.found["partition"])
    if partition is not None:
        transition = Transition(partition.topic, partition.partition, _replica(line), line.found["source"])
        line.node.write_moved(line.ms, line.found["target"], transition)


@STATEMENTS.importing(
    STATE_CHANGE, rf"Partition (?P<partition>\S+) state changed to {LEADER_ISR_AND_EPOCH} after removing replica"
)
def isr_removal(line: Line) -> None:
    """Record a removal from an ISR. Kafka logs this line also for ISRs that the replica had left before."""
    _leadership(line, "isr-removal", line.number("controller_epoch"))


@STATEMENTS.importing(
    STATE_CHANGE,
    rf"Sent LeaderAndIsr request {LEADER_ISR_AND_EPOCH} with new replica assignment .* "
    r"for partition being reassigned (?P<partition>\S+)",
)
def reassigned(line: Line) -> None:
    _leadership(line, "reassignment", line.number("controller_epoch"))


@STATEMENTS.importing(
    STATE_CHANGE,
    r"Controller \d+ epoch \d+ failed to change state for partition (?P<partition>\S+) "
    r"from (?P<source>\w+) to (?P<target>\w+)",
)
def not_elected(line: Line) -> None:
    """Record an election that found no leader, or a transition that Kafka's table does not allow."""
    partition = topic_partition(line.found["partition"])
    if partition is None:
        return
    cause = line.entry.rest[0] if line.entry.rest else ""
    if "should be in one of" in cause:
        _write_invalid_transition(line, partition)
        return
    strategy = re.search(r"under strategy (Offline|Preferred|Reassign|Controlled)", cause)
    if line.found["source"] in ("NewPartition", "New"):
        why = "initialise"
    else:
        why = _STRATEGY_REASONS[strategy[1]] if strategy else ""
    error = _EXCEPTION.fullmatch(cause)
    refused = Refused(partition.topic, partition.partition, error["name"] if error else "")
    line.write(LeadershipNotWritten(why=why, partitions=(refused,)))


@STATEMENTS.importing(
    STATE_CHANGE,
    r"Controller \d+ epoch \d+ initiated state change of replica (?P<replica>\d+) for partition "
    r"(?P<partition>\S+) from (?P<source>\w+) to (?P<target>\w+) failed",
)
def replica_not_moved(line: Line) -> None:
    partition = topic_partition(line.found["partition"])
    if partition is not None and line.entry.rest and "should be in the" in line.entry.rest[0]:
        _write_invalid_transition(line, partition)


@STATEMENTS.importing(
    STATE_CHANGE,
    r"Sending LeaderAndIsr request to broker (?P<to>\d+) with (?P<leaders>\d+) become-leader "
    r"and (?P<followers>\d+) become-follower partitions",
)
def leader_and_isr_sent(line: Line) -> None:
    _sent(line, line.number("to"), "LeaderAndIsr", line.number("leaders") + line.number("followers"))


@STATEMENTS.importing(
    STATE_CHANGE, r"Sending UpdateMetadata request to brokers (?P<brokers>.*) for (?P<partitions>\d+) partitions"
)
def update_metadata_sent(line: Line) -> None:
    for broker in sorted(numbers(line.found["brokers"])):
        _sent(line, broker, "UpdateMetadata", line.number("partitions"))


@STATEMENTS.importing(
    STATE_CHANGE,
    r"Sending StopReplica request (?:\(delete = \w+\) )?for (?P<partitions>\d+) replicas to broker (?P<to>\d+)",
)
def stop_replica_sent(line: Line) -> None:
    _sent(line, line.number("to"), "StopReplica", line.number("partitions"))


@STATEMENTS.importing(
    STATE_CHANGE,
    r"Received response (?P<response>.*) for request (?P<api>\w+) with correlation id (?P<correlation_id>\d+) "
    r"sent to broker \S+ \(id: (?P<sender>\d+) rack: ",
)
def answer_received(line: Line) -> None:
    """Record an answer from its TRACE line, which has the correlation id and the answer."""
    line.node.traces_answers = True
    api = _API_NAMES.get(line.found["api"])
    if api is not None:
        error = re.search(r"errorCode=(\d+)", line.found["response"])
        code = int(error[1]) if error else 0
        line.cluster.record_answer(
            line.ms,
            controller=line.node.broker,
            sender=line.number("sender"),
            api=api,
            correlation_id=line.number("correlation_id"),
            error=_ERROR_NAMES.get(code, f"error {code}"),
            is_own_line=True,
        )


def _sent(line: Line, to: int, api: str, partitions: int) -> None:
    """Record a request, unless no log can have its answer: the request would look unanswered."""
    node = line.node
    # At INFO a broker logs neither the end of a StopReplica nor an UpdateMetadata without partitions.
    is_logged_by_receiver = partitions > 0 and api != "StopReplica" and line.cluster.has_log(to, EntryKind.STATE_CHANGE)
    if not (node.traces_answers or is_logged_by_receiver):
        line.cluster.left_out[f"RequestSent of {api}: no log would have its answer"] += 1
        return
    seq = node.write(
        line.ms,
        RequestSent(
            to=to,
            api=api,
            api_version=UNKNOWN,
            client_id=str(node.broker),
            correlation_id=UNKNOWN,
            controller_epoch=_epoch(line),
            partitions=partitions,
        ),
        cause=node.takeover.cause if node.takeover.is_under_way else None,
    )
    node.remember_sent(to, SentRequest(seq, api, line.ms))


def _epoch(line: Line) -> int:
    match = _IDENT_EPOCH.fullmatch(line.ident)
    epoch = int(match["epoch"]) if match else UNKNOWN
    line.node.controller_epoch = max(line.node.controller_epoch, epoch)
    return epoch


def _leadership(line: Line, why: str, controller_epoch: int) -> None:
    partition = topic_partition(line.found["partition"])
    if partition is None:
        return
    _write_leadership(line, why, leadership(partition, line.found, controller_epoch))


def _write_leadership(line: Line, why: str, state: Leadership, *, is_created: bool = False) -> None:
    if line.cluster.is_newer(state, is_created=is_created):
        line.cluster.write_leadership(line.node, line.ms, why, state)
    else:
        line.cluster.left_out[LEADERSHIP_REPEATED] += 1


def _write_invalid_transition(line: Line, partition: TopicPartition) -> None:
    line.write(
        InvalidTransition(
            target=line.found["target"],
            source=line.found["source"],
            topic=partition.topic,
            partition=partition.partition,
            replica=_replica(line),
        )
    )


def _replica(line: Line) -> int:
    """Return the replica that a line names; −1 if it is about a whole partition."""
    return int(line.found.groupdict().get("replica", -1))


_PARTITIONS_WITHOUT_RECORD = (
    "Initializing partition state|Triggering online partition state|Stopped partition state machine"
)
_REPLICAS_WITHOUT_RECORD = (
    "Initializing replica state|Triggering (online|offline) replica state|Started replica state machine|"
    "Stopped replica state machine"
)
WITHOUT_RECORD: Final = {
    CONTROLLER: (
        "Registering handlers|"
        "Deleting log dir event notifications|Deleting isr change notifications|"
        "Fetching topic deletions in progress|Initializing topic deletion manager|Sending update metadata request|"
        "List of topics |New broker startup callback|Broker failure callback|Removed .* from list of shutting down|"
        "Updated broker epochs cache|New partition creation callback|Partitions undergoing|Partitions that completed|"
        "Skipping preferred replica election|Resuming preferred replica election|Register BrokerModifications|"
        "Unregister BrokerModifications|All shutting down brokers|Live brokers: |All leaders = |Updating ISRs for|"
        "Checking need to trigger auto leader|Topics not in preferred replica|Leader imbalance ratio|"
        "Processing automatic preferred replica|Partition .* completed preferred replica|Updating leader epoch for|"
        "Updated leader epoch for|Waiting for any successful result|Delete topics listener fired|"
        "Starting topic deletion|Delete topic callback invoked|Creating FeatureZNode|Updating FeatureZNode|"
        "\\d+ successfully elected as the controller$|Reading controller epoch|Incrementing controller epoch|"
        "Partitions being reassigned|Updated broker|Preferred replicas by broker"
    ),
    _CHANNELS: "Controller \\d+ trying to connect",
    _SENDER: "Controller \\d+ connected to|shutdownInitiated|Starting|Stopped|Shutting down|Shutdown completed",
    _BATCH: "Leader not yet assigned|The stop replica request",
    _PARTITIONS: _PARTITIONS_WITHOUT_RECORD,
    _OLD_PARTITIONS: _PARTITIONS_WITHOUT_RECORD,
    _REPLICAS: _REPLICAS_WITHOUT_RECORD,
    _OLD_REPLICAS: _REPLICAS_WITHOUT_RECORD,
    _DELETION: (
        "Initializing manager|Topic deletion callback|Partition deletion callback|Handling deletion for topics|"
        "Deletion |Halted deletion"
    ),
    STATE_CHANGE: "Sending become-(leader|follower) LeaderAndIsr|Sending StopReplica request \\w+\\(",
}
"""Patterns of the lines of each logger that add nothing to other lines."""
