"""What the engine of real processes does for each action of a step. None of these waits for the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from understudy.clusters.processes import linux
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.processes import RunningProcess
from understudy.trials.experiments.each_broker import STARVE_MS, begin_repeating
from understudy.trials.experiments.engine import CannotInject, Undo
from understudy.trials.experiments.live import actions
from understudy.trials.experiments.live.action_types import ActionEngine, Brokers, LiveAction, Options
from understudy.trials.experiments.processes import links, zookeeper


def _child(broker: LocalBroker) -> RunningProcess:
    child = broker.process.process
    if child is None or not child.is_running:
        raise CannotInject(f"{broker.name} is not running")
    return child


def _starve(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    running_ms = STARVE_MS * options["percent"] / 100
    children = [_child(broker) for broker in brokers]
    for broker in brokers:
        engine.cluster.record_fault("starve", broker.name)

    def resume() -> None:
        for child in children:
            child.resume()

    def stop() -> None:
        for child in children:
            child.pause()
        engine.after(STARVE_MS - running_ms, resume)

    end = begin_repeating(stop, STARVE_MS, engine.after)

    def end_and_resume() -> None:
        end()
        resume()

    return end_and_resume


def _limit_files(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    """Lower the soft limit, which an unprivileged process may raise again up to the hard one."""
    limits = {}
    for broker in brokers:
        child = _child(broker)
        engine.cluster.record_fault("limit-files", broker.name)
        limits[child] = linux.limit_files(child.pid, options["count"])

    def end() -> None:
        for child, earlier in limits.items():
            if child.is_running:
                linux.limit_files(child.pid, earlier)

    return end


ACTIONS: Final[Mapping[str, LiveAction]] = {
    **actions.ACTIONS,
    **links.ACTIONS,
    **zookeeper.ACTIONS,
    "starve": _starve,
    "limit-files": _limit_files,
}
