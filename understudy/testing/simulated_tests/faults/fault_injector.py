"""`FaultInjector`: injects the faults of a test into brokers and services, and ends them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from understudy.clusters.answers import AnswerHandle, arm_at
from understudy.clusters.cluster import ClusterError
from understudy.clusters.request_rules import RequestRule
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.targets import Resolver
from understudy.clusters.values import CLIENTS, OF_USERS, SERVICE, Target
from understudy.clusters.virtual.service import Service
from understudy.clusters.virtual.world import TEST, VirtualWorld
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.wire.registry import API_BY_NAME
from understudy.history.reading.lines import decode_record
from understudy.testing.simulated_tests.faults.faults import Fault
from understudy.trials.experiments.each_broker import Broker, to_all
from understudy.trials.experiments.injecting import CannotInject, Undo
from understudy.trials.experiments.language.actions import Answer, ArmPoint, Links, OnZooKeeper, RequestFault, StepClock
from understudy.trials.experiments.link_actions import EFFECTS
from understudy.trials.experiments.simulated.actions import SimulatedActions
from understudy.trials.experiments.triggers import TriggerState, ids_of_argument

_STEP_MS: Final = 200.0
_ENDS_WITH_A_START: Final = ("kill", "stop")
_ENDS_A_SESSION: Final = ("stop", "restart", "expire")
"""Faults after which the controller elects another in-sync replica at once, even one whose session will expire soon."""
_NOT_POSSIBLE: Final = (ClusterError, CannotInject)


class FaultInjector:
    """Injects the faults of a test at their times, from now on, until it is stopped.

    Attributes:
        injected: the faults that were injected, in order, each with the target that it has found.
        missed: the faults that were not, in words: no process had the role, or it was not in the state for the fault.
    """

    def __init__(self, world: VirtualWorld, faults: Sequence[Fault]) -> None:
        self.injected: list[Fault] = []
        self.missed: list[str] = []
        self._world = world
        self._cluster = world.cluster
        self._is_stopped = False
        self._undos: dict[int, Undo] = {}
        self._numbers = itertools.count(1)
        self._rules: list[RequestRule] = []
        self._answers: list[AnswerHandle] = []
        self._powerless: set[BrokerId] = set()
        self._actions = _GuardedActions(world, self._attempt)
        for fault in faults:
            if fault.when is None:
                self._after(fault.at_ms, partial(self.inject, fault))
        self._waiting = [(fault, TriggerState(fault.when, _ids)) for fault in faults if fault.when is not None]
        if self._waiting:
            self._cluster.log_lines.observe = self._observe

    @property
    def powerless(self) -> tuple[SimulatedBroker, ...]:
        """The brokers that have lost power, are down, and are still in the ISR of a partition.

        If one of them came back now, it could be elected without the records that it has lost, in Kafka as here
        (KIP-966).
        """
        away = [self._cluster.broker(broker_id) for broker_id in sorted(self._powerless)]
        return tuple(broker for broker in away if not broker.is_running and self._partitions_in_sync(broker))

    def stop(self, *, but_leave: Collection[SimulatedBroker] = ()) -> None:
        """Inject no more, and end every fault: all brokers and services run, and all links are healed.

        Args:
            but_leave: brokers that are not started.
        """
        if self._is_stopped:
            return
        self._is_stopped = True
        for undo in tuple(self._undos.values()):
            self._end(undo)
        self._undos.clear()
        self.missed += [rule.missed for rule in self._rules if not rule.applied]
        self.missed += [answer.missed for answer in self._answers if not answer.hits]
        self._cluster.heal(but_leave={broker.id for broker in but_leave})
        self._actions.machines.heal()
        self._world.heal()
        for loop in self._world.loops:
            if loop.process.name == TEST:
                loop.wall_offset_s = 0.0

    def inject(self, fault: Fault) -> None:
        """Inject a fault now, and schedule its end."""
        self._attempt(partial(self._inject, fault), str(fault).strip())

    # ------------------------------------------------------------------ time

    def _after(self, ms: float, action: Callable[[], None]) -> None:
        """Do something later, unless the faults have ended by then."""
        self._world.after(ms / 1000, lambda: None if self._is_stopped else action())

    def _attempt(self, action: Callable[[], None], what: str) -> None:
        """Do something unless the faults have ended; note a fault that is not possible now."""
        if self._is_stopped:
            return
        try:
            action()
        except _NOT_POSSIBLE as reason:
            self.missed.append(f"{what}: {reason}")

    def _end(self, undo: Undo) -> None:
        try:
            undo()
        except _NOT_POSSIBLE as reason:
            self.missed.append(f"the end of a fault: {reason}")

    def _end_after(self, ms: float, undo: Undo) -> None:
        number = next(self._numbers)
        self._undos[number] = undo

        def end() -> None:
            if self._undos.pop(number, None) is not None:
                self._end(undo)

        self._after(ms, end)

    def _observe(self, line: bytes) -> None:
        """Inject the faults that wait for the event of a record, after the callback that has written it."""
        record = decode_record(line)
        for fault, state in self._waiting:
            if state.matches(record, ()) and state.count == fault.nth:
                self._after(fault.at_ms, partial(self.inject, fault))

    # ------------------------------------------------------------------ injecting

    def _inject(self, fault: Fault) -> None:
        action = fault.action
        if isinstance(action, OnZooKeeper):
            undo, found = self._actions.do(action, [], ()), "zookeeper"
        else:
            nodes = list(dict.fromkeys(node for target in action.brokers for node in self._nodes(target, fault.pick)))
            found = ", ".join(nodes)
            if all(node in self._brokers for node in nodes) and not any(peer.role in OF_USERS for peer in action.peers):
                undo = self._on_brokers(fault, [self._brokers[node] for node in nodes])
            elif isinstance(action, Links | RequestFault):
                undo = self._on_links(fault, nodes)
            else:
                undo = self._on_services(fault, nodes)
        self.injected.append(replace(fault, found=found, injected_ms=self._cluster.now_ms))
        if undo is not None and action.lasts is not None:
            if fault.keeps_records and action.name in _ENDS_WITH_A_START:
                undo = self._unless_powerless(undo, found)
            self._end_after(action.lasts.ms, undo)

    @property
    def _brokers(self) -> dict[str, SimulatedBroker]:
        return {broker.name: broker for broker in self._cluster.brokers}

    def _on_brokers(self, fault: Fault, brokers: Sequence[SimulatedBroker]) -> Undo | None:
        action = fault.action
        if fault.keeps_records:
            self._check_that_records_are_kept(action.name, brokers)
        if action.name == "lose-power":
            return self._lose_power(fault, brokers)
        if isinstance(action, Answer):
            armed = self._cluster.answers
            by_hand = len(armed)
            arm_at(brokers, action.armed(), armed)
            # Those that the test itself has armed must be given; these need not.
            self._answers += armed[by_hand:]
            del armed[by_hand:]
            return None
        peers = [peer for peer in action.peers if peer.role != "zookeeper"]
        ids = [int(self._brokers[node].id) for peer in peers for node in self._nodes(peer, fault.pick + 1)]
        return self._actions.do(action, brokers, ids)

    def _check_that_records_are_kept(self, name: str, brokers: Sequence[SimulatedBroker]) -> None:
        """Raise CannotInject if a fault could leave a partition no in-sync replica but those that have lost power."""
        away = self.powerless
        for broker in brokers:
            if name == "restart" and broker in away:
                raise CannotInject(f"{broker.name} has lost power and is still in an ISR")
            if name != "lose-power" and name not in _ENDS_A_SESSION:
                continue
            for partition, others in self._partitions_in_sync(broker).items():
                is_last = not any(other.is_running and not other.is_paused for other in others)
                if is_last and (name == "lose-power" or any(other in away for other in others)):
                    raise CannotInject(f"{broker.name} has the only in-sync replica of {partition} that is alive")

    def _unless_powerless(self, undo: Undo, name: str) -> Undo:
        """The end of a fault that starts a broker: it waits while the broker is one of `powerless`."""

        def end() -> None:
            if not any(broker.name == name for broker in self.powerless):
                undo()
            elif not self._is_stopped:  # the end of all faults starts it
                self._after(_STEP_MS, lambda: self._end(end))

        return end

    def _lose_power(self, fault: Fault, brokers: Sequence[SimulatedBroker]) -> Undo:
        for broker in brokers:
            broker.lose_power()
            self._powerless.add(broker.id)

        def start() -> None:
            if self._is_stopped:
                return  # the end of all faults starts them
            if fault.keeps_records and self.powerless:
                self._after(_STEP_MS, start)
            else:
                to_all(lambda each: each.begin_start(), brokers)

        return start

    def _partitions_in_sync(self, broker: SimulatedBroker) -> dict[TopicPartition, list[SimulatedBroker]]:
        """The other in-sync replicas of each partition of which a broker is one, as ZooKeeper has them."""
        return {
            key: [self._cluster.broker(each) for each in found.state.leader_and_isr.isr if each != broker.id]
            for key, found in self._cluster.picture().partitions.items()
            if found.state is not None and broker.id in found.state.leader_and_isr.isr
        }

    # ------------------------------------------------------------------ services and clients

    def _on_services(self, fault: Fault, nodes: Sequence[str]) -> Undo | None:
        action = fault.action
        for_s = None if action.lasts is None else action.lasts.ms / 1000
        services = [self._service(node, action.name) for node in nodes if not isinstance(action, StepClock)]
        match action.name:
            case "kill" | "bounce":
                for service in services:
                    service.kill(for_s)
            case "pause":
                for service in services:
                    service.pause(for_s)
            case "stop":
                for service in services:
                    service.begin_stop(for_s or 0.0)
            case "restart":
                for service in services:
                    service.restart()
            case "start":
                for service in services:
                    service.start()
            case "resume":
                for service in services:
                    service.resume()
            case "isolate":
                for service in services:
                    service.isolate(for_s=for_s)
            case "heal":
                for service in services:
                    service.heal()
            case "step-clock":
                assert isinstance(action, StepClock)
                to_all(partial(self._set_clock, ahead_s=action.by / 1000), nodes)
                return partial(to_all, partial(self._set_clock, ahead_s=0.0), nodes)
            case _:
                raise CannotInject(f"{action.name} is a fault of brokers, and {', '.join(nodes)} is none")
        return None

    def _service(self, node: str, action: str) -> Service:
        if node not in self._world.services:
            raise CannotInject(f"{action} needs a service or a broker, and {node} is the process of the test")
        return self._world.services[node]

    def _set_clock(self, node: str, ahead_s: float) -> None:
        if node in self._world.services:
            self._world.services[node].set_clock(ahead_s)
            return
        self._world.record("step-clock", node)
        for loop in self._world.loops:
            if loop.process.name == node:
                loop.wall_offset_s = ahead_s

    def _on_links(self, fault: Fault, nodes: Sequence[str]) -> Undo | None:
        """Inject a fault into the links or requests between processes of the user and other nodes."""
        action, network = fault.action, self._cluster.network
        peers = [node for peer in action.peers for node in self._nodes(peer, fault.pick + 1) if node not in nodes]
        if not peers:
            raise CannotInject(f"{action.name} needs another node: {', '.join(nodes)} is all that is named")
        words = f"{', '.join(nodes)} -> {', '.join(peers)}"
        if isinstance(action, RequestFault):
            name = f"test-{action.name}-{next(self._numbers)}"
            rule = RequestRule(
                name=name,
                sources=nodes,
                destinations=peers,
                effect=EFFECTS[action.name],
                api=None if action.api is None else API_BY_NAME[action.api].key,
                delay_ms=action.by.ms,
                count=action.count or 1,
            )
            self._world.record(rule.effect.value, f"{words}: {action.api or 'all requests'}")
            network.requests.add(rule)
            self._rules.append(rule)
            return partial(network.requests.remove, name)
        assert isinstance(action, Links)
        self._world.record(action.name, words)
        match action.name:
            case "cut" if action.direction == "sent":
                network.cut(nodes, peers)
            case "cut" if action.direction == "received":
                network.cut(peers, nodes)
            case "cut":
                network.partition(nodes, peers)
            case "reset":
                for node in nodes:
                    network.reset(node)
                return None
            case "refuse":
                network.refuse(nodes, peers, True)
                return lambda: network.refuse(nodes, peers, False)
            case "delay":
                network.delay(nodes, peers, action.by.ms)
                return lambda: network.delay(nodes, peers, 0.0)
            case "throttle":
                network.throttle(nodes, peers, action.bytes)
                return lambda: network.throttle(nodes, peers, 0)
            case "split":
                network.split(nodes, peers, action.bytes)
                return lambda: network.split(nodes, peers, 0)
        return lambda: network.heal_between(nodes, peers)

    # ------------------------------------------------------------------ targets

    def _nodes(self, target: Target, pick: int) -> list[str]:
        """Return the names of the nodes that a target means now.

        Raises:
            CannotInject: no node has the role.
        """
        if target.role in OF_USERS:
            return self._users(target, pick)
        if target.role == "leader" and target.partition is None:
            return [self._brokers_by_id(self._a_leader(pick))]
        cluster = self._cluster
        resolver = Resolver(
            cluster.broker_ids,
            lambda broker_id: cluster.broker(broker_id).rack,
            lambda: [int(broker.id) for broker in cluster.brokers if broker.is_running and not broker.is_paused],
            cluster.controller_id,
            lambda partition: cluster.leader_id(*partition),
            lambda partition: cluster.isr(*partition),
        )
        found, role = resolver.resolve(target, lambda ids: sorted(ids)[pick % len(ids)])
        if not found:
            raise CannotInject(f"no broker is {role or target} at this moment")
        return [cluster.broker(broker_id).name for broker_id in found]

    def _users(self, target: Target, pick: int) -> list[str]:
        services = [service.name for service in self._world.services.values()]
        if target.role == SERVICE and target.name:
            if target.name not in (*services, TEST):
                raise CannotInject(f"there is no service {target.name!r} at this moment")
            return [target.name]
        nodes = [*services, TEST] if target.role == CLIENTS else services
        if not nodes:
            raise CannotInject("no service was started")
        return [nodes[pick % len(nodes)]]

    def _a_leader(self, pick: int) -> BrokerId:
        """The leader of one of the partitions that users have created; any broker while there is none."""
        cluster = self._cluster
        leaders = [
            leader
            for topic, placed in sorted(cluster.znodes.topics().items())
            if not topic.startswith("__")
            for partition in sorted(placed.partitions)
            if (leader := cluster.leader_id(topic, partition.partition)) is not None
        ]
        found = leaders or cluster.broker_ids
        return found[pick % len(found)]

    def _brokers_by_id(self, broker_id: BrokerId) -> str:
        return self._cluster.broker(broker_id).name


class _GuardedActions(SimulatedActions):
    """The actions of steps on the brokers of a test; what they do later is not done after the end of all faults."""

    def __init__(self, world: VirtualWorld, attempt: Callable[[Callable[[], None], str], None]) -> None:
        super().__init__(world.cluster)
        self._attempt = attempt

    def after(self, ms: float, action: Callable[[], None]) -> None:
        self.cluster.after(ms, lambda: self._attempt(action, "a part of a fault"))

    def arm(self, broker: Broker, action: ArmPoint) -> None:
        lasts_ms = None if action.lasts is None else action.lasts.ms
        at = self.cluster.broker(broker.id)
        at.arm(action.point, action.point_action, resume_after_ms=lasts_ms, start_after_ms=lasts_ms)


def _ids(argument: str) -> tuple[int, ...]:
    return ids_of_argument(argument, {})
