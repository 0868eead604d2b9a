"""What the simulator does for each action of a step. None of these lets time pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from understudy.clusters.clients.admin_client import PREFERRED, UNCLEAN
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.wire.network import Connection
from understudy.foundation.zk.client import Create, Delete, SetData
from understudy.trials.experiments.bad_requests import FLOOD, bad_bytes
from understudy.trials.experiments.each_broker import (
    CRASH_LOOP_MS,
    STARVE_MS,
    STUTTER_MS,
    begin_crash_loop,
    begin_repeating,
    begin_stutter,
    on_each,
)
from understudy.trials.experiments.engine import CannotInject, Undo
from understudy.trials.experiments.simulated import links, machines, zookeeper
from understudy.trials.experiments.simulated.action_types import Brokers, Options, SimulatedAction

# ------------------------------------------------------------------ processes


def _bounce(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
    for broker in brokers:
        broker.bounce(options["lasts"])


def _restart(broker: SimulatedBroker) -> None:
    broker.begin_stop()
    broker.begin_start()


def _start(broker: SimulatedBroker) -> None:
    if broker.is_running:
        raise CannotInject(f"{broker.name} cannot be started: it is running")
    broker.begin_start()


def _resume(broker: SimulatedBroker) -> None:
    if not broker.is_paused:
        raise CannotInject(f"{broker.name} cannot be resumed: it is not paused")
    broker.resume()


def _stutter(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    return begin_stutter(brokers, options.get("every", STUTTER_MS), cluster.after, SimulatedBroker.resume_if_paused)


def _starve(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    running_ms = STARVE_MS * options["percent"] / 100
    processes = [broker.node.process for broker in brokers if broker.is_running and broker.node.process is not None]
    if not processes:
        raise CannotInject("none of its brokers runs")
    for broker in brokers:
        cluster.record_fault("starve", broker.name)

    def stop() -> None:
        for process in processes:
            process.pause()
            cluster.after(STARVE_MS - running_ms, process.resume)

    end = begin_repeating(stop, STARVE_MS, cluster.after)

    def end_and_resume() -> None:
        end()
        for process in processes:
            process.resume()

    return end_and_resume


def _crash_loop(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    return begin_crash_loop(brokers, options.get("every", CRASH_LOOP_MS), cluster.after, SimulatedBroker.begin_start)


def _slow_start(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
    for broker in brokers:
        broker.kill()
        broker.begin_start()
        broker.pause()
        cluster.after(options["lasts"], broker.resume_if_paused)


def _flood(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    opened: list[Connection] = []
    is_over = False

    async def connect(broker: SimulatedBroker, number: int) -> None:
        connection = await cluster.client_network.connect(broker.name, PORT, timeout_ms=5_000)
        if is_over:
            connection.close()
            return
        opened.append(connection)
        await connection.send(bad_bytes(number))

    for broker in brokers:
        if not broker.is_running:
            raise CannotInject(f"{broker.name} is not running")
        cluster.record_fault("flood", broker.name)
        for number in range(options.get("connections", FLOOD)):
            cluster.begin(connect(broker, number))

    def end() -> None:
        nonlocal is_over
        is_over = True
        for connection in opened:
            connection.close()

    return end


def _arm(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    for broker in brokers:
        broker.arm(options["point"], options["point_action"], resume_after_ms=options.get("lasts"))

    def end() -> None:
        for broker in brokers:
            broker.node.disarm()
            broker.resume_if_paused()

    return end


def _depose(broker: SimulatedBroker) -> None:
    broker.depose()


# ------------------------------------------------------------------ operators and clients


def _write(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
    data = options.get("data", "").encode()
    cluster.record_fault("write", value)
    if not (cluster.zookeeper.operate([SetData(value, data)]) or cluster.zookeeper.operate([Create(value, data)])):
        raise CannotInject(f"{value} cannot be written: its parent does not exist, or ZooKeeper is down")


def _delete(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
    cluster.record_fault("delete", value)
    if not cluster.zookeeper.operate([Delete(value)]):
        raise CannotInject(f"{value} cannot be deleted: it does not exist, has children, or ZooKeeper is down")


def _create_topic(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
    replicas = min(options.get("replicas", 3), len(cluster.broker_ids))
    cluster.begin(
        cluster.admin.create_topic(value, partitions=options.get("partitions", 1), replication_factor=replicas)
    )


def _elect(election_type: int) -> SimulatedAction:
    def perform(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
        cluster.begin(cluster.admin.elect_leaders([value], election_type=election_type))

    return perform


ACTIONS: Final[Mapping[str, SimulatedAction]] = {
    **links.ACTIONS,
    **machines.ACTIONS,
    **zookeeper.ACTIONS,
    "kill": on_each(SimulatedBroker.kill, SimulatedBroker.begin_start),
    "bounce": _bounce,
    "lose-power": on_each(SimulatedBroker.lose_power, SimulatedBroker.begin_start),
    "pause": on_each(SimulatedBroker.pause, SimulatedBroker.resume_if_paused),
    "resume": on_each(_resume),
    "stutter": _stutter,
    "starve": _starve,
    "crash-loop": _crash_loop,
    "slow-start": _slow_start,
    "flood": _flood,
    "stop": on_each(SimulatedBroker.begin_stop, SimulatedBroker.begin_start),
    "start": on_each(_start),
    "restart": on_each(_restart),
    "expire": on_each(SimulatedBroker.expire_session),
    "depose": on_each(_depose),
    "isolate": on_each(SimulatedBroker.isolate, SimulatedBroker.heal),
    "arm": _arm,
    "write": _write,
    "delete": _delete,
    "create-topic": _create_topic,
    "delete-topic": lambda cluster, brokers, value, options: cluster.begin(cluster.admin.delete_topics(value)),
    "add-partitions": lambda cluster, brokers, value, options: cluster.begin(
        cluster.admin.create_partitions(value, options["to"])
    ),
    "reassign": lambda cluster, brokers, value, options: cluster.begin(
        cluster.admin.alter_partition_reassignments({value: options["peer_ids"]})
    ),
    "elect": _elect(PREFERRED),
    "elect-unclean": _elect(UNCLEAN),
}
