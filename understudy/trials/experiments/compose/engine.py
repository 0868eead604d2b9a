"""`ComposeEngine`: runs an experiment on brokers and a ZooKeeper in containers, in real time."""

from __future__ import annotations

from pathlib import Path

from understudy.brokers.machine.real_world import EXPERIMENT_VARIABLE
from understudy.clusters.containers.compose_cluster import ComposeCluster
from understudy.foundation.eventlog.records import RunDescribed
from understudy.trials.experiments.language.action_table import ACTIONS
from understudy.trials.experiments.language.actions import Links, LoseAnswer, RequestFault
from understudy.trials.experiments.language.frozen import FrozenPlan
from understudy.trials.experiments.live.live_engine import LiveEngine, properties_of


class ComposeEngine(LiveEngine):
    """One run in the containers of a project that is made for it and removed after it.

    It has the actions for which a docker command, a client or the folder of a broker is enough.
    Faults of single links and requests need a proxy, which containers do not have.
    """

    name = "compose"
    able = frozenset(
        name for name, form in ACTIONS.items() if form.shape not in (Links, RequestFault, LoseAnswer)
    ) - {
        "lose-power", "skip-flushes", "cut-clients", "expire", "slow-zookeeper", "cut-zookeeper", "flap-zookeeper",
        "hold-watch", "starve", "limit-files",
    }  # fmt: skip

    @classmethod
    def make_cluster(cls, plan: FrozenPlan, folder: Path) -> ComposeCluster:
        cluster = plan.experiment.cluster
        return ComposeCluster(
            cluster.brokers,
            name=plan.experiment.name,
            racks=cluster.racks or None,
            directory=folder,
            session_timeout_ms=plan.session_ms,
            properties=properties_of(plan),
            environment={EXPERIMENT_VARIABLE: plan.experiment.name},
            run=plan.run_id,
            described=RunDescribed(seed=plan.seed, world="containers"),
        )
