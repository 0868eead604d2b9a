"""`ExperimentEngine`: runs an experiment in a simulation, in processes of this machine, or in containers.

The runner decides when an action is done and to which broker; an engine does it and lets time pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from understudy.checks.history import ZnodeTransaction
from understudy.clusters.cluster import Cluster
from understudy.clusters.findings import Findings
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.eventlog.records import Envelope
from understudy.history.reading.findings import LogFinding
from understudy.trials.experiments.disk_faults import MachineFaultsOfBrokers
from understudy.trials.experiments.injecting import Undo
from understudy.trials.experiments.language.actions import Action
from understudy.trials.experiments.language.document import Topic
from understudy.trials.experiments.language.frozen import FrozenPlan
from understudy.trials.experiments.load import ExperimentLoad
from understudy.trials.experiments.report.timeline import LOAD_BEGUN


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """The data of a finished run, for the judgement.

    Attributes:
        records: each node's records, by node, all incarnations in order.
        transactions: the history of the znodes; empty if the engine has none.
        failures: events that must not happen in any run: unhandled exceptions, brokers that ended by themselves.
        may_fail: the nodes whose tasks may fail, because their disk was made to fail.
        findings: of the reader of the event logs.
        is_running: whether the cluster still runs.
    """

    records: Mapping[str, Sequence[Envelope]]
    transactions: Sequence[ZnodeTransaction]
    load: ExperimentLoad
    failures: tuple[str, ...]
    may_fail: frozenset[str]
    notes: tuple[str, ...]
    findings: tuple[LogFinding, ...] = ()
    is_running: bool = False


class ExperimentEngine(Protocol):
    """One run of one experiment on one kind of cluster. Its methods are called in the order in which they stand here,
    all from one thread.

    Args:
        folder: the folder for the run's files.
    """

    name: str
    able: frozenset[str]
    """The actions of steps that it can do, or that are done for it, as `bind` and `settle`."""
    most_zookeepers: int = 1
    """The largest number of ZooKeeper servers that its cluster can have."""
    cluster: LocalCluster | SimulatedCluster
    machines: MachineFaultsOfBrokers
    load: ExperimentLoad
    may_end: set[str]
    """The names of the brokers that may end by themselves, because of a fault."""

    def __init__(self, plan: FrozenPlan, folder: Path) -> None: ...

    @classmethod
    def begin(cls, plan: FrozenPlan, folder: Path) -> Self:
        """Start the cluster, create the topics, wait until it has settled, and start the load.

        Raises:
            ClusterError: the cluster cannot be started.
        """
        engine = cls(plan, folder)
        try:
            engine.start(plan)
        except BaseException:
            engine.close()
            raise
        return engine

    def start(self, plan: FrozenPlan) -> None:
        """Do what `begin` says."""
        self.cluster.start()
        for topic in plan.experiment.cluster.topics:
            _create(topic, self.cluster)
        self.cluster.settle()
        self.begin_time()
        self.cluster.record_step(LOAD_BEGUN)
        self.load.start()

    def begin_time(self) -> None:
        """Let the time of the experiment begin now, and leave out the records so far."""

    @property
    def now_ms(self) -> float:
        """Milliseconds since the load began."""

    def advance(self, until_ms: float, on_record: Callable[[Envelope], bool]) -> None:
        """Let time pass until `until_ms`, or until `on_record` returns True for a record that was written.

        Args:
            on_record: called with every record of every event log, once and soon after it was written.
        """

    def findings(self) -> Findings | None:
        """Return the findings about the cluster now; None if ZooKeeper cannot be read."""
        return self.cluster.findings()

    def perform(self, number: int, action: Action, broker_ids: Sequence[int], peer_ids: Sequence[int]) -> Undo | None:
        """Do what a step says; a fault is recorded in the event log first.

        Args:
            number: the number of the step.
            action: the action, with every range drawn.
            broker_ids: the brokers that its target is bound to.
            peer_ids: the brokers that its `peers` are bound to.

        Returns:
            A function that ends the action; None if it needs no end.

        Raises:
            CannotInject: it cannot be done now, or not by this engine.
            ClusterError: a broker is not in the state for it.
        """

    def not_injected(self) -> tuple[str, ...]:
        """Describe the faults that were prepared, such as one at a named point, and have not happened so far."""

    def heal(self) -> None:
        """End every fault that is left, and start every broker that is down."""

    def finish(self) -> RunData:
        """Stop the load, read every partition to its end, stop the cluster, and return what was recorded."""

    def close(self) -> None:
        """End everything at once. Harmless if it has ended."""


def _create(topic: Topic, cluster: Cluster) -> None:
    """Create a topic. Raises as `AdminClient.create_topic`."""
    replicas = topic.assignment or None
    cluster.ask(
        cluster.admin.create_topic(
            topic.name,
            partitions=1 if replicas else topic.partitions,
            replication_factor=1 if replicas else min(topic.replicas, len(cluster.broker_ids)),
            assignment=dict.fromkeys(range(topic.partitions), replicas) if replicas else None,
            configs={"min.insync.replicas": str(topic.min_insync)},
        )
    )
