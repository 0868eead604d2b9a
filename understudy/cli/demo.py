"""`understudy demo`: a cluster loses its controller twice, and Spark reports on that run.

First the controller is killed with SIGKILL. Then its successor is paused at a named point, after a fenced write and
before its requests are sent, until its session has ended and another broker is controller; resumed, it sends requests
of its old controller epoch, which the other brokers refuse.

The demo checks what it shows: the exit code is 0 only if all of this has happened. What it prints is a play.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.checks.client_history import check_clients
from understudy.cli.arguments import BadInput, Failed, reported_as
from understudy.cli.check import check_run_folder
from understudy.cli.demo_output import TIMEOUT_S, DemoFailed, DemoOutput
from understudy.cli.demo_report import Reporter, reporter
from understudy.cli.up import RUNS
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.client_load import ClientLoad
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import ClusterError
from understudy.clusters.findings import Findings, findings
from understudy.clusters.java import JavaNotFound, choose_java
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.processes.cluster_view import NO_ANSWER
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.loop_thread import LoopThread
from understudy.clusters.processes.testbed_log import client_logs
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted
from understudy.foundation.cluster.errors import ApiError
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.eventlog.records import FenceHit
from understudy.history.reading.listing import list_files
from understudy.history.reading.reader import read
from understudy.history.report.report import render

TOPIC, SECOND_TOPIC = "orders", "payments"
MIN_INSYNC_REPLICAS = 2
RECORDING_LOGS = {"understudy.events.logs": "true"}
"""Settings of the brokers: their event logs also record what happens in the logs, for the invariants about records."""
POINT = "partition.after_write"
BETWEEN_BATCHES_S = (0.1, 0.3)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Starts ZooKeeper and three brokers, kills the controller, pauses the next one until its session "
        "has ended, resumes it, and prints the report on the run. The exit code is 0 only if all this happened."
    )
    parser.add_argument("--fast", action="store_true", help="shorter sessions and fewer partitions")
    parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="keep the run folder here (default a new one in ./runs)"
    )


@reported_as(Failed, JavaNotFound, ZooKeeperNotStarted)
def run(options: argparse.Namespace) -> int:
    # A shell that starts a program in the background lets it ignore SIGINT; Ctrl-C must end the demo all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = DemoOutput()
    partitions, session_ms = (6, 2_500) if options.fast else (24, 3_000)
    folder = _unused_folder(options.dir)
    try:
        java = choose_java()
        output.heading("The cast")
        with reporter(java) as report:
            with (
                LocalCluster(
                    brokers=3, directory=folder, session_timeout_ms=session_ms, properties=RECORDING_LOGS
                ) as cluster,
                LoopThread("understudy-producers") as clients,
            ):
                demo = Demo(output, cluster, clients, partitions)
                demo.create_topic()
                demo.kill_controller()
                demo.restart_killed_broker()
                report.start()
                demo.pause_controller_past_its_session()
                demo.read_what_was_produced()
                cluster.stop()
            demo.report(folder, report)
    except (
        ApiError,
        ClusterError,
        NoBrokerAnswers,
        OSError,
        DemoFailed,
        *NO_ANSWER,
    ) as error:
        output.failure(f"The story did not happen: {error}")
        output.detail(f"Everything it left is in {folder}")
        return 1
    return 0


class Demo:
    """The parts of the demo, in order. Each raises `DemoFailed` or `ClusterError` if what it shows does not happen."""

    def __init__(self, output: DemoOutput, cluster: LocalCluster, clients: LoopThread, partitions: int) -> None:
        self._output = output
        self._cluster = cluster
        self._clients = clients
        self._load = ClientLoad(
            SocketNetwork(),
            MachineClock(),
            lambda: [broker.address for broker in cluster.brokers],
            [TopicPartition(TOPIC, number) for number in range(partitions)],
            open_log=client_logs(cluster.directory, cluster.run),
        )
        self._partitions = partitions
        self._epochs: list[int] = []
        """The controller epochs seen so far."""

    def create_topic(self) -> None:
        """Show the controller, and create a topic."""
        picture = self._cluster.view.picture()
        self._epochs.append(picture.controller_epoch)
        self._output.event(
            f"ZooKeeper and brokers {_listed(picture.brokers)} are up; broker {picture.controller} "
            "is controller, epoch 1"
        )
        asyncio.run(
            self._client().create_topic(
                TOPIC,
                partitions=self._partitions,
                replication_factor=3,
                configs={"min.insync.replicas": str(MIN_INSYNC_REPLICAS)},
            )
        )
        self._output.event(f"topic {TOPIC} created over Kafka's protocol: {self._partitions} partitions × 3 replicas")
        self._show_leaders(self._wait_for(lambda found: found.is_well, "every partition has its preferred leader"))
        for producer in self._load.producers(BETWEEN_BATCHES_S):
            self._clients.begin(producer)
        self._output.wait(lambda: self._load.history.acknowledged, "the first records are acknowledged")
        self._output.event(
            f"a producer writes to all partitions from now on, with acks=all and {MIN_INSYNC_REPLICAS} replicas in sync"
        )

    def kill_controller(self) -> None:
        """Kill the controller; wait until another broker is controller and every partition has a live leader."""
        self._output.heading("Act one: the lead falls")
        controller = self._cluster.controller()
        controller.kill()
        killed_at = time.monotonic()
        self._output.event(f"SIGKILL to broker {controller.id}, the controller", since=killed_at)
        successor = self._wait_for_successor(controller.id)
        self._output.event(f"broker {successor} is controller, epoch {self._epochs[-1]}", since=killed_at)
        picture = self._wait_for(lambda found: not found.leaderless, "every partition has a live leader")
        self._output.event(f"all {self._partitions} partitions have a live leader again", since=killed_at)
        self._show_leaders(picture)

    def restart_killed_broker(self) -> None:
        """Start the killed broker; wait until it is in every ISR, and elect the preferred leaders."""
        killed = next(broker for broker in self._cluster.brokers if not broker.is_running)
        killed.start()
        self._wait_for(lambda found: not found.under_replicated, f"broker {killed.id} is in every ISR again")
        self._output.event(f"broker {killed.id} returns, and its leaders have it in sync again by AlterPartition")
        results = asyncio.run(self._client().elect_leaders())
        moved = sum(code == 0 for code in results.values())
        self._wait_for(lambda found: found.is_well, "leadership is back at the preferred replicas")
        self._output.event(f"preferred leader election: {moved} partitions moved back")

    def pause_controller_past_its_session(self) -> None:
        """Pause the controller between a write and its requests until another is elected; resume it.

        The other brokers must refuse its requests, which have its old controller epoch.
        """
        self._output.heading("Act two: the lead comes back as a ghost")
        paused = self._cluster.controller()
        paused.arm(POINT, "pause")
        paused_epoch = self._epochs[-1]
        with contextlib.suppress(Exception):
            # No response comes: the controller is paused before it has handled the request.
            asyncio.run(self._client(timeout_ms=1_000).create_topic(SECOND_TOPIC, partitions=3, replication_factor=3))
        self._output.wait(lambda: not paused.process.armed(), f"broker {paused.id} is stopped at {POINT}")
        paused_at = time.monotonic()
        self._output.event(
            f"broker {paused.id}, controller of epoch {paused_epoch}, stopped at {POINT}", since=paused_at
        )
        self._output.detail(f"the states of {SECOND_TOPIC} are in ZooKeeper, no request has been sent")
        successor = self._wait_for_successor(paused.id)
        self._output.event(
            f"its session is over: broker {successor} is controller, epoch {self._epochs[-1]}", since=paused_at
        )
        self._wait_for(lambda found: not found.leaderless, "every partition has a live leader")
        paused.resume()
        resumed_at = time.monotonic()
        self._output.event(f"broker {paused.id} wakes up and goes on as if nothing had happened", since=resumed_at)
        others = sorted(broker.id for broker in self._cluster.brokers if broker.id != paused.id)
        refusals = self._output.wait(
            lambda: self._refusals(others, paused_epoch), f"brokers {_listed(others)} refuse its orders"
        )
        for node, hit in refusals:
            self._output.event(
                f"{node} refuses {hit.what}: epoch {hit.offered}, it knows {hit.known}", since=resumed_at
            )
        self._wait_for(
            lambda found: not found.under_replicated, f"broker {paused.id} has registered again and is in sync"
        )
        self._output.event(f"broker {paused.id} has noticed, resigned, registered again and follows", since=resumed_at)
        history, acknowledged = self._load.history, self._load.history.acknowledged
        self._output.wait(lambda: history.acknowledged > acknowledged, "records are acknowledged again")

    def read_what_was_produced(self) -> None:
        """Let the producers end, and read every record that was acknowledged in both acts."""
        self._load.is_stopping = True
        self._clients.wait(TIMEOUT_S)
        with contextlib.suppress(TimeoutError):
            self._clients.ask(self._load.read_all(), TIMEOUT_S)
        if len(self._load.history.read_to_the_end) < self._partitions:
            raise DemoFailed(f"topic {TOPIC} could not be read to its end")
        if violations := check_clients(self._load.history).violations:
            raise DemoFailed(str(violations[0]))

    def report(self, folder: Path, reporter: Reporter) -> None:
        """Print the report on the run, and check that it shows both failovers and that every invariant holds."""
        self._output.heading("Curtain: what the event logs say")
        with self._output.activity() as activity:
            result = reporter.replay(list_files([folder]), progress=activity.step)
        self._output.print(render(result))
        if result.findings:
            raise DemoFailed(f"the event logs are damaged: {result.findings[0]}")
        (metrics,) = result.runs
        losses = [failover.cause for failover in metrics.failovers]
        if losses[:2] != ["kill", "pause"]:
            raise DemoFailed(f"the event logs have controllers lost by {losses}; expected kill, then pause")
        with self._output.activity() as activity:
            activity.step("checking the invariants")
            checked = check_run_folder(folder)
        if checked.violations:
            raise DemoFailed(f"an invariant was violated: {checked.violations[0]}")
        if lacking := (*checked.missing, *map(str, checked.unjudged)):
            raise DemoFailed(f"the run cannot be judged: {lacking[0]}")
        tested = sum(len(group.ids) for group in checked.groups) - len(checked.untested)
        self._output.print(
            f"Invariants: all {tested} that were tested hold over {checked.records:,} records "
            f"and {checked.transactions:,} transactions"
        )
        acknowledged = self._load.history.acknowledged
        self._output.print(f"Records: {acknowledged:,} acknowledged while this happened; all are there, each once")
        self._output.success(f"The story happened as told. Everything it left is in {folder}")

    # -- requests, and waiting for the cluster

    def _client(self, timeout_ms: int = 15_000) -> AdminClient:
        bootstrap = [broker.address for broker in self._cluster.brokers if broker.is_running]
        return AdminClient(SocketNetwork(), bootstrap, timeout_ms=timeout_ms)

    def _wait_for(self, condition: Callable[[Findings], bool], what: str) -> ClusterPicture:
        """Wait until `condition` is true of the findings about the cluster, and return the picture it was true of."""

        def found() -> ClusterPicture | None:
            self._cluster.check()
            picture = self._cluster.view.picture()
            return picture if picture.partitions and condition(findings(picture)) else None

        return self._output.wait(found, what)

    def _wait_for_successor(self, former: int) -> int:
        """Wait until a broker other than `former` is controller, check that the epoch is one higher, return its id."""

        def successor() -> ClusterPicture | None:
            picture = self._cluster.view.picture()
            is_elected = picture.controller not in (None, former) and picture.controller_epoch > self._epochs[-1]
            return picture if is_elected else None

        picture = self._output.wait(successor, f"ZooKeeper ends broker {former}'s session, another takes over")
        if picture.controller_epoch != self._epochs[-1] + 1:
            raise DemoFailed(
                f"the epoch went from {self._epochs[-1]} to {picture.controller_epoch}; expected exactly one election"
            )
        self._epochs.append(picture.controller_epoch)
        assert picture.controller is not None
        return picture.controller

    def _refusals(self, brokers: list[int], epoch: int) -> list[tuple[str, FenceHit]] | None:
        """Return a refused request of `epoch` from the event log of each broker; None until all of them have one."""
        found: dict[str, FenceHit] = {}
        for record in read([self._cluster.directory]).records:
            hit = record.data
            if isinstance(hit, FenceHit) and hit.fence == Fence.BROKER_CONTROLLER_EPOCH.value and hit.offered == epoch:
                found.setdefault(record.node, hit)
        wanted = {f"broker-{broker}" for broker in brokers}
        return sorted(found.items()) if wanted <= set(found) else None

    def _show_leaders(self, picture: ClusterPicture) -> None:
        led = Counter(
            partition.state.leader_and_isr.leader for partition in picture.partitions.values() if partition.state
        )
        width = 30 / max(1, len(picture.partitions))
        bars = (f"{broker} {'█' * max(1, round(led[broker] * width))} {led[broker]}" for broker in sorted(led))
        self._output.detail(f"leaders   {'   '.join(bars)}")


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))


def _unused_folder(wanted: Path | None) -> Path:
    """Return `wanted`, or a new folder below `RUNS`. It must be empty, so that the report is about this run only.

    Raises:
        BadInput: `wanted` is not empty, or no folder can be made.
    """
    try:
        if wanted is None:
            RUNS.mkdir(exist_ok=True)
            return Path(tempfile.mkdtemp(prefix=time.strftime("demo-%H%M%S-", time.localtime()), dir=RUNS))
        if wanted.exists() and any(wanted.iterdir()):
            raise BadInput(f"--dir {wanted}: it is not empty; the demo needs a new folder")
    except OSError as error:
        where = RUNS.absolute() if wanted is None else wanted
        raise BadInput(f"{where} cannot be a folder for the run: {error.strerror}; give another by --dir") from None
    return wanted
