"""`SimulatedEngine`: runs an experiment on simulated brokers, in virtual time. The same seed gives the same run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.checks.group_records import add_records
from understudy.checks.replica_logs import partitions_that_may_have_lost
from understudy.clusters.clients.client_load import ClientLoad
from understudy.clusters.clients.group_load import GroupLoad
from understudy.clusters.cluster import ClusterError
from understudy.clusters.findings import Findings
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.eventlog.records import Envelope, RunDescribed
from understudy.history.reading.lines import decode_record
from understudy.trials.experiments.disk_faults import DISK_FAULTS
from understudy.trials.experiments.engine import RunData, Undo
from understudy.trials.experiments.language.frozen import FrozenPlan, FrozenStep
from understudy.trials.experiments.loads import Members, coroutines, step_producer
from understudy.trials.experiments.report.timeline import LOAD_BEGUN
from understudy.trials.experiments.simulated import machines
from understudy.trials.experiments.simulated.actions import ACTIONS
from understudy.trials.experiments.topics import create_topics
from understudy.trials.seeds.judgement import unexpected_ends


class SimulatedEngine:
    """One simulated run."""

    name = "sim"

    def __init__(self, plan: FrozenPlan, folder: Path) -> None:
        experiment = plan.experiment
        racks = experiment.cluster.racks
        count = experiment.cluster.brokers
        self._plan = plan
        self._folder = folder
        self.cluster = SimulatedCluster(
            plan.seed,
            brokers=count,
            racks=[racks[number % len(racks)] for number in range(count)] if racks else None,
            settings={
                "zookeeper.session.timeout.ms": str(plan.session_ms),
                "understudy.events.logs": "true",
                **experiment.cluster.settings,
            },
            fences_off=plan.fences_off,
            run_id=f"{experiment.name}-{plan.seed}",
            described=RunDescribed(seed=plan.seed),
        )
        self._began_ms = 0.0
        self._acknowledged_ms: list[float] = []
        self._load: ClientLoad | None = None
        self._groups = GroupLoad(self.cluster.client_network, self.cluster.simulator.clock, self._bootstrap)
        self._members = Members(self._groups, experiment.cluster)
        self._running = 0
        self._read_lines = 0
        self._with_broken_disk: set[str] = set()

    @classmethod
    def actions(cls) -> frozenset[str]:
        return frozenset(ACTIONS) | {"produce", "join"}

    @classmethod
    def begin(cls, plan: FrozenPlan, folder: Path) -> SimulatedEngine:
        engine = cls(plan, folder)
        try:
            engine._begin()
        except BaseException:
            engine.close()
            raise
        return engine

    @property
    def now_ms(self) -> float:
        return self.cluster.now_ms - self._began_ms

    @property
    def acknowledged_ms(self) -> Sequence[float]:
        return self._acknowledged_ms

    # ------------------------------------------------------------------ the load

    def _begin(self) -> None:
        cluster, experiment = self.cluster, self._plan.experiment
        cluster.start()
        partitions = create_topics(cluster, experiment.cluster)
        cluster.settle()
        self._read_lines = len(cluster.log_lines)
        self._began_ms = cluster.now_ms
        cluster.record_step(LOAD_BEGUN)
        self._load = load = ClientLoad(
            cluster.client_network,
            cluster.simulator.clock,
            self._bootstrap,
            partitions,
            on_acknowledged=lambda now_ms: self._acknowledged_ms.append(now_ms - self._began_ms),
        )
        for work in coroutines(load, experiment.load, self._plan.seed) if partitions else ():
            self._start(work)
        self._join(experiment.load.members)

    def _bootstrap(self) -> list[str]:
        return [f"{broker.name}:{PORT}" for broker in self.cluster.brokers]

    def _join(self, count: int) -> None:
        for work in self._members.join(count):
            self._start(work)

    def _start(self, work: Coroutine[object, object, None]) -> None:
        async def counted() -> None:
            try:
                await work
            finally:
                self._running -= 1

        self._running += 1
        self.cluster.begin(counted())

    # ------------------------------------------------------------------ time

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

    def findings(self) -> Findings | None:
        return self.cluster.findings()

    # ------------------------------------------------------------------ steps

    def perform(self, step: FrozenStep, broker_ids: Sequence[int], options: Mapping[str, Any]) -> Undo | None:
        brokers = [self.cluster.broker(broker_id) for broker_id in broker_ids]
        if step.step.action == "produce":
            assert self._load is not None, "the load has begun"
            self._start(step_producer(self._load, step))
            return None
        if step.step.action == "join":
            self._join(step.step.value)
            return None
        disk_fault = DISK_FAULTS.get(step.step.action)
        if disk_fault is not None and disk_fault.may_end_broker:
            self._with_broken_disk.update(broker.name for broker in brokers)
        return ACTIONS[step.step.action](self.cluster, brokers, step.step.value, options)

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
        return (*lost, *points, *events, *requests, *machines.not_injected(self.cluster))

    def heal(self) -> None:
        self.cluster.heal()
        for broker in self.cluster.brokers:
            machines.heal(broker)

    # ------------------------------------------------------------------ the end

    def finish(self) -> RunData:
        cluster, load = self.cluster, self._load
        assert load is not None
        notes = []
        try:
            cluster.ask(self._members.settle())
            load.is_stopping = self._groups.is_stopping = True
            cluster.wait_until(lambda: self._running == 0, "the producers and consumers have ended")
            cluster.ask(load.read_all())
        except ClusterError as failure:
            notes.append(str(failure))
        names = {topic.name for topic in self._plan.experiment.cluster.topics}
        records = [decode_record(line) for line in cluster.log_lines]
        load.history.may_have_lost |= {key for key in partitions_that_may_have_lost(records) if key[0] in names}
        add_records(self._groups.history, records)
        cluster.close()
        cluster.dump(self._folder)
        return RunData(
            records={
                node.name: [decode_record(line) for lines in node.lines.values() for line in lines]
                for node in cluster.nodes
            },
            transactions=cluster.zookeeper.transactions,
            history=load.history,
            groups=self._groups.history,
            acknowledged_ms=self._acknowledged_ms,
            failures=(*cluster.loop.failures, *unexpected_ends(cluster, self._with_broken_disk)),
            may_fail=frozenset(self._with_broken_disk),
            notes=tuple(notes),
        )

    def close(self) -> None:
        if not self.cluster.loop.is_closed():
            self.cluster.close()
