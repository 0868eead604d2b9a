"""`SimulatedActions`: the actions of steps on simulated brokers."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.clusters.simulated.loop import Process
from understudy.clusters.simulated.randomness import derived
from understudy.foundation.wire.network import Connection
from understudy.foundation.zk.client import Create, Delete, SetData
from understudy.trials.experiments.bad_requests import bad_bytes
from understudy.trials.experiments.cluster_actions import ActionsOnCluster
from understudy.trials.experiments.each_broker import Broker, Brokers, begin_start, on_each
from understudy.trials.experiments.injecting import CannotInject, Undo
from understudy.trials.experiments.language.actions import Action, ArmPoint
from understudy.trials.experiments.simulated.machines import SimulatedMachines


class SimulatedActions(ActionsOnCluster):
    """The actions on one simulated cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster: SimulatedCluster = cluster
        self.machines: SimulatedMachines = SimulatedMachines(cluster)

    def do(self, action: Action, brokers: Brokers, peers: Sequence[int]) -> Undo | None:
        match action.name:
            case "lose-power":
                return on_each(brokers, lambda each: self.cluster.broker(each.id).lose_power(), begin_start)
            case "skip-flushes":
                return self.with_disk(action, brokers, self.machines.skip_flushes)
        return super().do(action, brokers, peers)

    def after(self, ms: float, action: Callable[[], None]) -> None:
        self.cluster.after(ms, action)

    def restart(self, broker: Broker) -> None:
        broker.begin_stop()
        broker.begin_start()

    def arm(self, broker: Broker, action: ArmPoint) -> None:
        lasts_ms = None if action.lasts is None else action.lasts.ms
        self.cluster.broker(broker.id).arm(action.point, action.point_action, resume_after_ms=lasts_ms)

    def processes(self, brokers: Brokers) -> list[Process]:
        found = [self.cluster.broker(broker.id).node.process for broker in brokers if broker.is_running]
        if not found:
            raise CannotInject("none of its brokers runs")
        return [process for process in found if process is not None]

    def flood(self, brokers: Brokers, connections: int) -> Undo:
        opened: list[Connection] = []
        is_over = False

        async def connect(name: str, number: int) -> None:
            connection = await self.cluster.client_network.connect(name, PORT, timeout_ms=5_000)
            if is_over:
                connection.close()
                return
            opened.append(connection)
            await connection.send(bad_bytes(number))

        for broker in brokers:
            for number in range(connections):
                self.begin_call(connect(broker.name, number))

        def end() -> None:
            nonlocal is_over
            is_over = True
            for connection in opened:
                connection.close()

        return end

    def swizzle_source(self) -> random.Random:
        return derived(self.cluster.seed, "swizzle", self.cluster.now_ms)

    def begin_call(self, call: Coroutine[Any, Any, object]) -> None:
        self.cluster.begin(call)

    def write(self, path: str, data: bytes) -> None:
        operate = self.cluster.zookeeper.operate
        if not (operate([SetData(path, data)]) or operate([Create(path, data)])):
            raise CannotInject(f"{path} cannot be written: its parent does not exist, or ZooKeeper is down")

    def delete(self, path: str) -> None:
        if not self.cluster.zookeeper.operate([Delete(path)]):
            raise CannotInject(f"{path} cannot be deleted: it does not exist, has children, or ZooKeeper is down")

    def not_injected(self) -> tuple[str, ...]:
        lost = [
            f"lose-answer: {each.node} did not write below {each.path}" for each in self.cluster.zookeeper.lost_answers
        ]
        points = [
            f"arm: {broker.name} did not reach {point}"
            for broker in self.cluster.brokers
            for point in broker.node.armed
        ]
        events = [f"hold-watch: no watch event was sent to {each}" for each in self.cluster.zookeeper.missed_events()]
        requests = self.cluster.network.requests.not_injected()
        answers = [answer.missed for answer in self.cluster.answers if not answer.hits]
        return (*lost, *points, *events, *requests, *answers, *self.machines.not_injected())

    def heal(self) -> None:
        self.cluster.heal()
        self.machines.heal()
