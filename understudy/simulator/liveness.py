"""Is the cluster at rest? What must come true once the faults are over (reliability L1-L4), asked of everyone concerned.

Safety is judged from the logs by `understudy.checkers`; this looks at the living: ZooKeeper's tree and every broker's view of
it. Each complaint is a sentence; no complaint means rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from brokers.broker import Broker
from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.cluster.leadership import LeaderAndIsr
from understudy.simulator.znode_view import ZnodeView


def complaints(znodes: ZnodeView, running: Mapping[BrokerId, Broker]) -> list[str]:
    """What is wrong with the cluster.

    Args:
        running: the brokers that are up and awake; nothing is asked of the others.
    """
    if not running:
        return []
    wrong = list(_one_controller(znodes, running))
    registered = znodes.brokers()
    wrong += [f"broker {number} is up but not registered" for number in running if number not in registered]
    wrong += [f"broker {number} is registered but not up" for number in registered if number not in running]
    states = znodes.states()
    for topic in znodes.topics().values():
        for partition, replicas in sorted(topic.partitions.items()):
            wrong += _partition(partition, replicas, states[partition], running)
    for number, broker in running.items():
        wrong += _metadata(number, broker, states, running)
    return wrong


def _one_controller(znodes: ZnodeView, running: Mapping[BrokerId, Broker]) -> Iterator[str]:
    """L1: exactly one broker is active, and it owns `/controller`."""
    owner = znodes.controller_id()
    if owner is None:
        yield "nobody owns /controller"
    started = [number for number, broker in running.items() if broker.broker_epoch >= 0]
    active = [number for number in started if running[number].controller.is_active]
    if active != [owner]:
        yield f"active controllers are {active}, owner of /controller is {owner}"


def _partition(
    partition: TopicPartition, replicas: ReplicaAssignment, state: LeaderAndIsr | None, running: Mapping[BrokerId, Broker]
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
    number: BrokerId, broker: Broker, states: Mapping[TopicPartition, LeaderAndIsr | None], running: Mapping[BrokerId, Broker]
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
        elif (cached.leader, cached.leader_epoch, tuple(cached.isr)) != (state.leader, state.leader_epoch, state.isr):
            told = (cached.leader, cached.leader_epoch, tuple(cached.isr))
            yield f"broker {number} believes {told} of {partition}, ZooKeeper holds {state[:3]}"
