"""`ProcessEngine`: runs an experiment on broker processes of this machine and a real ZooKeeper, in real time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from understudy.brokers.machine.real_world import EXPERIMENT_VARIABLE
from understudy.clusters.processes import linux
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.zookeeper_servers import MOST_SERVERS
from understudy.foundation.eventlog.records import RunDescribed
from understudy.trials.experiments.each_broker import Brokers
from understudy.trials.experiments.injecting import Undo
from understudy.trials.experiments.language.action_table import ACTIONS
from understudy.trials.experiments.language.actions import Action, Counted
from understudy.trials.experiments.language.frozen import FrozenPlan
from understudy.trials.experiments.live.live_engine import LiveEngine, properties_of


class ProcessEngine(LiveEngine):
    """One run on real processes, whose traffic goes through a proxy.

    Every process is a child of this program, and the kernel kills it if this program is killed (`testbed.processes`).
    """

    name = "real"
    able = frozenset(ACTIONS) - {"lose-power", "skip-flushes"}
    most_zookeepers = MOST_SERVERS

    def do(self, action: Action, brokers: Brokers, peers: Sequence[int]) -> Undo | None:
        match action:
            case Counted(name="limit-files", count=int(count)):
                return self._limit_files(brokers, count)
        return super().do(action, brokers, peers)

    def _limit_files(self, brokers: Brokers, count: int) -> Undo:
        """Lower the soft limit, which an unprivileged process may raise again up to the hard one."""
        limits = {}
        for broker in brokers:
            (child,) = self.processes([broker])
            self.cluster.record_fault("limit-files", broker.name)
            limits[child] = linux.limit_files(child.pid, count)

        def end() -> None:
            for child, earlier in limits.items():
                if child.is_running:
                    linux.limit_files(child.pid, earlier)

        return end

    @classmethod
    def make_cluster(cls, plan: FrozenPlan, folder: Path) -> LocalCluster:
        cluster = plan.experiment.cluster
        return LocalCluster(
            cluster.brokers,
            racks=cluster.racks or None,
            zookeepers=cluster.zookeepers,
            directory=folder,
            session_timeout_ms=plan.session_ms,
            properties=properties_of(plan),
            environment={EXPERIMENT_VARIABLE: plan.experiment.name},
            proxied=True,
            run=plan.run_id,
            described=RunDescribed(seed=plan.seed),
        )


class LeftRunning(ProcessEngine):
    """A run whose cluster continues after its last step, so that it can be used afterwards."""

    stops_cluster = False
