"""Describes a record of the event log in a sentence, for the transcripts of the stories.

The sentences cover what matters in a controller failover: faults, elections, and the leaders and ISRs that are decided,
written, sent, applied and refused. The event queue, state transitions and responses without errors are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from foundation.eventlog.records import (
    BrokerRegistered,
    BrokersChanged,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    ElectionLost,
    Envelope,
    FaultInjected,
    FenceHit,
    InvalidTransition,
    IsrProposed,
    IsrResult,
    LeaderAndIsrApplied,
    Leadership,
    LeadershipNotWritten,
    LeadershipWritten,
    MetadataUpdated,
    PointReached,
    ProcessExiting,
    RequestFailed,
    RequestSent,
    ResponseReceived,
    SessionExpiredRecord,
    SessionOpened,
    SessionResumedRecord,
    SessionSuspendedRecord,
    StepReached,
    StopReplicaApplied,
    TaskFailed,
    TopicsChanged,
    WatchFiredRecord,
    ZkWriteDone,
)

_OMITTED_APIS = ("Fetch", "UpdateMetadata")


def describe(record: Envelope) -> str | None:
    """Describe a record in a sentence without a full stop; None for a record that is left out."""
    return (
        _describe_fault(record)
        or _describe_session(record)
        or _describe_controller(record)
        or _describe_broker(record)
        or _describe_request(record)
    )


def _describe_fault(record: Envelope) -> str | None:
    match record.data:
        case FaultInjected(fault=fault, target=target, role=role):
            return f"{fault} {target}{f' ({role})' if role else ''}"
        case PointReached(point=point, action=action):
            return f"reaches {point}: {action}"
        case FenceHit(fence=fence, what=what, offered=offered, known=known, switched_off=off):
            verdict = "is switched off and lets pass" if off else "refuses"
            return f"fence {fence} {verdict} {what} (offered {offered}, known {known})"
        case ProcessExiting(reason=reason):
            return f"exits: {reason}"
        case TaskFailed(task=task, error=error):
            return f"{task} failed: {error}"
        case StepReached(step=step, note=note):
            return f"{step} {note}".rstrip()
    return None


def _describe_session(record: Envelope) -> str | None:
    match record.data:
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
        case WatchFiredRecord(path=path, kind=kind):
            return f"receives a watch notification: {path} {kind}"
        case ZkWriteDone(outcome="Unknown"):
            return "cannot tell whether a write was applied"
    return None


def _describe_controller(record: Envelope) -> str | None:
    match record.data:
        case ControllerElected(epoch=epoch):
            return f"wins the election: controller epoch {epoch}"
        case ElectionLost(winner=winner):
            if winner >= 0:
                return f"finds that broker {winner} is the controller"
            return "loses the election to a broker that is no longer the controller"
        case ContextLoaded(partitions=partitions, live_brokers=live):
            brokers = _numbers(broker_id for broker_id, _ in live)
            return f"loads the controller context: live brokers {brokers}, {_count(len(partitions))}"
        case ControllerReady(epoch=epoch):
            return f"is ready to serve as controller, epoch {epoch}"
        case ControllerResigned(epoch=epoch, why=why):
            return f"resigns from controller epoch {epoch}: {why}"
        case BrokersChanged(new=new, dead=dead, bounced=bounced):
            changes = (("new", new), ("dead", dead), ("bounced", bounced))
            return "finds " + ", ".join(f"{name} brokers {_numbers(ids)}" for name, ids in changes if ids)
        case TopicsChanged(new=new, deleted=deleted):
            changes_of_topics = (("new", new), ("deleted", deleted))
            return "finds " + ", ".join(
                f"{name} topics {', '.join(names)}" for name, names in changes_of_topics if names
            )
        case LeadershipWritten(why=why, partitions=partitions):
            return f"writes ({why}) {_leaderships(partitions)}"
        case LeadershipNotWritten(why=why, partitions=refused):
            return f"elects no leader ({why}) for " + ", ".join(f"{one.topic}-{one.partition}" for one in refused)
        case InvalidTransition(source=source, target=target, topic=topic, partition=partition):
            return f"refuses the transition of {topic}-{partition} from {source} to {target}"
    return None


def _describe_broker(record: Envelope) -> str | None:
    match record.data:
        case LeaderAndIsrApplied(leaders=leaders, followers=followers, controller_id=controller) if (
            leaders or followers
        ):
            roles = (("leads", leaders), ("follows", followers))
            changes = " and ".join(f"{verb} {_names(states)}" for verb, states in roles if states)
            return f"applies LeaderAndIsr from controller {controller}: {changes}"
        case StopReplicaApplied(partitions=partitions, controller_id=controller) if partitions:
            names = ", ".join(f"{topic}-{partition}" for topic, partition, _, _ in partitions)
            return f"applies StopReplica from controller {controller}: stops {names}"
        case MetadataUpdated(live_brokers=live, partitions=partitions, controller_id=controller):
            states = f", {_count(len(partitions))}" if partitions else ""
            return f"applies UpdateMetadata from controller {controller}: live brokers {_numbers(live)}{states}"
        case IsrProposed(topic=topic, partition=partition, isr=isr):
            return f"proposes ISR {_numbers(isr)} for {topic}-{partition}"
        case IsrResult(topic=topic, partition=partition, error=error, isr=isr):
            return f"receives {error} for its ISR change of {topic}-{partition}: ISR {_numbers(isr)}"
    return None


def _describe_request(record: Envelope) -> str | None:
    match record.data:
        case RequestSent(to=to, api=api, partitions=partitions, attempt=attempt) if api not in _OMITTED_APIS:
            again = f", attempt {attempt}" if attempt > 1 else ""
            size = f" with {_count(partitions)}" if partitions else ""
            return f"sends {api} to broker {to}{size}{again}"
        case ResponseReceived(sender=sender, api=api, error=error) if error != "NONE":
            return f"receives {error} from broker {sender} ({api})"
        case RequestFailed(to=to, api=api, why=why) if api not in _OMITTED_APIS:
            return f"receives no response from broker {to} ({api}): {why}"
    return None


def _leaderships(states: Sequence[Leadership]) -> str:
    return ", ".join(
        f"{state.topic}-{state.partition}: leader {state.leader if state.leader >= 0 else 'none'}"
        f" epoch {state.leader_epoch} ISR {_numbers(state.isr)}"
        for state in states
    )


def _names(states: Iterable[Leadership]) -> str:
    return ", ".join(f"{state.topic}-{state.partition} at epoch {state.leader_epoch}" for state in states)


def _count(partitions: int) -> str:
    return f"{partitions} partition{'' if partitions == 1 else 's'}"


def _numbers(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers)) or "none"
