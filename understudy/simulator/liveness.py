"""Is the cluster at rest? What must come true once the faults are over (reliability L1-L4), asked of everyone
concerned.

Safety is judged from the logs by `understudy.checkers`; this looks at the living: ZooKeeper's tree and every broker's
view of it. Each complaint is a sentence; no complaint means rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from brokers.broker import KafkaBroker
from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.identifiers import NO_TOPIC_ID, BrokerId, TopicPartition
from foundation.cluster.leadership import LeaderAndIsr
from foundation.zk.admin_znodes import (
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from foundation.zk.znodes import TopicAssignment
from understudy.simulator.znode_view import ZnodeView

QUESTIONS = (
    "controller",
    "registrations",
    "leaders",
    "moves",
    "roles",
    "metadata",
    "fetchers",
    "memory",
    "deletions",
    "requests",
)
"""What `complaints` counts the cases of: one that was never put to anything has shown nothing."""


def complaints(
    znodes: ZnodeView, running: Mapping[BrokerId, KafkaBroker], asked: Counter[str] | None = None
) -> list[str]:
    """What is wrong with the cluster.

    Args:
        running: the brokers that are up and awake; nothing is asked of the others.
        asked: counts, by `QUESTIONS`, how many brokers, partitions or topics were looked at.
    """
    if not running:
        return []
    wrong = list(_one_controller(znodes, running))
    registered = znodes.brokers()
    wrong += [f"broker {number} is up but not registered" for number in running if number not in registered]
    wrong += [f"broker {number} is registered but not up" for number in registered if number not in running]
    topics, doomed = znodes.topics(), frozenset(znodes.topics_to_be_deleted())
    wrong += _deletions({name: topic for name, topic in topics.items() if name in doomed}, doomed, running)
    assigned = {
        partition: placed for topic in topics.values() for partition, placed in sorted(topic.partitions.items())
    }
    wrong += _memory(assigned, running)
    wrong += _requests(znodes, assigned, doomed)
    # Of a topic that waits for its deletion nobody is to know anything any more.
    alive = {partition: placed for partition, placed in assigned.items() if partition.topic not in doomed}
    states = {partition: znodes.state(partition) for partition in alive}
    for partition, placed in alive.items():
        if not _has_a_former_namesake(partition, topics[partition.topic], running):
            wrong += _partition(partition, placed, states[partition], running)
            wrong += _replicas(partition, placed, states[partition], running)
    for number, broker in running.items():
        wrong += _metadata(number, broker, states, running)
        wrong += _fetchers(number, broker)
    if asked is not None:
        asked.update(
            {"controller": 1, "registrations": len(registered), "leaders": len(alive), "memory": len(assigned)}
        )
        asked.update({"deletions": len(doomed), "requests": 1, "metadata": len(running) * len(alive)})
        asked["moves"] += sum(placed.is_being_reassigned for placed in alive.values())
        asked["roles"] += sum(replica in running for placed in alive.values() for replica in placed.replicas)
        asked["fetchers"] += sum(len(broker.fetched) for broker in running.values())
    return wrong


def _has_a_former_namesake(
    partition: TopicPartition, topic: TopicAssignment, running: Mapping[BrokerId, KafkaBroker]
) -> bool:
    """Whether a broker holds a replica of a topic of this name that is no more: a move had left it behind (BUG-15), and
    the deletion did not know of it. As in Kafka it answers INCONSISTENT_TOPIC_ID to whatever it is told of the new
    one."""
    hosted = (broker.hosted.get(partition) for broker in running.values())
    return any(
        replica is not None and replica.topic_id != NO_TOPIC_ID and topic.topic_id not in (None, replica.topic_id)
        for replica in hosted
    )


def _one_controller(znodes: ZnodeView, running: Mapping[BrokerId, KafkaBroker]) -> Iterator[str]:
    """L1: exactly one broker is active, and it owns `/controller`."""
    owner = znodes.controller_id()
    if owner is None:
        yield "nobody owns /controller"
    started = [number for number, broker in running.items() if broker.broker_epoch >= 0]
    active = [number for number in started if running[number].controller.is_active]
    if active != [owner]:
        yield f"active controllers are {active}, owner of /controller is {owner}"


def _partition(
    partition: TopicPartition,
    replicas: ReplicaAssignment,
    state: LeaderAndIsr | None,
    running: Mapping[BrokerId, KafkaBroker],
) -> Iterator[str]:
    """L2: with a live member in the ISR there is a live leader. L3: the ISR is all live replicas."""
    if state is None:
        yield f"{partition} has no state"
        return
    if any(replica in running for replica in state.isr) and state.leader not in running:
        yield f"{partition} has live in-sync replicas of {state.isr} but leader {state.leader}"
    lacking = [replica for replica in replicas.replicas if replica in running and replica not in state.isr]
    if lacking and state.leader in running:
        yield f"{partition} has live replicas {lacking} outside its ISR {state.isr}"


def _metadata(
    number: BrokerId,
    broker: KafkaBroker,
    states: Mapping[TopicPartition, LeaderAndIsr | None],
    running: Mapping[BrokerId, KafkaBroker],
) -> Iterator[str]:
    """L4: what a broker tells clients is what ZooKeeper holds."""
    snapshot = broker.metadata.snapshot
    if sorted(snapshot.live_brokers) != sorted(running):
        yield f"broker {number} believes that {sorted(snapshot.live_brokers)} live"
    for partition, state in states.items():
        cached = snapshot.partition(partition.topic, partition.partition)
        if state is None:
            continue
        if cached is None:
            yield f"broker {number} has not heard of {partition}"
            continue
        told, held = (
            (cached.leader, cached.leader_epoch, tuple(cached.isr)),
            (state.leader, state.leader_epoch, state.isr),
        )
        if told != held:
            yield f"broker {number} believes {told} of {partition}, ZooKeeper holds {held}"


def _deletions(
    topics: Mapping[str, TopicAssignment], doomed: Iterable[str], running: Mapping[BrokerId, KafkaBroker]
) -> Iterator[str]:
    """A topic that is to be deleted is gone, unless the broker of one of its replicas is."""
    for name in sorted(doomed):
        placed = topics[name].partitions.values() if name in topics else ()
        if all(replica in running for replicas in placed for replica in replicas.replicas):
            yield f"topic {name} is still to be deleted"


def _requests(
    znodes: ZnodeView, assigned: Mapping[TopicPartition, ReplicaAssignment], doomed: Collection[str]
) -> Iterator[str]:
    """What asks the controller for something is gone, but for moves that are under way."""
    yield from (f"{path} has not been heard" for path in _asked_for(znodes))
    if (data := znodes.data(ReassignPartitionsZNode.path)) is not None:
        for partition in ReassignPartitionsZNode.decode(data):
            placed = assigned.get(partition)
            if partition.topic not in doomed and (placed is None or not placed.is_being_reassigned):
                yield f"{ReassignPartitionsZNode.path} still names {partition}, which is not on the move"


def _asked_for(znodes: ZnodeView) -> list[str]:
    """The znodes that notify or ask a controller, and that it removes at once."""
    queues = (IsrChangeNotificationZNode.path, LogDirEventNotificationZNode.path)
    found = [f"{queue}/{name}" for queue in queues for name in znodes.children(queue)]
    elections = PreferredReplicaElectionZNode.path
    return found if znodes.data(elections) is None else [*found, elections]


def _memory(
    assigned: Mapping[TopicPartition, ReplicaAssignment], running: Mapping[BrokerId, KafkaBroker]
) -> Iterator[str]:
    """The controller remembers the assignments that ZooKeeper holds."""
    for number, broker in running.items():
        if broker.broker_epoch >= 0 and broker.controller.is_active and dict(broker.controller.assignments) != assigned:
            known = broker.controller.assignments
            wrong = next(p for p in sorted({*known, *assigned}) if known.get(p) != assigned.get(p))
            yield f"controller {number} remembers {wrong} on {known.get(wrong)}, ZooKeeper holds {assigned.get(wrong)}"


def _replicas(
    partition: TopicPartition,
    placed: ReplicaAssignment,
    state: LeaderAndIsr | None,
    running: Mapping[BrokerId, KafkaBroker],
) -> Iterator[str]:
    """A move is over once all its targets live; a replica knows its role, from the newest election."""
    if placed.is_being_reassigned and all(replica in running for replica in placed.target_replicas):
        yield f"{partition} is still on its way to {placed.target_replicas}"
    if state is None or state.leader not in running:
        return
    for replica in placed.replicas:
        if replica not in running:
            continue
        hosted = running[replica].hosted.get(partition)
        if hosted is None:
            yield f"broker {replica} has no replica of {partition}"
        elif (hosted.leader, hosted.leader_epoch) != (state.leader, state.leader_epoch):
            told = f"leader {hosted.leader} at epoch {hosted.leader_epoch}"
            yield f"broker {replica} follows {partition} as of {told}, ZooKeeper holds {state.leader} at {state.leader_epoch}"


def _fetchers(number: BrokerId, broker: KafkaBroker) -> Iterator[str]:
    """Nobody fetches what it does not host, or what it leads itself."""
    for partition, leader in sorted(broker.fetched.items()):
        hosted = broker.hosted.get(partition)
        if hosted is None or hosted.is_leader or hosted.leader != leader:
            yield f"broker {number} fetches {partition} from {leader}, and has it as {hosted}"
