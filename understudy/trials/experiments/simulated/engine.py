"""`SimulatedEngine`: runs an experiment on simulated brokers, in virtual time. The same seed gives the same run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.zookeeper_servers import MOST_SERVERS
from understudy.foundation.eventlog.records import Envelope, RunDescribed
from understudy.history.reading.lines import decode_record
from understudy.trials.experiments.engine import RunData
from understudy.trials.experiments.language.action_table import ACTIONS
from understudy.trials.experiments.language.frozen import FrozenPlan
from understudy.trials.experiments.load import ExperimentLoad
from understudy.trials.experiments.performing import Performing
from understudy.trials.experiments.simulated.actions import SimulatedActions
from understudy.trials.experiments.simulated.machines import SimulatedMachines
from understudy.trials.seeds.judgement import unexpected_ends


class SimulatedEngine(SimulatedActions, Performing):
    """One simulated run."""

    cluster: SimulatedCluster
    machines: SimulatedMachines
    name = "sim"
    able = frozenset(ACTIONS) - {"limit-files"}
    most_zookeepers = MOST_SERVERS

    def __init__(self, plan: FrozenPlan, folder: Path) -> None:
        experiment = plan.experiment
        racks = experiment.cluster.racks
        count = experiment.cluster.brokers
        self._folder = folder
        cluster = SimulatedCluster(
            plan.seed,
            brokers=count,
            zookeepers=experiment.cluster.zookeepers,
            racks=[racks[number % len(racks)] for number in range(count)] if racks else None,
            settings={
                "zookeeper.session.timeout.ms": str(plan.session_ms),
                "understudy.events.logs": "true",
                **experiment.cluster.settings,
            },
            fences_off=plan.fences_off,
            run_id=plan.run_id,
            described=RunDescribed(seed=plan.seed),
        )
        SimulatedActions.__init__(self, cluster)
        self.may_end = set()
        self.load = ExperimentLoad(
            self.cluster.client_network,
            self.cluster.simulator.clock,
            lambda: self.cluster.bootstrap,
            plan,
            begin=self.cluster.begin,
            now_ms=lambda: self.now_ms,
            open_log=self.cluster.open_client_log,
        )

    # ------------------------------------------------------------------ time

    @property
    def now_ms(self) -> float:
        return self.cluster.now_ms - self._began_ms

    def begin_time(self) -> None:
        self._read_lines = len(self.cluster.log_lines)
        self._began_ms = self.cluster.now_ms

    def advance(self, until_ms: float, on_record: Callable[[Envelope], bool]) -> None:
        lines = self.cluster.log_lines

        def read() -> bool:
            is_wanted = False
            while self._read_lines < len(lines):
                self._read_lines += 1
                is_wanted |= on_record(decode_record(lines[self._read_lines - 1]))
            return is_wanted

        def observe(line: bytes) -> None:
            if read():
                self.cluster.loop.interrupt()

        if read():
            return
        lines.observe = observe
        try:
            self.cluster.run_for(max(0.0, until_ms - self.now_ms))
        finally:
            lines.observe = None

    # ------------------------------------------------------------------ the end

    def finish(self) -> RunData:
        cluster, load = self.cluster, self.load
        notes = []
        try:
            cluster.ask(load.settle())
            load.stop()
            cluster.wait_until(lambda: not load.running, "the producers and consumers have ended")
            cluster.ask(load.read_all())
        except ClusterError as failure:
            notes.append(str(failure))
        load.note_records([decode_record(line) for line in cluster.log_lines])
        cluster.close()
        cluster.dump(self._folder)
        return RunData(
            records={
                log.name: [decode_record(line) for lines in log.lines.values() for line in lines]
                for log in cluster.logs
            },
            transactions=cluster.zookeeper.transactions,
            load=load,
            failures=(*cluster.loop.failures, *unexpected_ends(cluster, self.may_end)),
            may_fail=frozenset(self.may_end),
            notes=tuple(notes),
        )

    def close(self) -> None:
        if not self.cluster.loop.is_closed():
            self.cluster.close()
