"""`SimulatedBroker`: one broker of a simulation, its processes, and the faults injected into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from understudy.brokers.broker import KafkaBroker
from understudy.brokers.config.reading import read_config
from understudy.clusters.answers import AnswerHandle, ArmsAnswers
from understudy.clusters.cluster import ClusterError, check_point
from understudy.clusters.picture import BrokerMemory
from understudy.clusters.simulated.environment import Exit, SimulatedEnvironment
from understudy.clusters.simulated.world import Node
from understudy.clusters.zookeeper_servers import servers_in
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.wire.armed_answers import ArmedAnswer
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.znodes import BrokerIdZNode

_RESTART_AFTER_MS = 1_000
"""Time after which a broker that ended by itself is started again."""


class SimulatedBroker(ArmsAnswers):
    """One broker of a simulation; implements `BrokerHandle`.

    `kill`, `lose_power`, `pause`, `resume`, `depose`, `isolate`, `heal` and `arm` act at once; no time passes.
    `start`, `stop` and `restart` run the simulated loop until they are done; actions that are scheduled inside that
    loop use `begin_start` and `begin_stop` instead.

    Args:
        peers: the names of all other nodes; `isolate` cuts the links to them.
    """

    def __init__(
        self,
        environment: SimulatedEnvironment,
        broker_id: BrokerId,
        node: Node,
        properties: Mapping[str, str],
        *,
        peers: Sequence[str],
    ) -> None:
        self.id = broker_id
        self.name = node.name
        self.node = node
        self.instance: KafkaBroker | None = None
        """The `KafkaBroker` that the current process runs; None if there is no process."""
        self.should_run = False
        """Whether it is started again when it ends by itself, as a supervisor would do."""
        self.is_stopping = False
        self._role = ""
        self._environment = environment
        self._config = read_config(properties)
        self.session_timeout_ms = self._config.zookeeper_session_timeout_ms
        self._peers = tuple(peers)

    @property
    def rack(self) -> str | None:
        return self._config.broker_rack

    @property
    def is_running(self) -> bool:
        """Whether its process exists; a paused one does."""
        return self.node.alive

    @property
    def is_paused(self) -> bool:
        return self.node.process is not None and self.node.process.paused

    @property
    def is_serving(self) -> bool:
        """Whether it is registered, and its metadata names the controller and every registered broker."""
        registered = self._environment.znodes.brokers()
        if self.instance is None or self.id not in registered:
            return False
        metadata = self.instance.metadata.snapshot
        return (
            registered[self.id].epoch == self.instance.broker_epoch
            and metadata.controller_id is not None
            and metadata.live_brokers.keys() >= registered.keys()
        )

    @property
    def session_id(self) -> int | None:
        """The ZooKeeper session that owns its registration; None if it is not registered."""
        stat = self._environment.zookeeper.tree.exists(BrokerIdZNode.path(self.id))
        return None if isinstance(stat, Failure) else stat.ephemeral_owner

    def has_topic(self, topic: str, partitions: int) -> bool:
        """Whether its metadata has a leader of each partition, or it is not registered. A paused one may be."""
        if self.instance is None or self.id not in self._environment.znodes.brokers():
            return True
        found = self.instance.metadata.snapshot.topics.get(topic, {})
        return len(found) == partitions and all(state.leader >= 0 for state in found.values())

    def memory(self) -> BrokerMemory | None:
        """The broker's metadata and replicas; None if it is down, paused or stopping and may hold old ones."""
        broker = self.instance
        if broker is None or self.is_paused or self.is_stopping:
            return None
        is_active = broker.broker_epoch >= 0 and broker.controller.is_active
        return BrokerMemory(
            metadata=broker.metadata.snapshot,
            hosted=broker.hosted,
            topic_ids_on_disk=broker.topic_ids_on_disk,
            fetched=broker.fetched,
            controller_assignments=broker.controller.assignments if is_active else None,
        )

    # ------------------------------------------------------------------ starting and stopping

    def launch(self) -> None:
        """Start a process without a record in the event log. Harmless if one runs."""
        self.should_run = True
        if self.is_running:
            return
        self.is_stopping = False
        timeout = self.session_timeout_ms
        world = self.node.start(
            self._environment.zookeeper,
            self._environment.network,
            session_timeout_ms=timeout,
            zookeeper_servers=servers_in(self._config.zookeeper_connect, self._environment.zookeeper.servers),
            connection_timeout_ms=self._config.zookeeper_connection_timeout_ms or timeout,
        )
        assert self.node.process is not None
        broker = KafkaBroker(self._config, world)
        self.instance = broker
        self.node.process.spawn(self._run(broker), name=self.node.name)

    def begin_start(self) -> None:
        """Start the broker, and do not wait. If it is stopping, it is started once it has stopped."""
        if not self.is_running:
            self._record("start")
        self.launch()

    def begin_stop(self) -> None:
        """Start a controlled shutdown, and do not wait. Harmless if the broker is down or stopping."""
        self.should_run = False
        if self.is_running and not self.is_stopping and self.instance is not None and self.node.process is not None:
            self.is_stopping = True
            self._record("stop")
            self.node.process.spawn(self._shut_down(self.instance), name=f"{self.node.name} shutdown")

    def start(self) -> None:
        if self.is_running:
            raise ClusterError(f"{self.name} cannot be started: it is running")
        # As in `LocalCluster`: Kafka refuses to start beside a registration of another session.
        self._environment.wait_until(lambda: self.session_id is None, f"the old registration of {self.name} is gone")
        self.begin_start()
        self._environment.wait_until(lambda: self.is_serving, f"{self.name} serves requests")

    def stop(self) -> None:
        self._require_running("stop")
        self.resume()
        self.begin_stop()
        self._environment.wait_until(lambda: not self.is_running, f"{self.name} has stopped")

    def restart(self) -> None:
        if self.is_running:
            self.stop()
        self.start()

    # ------------------------------------------------------------------ faults

    def kill(self) -> None:
        self._require_running("kill")
        self.should_run = False
        self._record("kill")
        self._end()

    def lose_power(self) -> None:
        """Turn the broker's machine off: its process ends, and its disk loses part of the data that was not flushed.

        For other machines this is like a kill: their connections to it are closed.
        """
        self._require_running("power_loss")
        self.should_run = False
        self._record("power_loss")
        self._end()
        self.node.lose_power()

    def bounce(self, down_ms: float) -> None:
        """Kill the broker and start it again `down_ms` later; its session may outlast that time."""
        self.kill()
        self._environment.after(down_ms, self.begin_start)

    def pause(self) -> None:
        self._require_running("pause")
        if self.node.process is not None and not self.is_paused:
            self._record("pause")
            self.node.process.pause()

    def resume(self) -> None:
        self._require_running("resume")
        if self.node.process is not None and self.is_paused:
            self._record("resume")
            self.node.process.resume()

    def expire_session(self) -> None:
        """Make ZooKeeper end the session of its registration. Harmless if the broker is not registered."""
        session_id = self.session_id
        if session_id is not None:
            self._record("expire")
            self._environment.zookeeper.expire(session_id)

    def depose(self) -> None:
        if self._environment.controller_id() != self.id:
            raise ClusterError(f"{self.name} cannot be deposed: it is not the controller")
        self._environment.depose()

    def isolate(self) -> None:
        self._require_running("isolate")
        self._record("isolate")
        self._environment.isolate_node(self.name, self._peers)

    def heal(self) -> None:
        self._record("heal")
        self._environment.end_isolation(self.name, self._peers)

    def arm(
        self, point: str, action: str, *, resume_after_ms: float | None = None, start_after_ms: float | None = None
    ) -> None:
        """Pause or crash the broker when it next reaches a named point. See `BrokerHandle.arm`.

        Args:
            resume_after_ms: end the pause after this time; None leaves it to `resume`.
            start_after_ms: start the crashed broker again after this time; None leaves it to `start`.
        """
        check_point(point, action)
        if action == "pause":
            self.node.arm(point, action, lambda: self._pause_at_point(resume_after_ms))
        elif start_after_ms is None:
            self.node.arm(point, action, self.kill)
        else:
            self.node.arm(point, action, lambda: self.bounce(start_after_ms))

    def arm_answer(self, answer: ArmedAnswer) -> AnswerHandle:
        answers = self.node.answers
        armed = answers.arm(answer)
        self._environment.record_step("armed", f"{self.name}: {armed}")
        handle = AnswerHandle(armed, self.name, lambda: answers.given[armed.name], self._environment.wait_until)
        self._environment.answers.append(handle)
        return handle

    def _pause_at_point(self, resume_after_ms: float | None) -> None:
        self.pause()
        if resume_after_ms is not None:
            self._environment.after(resume_after_ms, self.resume_if_paused)

    def resume_if_paused(self) -> None:
        """Resume the broker if it is paused. Scheduled actions use it: the broker may have been killed meanwhile."""
        if self.is_paused:
            self.resume()

    def _require_running(self, fault: str) -> None:
        if not self.is_running:
            raise ClusterError(f"{fault} was not injected: {self.name} is not running")

    @contextmanager
    def found_as(self, role: str) -> Iterator[None]:
        """Record the faults of a block with the role by which the broker was found."""
        self._role = role
        try:
            yield
        finally:
            self._role = ""

    def _record(self, fault: str) -> None:
        role = self._role or ("controller" if self._environment.controller_id() == self.id else "")
        self._environment.record_fault(fault, self.name, role)

    # ------------------------------------------------------------------ the end of a process

    async def _run(self, broker: KafkaBroker) -> None:
        try:
            await broker.start()
            await broker.wait_closed()
        except Exception as error:  # noqa: BLE001  `judge` reports it if it is unexpected
            if not self.is_stopping:
                self._exited(error)
            return
        if not self.is_stopping:
            self._exited(None)

    def _exited(self, error: Exception | None) -> None:
        if self._environment.loop.is_closed():
            return  # the run is over: coroutines are being closed, and no process ends
        self._environment.exits.append(Exit(self._environment.now_ms, self.node.name, error))
        self._end()
        self._environment.after(_RESTART_AFTER_MS, self._start_again)

    async def _shut_down(self, broker: KafkaBroker) -> None:
        await broker.shutdown()
        self._end()
        self._environment.after(0, self._start_again)

    def _start_again(self) -> None:
        if self.should_run:
            self.launch()

    def _end(self) -> None:
        self.instance = None
        self.is_stopping = False
        if self.node.process is not None:
            self.node.process.kill()
