"""`LiveWorld`: the cluster of a run folder for a soak, driven by the verbs of its control port."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from understudy.checks.partition_clients import ClientCounts
from understudy.clusters.control.client import ControlClient, ControlRefused
from understudy.clusters.control.control_file import NoControlPort
from understudy.clusters.findings import findings
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.processes import linux
from understudy.clusters.processes.cluster_view import NO_ANSWER, ClusterView
from understudy.clusters.processes.run_folder import ClusterEntry, NotARunFolder, read_cluster_file
from understudy.clusters.values import written_duration
from understudy.clusters.verb_table import VERBS
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.history.reading.transaction_log import MalformedTransactionLog
from understudy.trials.soak.live.clients import SoakClients
from understudy.trials.soak.live.files import SoakFiles
from understudy.trials.soak.live.log_follower import SoakLogFollower
from understudy.trials.soak.loop import ClusterGone, Events, NotInjected
from understudy.trials.soak.plan import BoundStep, PartitionSeen, Situation
from understudy.trials.soak.totals import ClusterShape, FaultRecord, Measures, MinuteRecord, SoakTotals

TOPIC: Final = "soak"
PARTITIONS: Final = 3
MOST_REPLICAS: Final = 3
ANSWER_TIMEOUT_S: Final = 5.0
_LOG_RECORDS: Final = "understudy.events.logs=true"


class LiveWorld:
    """Implements `SoakWorld`.

    Args:
        run: the folder of a cluster that `understudy up` runs.
        wait: waits seconds, and returns whether the soak is to end.
        checked_ms: the time (milliseconds since 1970) up to which an earlier session judged the logs; 0 for none.

    Raises:
        NotARunFolder, NoControlPort: no cluster runs there, or one that an older `understudy up` runs.
        OSError: a file cannot be read.
    """

    def __init__(self, run: Path, files: SoakFiles, wait: Callable[[float], bool], checked_ms: float) -> None:
        self._run = run
        self._files = files
        self._wait = wait
        self._entry = read_cluster_file(run)
        self._control = ControlClient.of_run(run)
        described = self._control.get("/cluster")
        self.session_ms = int(described["session_timeout_ms"])
        self._is_proxied = bool(described["is_proxied"])
        self._view = ClusterView(self._entry.zookeeper, answer_timeout_s=ANSWER_TIMEOUT_S)
        logs = [run / log for log in self._entry.transaction_logs]
        wall_ms = time.time() * 1000
        self._logs = SoakLogFollower(run, logs, min(checked_ms or wall_ms, wall_ms))
        self._clients: SoakClients | None = None

    @property
    def shape(self) -> ClusterShape:
        """The properties of the cluster that an experiment with the same faults needs."""
        brokers = self._entry.brokers
        replicas = min(MOST_REPLICAS, len(brokers))
        return ClusterShape(
            brokers=len(brokers),
            racks=tuple(broker.rack for broker in brokers if broker.rack is not None),
            session_ms=self.session_ms,
            partitions=PARTITIONS,
            replicas=replicas,
            min_insync=max(1, replicas - 1),
            topic=TOPIC,
        )

    @property
    def notes(self) -> list[str]:
        """The invariants that cannot be judged on this cluster, and what to do about it."""
        found = []
        if not self._logs.has_history:
            found.append("the history of the znodes cannot be read: checks that need it test nothing")
        if _LOG_RECORDS not in (self._run / self._entry.brokers[0].config).read_text(encoding="utf-8").splitlines():
            found.append(
                "brokers do not record their logs, so the invariants of logs are not tested: "
                "`understudy up --override understudy.events.logs=true`"
            )
        return found

    def begin(self, totals: SoakTotals) -> None:
        """Create the topic if there is none, and start the clients.

        Raises:
            TopicBehind, TopicNotReadable, ClusterGone
        """
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        picture = self._picture()
        if picture is None:
            raise ClusterGone("ZooKeeper does not answer")
        if partitions[0] not in picture.partitions:
            shape = self.shape
            body = {
                "name": TOPIC,
                "partitions": PARTITIONS,
                "replication_factor": shape.replicas,
                "configs": {"min.insync.replicas": str(shape.min_insync)},
            }
            try:
                self._control.post("/topics", body)
            except (ControlRefused, NoControlPort) as refused:
                raise ClusterGone(f"the topic {TOPIC} cannot be created: {refused}") from None
        bootstrap = self._entry.bootstrap.split(",")
        self._clients = SoakClients(lambda: bootstrap, partitions, totals.sessions, totals.ends)
        self._clients.start()

    def close(self) -> None:
        if self._clients is not None:
            self._clients.stop()
        self._view.close()

    # ------------------------------------------------------------------ the clock

    def now_ms(self) -> float:
        return time.monotonic() * 1000

    def wait(self, ms: float) -> bool:
        return self._wait(ms / 1000)

    # ------------------------------------------------------------------ the cluster

    def situation(self) -> Situation | None:
        picture = self._picture()
        if picture is None:
            return None
        states = {broker.id: broker.state for broker in self._entry_now().brokers}
        registered = {int(number) for number in picture.brokers}
        running = tuple(
            number for number, state in sorted(states.items()) if state == "running" and number in registered
        )
        return Situation(
            running=running,
            away=frozenset(states) - set(running),
            controller=picture.controller,
            partitions=tuple(
                PartitionSeen(
                    str(partition),
                    tuple(map(int, seen.assignment.replicas)),
                    tuple(map(int, seen.state.leader_and_isr.isr)) if seen.state is not None else (),
                    int(seen.state.leader_and_isr.leader) if seen.state is not None else -1,
                )
                for partition, seen in sorted(picture.partitions.items())
            ),
            is_proxied=self._is_proxied,
            has_zookeeper=bool(self._entry.transaction_logs),
        )

    def unsettled(self) -> str:
        picture = self._picture()
        if picture is None:
            return "ZooKeeper does not answer"
        brokers = self._entry_now().brokers
        if ended := [broker.id for broker in brokers if broker.state != "running"]:
            return f"{_brokers(ended)} should run, and {'is' if len(ended) == 1 else 'are'} paused or gone"
        found = findings(picture, running=[BrokerId(broker.id) for broker in brokers]).unresolved
        if found:
            return "; ".join(map(str, found[:3]))
        assert self._clients is not None, "the clients have begun"
        return self._clients.waiting()

    def do(self, step: BoundStep) -> None:
        body = {"target": step.target}
        if step.lasts_ms is not None:
            body["for"] = written_duration(step.lasts_ms)
        self._post(step.verb, body)

    def undo(self, step: BoundStep) -> None:
        with contextlib.suppress(NotInjected, ClusterGone):
            self._post(VERBS[step.verb].undo, {"target": step.target})

    def _post(self, verb: str, body: dict[str, str]) -> None:
        try:
            self._control.verb(verb, body)
        except ControlRefused as refused:
            raise NotInjected(str(refused)) from None
        except NoControlPort as gone:
            raise ClusterGone(str(gone)) from None

    def _picture(self) -> ClusterPicture | None:
        try:
            return self._view.picture()
        except NO_ANSWER:
            if not self._entry.owner.is_running:
                raise ClusterGone(f"the cluster of {self._run} has ended") from None
            return None

    def _entry_now(self) -> ClusterEntry:
        """Return the processes now. Raises ClusterGone if the cluster has ended."""
        try:
            self._entry = read_cluster_file(self._run)
        except NotARunFolder as gone:
            raise ClusterGone(f"the cluster has ended: {gone}") from None
        if not self._entry.owner.is_running:
            raise ClusterGone(f"the cluster of {self._run} has ended")
        return self._entry

    # ------------------------------------------------------------------ judging

    def read_logs(self) -> Events:
        try:
            return self._logs.advance(time.time() * 1000, self.now_ms())
        except MalformedTransactionLog as damaged:
            raise ClusterGone(f"the history of the znodes cannot be read any more: {damaged}") from None

    def violation(self, *, with_end: bool) -> str:
        if self._clients is not None and (seen := self._clients.violation()):
            return seen
        found = self._logs.checks.violations(with_end=with_end)
        return str(found[0]) if found else ""

    def unjudged(self) -> str:
        return self._logs.checks.unjudged()

    def client_counts(self) -> ClientCounts:
        return self._clients.counts() if self._clients is not None else ClientCounts()

    def ends(self) -> dict[str, int]:
        return self._clients.ends() if self._clients is not None else {}

    def checked_ms(self) -> float:
        return self._logs.checked_ms

    def measures(self) -> Measures:
        return Measures(
            memory=linux.resident_memory(os.getpid()),
            broker_memory=sum(
                linux.resident_memory(broker.pid) for broker in self._entry.brokers if broker.pid is not None
            ),
            event_logs=self._logs.size,
            records=self._logs.checks.records,
            transactions=self._logs.checks.transactions,
        )

    # ------------------------------------------------------------------ files

    def keep(self, record: FaultRecord | MinuteRecord) -> None:
        self._files.add(record)

    def keep_totals(self, totals: SoakTotals) -> None:
        self._files.write_totals(totals)


def _brokers(ids: list[int]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"
