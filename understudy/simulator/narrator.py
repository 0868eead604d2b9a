"""From a record of the event log to a sentence a person reads: the prose of the stories.

It describes what matters in a controller failover: faults, elections, and what was decided, written, sent, accepted and
refused. Bookkeeping (the event queue, transitions, answers without errors) is left out.
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

_UNTOLD_APIS = ("Fetch", "UpdateMetadata")


def tell(record: Envelope) -> str | None:
    """A sentence without a full stop, or None for a record that is left out."""
    return (
        _tell_of_surroundings(record)
        or _tell_of_session(record)
        or _tell_of_controller(record)
        or _tell_of_broker(record)
        or _tell_of_request(record)
    )


def _tell_of_surroundings(record: Envelope) -> str | None:
    match record.data:
        case FaultInjected(fault=fault, target=target, role=role):
            return f"{fault} {target}{f' ({role})' if role else ''}"
        case PointReached(point=point, action=action):
            return f"reaches {point}: {action}"
        case FenceHit(fence=fence, what=what, offered=offered, known=known, switched_off=off):
            verdict = "would refuse, but is switched off:" if off else "refuses"
            return f"fence {fence} {verdict} {what} (offered {offered}, known {known})"
        case ProcessExiting(reason=reason):
            return f"exits: {reason}"
        case TaskFailed(task=task, error=error):
            return f"{task} failed: {error}"
        case StepReached(step=step, note=note):
            return f"{step} {note}".rstrip()
    return None


def _tell_of_session(record: Envelope) -> str | None:
    match record.data:
        case SessionOpened():
            return "opens a ZooKeeper session"
        case SessionSuspendedRecord():
            return "loses its connection to ZooKeeper"
        case SessionResumedRecord():
            return "is connected to ZooKeeper again, in the same session"
        case SessionExpiredRecord():
            return "learns that its session has expired"
        case BrokerRegistered(broker_epoch=broker_epoch):
            return f"is registered, broker epoch {broker_epoch}"
        case WatchFiredRecord(path=path, kind=kind):
            return f"hears from ZooKeeper: {path} {kind}"
        case ZkWriteDone(outcome="Unknown"):
            return "does not learn what became of a write"
    return None


def _tell_of_controller(record: Envelope) -> str | None:
    match record.data:
        case ControllerElected(epoch=epoch):
            return f"wins the election: controller epoch {epoch}"
        case ElectionLost(winner=winner):
            return f"finds broker {winner} elected" if winner >= 0 else "lost an election whose winner is gone already"
        case ContextLoaded(partitions=partitions, live_brokers=live):
            return f"has read the cluster: brokers {_numbers(number for number, _ in live)}, {_count(len(partitions))}"
        case ControllerReady(epoch=epoch):
            return f"has taken over at controller epoch {epoch}"
        case ControllerResigned(epoch=epoch, why=why):
            return f"resigns from controller epoch {epoch}: {why}"
        case BrokersChanged(new=new, dead=dead, bounced=bounced):
            changes = (("new", new), ("dead", dead), ("bounced", bounced))
            return "finds brokers " + ", ".join(f"{name} {_numbers(who)}" for name, who in changes if who)
        case TopicsChanged(new=new, deleted=deleted):
            changes_of_topics = (("new", new), ("deleted", deleted))
            return "finds topics " + ", ".join(f"{name} {', '.join(what)}" for name, what in changes_of_topics if what)
        case LeadershipWritten(why=why, partitions=partitions):
            return f"writes ({why}) {_leaderships(partitions)}"
        case LeadershipNotWritten(why=why, partitions=refused):
            return f"finds no leader ({why}) for " + ", ".join(f"{one.topic}-{one.partition}" for one in refused)
        case InvalidTransition(source=source, target=target, topic=topic, partition=partition):
            return f"refuses the transition of {topic}-{partition} from {source} to {target}"
    return None


def _tell_of_broker(record: Envelope) -> str | None:
    match record.data:
        case LeaderAndIsrApplied(leaders=leaders, followers=followers, controller_id=controller) if (
            leaders or followers
        ):
            roles = (("leads", leaders), ("follows", followers))
            told = " and ".join(f"{verb} {_names(states)}" for verb, states in roles if states)
            return f"{told}, as controller {controller} orders"
        case StopReplicaApplied(partitions=partitions, controller_id=controller) if partitions:
            names = ", ".join(f"{topic}-{partition}" for topic, partition, _, _ in partitions)
            return f"stops {names}, as controller {controller} orders"
        case MetadataUpdated(live_brokers=live, partitions=partitions, controller_id=controller):
            news = f", and of {_count(len(partitions))}" if partitions else ""
            return f"hears from controller {controller} that brokers {_numbers(live)} live{news}"
        case IsrProposed(topic=topic, partition=partition, isr=isr):
            return f"proposes ISR {_numbers(isr)} for {topic}-{partition}"
        case IsrResult(topic=topic, partition=partition, error=error, isr=isr):
            return f"is answered {error} for {topic}-{partition}: ISR {_numbers(isr)}"
    return None


def _tell_of_request(record: Envelope) -> str | None:
    match record.data:
        case RequestSent(to=to, api=api, partitions=partitions, attempt=attempt) if api not in _UNTOLD_APIS:
            again = f", attempt {attempt}" if attempt > 1 else ""
            size = f" with {_count(partitions)}" if partitions else ""
            return f"sends {api} to broker {to}{size}{again}"
        case ResponseReceived(sender=sender, api=api, error=error) if error != "NONE":
            return f"is answered {error} by broker {sender} ({api})"
        case RequestFailed(to=to, api=api, why=why) if api not in _UNTOLD_APIS:
            return f"has no answer from broker {to} ({api}): {why}"
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
    return " ".join(map(str, numbers)) or "nobody"
