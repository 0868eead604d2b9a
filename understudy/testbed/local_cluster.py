"""`LocalCluster`: brokers as processes on this machine, and faults that prove themselves.

    with LocalCluster(brokers=3) as cluster:
        cluster.controller().kill()
        cluster.wait_until(lambda: cluster.controller_id() not in (None, 1), "another broker is controller")

Every fault is written to the testbed's event log before it strikes, aimed at a broker by id or by role. What is struck
is only ever a process this cluster started. Kafka's relatives are `QuorumTestHarness` and ducktape's `KafkaService`.
"""

from __future__ import annotations

import itertools
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from brokers.machine.real_world import MachineClock
from brokers.machine.socket_network import SocketNetwork
from controller.points import POINTS
from foundation.cluster.identifiers import TopicPartition
from foundation.eventlog.files import JsonLinesFiles
from foundation.eventlog.log import EventLog
from foundation.eventlog.records import FaultInjected, ProcessExiting, ProcessStarted, StepReached
from understudy.admin_client import AdminClient, NoBrokerAnswers
from understudy.java import JavaRuntime
from understudy.testbed import run_folder
from understudy.testbed.apache_kafka import ApacheKafka, KafkaProcess
from understudy.testbed.broker_process import HOST, BrokerProcess
from understudy.testbed.cluster_view import NO_ANSWER, ClusterView, RegisteredBroker
from understudy.testbed.embedded_zookeeper import EmbeddedZooKeeper
from understudy.testbed.processes import ChildProcess, ProcessDied

T = TypeVar("T")

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 15.0
_POLL_S = 0.02


class ClusterError(Exception):
    """The cluster cannot do what was asked. The message names the broker or role, the reason, and where to look."""


class WaitTimedOut(ClusterError):
    """Something did not become true in time."""


