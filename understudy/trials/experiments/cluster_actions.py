"""The actions of steps, as all engines do them. None of them waits for the brokers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from understudy.clusters.answers import arm_at
from understudy.clusters.clients.topic_requests import PREFERRED, UNCLEAN
from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.loop import Process
from understudy.trials.experiments.bad_requests import FLOOD
from understudy.trials.experiments.disk_damage import DAMAGES, copy, restore
from understudy.trials.experiments.disk_faults import DISK_FAULTS, MachineFaultsOfBrokers
from understudy.trials.experiments.each_broker import Broker, Brokers, begin_start, on_each, to_all
from understudy.trials.experiments.injecting import CannotInject, Undo
from understudy.trials.experiments.language.actions import (
    Action,
    Answer,
    ArmPoint,
    Counted,
    DiskFault,
    Links,
    LoseAnswer,
    OnPartition,
    OnTopic,
    OnZnode,
    OnZooKeeper,
    Rated,
    Repeated,
    RequestFault,
    StepClock,
)
from understudy.trials.experiments.link_actions import cut_zookeeper, on_links, on_next_requests

if TYPE_CHECKING:
    from understudy.clusters.processes.local_cluster import LocalCluster
    from understudy.clusters.processes.processes import RunningProcess

DEFAULT_REPLICAS: Final = 3
STARVE_MS: Final = 200.0
"""Period in which a starved broker is stopped once and runs once."""
_EVERY_MS: Final = {"stutter": 1_000.0, "crash-loop": 2_000.0, "flap-zookeeper": 500.0}
"""Default period of each fault that repeats."""

_numbers = itertools.count(1)


class ActionsOnCluster(Protocol):
    """The actions of steps on a cluster. Who inherits it adds what differs between kinds of clusters."""

    cluster: LocalCluster | SimulatedCluster
    machines: MachineFaultsOfBrokers

    def after(self, ms: float, action: Callable[[], None]) -> None:
        """Call `action` once `ms` have passed."""

    def begin_call(self, call: Coroutine[Any, Any, object]) -> None:
        """Start a client's call, and ignore a refusal."""

    def restart(self, broker: Broker) -> None:
        """Begin to stop a broker, and start it once it has stopped."""

    def arm(self, broker: Broker, action: ArmPoint) -> None:
        """Arm a point; a pause there ends after the time `lasts` of the action."""

    def processes(self, brokers: Brokers) -> Sequence[RunningProcess | Process]:
        """Return the processes of brokers. Raises CannotInject if they do not run."""

    def flood(self, brokers: Brokers, connections: int) -> Undo:
        """Open a number of connections to each broker, which send nothing or bytes that are no request."""

    def swizzle_source(self) -> random.Random: ...

    def write(self, path: str, data: bytes) -> None:
        """Write a znode as an operator does. Raises CannotInject."""

    def delete(self, path: str) -> None:
        """Delete a znode as an operator does. Raises CannotInject."""

    # ------------------------------------------------------------------ any action

    def do(self, action: Action, brokers: Brokers, peers: Sequence[int]) -> Undo | None:
        """Do an action to brokers, or to the target that it names itself."""
        match action:
            case Links():
                return on_links(self.cluster, action, brokers, peers)
            case RequestFault():
                return on_next_requests(self.cluster, action, brokers, peers)
            case LoseAnswer(path=path, applied=applied):
                return on_each(brokers, lambda each: self.cluster.lose_answer(each.id, path, applied is not False))
            case Answer():
                arm_at(brokers, action.armed(), self.cluster.answers)
                return None
            case ArmPoint():
                return on_each(brokers, lambda each: self.arm(each, action))
            case Repeated():
                return self._disturb(action, brokers)
            case Rated(name="starve", percent=percent):
                return self._starve(brokers, STARVE_MS * percent / 100)
            case Rated(percent=percent):
                return self._with_clock(action, brokers, lambda each: self.machines.run_clock_at(each, percent / 100))
            case StepClock(by=by_ms):
                return self._with_clock(action, brokers, lambda each: self.machines.step_clock(each, by_ms))
            case DiskFault(name=name, by=by):
                operations = DISK_FAULTS[name]
                return self.with_disk(
                    action, brokers, lambda each, fault: self.machines.break_disk(each, fault, operations, by.ms)
                )
            case Counted(name="flood", count=count):
                return self._flood(brokers, count or FLOOD)
            case Counted():
                return on_each(brokers, lambda each: self._damage(action, each))
            case OnZooKeeper():
                return self._on_zookeeper(action, peers)
            case OnZnode() | OnTopic() | OnPartition():
                self._operate(action, peers)
                return None
        return self._on_brokers(action, brokers)

    def _on_brokers(self, action: Action, brokers: Brokers) -> Undo | None:
        match action.name:
            case "kill":
                return on_each(brokers, lambda each: each.kill(), begin_start)
            case "bounce":
                return on_each(brokers, lambda each: self._bounce(each, action.lasts_ms))
            case "pause":
                return on_each(brokers, lambda each: each.pause(), _resume_if_paused)
            case "resume":
                return on_each(brokers, _resume)
            case "slow-start":
                return on_each(brokers, lambda each: self._slow_start(each, action.lasts_ms))
            case "stop":
                return on_each(brokers, lambda each: each.begin_stop(), begin_start)
            case "start":
                return on_each(brokers, self._start)
            case "restart":
                return on_each(brokers, self.restart)
            case "expire":
                return on_each(brokers, lambda each: self.cluster.expire_session(each.id))
            case "depose":
                return on_each(brokers, lambda each: each.depose())
            case "isolate":
                return on_each(brokers, lambda each: each.isolate(), lambda each: each.heal())
            case "heal":
                return on_each(brokers, lambda each: each.heal())
            case "swizzle":
                return self._swizzle(brokers, action.lasts_ms)
            case "cut-clients":
                cut, mend = self.cluster.cut_from_clients, self.cluster.heal_clients
                return on_each(brokers, lambda each: cut(each.id), lambda each: mend(each.id))
            case "hold-watch":
                hold, release = self.cluster.hold_next_event, self.cluster.heal_zookeeper
                return on_each(brokers, lambda each: hold(each.id), lambda each: release(each.id))
            case "freeze-clock":
                return self._with_clock(action, brokers, lambda each: self.machines.run_clock_at(each, 0.0))
            case "tear-append":
                return self._tear_append(brokers)
            case "roll-back-disk":
                return on_each(brokers, lambda each: self._roll_back_disk(each, action.lasts_ms))
        raise AssertionError(f"there is nothing that does {action.name}")

    # ------------------------------------------------------------------ processes

    def _start(self, broker: Broker) -> None:
        if broker.is_running:
            raise CannotInject(f"{broker.name} cannot be started: it is running")
        broker.begin_start()

    def _bounce(self, broker: Broker, down_ms: float) -> None:
        broker.kill()
        self.after(down_ms, broker.begin_start)

    def _slow_start(self, broker: Broker, lasts_ms: float) -> None:
        broker.kill()
        broker.begin_start()
        broker.pause()
        self.after(lasts_ms, lambda: _resume_if_paused(broker))

    def _starve(self, brokers: Brokers, running_ms: float) -> Undo:
        processes = self.processes(brokers)
        for broker in brokers:
            self.cluster.record_fault("starve", broker.name)

        def stop() -> None:
            for process in processes:
                process.pause()
                self.after(STARVE_MS - running_ms, process.resume)

        return self._repeat(stop, STARVE_MS, lambda: to_all(lambda each: each.resume(), processes))

    def _flood(self, brokers: Brokers, connections: int) -> Undo:
        for broker in brokers:
            if not broker.is_running:
                raise CannotInject(f"{broker.name} is not running")
            self.cluster.record_fault("flood", broker.name)
        return self.flood(brokers, connections)

    def _disturb(self, action: Repeated, brokers: Brokers) -> Undo:
        """Pause or kill each broker, or break its connection to ZooKeeper, again and again."""
        every_ms = _EVERY_MS[action.name] if action.every is None else action.every.ms
        match action.name:
            case "stutter":
                left = list(brokers)

                def turn() -> None:
                    left[:] = [broker for broker in left if broker.is_running]
                    to_all(_pause_or_resume, left)

                return self._repeat(turn, every_ms / 2, lambda: to_all(_resume_if_paused, brokers))
            case "crash-loop":
                return self._repeat(
                    lambda: to_all(_kill_or_start, brokers), every_ms, lambda: to_all(begin_start, brokers)
                )
        ids = [broker.id for broker in brokers]
        return self._repeat(lambda: to_all(self.cluster.reset_zookeeper_connection, ids), every_ms)

    def _repeat(self, act: Callable[[], None], every_ms: float, finish: Callable[[], None] = lambda: None) -> Undo:
        """Do `act` now and every `every_ms`; return a function that ends the repetition, and does `finish`."""
        is_over = False

        def turn() -> None:
            if not is_over:
                self.after(every_ms, turn)
                act()

        def end() -> None:
            nonlocal is_over
            is_over = True
            finish()

        turn()
        return end

    # ------------------------------------------------------------------ links

    def _swizzle(self, brokers: Brokers, lasts_ms: float) -> Undo:
        """Isolate brokers one after the other, and heal them one after the other, each in an order that is drawn.

        Returns:
            A function that heals the isolated brokers, and isolates no further one.
        """
        isolated: list[Broker] = []
        is_over = False
        source = self.swizzle_source()

        def isolate(broker: Broker) -> None:
            if not is_over:
                broker.isolate()
                isolated.append(broker)

        def heal(broker: Broker) -> None:
            if broker in isolated:
                isolated.remove(broker)
                broker.heal()

        def end() -> None:
            nonlocal is_over
            is_over = True
            to_all(heal, tuple(isolated))

        gap_ms = lasts_ms / (2 * len(brokers))
        for place, broker in enumerate(source.sample(brokers, len(brokers))):
            self.after(place * gap_ms, partial(isolate, broker))
        for place, broker in enumerate(source.sample(brokers, len(brokers))):
            self.after(lasts_ms / 2 + place * gap_ms, partial(heal, broker))
        return end

    # ------------------------------------------------------------------ clocks and disks

    def _with_clock(self, action: Action, brokers: Brokers, change: Callable[[int], None]) -> Undo | None:
        correct = self._recorded("correct-clock", self.machines.correct_clock)
        return on_each(brokers, self._recorded(action.name, change), correct)

    def with_disk(self, action: Action, brokers: Brokers, change: Callable[[int, str], None]) -> Undo | None:
        """Begin a fault of the disk of each broker.

        Args:
            change: begins it for the broker with an id, under a name by which `mend_disk` ends it.
        """
        name = f"{action.name}-no-{next(_numbers)}"
        begin = self._recorded(action.name, lambda broker_id: change(broker_id, name))
        mend = self._recorded("heal-disk", lambda broker_id: self.machines.mend_disk(broker_id, name))
        return on_each(brokers, begin, mend)

    def _tear_append(self, brokers: Brokers) -> Undo | None:
        name = f"tear-append-no-{next(_numbers)}"

        def end(broker: Broker) -> None:
            self.machines.mend_disk(broker.id, name)
            broker.begin_start()

        begin = self._recorded("tear-append", lambda broker_id: self.machines.tear_append(broker_id, name))
        return on_each(brokers, begin, end)

    def _recorded(self, fault: str, change: Callable[[int], None]) -> Callable[[Broker], None]:
        """Return a function that records a fault of a broker, and calls `change` with the broker's id."""

        def act(broker: Broker) -> None:
            self.cluster.record_fault(fault, broker.name)
            change(broker.id)

        return act

    def _damage(self, action: Counted, broker: Broker) -> None:
        """Kill a broker, damage its files, and start it again later."""
        if broker.is_running:
            broker.kill()
        self.cluster.record_fault(action.name, broker.name)
        try:
            DAMAGES[action.name](self.machines.disk_of(broker.id), action.count or 1)
        except (CannotInject, OSError) as refused:
            broker.begin_start()
            raise CannotInject(str(refused)) from None
        self.after(action.lasts_ms, broker.begin_start)

    def _roll_back_disk(self, broker: Broker, later_ms: float) -> None:
        self.cluster.record_fault("copy-disk", broker.name)
        try:
            copied = copy(self.machines.disk_of(broker.id))
        except OSError as error:
            raise CannotInject(f"the files of {broker.name} cannot be copied: {error}") from None

        def roll_back() -> None:
            if broker.is_running:
                broker.kill()
            self.cluster.record_fault("roll-back-disk", broker.name)
            try:
                restore(self.machines.disk_of(broker.id), copied)
            except OSError as error:
                raise ClusterError(f"the files of {broker.name} cannot be replaced: {error}") from None
            broker.begin_start()

        self.after(later_ms, roll_back)

    # ------------------------------------------------------------------ ZooKeeper, operators and clients

    def _on_zookeeper(self, action: OnZooKeeper, peers: Sequence[int]) -> Undo | None:
        cluster = self.cluster
        servers = cluster.zookeeper_servers(action.server.name)
        match action.name:
            case "stop-zookeeper":
                cluster.stop_zookeeper(*servers)
                return lambda: cluster.start_zookeeper(*servers)
            case "start-zookeeper":
                cluster.start_zookeeper(*servers)
            case "restart-zookeeper":
                cluster.stop_zookeeper(*servers)
                cluster.start_zookeeper(*servers)
            case "pause-zookeeper":
                cluster.pause_zookeeper(*servers)
                return lambda: cluster.resume_zookeeper(*servers)
            case "slow-zookeeper":
                cluster.delay_zookeeper(action.by.ms, servers)
                return lambda: cluster.delay_zookeeper(0.0, servers)
            case "cut-zookeeper":
                cut_zookeeper(cluster, action, servers, peers, begins=True)
                return lambda: cut_zookeeper(cluster, action, servers, peers, begins=False)
        return None

    def _operate(self, action: OnZnode | OnTopic | OnPartition, peers: Sequence[int]) -> None:
        admin = self.cluster.admin
        match action:
            case OnZnode(name="write", path=path, data=data):
                self.cluster.record_fault("write", path)
                self.write(path, (data or "").encode())
            case OnZnode(path=path):
                self.cluster.record_fault("delete", path)
                self.delete(path)
            case OnTopic(name="create-topic", topic=topic, partitions=partitions, replicas=replicas):
                replicas = min(replicas or DEFAULT_REPLICAS, len(self.cluster.broker_ids))
                self.begin_call(admin.create_topic(topic, partitions=partitions or 1, replication_factor=replicas))
            case OnTopic(name="delete-topic", topic=topic):
                self.begin_call(admin.delete_topics(topic))
            case OnTopic(topic=topic, partitions=int(partitions)):
                self.begin_call(admin.create_partitions(topic, partitions))
            case OnPartition(name="reassign", partition=partition):
                self.begin_call(admin.alter_partition_reassignments({partition: peers}))
            case OnPartition(name=name, partition=partition):
                election_type = PREFERRED if name == "elect" else UNCLEAN
                self.begin_call(admin.elect_leaders([partition], election_type=election_type))


def _resume(broker: Broker) -> None:
    if not broker.is_paused:
        raise CannotInject(f"{broker.name} cannot be resumed: it is not paused")
    broker.resume()


def _resume_if_paused(broker: Broker) -> None:
    if broker.is_paused:
        broker.resume()


def _pause_or_resume(broker: Broker) -> None:
    if broker.is_paused:
        broker.resume()
    else:
        broker.pause()


def _kill_or_start(broker: Broker) -> None:
    if broker.is_running:
        broker.kill()
    else:
        broker.begin_start()
