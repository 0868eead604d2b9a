"""Describes a record of the event log in a sentence: for the page of a run, and for the transcripts of the stories.

Two kinds of refusals are described as normal operation: the fence that a follower meets after a change of the leader,
and a write to ZooKeeper whose failure the writer expects (`Narrator`).

Records that only carry data for a check (`ContextAtIdle`, `RequestDetail`) are left out. The simulator's stories show
fewer records than the page; `understudy.trials.seeds.story_sentences` chooses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, get_args, get_type_hints

from understudy.foundation.eventlog.fences import ROUTINE_FENCES
from understudy.foundation.eventlog.records import (
    AnswerInjected,
    AssignedMember,
    BecameCandidate,
    BrokerRegistered,
    BrokersChanged,
    ChannelClosed,
    ChannelOpened,
    ClientConnection,
    ClientLogged,
    ClientRequestBegan,
    ClientRequestEnded,
    ConnectionRefused,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    ElectionLost,
    Envelope,
    EventEnded,
    EventPreempted,
    EventQueued,
    EventStarted,
    FaultInjected,
    FenceHit,
    GroupAssigned,
    GroupOffset,
    GroupsLoaded,
    GroupsUnloaded,
    GroupTransition,
    HighWatermarkChanged,
    InvalidTransition,
    IsrProposed,
    IsrResult,
    LeaderAndIsrApplied,
    Leadership,
    LeadershipNotWritten,
    LeadershipWritten,
    LeaderStarted,
    LogCleaned,
    LogOpened,
    LogSeen,
    LogTruncated,
    MemberTransition,
    MetadataUpdated,
    OffsetsCommitted,
    OffsetsRemoved,
    PartitionsAssigned,
    PartitionsMoved,
    PointReached,
    ProcessExiting,
    ProcessStarted,
    RecordsAcknowledged,
    RecordsAppended,
    ReplicasMoved,
    RequestFailed,
    RequestQueued,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    ResponseSent,
    RunDescribed,
    SessionExpiredRecord,
    SessionOpened,
    SessionResumedRecord,
    SessionSuspendedRecord,
    StepReached,
    StillRunning,
    StopReplicaApplied,
    TaskFailed,
    TopicsChanged,
    Transition,
    WatchFiredRecord,
    ZkWrite,
    ZkWriteDone,
)
from understudy.foundation.times import after, duration

MOST_NAMED: Final = 12
"""Maximum number of partitions, topics or paths that a sentence names; the rest, up to 100,000, is counted."""


class Narrator:
    """Describes the records of one run, each once and in their order.

    The record of a write's outcome does not name the write; this class remembers the writes that have no outcome yet.
    """

    def __init__(self) -> None:
        self._writes: dict[tuple[str, int, int], ZkWrite] = {}

    def describe(self, record: Envelope) -> str | None:
        """Describe a record as `describe` does; describe a failed write of normal operation by its meaning."""
        match record.data:
            case ZkWrite() as write:
                self._writes[record.node, record.incarnation, record.seq] = write
            case ZkWriteDone(outcome=outcome) if record.cause is not None:
                begun = self._writes.pop((record.node, record.incarnation, record.cause), None)
                if begun is not None and begun.paths and (words := _expected_failure(outcome, begun)):
                    return words
        return describe(record)


def describe(record: Envelope) -> str | None:
    """Describe a record in a sentence without a full stop; None for a record that is left out."""
    sentence = _SENTENCES.get(type(record.data))
    return None if sentence is None else sentence(record.data)


def _expected_failure(outcome: str, write: ZkWrite) -> str | None:
    """Describe a failed write whose writer expects the failure and continues; None for any other."""
    path = write.paths[-1]
    match outcome, write.purpose:
        case "NoNode", "preferred-election":
            # Each takeover deletes this znode at its end, as Kafka does; it exists only after a request of a tool.
            return f"finds no {path} to delete: no leader election was requested"
        case "NoNode", "top-level-paths" | "cluster-id":
            return f"finds that the parent of {path} does not exist yet, and creates it next"
        case "NoNode", "config" | "consumer-offset" | "broker-id":
            return f"finds that {path} does not exist yet, and creates it next"
        case "NodeExists", "top-level-paths" | "cluster-id" | "election":
            return f"finds that {write.paths[0]} exists already"
    return None


def _describe_fault(data: FaultInjected | PointReached | AnswerInjected | FenceHit | StepReached | RunDescribed) -> str:
    match data:
        case FaultInjected(fault=fault, target=target, role=role):
            return f"{fault} {target}{f' ({role})' if role else ''}"
        case PointReached(point=point, action=action):
            return f"reaches {point}: {action}"
        case AnswerInjected(api=api, error=error, client_id=client_id, is_applied=is_applied):
            handled = ", which it handles" if is_applied else ""
            return f"answers {api} of {client_id or 'a client'}{handled} with {error}, as it was armed to do"
        case FenceHit(fence=fence, what=what, offered=offered, known=known, switched_off=False) if (
            fence in ROUTINE_FENCES
        ):
            return f"answers {what} with FENCED_LEADER_EPOCH: leader epoch {offered} is over, {known} is current"
        case FenceHit(fence=fence, what=what, offered=offered, known=known, switched_off=off):
            verdict = "is switched off and lets pass" if off else "refuses"
            return f"fence {fence} {verdict} {what} (offered {offered}, known {known})"
        case StepReached(step=step, note=note):
            return f"{step} {note}".rstrip()
        case RunDescribed(lost_logs=lost) if lost:
            return f"has no log here: the records of {', '.join(lost)} are from ZooKeeper's log"
        case RunDescribed(aligned_clocks=clocks) if clocks:
            return f"has the times of {_count(len(clocks), 'wall clock')}, aligned by import-kafka"
        case RunDescribed(lost_stretches=lost) if lost:
            nodes = sorted({stretch.node for stretch in lost})
            return f"lacks lines: the logs of {', '.join(nodes)} are shorter than what others saw of them"
        case RunDescribed(is_kraft=True):
            return "has the records of a KRaft cluster, imported from the log of its quorum"
        case RunDescribed(world="", session_timeout_ms=timeout) if timeout is not None:
            return f"has a session timeout of {duration(timeout)}"
        case RunDescribed(world=world, brokers=brokers):
            size = f" with {_count(brokers, 'broker')}" if brokers is not None else ""
            return f"describes the run: {world or 'an unknown world'}{size}"


def _describe_session(
    data: SessionOpened | SessionSuspendedRecord | SessionResumedRecord | SessionExpiredRecord | BrokerRegistered,
) -> str:
    match data:
        case SessionOpened():
            return "opens a ZooKeeper session"
        case SessionSuspendedRecord():
            return "loses its connection to ZooKeeper"
        case SessionResumedRecord():
            return "is connected to ZooKeeper again, in the same session"
        case SessionExpiredRecord():
            return "is notified that its session has expired"
        case BrokerRegistered(broker_epoch=broker_epoch):
            return f"registers with broker epoch {broker_epoch}"


def _describe_process(
    data: ProcessStarted | ProcessExiting | LogSeen | StillRunning | TaskFailed | ConnectionRefused,
) -> str:
    match data:
        case ProcessStarted(role=role, pid=pid):
            return f"starts as {role}{f', pid {pid}' if pid else ''}"
        case ProcessExiting(reason=reason):
            return f"exits: {reason}"
        case LogSeen(node=node, incarnation=incarnation, seq=seq):
            return f"sees {seq:,} records in the log of {node} incarnation {incarnation}"
        case StillRunning(source=source):
            return f"is still running, says {source}"
        case TaskFailed(task=task, error=error):
            return f"{task} failed: {error}"
        case ConnectionRefused(peer=peer, reason=reason, left_out=left_out):
            more = f", and {left_out} more" if left_out else ""
            return f"closes the connection of {peer}: {reason}{more}"


def _describe_zookeeper(data: WatchFiredRecord | ZkWrite | ZkWriteDone) -> str:
    match data:
        case WatchFiredRecord(path=path, kind=kind):
            return f"receives a watch notification: {path} {kind}"
        case ZkWrite(purpose=purpose, paths=paths, operations=operations, fenced=fenced, epoch_zk_version=version):
            fence = f", if /controller_epoch still has version {version}" if fenced else ""
            return f"writes to ZooKeeper ({purpose}): {_listed(paths, operations)}{fence}"
        case ZkWriteDone(outcome="Ok", zxid=zxid):
            return f"has its write to ZooKeeper confirmed{f', zxid {zxid}' if zxid >= 0 else ''}"
        case ZkWriteDone(outcome="Unknown"):
            return "cannot tell whether a write was applied"
        case ZkWriteDone(outcome="NoNode"):
            return "finds that a znode of its write does not exist: NoNode"
        case ZkWriteDone(outcome="NodeExists"):
            return "finds that a znode of its write exists already: NodeExists"
        case ZkWriteDone(outcome=outcome):
            return f"has its write to ZooKeeper refused: {outcome}"


def _describe_role(
    data: ControllerElected | ElectionLost | BecameCandidate | ContextLoaded | ControllerReady | ControllerResigned,
) -> str:
    match data:
        case ControllerElected(epoch=epoch):
            return f"wins the election: controller epoch {epoch}"
        case ElectionLost(winner=winner):
            if winner >= 0:
                return f"finds that broker {winner} is the controller"
            return "loses the election to a broker that is no longer the controller"
        case BecameCandidate(why=why):
            return f"seeks election: {why}"
        case ContextLoaded(partitions=partitions, live_brokers=live):
            brokers = _numbers(broker_id for broker_id, _ in live)
            return f"loads the controller context: live brokers {brokers}, {_count(len(partitions))}"
        case ControllerReady(epoch=epoch):
            return f"is ready to serve as controller, epoch {epoch}"
        case ControllerResigned(epoch=epoch, why=why):
            return f"resigns from controller epoch {epoch}: {why}"


def _describe_decision(
    data: BrokersChanged
    | TopicsChanged
    | PartitionsAssigned
    | LeadershipWritten
    | LeadershipNotWritten
    | PartitionsMoved
    | ReplicasMoved
    | InvalidTransition,
) -> str:
    match data:
        case BrokersChanged(new=new, dead=dead, bounced=bounced):
            changes = (("new", new), ("dead", dead), ("bounced", bounced))
            return "finds " + ", ".join(f"{name} brokers {_numbers(ids)}" for name, ids in changes if ids)
        case TopicsChanged(new=new, deleted=deleted):
            changes_of_topics = (("new", new), ("deleted", deleted))
            return "finds " + ", ".join(f"{name} topics {_listed(names)}" for name, names in changes_of_topics if names)
        case PartitionsAssigned(partitions=assigned):
            replicas = (f"{one.topic}-{one.partition} to {_numbers(one.replicas)}" for one in assigned)
            return f"assigns {_listed(replicas, len(assigned))}"
        case LeadershipWritten(why=why, partitions=partitions):
            return f"writes ({why}) {_leaderships(partitions)}"
        case LeadershipNotWritten(why=why, partitions=refused):
            names = _listed((f"{one.topic}-{one.partition}" for one in refused), len(refused))
            return f"elects no leader ({why}) for {names}"
        case PartitionsMoved(target=target, partitions=moved) | ReplicasMoved(target=target, replicas=moved):
            return f"moves {_transitions(moved)} to {target}"
        case InvalidTransition(source=source, target=target, topic=topic, partition=partition):
            return f"refuses the transition of {topic}-{partition} from {source} to {target}"


def _describe_event(data: EventQueued | EventStarted | EventEnded | EventPreempted) -> str:
    match data:
        case EventQueued(event=event):
            return f"queues the controller event {event}"
        case EventStarted(event=event, queued_ms=queued_ms):
            return f"begins to process {event}, {after(queued_ms)} in the queue"
        case EventEnded(event=event, took_ms=took_ms, outcome=outcome):
            end = "" if outcome == "done" else f": {outcome}"
            return f"has processed {event} in {duration(took_ms)}{end}"
        case EventPreempted(event=event):
            return f"discards the controller event {event}"


def _describe_broker(data: LeaderAndIsrApplied | StopReplicaApplied | MetadataUpdated) -> str:
    match data:
        case LeaderAndIsrApplied(leaders=leaders, followers=followers, controller_id=controller):
            roles = (("leads", leaders), ("follows", followers))
            changes = " and ".join(f"{verb} {_names(states)}" for verb, states in roles if states)
            return f"applies LeaderAndIsr from controller {controller}: {changes or 'no change'}"
        case StopReplicaApplied(partitions=partitions, controller_id=controller):
            names = _listed((f"{topic}-{partition}" for topic, partition, _, _ in partitions), len(partitions))
            return f"applies StopReplica from controller {controller}: stops {names or 'none'}"
        case MetadataUpdated(live_brokers=live, partitions=partitions, controller_id=controller):
            states = f", {_count(len(partitions))}" if partitions else ""
            return f"applies UpdateMetadata from controller {controller}: live brokers {_numbers(live)}{states}"


def _describe_isr(data: IsrProposed | IsrResult) -> str:
    match data:
        case IsrProposed(topic=topic, partition=partition, isr=isr):
            return f"proposes ISR {_numbers(isr)} for {topic}-{partition}"
        case IsrResult(topic=topic, partition=partition, error=error, isr=isr):
            return f"receives {error} for its ISR change of {topic}-{partition}: ISR {_numbers(isr)}"


def _describe_request(
    data: RequestQueued | RequestSent | RequestReceived | RequestFailed | ChannelOpened | ChannelClosed,
) -> str:
    match data:
        case RequestQueued(to=to, api=api, partitions=partitions, depth=depth):
            size = f" with {_count(partitions)}" if partitions else ""
            waits = f"{_count(depth, 'request')} wait{'s' if depth == 1 else ''}"
            return f"queues {api} to broker {to}{size}: {waits} in the channel"
        case RequestSent(to=to, api=api, partitions=partitions, attempt=attempt):
            again = f", attempt {attempt}" if attempt > 1 else ""
            size = f" with {_count(partitions)}" if partitions else ""
            return f"sends {api} to broker {to}{size}{again}"
        case RequestReceived(api=api, client_id=client_id, controller_epoch=epoch):
            sent_in = f", controller epoch {epoch}" if epoch >= 0 else ""
            return f"receives {api} from {client_id or 'a client without an id'}{sent_in}"
        case RequestFailed(to=to, api=api, why=why):
            return f"receives no response from broker {to} ({api}): {why}"
        case ChannelOpened(to=to, broker_epoch=broker_epoch):
            return f"opens its channel to broker {to}, broker epoch {broker_epoch}"
        case ChannelClosed(to=to, dropped=dropped):
            lost = f" and drops {_count(dropped, 'request')}" if dropped else ""
            return f"closes its channel to broker {to}{lost}"


def _describe_response(data: ResponseSent | ResponseReceived) -> str:
    match data:
        case ResponseSent(api=api, client_id=client_id, error=error):
            return f"answers {api} of {client_id or 'a client without an id'}: {error}"
        case ResponseReceived(sender=sender, api=api, error=error, refused_count=refused):
            some = f", {_count(refused)} refused" if refused and error == "NONE" else ""
            return f"receives {error} from broker {sender} ({api}){some}"


def _describe_log(
    data: LogOpened
    | LeaderStarted
    | RecordsAppended
    | HighWatermarkChanged
    | LogTruncated
    | RecordsAcknowledged
    | LogCleaned,
) -> str | None:
    match data:
        case LogOpened(topic=topic, partition=partition, log_end_offset=end, high_watermark=high_watermark):
            return f"opens the log of {topic}-{partition}: log end offset {end}, high watermark {high_watermark}"
        case LeaderStarted(topic=topic, partition=partition, leader_epoch=epoch, log_end_offset=end):
            return f"begins to lead {topic}-{partition} in leader epoch {epoch}, log end offset {end}"
        case RecordsAppended(topic=topic, partition=partition, role=role, batches=batches) if batches:
            until = batches[-1].next_offset - 1
            return f"appends to {topic}-{partition} as {role}: offsets {batches[0].base_offset} to {until}"
        case HighWatermarkChanged(topic=topic, partition=partition, role=role, high_watermark=high_watermark):
            return f"moves the high watermark of {topic}-{partition} as {role} to {high_watermark}"
        case LogTruncated(topic=topic, partition=partition, to_offset=to_offset, log_end_offset=end):
            return f"truncates {topic}-{partition} from offset {end} to {to_offset}"
        case LogCleaned(topic=topic, partition=partition, records_read=read, records_kept=kept) as data:
            until = data.to_offset - 1
            return f"compacts {topic}-{partition}: {kept} of {read} records from {data.from_offset} to {until} are left"
        case RecordsAcknowledged(topic=topic, partition=partition, base_offset=base, last_offset=last, acks=acks):
            asked = "all" if acks == -1 else acks
            return f"acknowledges offsets {base} to {last} of {topic}-{partition}, acks={asked}"
    return None


def _describe_group(
    data: GroupTransition | GroupAssigned | GroupsLoaded | GroupsUnloaded | OffsetsCommitted | OffsetsRemoved,
) -> str:
    match data:
        case GroupTransition(group=group, source=source, target=target, generation=generation, reason=reason):
            return f"group {group} goes from {source} to {target} in generation {generation}: {reason}"
        case GroupAssigned(group=group, generation=generation, members=members):
            shares = (f"{member.member_id} {_partitions_of(member)}" for member in members)
            return f"assigns group {group} in generation {generation}: {_listed(shares, len(members))}"
        case GroupsLoaded(partition=partition, leader_epoch=epoch, groups=groups, offsets=offsets):
            return (
                f"coordinates the groups of __consumer_offsets-{partition} in leader epoch {epoch}: {groups} groups, "
                f"{offsets} offsets"
            )
        case GroupsUnloaded(partition=partition, groups=groups):
            return f"coordinates the {groups} groups of __consumer_offsets-{partition} no more"
        case OffsetsCommitted(group=group, offsets=offsets):
            return f"commits offsets of group {group}: {_offsets(offsets)}"
        case OffsetsRemoved(group=group, offsets=offsets, reason=reason):
            return f"removes offsets of group {group}, {reason}: {_offsets(offsets)}"


def _describe_client(data: ClientLogged | ClientConnection) -> str:
    match data:
        case ClientLogged(level=level, logger=logger, text=text):
            return f"logs {level} {logger}: {text}"
        case ClientConnection(broker=broker, state="connected"):
            return f"is connected to {broker}"
        case ClientConnection(broker=broker, state="failed", reason=reason):
            return f"cannot connect to {broker}: {reason}"
        case ClientConnection(broker=broker):
            return f"begins to connect to {broker}"


def _describe_request_begun(data: ClientRequestBegan) -> str:
    partition = f"{data.topic}-{data.partition}"
    match data:
        case ClientRequestBegan(api="Produce", broker=""):
            return f"has {_count(data.records, 'record')} for {partition}, and cannot send to a leader yet"
        case ClientRequestBegan(api="Produce", attempt=attempt):
            again = f", attempt {attempt}" if attempt > 1 else ""
            return f"begins to send {_count(data.records, 'record')} to {partition} at {data.broker}{again}"
        case ClientRequestBegan(api="Fetch", broker=""):
            return f"finds no leader of {partition}, which it reads from offset {data.offset}"
        case ClientRequestBegan(api="Fetch"):
            return f"begins to read {partition} at {data.broker}, from offset {data.offset}"
        case ClientRequestBegan(api="OffsetCommit", broker=""):
            return f"has offset {data.offset} of {partition} to commit, and looks for the coordinator"
        case ClientRequestBegan(api="OffsetCommit"):
            return f"begins to commit offset {data.offset} of {partition} at {data.broker}"
        case _:
            return f"asks {data.broker} for metadata"


def _describe_request_ended(data: ClientRequestEnded) -> str:
    error, offset = data.error, data.offset
    partition = f"{data.topic}-{data.partition}"
    to = f"{partition} at {data.broker}"
    of_group = f" for group {data.group}" if data.group else ""
    match data.api:
        case "Produce" if not data.broker:
            return f"gives up {_count(data.records, 'record')} for {partition}: {error or 'no answer'}"
        case "Produce":
            at = f" at offset {offset}" if offset >= 0 else ""
            end = f"acknowledged{at}" if error == "NONE" else error or "no answer"
            again = f", attempt {data.attempt}" if data.attempt > 1 else ""
            return f"sends {_count(data.records, 'record')} to {to}{again}: {end}"
        case "Fetch" if error != "NONE":
            return f"is given nothing of {to}{of_group}: {error or 'no answer'}"
        case "Fetch":
            begins = f", from offset {offset}" if offset >= 0 else ""
            return f"is given {_count(data.records, 'record')} of {to}{of_group}{begins}"
        case "Metadata":
            return f"is given {'metadata' if error == 'NONE' else 'no metadata'} by {data.broker}"
        case "OffsetCommit" if not data.broker:
            return f"gives up the commit of offset {offset} of {partition}{of_group}: {error or 'no answer'}"
        case _:
            return f"commits offset {offset} of {to}{of_group}: {'stored' if error == 'NONE' else error or 'no answer'}"


def _describe_member(data: MemberTransition) -> str:
    why = f": {data.reason}" if data.reason else ""
    match data.target:
        case "UNJOINED":
            return f"is no member of group {data.group}{why}"
        case "PREPARING_REBALANCE":
            return f"joins group {data.group}{why}"
        case "COMPLETING_REBALANCE":
            return f"has joined generation {data.generation} of group {data.group}, and waits for its assignment"
        case _:
            owned = _listed((f"{topic}-{number}" for topic, number in data.partitions), len(data.partitions))
            return f"owns {owned or 'nothing'} in generation {data.generation} of group {data.group}"


def _partitions_of(member: AssignedMember) -> str:
    if not member.partitions:
        return "nothing"
    return _listed((f"{topic}-{number}" for topic, number in member.partitions), len(member.partitions))


def _offsets(offsets: Sequence[GroupOffset]) -> str:
    return _listed((f"{each.topic}-{each.partition} at {each.offset}" for each in offsets), len(offsets))


def _leaderships(states: Sequence[Leadership]) -> str:
    return _listed(
        (
            f"{state.topic}-{state.partition}: leader {state.leader if state.leader >= 0 else 'none'}"
            f" epoch {state.leader_epoch} ISR {_numbers(state.isr)}"
            for state in states
        ),
        len(states),
    )


def _names(states: Sequence[Leadership]) -> str:
    return _listed((f"{state.topic}-{state.partition} at epoch {state.leader_epoch}" for state in states), len(states))


def _transitions(moved: Sequence[Transition]) -> str:
    replicas = (f" on {one.replica}" if one.replica >= 0 else "" for one in moved)
    return _listed(
        (f"{one.topic}-{one.partition}{replica}" for one, replica in zip(moved, replicas, strict=True)), len(moved)
    )


def _listed(names: Iterable[str], total: int | None = None) -> str:
    """Return the first names, and how many more there are; `total` is the number of all, by default of `names`."""
    if total is None:
        names = tuple(names)
        total = len(names)
    first = list(islice(names, MOST_NAMED))
    more = total - len(first)
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")


def _count(number: int, thing: str = "partition") -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _numbers(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers)) or "none"


_DESCRIBERS: Final = (
    _describe_fault,
    _describe_session,
    _describe_process,
    _describe_zookeeper,
    _describe_role,
    _describe_decision,
    _describe_event,
    _describe_broker,
    _describe_isr,
    _describe_request,
    _describe_response,
    _describe_log,
    _describe_group,
    _describe_client,
    _describe_request_begun,
    _describe_request_ended,
    _describe_member,
)
_SENTENCES: Final[Mapping[type, Callable[[Any], str | None]]] = {
    kind: describer
    for describer in _DESCRIBERS
    for data in (get_type_hints(describer)["data"],)
    for kind in get_args(data) or (data,)
}
"""The function that describes each record type: its argument names the types."""