class LocalCluster:
    """Brokers 1 to `brokers`, and a ZooKeeper; a context manager that starts them and leaves nothing behind.

    Leaving the `with` block kills; `stop` ends everything in order. Not for use by several threads at once.

    Args:
        racks: a rack per broker; with fewer racks than brokers they go round.
        zookeeper: a server to share (each cluster takes a chroot of its own), or a connect string to use as it is; by
            default a server of its own, in the run folder.
        directory: the run folder; a temporary one, gone in the end, where not given. One that has been used before is
            used on.
        session_timeout_ms: how long ZooKeeper waits for a silent broker before it gives it up.
        properties: further keys of `server.properties`, for every broker.
        kafka_brokers: which of the ids are brokers of Apache Kafka. They start after ours, so that one of ours is the
            first controller. Never give a topic that is to hold records replicas on both kinds: ours keep none.
        java: the runtime for an own server.
        run: the run id in every record; a new one by default.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        racks: Sequence[str] | None = None,
        zookeeper: EmbeddedZooKeeper | str | None = None,
        directory: Path | None = None,
        session_timeout_ms: int = 3_000,
        properties: Mapping[str, str] | None = None,
        kafka_brokers: Mapping[int, ApacheKafka] | None = None,
        java: JavaRuntime | None = None,
        run: str | None = None,
    ) -> None:
        if brokers < 1:
            raise ClusterError(f"a cluster of {brokers} brokers cannot be; ask for at least 1")
        self._kafka_brokers = dict(kafka_brokers or {})
        if strangers := sorted(set(self._kafka_brokers) - set(range(1, brokers + 1))):
            raise ClusterError(f"brokers {strangers} cannot be Kafka's: this cluster has brokers 1 to {brokers}")
        self._temporary = tempfile.TemporaryDirectory(prefix="understudy-run-") if directory is None else None
        self.directory = Path(self._temporary.name if self._temporary else directory or "").absolute()
        self.run = run or new_run_id()
        self.session_timeout_ms = session_timeout_ms
        self.embedded_zookeeper = (
            EmbeddedZooKeeper(self.directory / "zookeeper", java=java) if zookeeper is None else None
        )
        self._shared_zookeeper = zookeeper
        self._properties = {
            "zookeeper.session.timeout.ms": str(session_timeout_ms),
            "default.replication.factor": str(min(3, brokers)),
            "controlled.shutdown.retry.backoff.ms": "500",
            "understudy.run.id": self.run,
            **(properties or {}),
        }
        self._racks = dict(zip(range(1, brokers + 1), itertools.cycle(racks or [None]), strict=False))
        self._brokers: dict[int, BrokerProcess] = {}
        self._view: ClusterView | None = None
        self._files: JsonLinesFiles | None = None
        self._events: EventLog | None = None

    # -- what it is

    @property
    def zookeeper_connect(self) -> str:
        """As in `zookeeper.connect`, chroot included."""
        match self._shared_zookeeper:
            case str(connect_string):
                return connect_string
            case EmbeddedZooKeeper() as server:
                return f"{server.connect_string}/{self.run}"
            case None:
                assert self.embedded_zookeeper is not None
                return self.embedded_zookeeper.connect_string

    @property
    def bootstrap(self) -> str:
        """`host:port` of every broker that has registered, separated by commas."""
        return ",".join(f"{HOST}:{broker.port}" for broker in self._brokers.values() if broker.port)

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(self._racks)

    @property
    def view(self) -> ClusterView:
        """What ZooKeeper says of this cluster."""
        if self._view is None:
            raise ClusterError("this cluster has not been started")
        return self._view

    # -- whom to strike

    def broker(self, broker_id: int) -> BrokerHandle:
        if broker_id not in self._racks:
            raise ClusterError(
                f"there is no broker {broker_id}; this cluster has {', '.join(map(str, self.broker_ids))}"
            )
        return BrokerHandle(self, broker_id)

    @property
    def brokers(self) -> tuple[BrokerHandle, ...]:
        return tuple(BrokerHandle(self, broker_id) for broker_id in self.broker_ids)

    def controller_id(self) -> int | None:
        """Who is registered in `/controller`; None while nobody is."""
        return self.view.controller_id()

    def controller(self) -> BrokerHandle:
        """The broker that is controller now.

        Raises:
            ClusterError: nobody is, or a broker that is not of this cluster.
        """
        return self._holder(self.controller_id(), "controller")

    def leader(self, topic: str, partition: int) -> BrokerHandle:
        """The broker that leads the partition, according to ZooKeeper. Raises as `controller`."""
        return self._holder(self.view.leader(TopicPartition(topic, partition)), f"leader of {topic}-{partition}")

    # -- its life

    def start(self) -> None:
        """Start everything, brokers at the same time; return when all are registered and know each other and the
        controller.

        Raises:
            ClusterError: the run folder is in use, or a broker did not come up; the message ends with its log.
            ZooKeeperNotStarted, ZooKeeperUnreachable: there is no ZooKeeper to run on.
        """
        self._claim_directory()
        self._open_event_log()
        if self.embedded_zookeeper is not None:
            self.embedded_zookeeper.start()
        self._properties["zookeeper.connect"] = self.zookeeper_connect
        self._brokers = {broker_id: self._process(broker_id, rack) for broker_id, rack in self._racks.items()}
        self._view = ClusterView(self.zookeeper_connect)
        ours = [broker for broker_id, broker in self._brokers.items() if broker_id not in self._kafka_brokers]
        kafkas = [broker for broker_id, broker in self._brokers.items() if broker_id in self._kafka_brokers]
        for brokers in filter(None, (ours, kafkas)):
            self._start_brokers(brokers)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End everything in order: the other brokers, then the controller, then ZooKeeper; SIGKILL for what is left at
        the end.

        Args:
            timeout_s: for all of it together.
        """
        deadline = time.monotonic() + timeout_s
        running = [broker for broker in self._brokers.values() if broker.is_running]
        last = self._controller_if_known() if running else None
        for stage in ([b for b in running if b.id != last], [b for b in running if b.id == last]):
            for broker in stage:
                self._record(FaultInjected(fault="stop", target=broker.name))
                broker.should_live = False
                assert broker.process is not None
                broker.process.ask_to_end()
            for broker in stage:
                assert broker.process is not None
                if not broker.process.wait(max(0.0, deadline - time.monotonic())):
                    self._record(FaultInjected(fault="kill", target=broker.name))
                    broker.process.kill()
        self._hang_up()
        if self.embedded_zookeeper is not None:
            self.embedded_zookeeper.stop(max(1.0, deadline - time.monotonic()))
        self._close_event_log("stopped")

    def close(self) -> None:
        """End everything at once, with SIGKILL. Harmless when it is over already."""
        for broker in self._brokers.values():
            if broker.process is not None:
                broker.process.kill()
        self._hang_up()
        if self.embedded_zookeeper is not None and self.embedded_zookeeper.is_running:
            self.embedded_zookeeper.kill()
        self._close_event_log("closed")

    def __enter__(self) -> LocalCluster:
        try:
            self.start()
        except BaseException:
            self.close()
            self._remove_temporary()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._remove_temporary()

    # -- waiting

    def wait_until(self, predicate: Callable[[], T | None], what: str, timeout_s: float = START_TIMEOUT_S) -> T:
        """Ask again and again until `predicate` answers something true, and return that.

        Raises:
            WaitTimedOut: not within `timeout_s`.
            ClusterError: meanwhile a broker died that nothing was done to.
        """
        deadline = time.monotonic() + timeout_s
        while not (answer := predicate()):
            self.check()
            if time.monotonic() > deadline:
                raise WaitTimedOut(f"not within {timeout_s:g} s: {what}. {self._situation()}")
            time.sleep(_POLL_S)
        return answer

    def check(self) -> None:
        """Raise ClusterError where a broker has died that nothing was done to."""
        for broker in self._brokers.values():
            if broker.should_live and broker.process is not None:
                try:
                    broker.process.check()
                except ProcessDied as died:
                    raise ClusterError(str(died)) from None

    def reached(self, step: str, note: str = "") -> None:
        """Write into the event log how far a scenario has come."""
        self._record(StepReached(step=step, note=note))

    # -- what the handles do

    def _process_of(self, broker_id: int) -> BrokerProcess:
        if broker_id not in self._brokers:
            raise ClusterError("this cluster has not been started")
        return self._brokers[broker_id]

    def _strike(self, broker: BrokerProcess, fault: str, role: str, action: Callable[[], object]) -> None:
        if not broker.is_running:
            raise ClusterError(f"{fault} did not strike: {broker.name} is not running")
        self._record(FaultInjected(fault=fault, target=broker.name, role=role))
        action()
        self._write_cluster_file()

    def _process(self, broker_id: int, rack: str | None) -> BrokerProcess:
        folder = self.directory / f"broker-{broker_id}"
        if kafka := self._kafka_brokers.get(broker_id):
            return KafkaProcess(kafka, broker_id, folder, rack=rack, properties=self._properties)
        return BrokerProcess(broker_id, folder, rack=rack, properties=self._properties)

    def _start_brokers(self, brokers: Sequence[BrokerProcess]) -> None:
        """Start them at the same time; wait until they are registered, and a controller has told them of each other."""
        ids = {broker.id for broker in brokers}
        for broker in brokers:
            broker.should_live = False
        # Kafka refuses to start beside a registration it does not own: its old session has to end first.
        self.wait_until(
            lambda: ids.isdisjoint(self.view.brokers()),
            f"the old registration of {_names(brokers)} is gone from ZooKeeper",
            START_TIMEOUT_S + self.session_timeout_ms / 1000,
        )
        for broker in brokers:
            self._record(FaultInjected(fault="start", target=broker.name))
            broker.launch()
        self._write_cluster_file()
        registered = self.wait_until(lambda: self._registered(ids), f"{_names(brokers)} registered in ZooKeeper")
        for broker in brokers:
            broker.port = registered[broker.id].port
        self.wait_until(
            lambda: all(map(self._knows_everybody, brokers)),
            f"{_names(brokers)} heard who is there and who is controller",
        )
        self._write_cluster_file()

    # -- how

    def _registered(self, ids: set[int]) -> dict[int, RegisteredBroker] | None:
        """All registrations, where `ids` are among them."""
        found = self.view.brokers()
        return found if ids.issubset(found) else None

    def _knows_everybody(self, broker: BrokerProcess) -> bool:
        """Whether it has been told by a controller of all who are registered; before, it would refuse to place
        replicas."""
        client = AdminClient(
            SocketNetwork(), [f"{HOST}:{broker.port}"], client_id="understudy-testbed", timeout_ms=2_000
        )
        try:
            metadata = self.view.run(client.metadata(()))
        except NoBrokerAnswers:
            return False
        return metadata.controller_id >= 0 and {known.node_id for known in metadata.brokers} >= set(self.view.brokers())

    def _holder(self, broker_id: int | None, role: str) -> BrokerHandle:
        if broker_id is None:
            raise ClusterError(f"no broker is {role} at this moment; wait for one with wait_until")
        if broker_id not in self._racks:
            raise ClusterError(f"the {role} is broker {broker_id}, which this cluster does not own")
        return BrokerHandle(self, broker_id, role)

    def _claim_directory(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(f"{self.directory} cannot be a run folder: {error.strerror}; give another") from None
        try:
            before = run_folder.read_cluster_file(self.directory)
        except run_folder.NotARunFolder:
            return
        if before.owner.is_running and before.owner != run_folder.this_process():
            raise ClusterError(
                f"{self.directory} is in use by a cluster that process {before.owner.pid} runs; end it or give another folder"
            )

    def _open_event_log(self) -> None:
        self._files = JsonLinesFiles(self.directory / "testbed" / "events", "testbed")
        self._events = EventLog(
            run=self.run,
            node="testbed",
            incarnation=self._files.incarnation,
            clock=MachineClock(),
            write=self._files.write,
        )
        self._record(ProcessStarted(role="testbed", pid=run_folder.this_process().pid))

    def _record(self, payload: FaultInjected | ProcessStarted | ProcessExiting | StepReached) -> None:
        if self._events is None:
            raise ClusterError("this cluster has not been started")
        self._events.append(payload)

    def _write_cluster_file(self) -> None:
        own = self.embedded_zookeeper
        entry = run_folder.ClusterEntry(
            version=run_folder.CLUSTER_FILE_VERSION,
            run=self.run,
            owner=run_folder.this_process(),
            zookeeper=self.zookeeper_connect,
            zookeeper_process=run_folder.process_entry(own.process) if own and own.is_running else None,
            zookeeper_transaction_log=own.transaction_log_dir.relative_to(self.directory).as_posix() if own else None,
            bootstrap=self.bootstrap,
            brokers=tuple(broker.entry(self.directory) for broker in self._brokers.values()),
            events="testbed/events",
        )
        run_folder.write_cluster_file(self.directory, entry)

    def _situation(self) -> str:
        """Who is there, for the message of a wait that was in vain."""
        try:
            registered = ", ".join(map(str, self.view.brokers())) or "none"
            who = f"Registered brokers: {registered}; controller: {self.controller_id()}"
        except NO_ANSWER as error:
            who = str(error)
        logs = (f"End of {b.log}:\n{b.process.log_tail(8)}" for b in self._brokers.values() if b.process)
        return "\n".join([f"{who}.", *logs])

    def _controller_if_known(self) -> int | None:
        """Who is controller, where ZooKeeper answers soon; the order of an end is not worth a longer wait."""
        try:
            with ClusterView(self.zookeeper_connect, answer_timeout_s=2.0) as view:
                return view.controller_id()
        except NO_ANSWER:
            return None

    def _hang_up(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None

    def _close_event_log(self, reason: str) -> None:
        if self._files is not None:
            self._record(ProcessExiting(reason=reason))
            self._files.close()
            self._files = self._events = None
            self._write_cluster_file()

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()


@dataclass(frozen=True, slots=True)
class BrokerHandle:
    """One broker of a cluster, by id, and the role it was found by. Every verb is on record before it strikes."""

    cluster: LocalCluster
    id: int
    role: str = ""

    @property
    def name(self) -> str:
        return f"broker-{self.id}"

    @property
    def process(self) -> BrokerProcess:
        return self.cluster._process_of(self.id)

    @property
    def is_running(self) -> bool:
        """Whether the process exists; a paused one does."""
        return self.process.is_running

    @property
    def address(self) -> str:
        return f"{HOST}:{self.process.port}"

    @property
    def metrics_address(self) -> str:
        """`host:port` at which it answers `GET /metrics`.

        Raises:
            ClusterError: it does not; a cluster with `metrics.port` among its `properties` does.
        """
        bound = self.process.metrics_address() if self.is_running else None
        if bound is None:
            raise ClusterError(
                f"{self.name} serves no metrics; start it, in a cluster with properties={{'metrics.port': '0'}}"
            )
        return bound

    def kill(self) -> None:
        """SIGKILL: its session ends only when it has timed out."""
        self._strike("kill", lambda child: child.kill(), ends=True)

    def pause(self) -> None:
        """SIGSTOP: its connections stay open and silent, its session times out."""
        self._strike("pause", lambda child: child.pause())

    def resume(self) -> None:
        """SIGCONT: it goes on where it stood, believing what it believed."""
        self._strike("continue", lambda child: child.resume())

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """SIGTERM: a controlled shutdown; SIGKILL, on record, after `timeout_s`."""
        self._strike("stop", lambda child: child.ask_to_end(), ends=True)
        child = self.process.process
        if child is not None and not child.wait(timeout_s):
            self._strike("kill", lambda child: child.kill(), ends=True)
        self.cluster._write_cluster_file()

    def start(self) -> None:
        """Start it again, on its port and its data, and wait until it is registered.

        A killed broker's registration outlives it by the session timeout, and this waits for that.
        """
        if self.is_running:
            raise ClusterError(f"start did not strike: {self.name} is running")
        self.cluster._start_brokers([self.process])

    def restart(self) -> None:
        """Stop it if it runs, and start it."""
        if self.is_running:
            self.stop()
        self.start()

    def arm(self, point: str, action: str) -> None:
        """Have it `pause` or `crash` when its controller next reaches the named point (`controller.points.POINTS`).

        Raises:
            ClusterError: there is no such point or action.
        """
        if point not in POINTS:
            raise ClusterError(f"there is no point {point!r}; the points are {', '.join(POINTS)}")
        if action not in ("pause", "crash"):
            raise ClusterError(f"a point can pause or crash a broker, not {action!r}")
        self.cluster.reached("armed", f"{self.name}: {action} at {point}")
        self.process.arm(point, action)

    def _strike(self, fault: str, action: Callable[[ChildProcess], object], *, ends: bool = False) -> None:
        broker = self.process

        def act() -> None:
            assert broker.process is not None
            broker.should_live = broker.should_live and not ends
            action(broker.process)

        self.cluster._strike(broker, fault, self.role, act)


def new_run_id() -> str:
    """When it began (UTC) and something random, so that run ids sort and never meet."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def _names(brokers: Sequence[BrokerProcess]) -> str:
    return ", ".join(broker.name for broker in brokers)
