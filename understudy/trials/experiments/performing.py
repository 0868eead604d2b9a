"""`Performing`: does the actions of steps, for all engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from understudy.trials.experiments.cluster_actions import ActionsOnCluster
from understudy.trials.experiments.disk_faults import DISK_FAULTS
from understudy.trials.experiments.engine import ExperimentEngine
from understudy.trials.experiments.injecting import Undo
from understudy.trials.experiments.language.actions import Action, DiskFault, JoinMembers, OnPartition


class Performing(ActionsOnCluster, ExperimentEngine, Protocol):
    """The actions of steps, and of the load. An engine inherits it."""

    def perform(self, number: int, action: Action, broker_ids: Sequence[int], peer_ids: Sequence[int]) -> Undo | None:
        """Do the action of a step; see `ExperimentEngine.perform`."""
        brokers = [self.cluster.broker(broker_id) for broker_id in broker_ids]
        if action.name == "limit-files" or (isinstance(action, DiskFault) and DISK_FAULTS[action.name].may_end_broker):
            self.may_end.update(broker.name for broker in brokers)
        match action:
            case OnPartition(name="produce"):
                self.load.produce(number, action)
            case JoinMembers(members=members):
                self.load.join(members)
            case _:
                return self.do(action, brokers, peer_ids)
        return None
