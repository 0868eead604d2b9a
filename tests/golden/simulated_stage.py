"""The stage made of nothing: the same brokers in virtual time, and the simulated ZooKeeper's own history."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from foundation.cluster.errors import ApiError
from foundation.eventlog.reader import decode_record
from foundation.eventlog.records import Envelope
from foundation.zk.client import Create
from tests.golden.scenarios import BROKERS, ConfigChange, Election, Reassignment, Refused, Tree, tree_of
from understudy.checkers.history import ZnodeTransaction
from understudy.simulator.cluster import PORT, SimulatedBroker, SimulatedCluster

SETTINGS = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": "3000"}
QUIET_MS = 2_000
TIMEOUT_MS = 60_000


class SimulatedStage:
    def __init__(self, seed: int, brokers: Sequence[int] = BROKERS) -> None:
        self._cluster = SimulatedCluster(seed, brokers=len(brokers), first_broker_id=brokers[0], settings=SETTINGS)

    def __enter__(self) -> SimulatedStage:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._cluster.close()
        if kind is None:
            # A task that failed, or a broker that died of it, can leave every znode and request as Kafka would.
            died = [f"{end.node} died of {end.error!r}" for end in self._cluster.exits if end.is_unexpected]
            assert not (failed := [*self._cluster.loop.failures, *died]), "; ".join(failed)

    # -- what is done

    def start(self, broker: int) -> None:
        self._broker(broker).start()
        events = self._broker(broker).node.events
        assert events is not None
        events.detail = True

    def kill(self, broker: int) -> None:
        self._broker(broker).crash()

    def stop(self, broker: int) -> None:
        self._broker(broker).stop()
        self._until(lambda: not self._broker(broker).alive, f"broker {broker} has ended")

    def create_topic(self, name: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str]) -> Refused | None:
        return self._ask(self._cluster.admin.create_topic(name, assignment=assignment, configs=configs))

    def create_partitions(self, topic: str, count: int, assignment: Sequence[Sequence[int]]) -> Refused | None:
        return self._ask(self._cluster.admin.create_partitions(topic, count, assignment))

    def delete_topic(self, name: str) -> Refused | None:
        return self._ask(self._cluster.admin.delete_topics(name))

    def elect_leaders(self, election: Election) -> Refused | None:
        return self._ask(election.hold(self._cluster.admin))

    def change_config(self, change: ConfigChange) -> Refused | None:
        return self._ask(change.make(self._cluster.admin.asking(f"broker-{change.asked}:{PORT}")))

    def reassign_partitions(self, reassignment: Reassignment) -> Refused | None:
        return self._ask(reassignment.begin(self._cluster.admin))

    def create_znode(self, path: str, data: bytes) -> None:
        self._cluster.zookeeper.operate([Create(path, data)])

    # -- what is seen

    def wait_until(self, condition: Callable[[Tree], bool], what: str) -> None:
        self._until(lambda: condition(tree_of(self)), what)
        self._cluster.run_for(QUIET_MS)

    def transactions(self) -> Sequence[ZnodeTransaction]:
        return self._cluster.zookeeper.transactions

    def records(self) -> Mapping[str, Sequence[Envelope]]:
        return {
            node.name: [decode_record(line) for incarnation in sorted(node.lines) for line in node.lines[incarnation]]
            for node in self._cluster.nodes
        }

    # -- how

    def _broker(self, broker: int) -> SimulatedBroker:
        return self._cluster.broker(broker)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = self._cluster.now_ms + TIMEOUT_MS
        while not condition():
            assert self._cluster.now_ms < deadline, f"not within {TIMEOUT_MS} ms of virtual time: {what}"
            self._cluster.run_for(100)

    def _ask(self, question: Coroutine[Any, Any, None]) -> Refused | None:
        try:
            self._cluster.ask(question)
        except ApiError as error:
            return Refused(str(error))
        return None
