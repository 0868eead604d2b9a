"""`ClusterUnderTest`: a cluster of broker processes for the test of a Kafka client.

It wraps `understudy.clusters.processes.local_cluster.LocalCluster` for tests: topics exist when it has started, brokers
are looked up by role, and waits are bounded and described.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, overload

from understudy.clusters.answers import AnswerHandle, arm_at, armed_answer
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import ClusterError, Unsettled, WaitTimedOut
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.processes.cluster_view import NO_ANSWER
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.testing.arguments import ClusterArguments
from understudy.clusters.testing.conditions import Before, BrokerCondition, Condition
from understudy.clusters.testing.faults import RecordedFault
from understudy.clusters.testing.run_faults import TEST_BEGUN, faults_of_test
from understudy.foundation.cluster.errors import Errors

T = TypeVar("T")

WAIT_TIMEOUT_S: Final = 30.0
ADMIN_TIMEOUT_MS: Final = 20_000
"""Time that a call of the admin client may take, less than the view waits for any call."""
METADATA_TIMEOUT_MS: Final = 2_000
"""Time that one broker has to answer for its metadata, before it is asked again."""


class ClusterUnderTest:
    """Brokers 1 to `brokers` as processes of this machine, and a ZooKeeper; a context manager.

        with ClusterUnderTest(brokers=3, topics={"orders": 3}) as cluster:
            ...  # a client on cluster.bootstrap
            cluster.leader("orders", 0).kill()
            cluster.wait_for(leader_change("orders", 0))

    Its methods block, and must not be called from several threads at the same time. Ports are free ones of the loopback
    interface.

    Args:
        racks: the racks of the brokers in order, repeated if there are fewer racks than brokers.
        topics: name and number of partitions of topics to create, with up to three replicas.
        session_timeout_ms: the ZooKeeper session timeout of the brokers: how long a killed broker stays registered.
        properties: further keys of `server.properties` for every broker.
        proxied: let the traffic of the brokers go through a proxy, so that they can be isolated. It needs a loopback
            address for each broker, which Linux has.
        directory: the run folder; None for a temporary one, which is deleted at the end.
        zookeeper: a server to share, in which the cluster has a chroot; None for its own server.

    Raises:
        BadArguments: an argument has a value that it cannot have.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        racks: Sequence[str] | None = None,
        topics: Mapping[str, int] | None = None,
        session_timeout_ms: int = 3_000,
        properties: Mapping[str, Any] | None = None,
        proxied: bool = False,
        directory: Path | None = None,
        zookeeper: EmbeddedZooKeeper | None = None,
    ) -> None:
        self.arguments = ClusterArguments.of(
            {
                "brokers": brokers,
                "racks": racks,
                "topics": topics,
                "session_timeout_ms": session_timeout_ms,
                "properties": properties,
                "proxied": proxied,
            }
        )
        self.before = Before()
        self.local = self._new_cluster(directory, zookeeper)
        self.local.before_fault = self._remember_roles

    def _new_cluster(self, directory: Path | None, zookeeper: EmbeddedZooKeeper | None) -> LocalCluster:
        """Return the cluster of the arguments, not started."""
        return LocalCluster(
            self.arguments.brokers,
            racks=self.arguments.racks or None,
            zookeeper=zookeeper,
            directory=directory,
            session_timeout_ms=self.arguments.session_timeout_ms,
            properties=dict(self.arguments.properties),
            proxied=self.arguments.proxied,
        )

    # -- starting and ending

    def start(self, test: str = "") -> None:
        """Start ZooKeeper and the brokers, and create the topics.

        Args:
            test: as in `begin_test`.

        Raises:
            ClusterError: a broker did not start; the message ends with its log.
            ZooKeeperNotStarted: ZooKeeper did not start; the message ends with its log.
        """
        self.local.start()
        self.begin_test(test)

    def close(self) -> None:
        """Kill all processes at once. The run folder stays if `directory` was given."""
        self.local.close()

    def __enter__(self) -> ClusterUnderTest:
        self.local.__enter__()
        try:
            self.begin_test()
        except BaseException:
            self.local.__exit__()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.assert_answers_given()
        finally:
            self.local.__exit__()

    def begin_test(self, test: str = "") -> None:
        """Undo the faults of an earlier test, and record that a test begins.

        Every broker is started, resumed and reachable, no point is armed, and the topics of the arguments exist.

        Args:
            test: the name of the test, for the event log.

        Raises:
            ClusterError: a broker does not start.
            Unsettled: the cluster did not settle in time.
        """
        self.undo_faults()
        existing = {key.topic for key in self.local.picture().partitions}
        for topic, partitions in self.arguments.topics:
            if topic not in existing:
                self.create_topic(topic, partitions)
        self.local.settle()
        self.local.record_step(TEST_BEGUN, test)
        self.local.answers.clear()
        self.before = Before.of(self.local.picture())

    def undo_faults(self) -> None:
        """Disarm every point and answer, heal every link, resume each paused broker, and start each that is down."""
        if self.local.is_proxied:
            self.local.heal_links()
        for broker in self.local.brokers:
            broker.process.points.unlink(missing_ok=True)
            broker.process.disarm_answers()
            if broker.is_paused:
                broker.resume()
        for broker in self.local.brokers:
            if broker.is_running:
                broker.process.should_run = True  # arming a crash had set this to False
            else:
                broker.start()

    def picture(self) -> ClusterPicture:
        """Read the state of the cluster in ZooKeeper now."""
        return self.local.picture()

    # -- addresses and brokers

    @property
    def bootstrap(self) -> str:
        """`host:port` of every broker, separated by commas: the `bootstrap.servers` of a client."""
        return self.local.bootstrap

    @property
    def directory(self) -> Path:
        """The run folder, with the event logs and the logs of the brokers."""
        return self.local.directory

    @property
    def brokers(self) -> tuple[LocalBroker, ...]:
        """Every broker, in order of id, running or not."""
        return self.local.brokers

    def broker(self, broker_id: int, *, role: str = "") -> LocalBroker:
        """Return the broker with this id. See `LocalCluster.broker`."""
        return self.local.broker(broker_id, role=role)

    @property
    def controller(self) -> LocalBroker:
        """The broker that owns `/controller`.

        Raises:
            ClusterError: there is no controller at this moment.
        """
        return self.local.controller()

    def leader(self, topic: str, partition: int = 0) -> LocalBroker:
        """Return the partition's leader. Raises ClusterError if it has none at this moment."""
        return self.local.leader(topic, partition)

    def follower(self, topic: str, partition: int = 0) -> LocalBroker:
        """Return the first broker of the partition's ISR that is not its leader.

        Raises:
            ClusterError: the ISR has no follower at this moment.
        """
        leader = self.local.leader_id(topic, partition)
        followers = [broker for broker in self.local.isr(topic, partition) if broker != leader]
        if not followers:
            raise ClusterError(f"the ISR of {topic}-{partition} has no follower at this moment; {self.describe()}")
        return self.broker(followers[0], role=f"follower of {topic}-{partition}")

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and return when each live broker has a leader of each partition in its metadata.

        Args:
            replication_factor: None for three, or for every broker if there are fewer.
            assignment: the replicas of each partition, instead of `partitions` and `replication_factor`.

        Raises:
            ApiError: the controller refused it.
            WaitTimedOut: the metadata of a broker lacks a leader.
        """
        replicas = min(3, self.arguments.brokers) if replication_factor is None else replication_factor
        addresses = [broker.address for broker in self.brokers if broker.is_running]
        admin = self.local.admin.with_bootstrap(*addresses, timeout_ms=ADMIN_TIMEOUT_MS)
        # On the loop of the view, because the test may itself run in an event loop.
        self.local.view.run(
            admin.create_topic(
                name, partitions=partitions, replication_factor=replicas, assignment=assignment, configs=configs
            )
        )
        count = len(assignment) if assignment else partitions
        self.wait_until(
            lambda: all(self._has_topic(broker, name, count) for broker in self.brokers),
            f"every live broker has a leader of each partition of {name} in its metadata",
        )

    def _has_topic(self, broker: LocalBroker, topic: str, partitions: int) -> bool:
        """Whether the broker's metadata has a leader of each partition, or it is not registered."""
        if not broker.is_running or broker.id not in self.local.view.brokers():
            return True
        admin = self.local.admin.with_bootstrap(broker.address, timeout_ms=METADATA_TIMEOUT_MS)
        try:
            (found,) = self.local.view.run(admin.metadata((topic,))).topics
        except NoBrokerAnswers:
            return False
        return len(found.partitions) == partitions and all(each.leader_id >= 0 for each in found.partitions)

    # -- faults

    def crash_at(self, point: str, broker: LocalBroker | None = None) -> LocalBroker:
        """Crash a broker when its controller next reaches a named point; `wait_for(point_reached(point))` waits.

        Args:
            point: one of `understudy.controller.points.POINTS`.
            broker: None for the controller.

        Raises:
            ClusterError: there is no such point, or no controller at this moment.
        """
        return self._arm(point, "crash", broker)

    def pause_at(self, point: str, broker: LocalBroker | None = None) -> LocalBroker:
        """Pause a broker when its controller next reaches a named point. As `crash_at`; `resume` ends the pause."""
        return self._arm(point, "pause", broker)

    def _arm(self, point: str, action: str, broker: LocalBroker | None) -> LocalBroker:
        chosen = broker or self.controller
        chosen.arm(point, action)
        return chosen

    def answer(
        self,
        api: str,
        error: str = Errors.NONE.name,
        *,
        times: int = 1,
        topic: str = "",
        partition: int | None = None,
        client_id: str = "",
        then: str | None = None,
        throttle_ms: int = 0,
    ) -> AnswerHandle:
        """Arm an answer at every broker, for requests that a client may send to any of them.

        The arguments are as in `BrokerUnderTest.answer`, which arms it at one broker. Each broker gives it up to
        `times` times; it is given if one of them has given it.
        """
        answer = armed_answer(
            api,
            error,
            times=times,
            topic=topic,
            partition=partition,
            client_id=client_id,
            then=then,
            throttle_ms=throttle_ms,
        )
        return arm_at(self.brokers, answer, self.local.answers)

    def faults(self) -> tuple[RecordedFault, ...]:
        """The faults that the event logs record for this test, in order of time."""
        return faults_of_test(self.directory).faults

    def assert_injected(
        self, fault: str, *, role: str | None = None, broker: int | None = None, point: str | None = None
    ) -> None:
        """Fail if the event logs do not record the fault in this test.

        Args:
            fault: `kill`, `pause`, `resume`, `stop`, `start`, `depose`, `isolate`, `heal`; `crash` at a point.
            role: `controller`, `leader`, `follower`, or with the partition, `leader of orders-0`; None for any.
            broker: the id of the broker; None for any.
            point: the named point; None for any or none.

        Raises:
            AssertionError: there is no such record. The message lists the faults that are recorded.
        """
        faults_of_test(self.directory).assert_injected(fault, role, broker, point)

    def assert_answers_given(self) -> None:
        """Fail if a broker has never given an answer that this test has armed (`broker.answer`).

        The fixture calls it at the end of a test that has passed, and the context manager at its end.

        Raises:
            AssertionError: the message names each of these answers.
        """
        missed = [answer.missed for answer in self.local.answers if not answer.hits]
        if missed:
            raise AssertionError("\n".join(missed))

    # -- waiting

    @overload
    def wait_for(self, condition: BrokerCondition, timeout_s: float = WAIT_TIMEOUT_S) -> LocalBroker: ...

    @overload
    def wait_for(self, condition: Condition[T], timeout_s: float = WAIT_TIMEOUT_S) -> T: ...

    def wait_for(self, condition: BrokerCondition | Condition[Any], timeout_s: float = WAIT_TIMEOUT_S) -> Any:
        """Wait until a condition of `understudy.clusters.testing.conditions` is true, and return its value.

        Raises:
            WaitTimedOut: it was not true within `timeout_s`. The message has the condition and the cluster's state.
            ClusterError: meanwhile a broker ended although no fault was injected into it.
        """
        if isinstance(condition, BrokerCondition):
            broker_id, role = self.wait_until(lambda: condition.find(self), condition.what, timeout_s)
            return self.broker(broker_id, role=role)
        return self.wait_until(lambda: condition.evaluate(self), condition.what, timeout_s)

    def wait_until(self, condition: Callable[[], T | None], what: str, timeout_s: float = WAIT_TIMEOUT_S) -> T:
        """Evaluate a function repeatedly until it is true, and return its value. Raises as `wait_for`.

        Args:
            what: the condition in words, for the message.
        """
        try:
            return self.local.wait_until(condition, what, timeout_s)
        except WaitTimedOut:
            raise WaitTimedOut(f"not within {timeout_s:g} s: {what}; {self.describe()}") from None

    def settle(self, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Wait until the live brokers have nothing left to correct: leaders elected, ISRs full.

        Raises:
            Unsettled: something was left after `timeout_s`. The message lists it.
        """
        try:
            self.local.settle(timeout_s=timeout_s)
        except Unsettled as unsettled:
            left = str(unsettled).partition(". not within")[0]
            raise Unsettled(f"{left} after {timeout_s:g} s; {self.describe()}") from None

    def describe(self) -> str:
        """Describe the cluster's state for a message: controller, brokers, partitions and the faults of the test."""
        lines = ["the cluster:"]
        try:
            now = self.local.picture()
        except NO_ANSWER as error:
            return f"the cluster's state cannot be read: {error}"
        lines.append(f"  controller: {now.controller or 'none'}, epoch {now.controller_epoch}")
        for broker in self.brokers:
            state = "paused" if broker.is_paused else "running" if broker.is_running else "down"
            lines.append(f"  {broker.name}: {state}, {'' if broker.id in now.brokers else 'not '}registered")
        for key, partition in sorted(now.partitions.items()):
            replicas = list(partition.assignment.replicas)
            if partition.state is None:
                lines.append(f"  {key}: replicas {replicas}, no state in ZooKeeper")
                continue
            state_now = partition.state.leader_and_isr
            leader = state_now.leader if state_now.leader >= 0 else "none"
            lines.append(f"  {key}: leader {leader}, ISR {list(state_now.isr)}, replicas {replicas}")
        found = faults_of_test(self.directory)
        lines += ["faults of this test:", *found.lines()] if found.faults else ["this test has injected no fault"]
        return "\n".join([*lines, f"run folder: {self.directory}"])

    # -- internals

    def _remember_roles(self, broker_id: int) -> None:
        """Remember the roles that the broker has now, for `controller_change` and `leader_change`."""
        self.before.note_roles(broker_id, self.local.picture())
