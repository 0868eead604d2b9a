"""`LocalCluster`: a cluster of broker processes on this machine.

    with LocalCluster(brokers=3) as cluster:
        fallen = cluster.controller()
        fallen.kill()
        cluster.wait_until(lambda: cluster.controller_id() not in (None, fallen.id), "another broker is controller")

It implements `understudy.clusters.cluster.Cluster`. Every fault is recorded in the testbed's event log before it is
injected; faults are injected only into processes that this cluster has started. Kafka's counterparts are
`QuorumTestHarness` and ducktape's `KafkaService`.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.answers import AnswerHandle
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import Cluster, ClusterError, no_holder, no_such_broker
from understudy.clusters.findings import Findings, findings
from understudy.clusters.java import JavaRuntime
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.processes import run_folder, waiting
from understudy.clusters.processes.apache_kafka import ApacheKafka, KafkaProcess
from understudy.clusters.processes.broker_process import HOST, BrokerProcess
from understudy.clusters.processes.cluster_view import NO_ANSWER, ClusterView, controller_if_known
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.fixed_address import check_free, fixed_addresses
from understudy.clusters.processes.link_faults import LinkFaults
from understudy.clusters.processes.local_broker import STOP_TIMEOUT_S, LocalBroker
from understudy.clusters.processes.processes import ProcessDied
from understudy.clusters.processes.testbed_log import TestbedLog
from understudy.clusters.processes.zookeeper_ensemble import ZooKeeperEnsemble
from understudy.foundation.cluster.broker import BrokerAndEpoch
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.records import FaultInjected, Payload, RunDescribed, StepReached

T = TypeVar("T")

START_TIMEOUT_S = 120.0
SETTLE_TIMEOUT_S = 60.0
_POLL_S = 0.02


class LocalCluster(LinkFaults):
    """Brokers 1 to `brokers`, and a ZooKeeper; a context manager that starts them and ends all processes.

    Leaving the `with` block kills them; `stop` ends them in order. An instance must not be used by several threads at
    the same time.

    Args:
        racks: the racks of the brokers in order; they are repeated if there are fewer racks than brokers.
        ports: the ports of the brokers in order, which they keep over restarts; None for free ones.
        advertised_host: with `ports`, let the brokers listen on every interface and advertise this host to clients.
            All who reach this machine can then use them. Among each other they use a second listener, on loopback.
        zookeeper: a server to share, which is started if it does not run, and in which this cluster has a chroot; or
            a connect string to use unchanged; None for its own, in the run folder.
        zookeepers: the number of servers of its own ZooKeeper; several are an ensemble, which a failure of fewer than
            half of them does not stop.
        directory: the run folder, which may have been used before; None for a temporary one, which is deleted at the
            end.
        session_timeout_ms: the ZooKeeper session timeout of the brokers.
        properties: further keys of `server.properties`, for every broker.
        environment: further environment variables of every broker.
        kafka_brokers: the ids that are brokers of Apache Kafka. They start after the others, so that the first
            controller is a broker of Understudy.
        java: the runtime for its own server.
        proxied: let the traffic of all brokers go through a proxy, so that the faults of `LinkFaults` can be injected.
        run: the run id of every record; None for a new one.
        described: the fields of `RunDescribed` that the cluster does not set itself, for example the planned fault.
        forked: whether the brokers are forks of one process that has done their imports, if the system has pidfds; they
            start in a fraction of the time.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        racks: Sequence[str] | None = None,
        ports: Sequence[int] | None = None,
        advertised_host: str | None = None,
        zookeeper: EmbeddedZooKeeper | str | None = None,
        zookeepers: int = 1,
        directory: Path | None = None,
        session_timeout_ms: int = 3_000,
        properties: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        kafka_brokers: Mapping[int, ApacheKafka] | None = None,
        java: JavaRuntime | None = None,
        proxied: bool = False,
        run: str | None = None,
        described: RunDescribed | None = None,
        forked: bool = True,
    ) -> None:
        super().__init__(proxied=proxied)
        if brokers < 1:
            raise ClusterError(f"a cluster cannot have {brokers} brokers; give at least 1")
        self._kafka_brokers = dict(kafka_brokers or {})
        if unknown := sorted(set(self._kafka_brokers) - set(range(1, brokers + 1))):
            raise ClusterError(f"brokers {unknown} cannot be Kafka's: this cluster has brokers 1 to {brokers}")
        self._addresses = fixed_addresses(range(1, brokers + 1), ports, advertised_host)
        if proxied and self._kafka_brokers:
            raise ClusterError(
                "a proxied cluster cannot have brokers of Apache Kafka: they cannot be bound to an address"
            )
        self._temporary = tempfile.TemporaryDirectory(prefix="understudy-run-") if directory is None else None
        self.directory = Path(self._temporary.name if self._temporary else directory or "").absolute()
        self.run = run or run_folder.new_run_id()
        self.session_timeout_ms = session_timeout_ms
        if zookeeper is not None and zookeepers != 1:
            raise ClusterError(
                f"zookeepers={zookeepers}, but the cluster is to use another ZooKeeper; give one of both"
            )
        self.embedded_zookeeper = self._own_zookeeper(zookeepers, java) if zookeeper is None else None
        self._shared_zookeeper = zookeeper
        self._properties = {
            "zookeeper.session.timeout.ms": str(session_timeout_ms),
            "default.replication.factor": str(min(3, brokers)),
            "controlled.shutdown.retry.backoff.ms": "500",
            "understudy.run.id": self.run,
            "understudy.run.testbed": "true",
            **(properties or {}),
        }
        self._broker_process = functools.partial(
            BrokerProcess, properties=self._properties, environment=environment, forked=forked
        )
        self._described = described or RunDescribed()
        self._racks = dict(zip(range(1, brokers + 1), itertools.cycle(racks or [None]), strict=False))
        self._brokers: dict[int, BrokerProcess] = {}
        self._view: ClusterView | None = None
        self._events: TestbedLog | None = None
        self.before_fault: Callable[[int], None] = lambda _: None
        self.answers: list[AnswerHandle] = []
        self._is_ready = False
        """Whether every broker has served requests since `start`; some may have been ended by faults after that."""
        self._earlier: run_folder.ClusterEntry | None = None
        """The content of `cluster.json` for an earlier cluster in the same run folder."""

    # -- addresses

    @property
    def zookeeper_connect(self) -> str:
        """The value of `zookeeper.connect`, with the chroot."""
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
        """`host:port` of every broker that has registered, separated by commas, as clients reach it."""
        brokers = (broker for broker in self._brokers.values() if broker.port)
        return ",".join(str(broker.address or f"{HOST}:{broker.port}") for broker in brokers)

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(self._racks)

    @property
    def view(self) -> ClusterView:
        """The cluster's state in ZooKeeper."""
        if self._view is None:
            raise ClusterError("this cluster has not been started")
        return self._view

    @property
    def admin(self) -> AdminClient:
        """A client whose bootstrap servers are the brokers that are running now."""
        return AdminClient(SocketNetwork(), [broker.address for broker in self.brokers if broker.is_running])

    # -- brokers and partitions

    def broker(self, broker_id: int, *, role: str = "") -> LocalBroker:
        """Return the broker with this id. Its faults are recorded with `role`. Raises ClusterError if there is none."""
        if broker_id not in self._racks:
            raise no_such_broker(broker_id, self.broker_ids)
        return LocalBroker(self, broker_id, role)

    @property
    def brokers(self) -> tuple[LocalBroker, ...]:
        return tuple(LocalBroker(self, broker_id) for broker_id in self.broker_ids)

    def controller_id(self) -> int | None:
        """The id of the broker that owns `/controller`; None if there is no controller."""
        return self.view.controller_id()

    def controller(self) -> LocalBroker:
        """The broker that owns `/controller`.

        Raises:
            ClusterError: there is no controller at this moment, or it is not a broker of this cluster.
        """
        return self._holder(self.controller_id(), "controller")

    def leader_id(self, topic: str, partition: int) -> int | None:
        return self.view.leader(TopicPartition(topic, partition))

    def leader(self, topic: str, partition: int) -> LocalBroker:
        """The partition's leader in ZooKeeper. Raises as `controller`."""
        return self._holder(self.leader_id(topic, partition), f"leader of {topic}-{partition}")

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        return self.view.isr(TopicPartition(topic, partition))

    # -- findings

    def picture(self) -> ClusterPicture:
        return self.view.picture()

    def findings(self) -> Findings:
        """Compare ZooKeeper and the processes now; return the findings. The brokers' memories cannot be read."""
        brokers = self._brokers.values()
        return findings(
            self.picture(),
            running=[BrokerId(broker.id) for broker in brokers if broker.is_running and not broker.is_paused],
            missing=[BrokerId(broker.id) for broker in brokers if broker.is_missing],
        )

    # -- starting and stopping

    def start(self) -> None:
        """Start ZooKeeper and all brokers; return when every broker has metadata of the controller and all brokers.

        Harmless if the cluster has been started. If this fails, it ends the processes that it has started.

        Raises:
            ClusterError: the run folder is in use, one of `ports` is taken, or a broker did not come up; the message
                then ends with its log.
            ZooKeeperNotStarted, ZooKeeperUnreachable: ZooKeeper cannot be started or reached.
        """
        if not self._is_ready:
            try:
                self._start()
            except BaseException:
                self.close()
                raise

    def _start(self) -> None:
        for address in self._addresses.values():
            check_free(address)
        self._earlier = run_folder.claim(self.directory)
        self._events = TestbedLog(self.directory, run=self.run)
        without_log = [f"broker-{broker_id}" for broker_id in self._kafka_brokers]
        self._events.describe(self._described, self._properties, brokers=len(self._racks), without_log=without_log)
        self._brokers = {broker_id: self._process(broker_id, rack) for broker_id, rack in self._racks.items()}
        if self.embedded_zookeeper is not None:
            if self.embedded_zookeeper.peer_ports:
                # The servers connect to each other through it.
                self._start_proxy(self.zookeeper_connect, self._addresses)
            self._start_zookeeper(self.embedded_zookeeper)
        else:
            self._prepare_brokers()
            if isinstance(self._shared_zookeeper, EmbeddedZooKeeper) and not self._shared_zookeeper.is_running:
                self._shared_zookeeper.start()
        self._start_proxy(self.zookeeper_connect, self._addresses)
        for broker in self._brokers.values():
            broker.properties["zookeeper.connect"] = self.zookeeper_connect
            broker.properties.update(self._proxied_properties(broker.id))
        self._view = ClusterView(self.zookeeper_connect)
        ours = [broker for broker_id, broker in self._brokers.items() if broker_id not in self._kafka_brokers]
        kafkas = [broker for broker_id, broker in self._brokers.items() if broker_id in self._kafka_brokers]
        for brokers in filter(None, (ours, kafkas)):
            self._start_brokers(brokers)
        self._is_ready = True
        self.write_cluster_file()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the cluster: first the other brokers, then the controller, then ZooKeeper.

        Args:
            timeout_s: the time for all of them together; a process that has not ended then is killed.
        """
        deadline = time.monotonic() + timeout_s
        running = [broker for broker in self._brokers.values() if broker.is_running]
        last = controller_if_known(self.zookeeper_connect) if running else None
        for stage in ([b for b in running if b.id != last], [b for b in running if b.id == last]):
            for broker in stage:
                self.record_fault("stop", broker.name)
                broker.should_run = False
                assert broker.process is not None
                broker.process.ask_to_end()
            for broker in stage:
                assert broker.process is not None
                if not broker.process.wait(max(0.0, deadline - time.monotonic())):
                    self.record_fault("kill", broker.name)
                    broker.process.kill()
        self._close_view()
        self._close_proxy()
        if self.embedded_zookeeper is not None:
            self.embedded_zookeeper.stop(max(1.0, deadline - time.monotonic()))
        self._close_event_log("stopped")

    def close(self) -> None:
        """Kill all processes at once. Harmless if they have ended."""
        for broker in self._brokers.values():
            if broker.process is not None:
                broker.process.kill()
        self._close_view()
        self._close_proxy()
        if self.embedded_zookeeper is not None:
            self.embedded_zookeeper.kill()
        self._close_event_log("closed")

    def __enter__(self) -> LocalCluster:
        try:
            self.start()
        except BaseException:
            self._remove_temporary()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._remove_temporary()

    # -- waiting

    def wait_until(self, condition: Callable[[], T | None], what: str, timeout_s: float = START_TIMEOUT_S) -> T:
        """Evaluate `condition` repeatedly until it is true, and return its value. See `Cluster.wait_until`."""
        return waiting.wait_until(
            condition, what, timeout_s, poll_s=_POLL_S, check=self.check, situation=lambda: f". {self._situation()}"
        )

    def settle(self, *, timeout_s: float = SETTLE_TIMEOUT_S) -> None:
        """Wait until no finding is left that the live brokers must resolve.

        Raises:
            Unsettled: such findings were left after `timeout_s`.
        """
        waiting.settle(self.wait_until, lambda: self.findings().unresolved, timeout_s)

    def check(self) -> None:
        """Raise ClusterError if a broker has ended without a fault."""
        for broker in self._brokers.values():
            if broker.should_run and broker.process is not None:
                try:
                    broker.process.check()
                except ProcessDied as died:
                    raise ClusterError(str(died)) from None

    # -- clients

    def ask(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a client's call, such as `admin.elect_leaders()`, to its end, and return its result."""
        return asyncio.run(call)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Create a topic over Kafka's protocol. Raises as `AdminClient.create_topic`."""
        self.ask(
            self.admin.create_topic(
                name, partitions=partitions, replication_factor=replication_factor, assignment=assignment
            )
        )

    def record_step(self, step: str, note: str = "") -> None:
        """Record a step of an experiment in the event log."""
        self._record(StepReached(step=step, note=note))

    # -- for the handles of its brokers (`BrokerOwner`)

    def process_of(self, broker_id: int) -> BrokerProcess:
        if broker_id not in self._brokers:
            raise ClusterError("this cluster has not been started")
        return self._brokers[broker_id]

    def record_fault(self, fault: str, target: str, role: str = "") -> None:
        """Record a fault; call it before the fault is injected."""
        self._record(FaultInjected(fault=fault, target=target, role=role))

    def write_cluster_file(self) -> None:
        """Write `cluster.json`, unless the cluster is still starting."""
        if not self._is_ready:
            return
        own = self._zookeeper_entries()
        entry = run_folder.ClusterEntry(
            version=run_folder.CLUSTER_FILE_VERSION,
            run=self.run,
            owner=run_folder.this_process(),
            zookeeper=self.zookeeper_connect,
            zookeeper_process=own[0].process if len(own) == 1 else None,
            zookeeper_transaction_log=own[0].transaction_log if len(own) == 1 else None,
            zookeeper_servers=own if len(own) > 1 else (),
            bootstrap=self.bootstrap,
            brokers=tuple(broker.entry(self.directory) for broker in self._brokers.values()),
            events="testbed/events",
        )
        run_folder.write_cluster_file(self.directory, entry)

    def start_broker(self, broker_id: int) -> None:
        self._start_brokers([self.process_of(broker_id)])

    def _own_zookeeper(self, servers: int, java: JavaRuntime | None) -> ZooKeeperEnsemble:
        return ZooKeeperEnsemble.embedded(self.directory, servers, java)

    def _zookeeper_entries(self) -> tuple[run_folder.ZooKeeperEntry, ...]:
        servers = self.embedded_zookeeper.servers if self.embedded_zookeeper is not None else {}
        return tuple(
            run_folder.ZooKeeperEntry(
                id=number,
                address=server.connect_string,
                process=run_folder.process_entry(server.process) if server.is_running else None,
                transaction_log=server.transaction_log_dir.relative_to(self.directory).as_posix(),
            )
            for number, server in servers.items()
        )

    def _process(self, broker_id: int, rack: str | None) -> BrokerProcess:
        folder = self.directory / f"broker-{broker_id}"
        address = self._addresses.get(broker_id)
        if kafka := self._kafka_brokers.get(broker_id):
            return KafkaProcess(kafka, broker_id, folder, rack=rack, properties=self._properties, address=address)
        return self._broker_process(broker_id, folder, rack=rack, address=address)

    def _start_zookeeper(self, ensemble: ZooKeeperEnsemble) -> None:
        """Start ZooKeeper; meanwhile the broker processes do their imports, which takes about as long."""
        self._prepare_brokers()
        ensemble.start()

    def _prepare_brokers(self) -> None:
        for broker in self._brokers.values():
            broker.prepare()

    def _start_brokers(self, brokers: Sequence[BrokerProcess]) -> None:
        """Start brokers at the same time; wait until all are registered and have metadata of each other."""
        ids = {broker.id for broker in brokers}
        for broker in brokers:
            broker.should_run = False
        # Kafka refuses to start while its id is registered by another session: the old session has to end first.
        self.wait_until(
            lambda: ids.isdisjoint(self.view.brokers()),
            f"the old registration of {_names(brokers)} is gone from ZooKeeper",
            START_TIMEOUT_S + self.session_timeout_ms / 1000,
        )
        for broker in brokers:
            self.record_fault("start", broker.name)
            broker.launch()
        self.write_cluster_file()
        registered = self.wait_until(lambda: self._registered(ids), f"{_names(brokers)} registered in ZooKeeper")
        for broker in brokers:
            broker.port = registered[BrokerId(broker.id)].broker.endpoints[0].port
        self.wait_until(
            lambda: all(map(self._has_metadata, brokers)),
            f"{_names(brokers)} received metadata of the controller and all brokers",
        )
        self.write_cluster_file()

    # -- internals

    def _registered(self, ids: set[int]) -> dict[BrokerId, BrokerAndEpoch] | None:
        """All registrations; None if one of `ids` is not among them."""
        found = self.view.brokers()
        return found if ids.issubset(found) else None

    def _has_metadata(self, broker: BrokerProcess) -> bool:
        """Whether the broker's metadata has the controller and every registered broker.

        Without them it would refuse to create topics.
        """
        client = AdminClient(
            SocketNetwork(), [f"{HOST}:{broker.port}"], client_id="understudy-testbed", timeout_ms=2_000
        )
        try:
            metadata = self.view.run(client.metadata(()))
        except NoBrokerAnswers:
            return False
        return metadata.controller_id >= 0 and {node.node_id for node in metadata.brokers} >= set(self.view.brokers())

    def _holder(self, broker_id: int | None, role: str) -> LocalBroker:
        if broker_id is None:
            raise no_holder(role)
        if broker_id not in self._racks:
            raise ClusterError(f"the {role} is broker {broker_id}, which this cluster does not own")
        return LocalBroker(self, broker_id, role)

    def _record(self, payload: Payload) -> None:
        if self._events is None:
            raise ClusterError("this cluster has not been started")
        self._events.append(payload)

    def _situation(self) -> str:
        """The registered brokers and the ends of the logs, for the message of a wait that timed out."""
        try:
            registered = ", ".join(map(str, self.view.brokers())) or "none"
            cluster = f"Registered brokers: {registered}; controller: {self.controller_id()}"
        except NO_ANSWER as error:
            cluster = str(error)
        logs = (f"End of {b.log}:\n{b.process.log_tail(8)}" for b in self._brokers.values() if b.process)
        return "\n".join([f"{cluster}.", *logs])

    def _close_view(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None

    def _close_event_log(self, reason: str) -> None:
        if self._events is not None:
            self._events.close(reason)
            self._events = None
            self.write_cluster_file()
            if not self._is_ready and self._earlier is not None:
                run_folder.write_cluster_file(self.directory, self._earlier)
        self._is_ready = False

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()


def _as_cluster(cluster: LocalCluster) -> Cluster:
    """Let mypy check that a local cluster implements `Cluster`."""
    return cluster


def _names(brokers: Sequence[BrokerProcess]) -> str:
    return ", ".join(broker.name for broker in brokers)
