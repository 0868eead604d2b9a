"""What engines in real time do for each action of a step. None of these waits for the brokers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from understudy.clusters.clients.admin_client import PREFERRED, UNCLEAN
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.simulated.randomness import derived
from understudy.foundation.cluster.errors import ApiError
from understudy.trials.experiments.bad_requests import FLOOD, bad_bytes
from understudy.trials.experiments.each_broker import (
    CRASH_LOOP_MS,
    STUTTER_MS,
    begin_crash_loop,
    begin_stutter,
    begin_swizzle,
    on_each,
    to_all,
)
from understudy.trials.experiments.engine import CannotInject, Undo
from understudy.trials.experiments.live import machines, zookeeper
from understudy.trials.experiments.live.action_types import ActionEngine, Brokers, LiveAction, Options

_FLOOD_TIMEOUT_S = 2.0


# ------------------------------------------------------------------ brokers


def _begin_start(broker: LocalBroker) -> None:
    if not broker.is_running:
        broker.cluster.begin_start(broker.id)


def _begin_stop(broker: LocalBroker) -> None:
    broker.cluster.inject(broker.id, "stop", broker.role, lambda process: process.ask_to_end(), ends=True)


def _resume(broker: LocalBroker) -> None:
    if broker.is_paused:
        broker.resume()


def _start(broker: LocalBroker) -> None:
    broker.cluster.begin_start(broker.id)


def _resume_paused(broker: LocalBroker) -> None:
    if not broker.is_paused:
        raise CannotInject(f"{broker.name} cannot be resumed: it is not paused")
    broker.resume()


def _bounce(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
    for broker in brokers:
        broker.kill()
        engine.after(options["lasts"], _calling(_begin_start, broker))


def _restart(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
    """Stop each broker, and start it once it has ended."""
    for broker in brokers:
        _begin_stop(broker)
        broker.process.is_restarting = True
        _start_when_ended(engine, broker)


def _start_when_ended(engine: ActionEngine, broker: LocalBroker) -> None:
    if broker.is_running:
        engine.after(100.0, lambda: _start_when_ended(engine, broker))
    else:
        broker.process.is_restarting = False
        _begin_start(broker)


def _stutter(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    return begin_stutter(brokers, options.get("every", STUTTER_MS), engine.after, _resume)


def _crash_loop(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    return begin_crash_loop(brokers, options.get("every", CRASH_LOOP_MS), engine.after, _begin_start)


def _slow_start(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
    for broker in brokers:
        broker.kill()
        _begin_start(broker)
        broker.pause()
        engine.after(options["lasts"], _calling(_resume, broker))


def _flood(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    opened: list[socket.socket] = []

    def end() -> None:
        for each in opened:
            each.close()

    for broker in brokers:
        if not broker.is_running:
            raise CannotInject(f"{broker.name} is not running")
        engine.cluster.record_fault("flood", broker.name)
        host, _, port = broker.address.rpartition(":")
        for number in range(options.get("connections", FLOOD)):
            try:
                opened.append(socket.create_connection((host, int(port)), _FLOOD_TIMEOUT_S))
                opened[-1].sendall(bad_bytes(number))
            except OSError as refused:
                end()
                raise CannotInject(f"{broker.name} refused connection {number + 1}: {refused}") from None
    return end


def _swizzle(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    return begin_swizzle(brokers, options["lasts"], engine.after, derived(engine.seed, "swizzle"))


def _arm(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    for broker in brokers:
        broker.arm(options["point"], options["point_action"])
        if options["point_action"] == "pause" and "lasts" in options:
            engine.resume_at(broker.id, options["point"], options["lasts"])
    return lambda: to_all(_resume, brokers)


def _calling(act: Callable[[LocalBroker], object], broker: LocalBroker) -> Callable[[], None]:
    def call() -> None:
        act(broker)

    return call


# ------------------------------------------------------------------ operators


def _write(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
    engine.cluster.record_fault("write", value)
    if not engine.cluster.view.write(value, options.get("data", "").encode()):
        raise CannotInject(f"{value} cannot be written: its parent does not exist")


def _delete(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
    engine.cluster.record_fault("delete", value)
    if not engine.cluster.view.delete(value):
        raise CannotInject(f"{value} cannot be deleted: it does not exist or has children")


# ------------------------------------------------------------------ clients


def _begin(call: Coroutine[Any, Any, object]) -> None:
    """Run a client's call in a thread of its own, and ignore that it was refused."""

    async def ignoring_refusals() -> None:
        with contextlib.suppress(ApiError, NoBrokerAnswers):
            await call

    threading.Thread(target=lambda: asyncio.run(ignoring_refusals()), name="understudy-step", daemon=True).start()


def _create_topic(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
    replicas = min(options.get("replicas", 3), len(engine.cluster.broker_ids))
    partitions = options.get("partitions", 1)
    _begin(engine.cluster.admin.create_topic(value, partitions=partitions, replication_factor=replicas))


def _elect(election_type: int) -> LiveAction:
    def perform(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
        _begin(engine.cluster.admin.elect_leaders([value], election_type=election_type))

    return perform


def _depose(broker: LocalBroker) -> None:
    try:
        broker.depose()
    except ClusterError as refused:
        raise CannotInject(str(refused)) from None


ACTIONS: Final[Mapping[str, LiveAction]] = {
    **machines.ACTIONS,
    **zookeeper.ACTIONS,
    "kill": on_each(LocalBroker.kill, _begin_start),
    "bounce": _bounce,
    "pause": on_each(LocalBroker.pause, _resume),
    "resume": on_each(_resume_paused),
    "stutter": _stutter,
    "crash-loop": _crash_loop,
    "slow-start": _slow_start,
    "flood": _flood,
    "stop": on_each(_begin_stop, _begin_start),
    "start": on_each(_start),
    "restart": _restart,
    "depose": on_each(_depose),
    "isolate": on_each(LocalBroker.isolate, LocalBroker.heal),
    "heal": on_each(LocalBroker.heal),
    "swizzle": _swizzle,
    "arm": _arm,
    "write": _write,
    "delete": _delete,
    "create-topic": _create_topic,
    "delete-topic": lambda engine, brokers, value, options: _begin(engine.cluster.admin.delete_topics(value)),
    "add-partitions": lambda engine, brokers, value, options: _begin(
        engine.cluster.admin.create_partitions(value, options["to"])
    ),
    "reassign": lambda engine, brokers, value, options: _begin(
        engine.cluster.admin.alter_partition_reassignments({value: options["peer_ids"]})
    ),
    "elect": _elect(PREFERRED),
    "elect-unclean": _elect(UNCLEAN),
}
