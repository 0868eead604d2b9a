"""The cluster of a scenario in the simulator: the same brokers and a simulated ZooKeeper, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tests.golden.recording import Json
from tests.golden.requests import of_events
from tests.golden.scenario_cluster import Refused, Request, Tree, send_records, tree_of
from understudy.checks.history import ZnodeTransaction
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.cluster.errors import ApiError
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import Envelope
from understudy.foundation.zk.client import Op
from understudy.history.reading.lines import decode_record

SETTINGS = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": "3000"}
QUIET_MS = 2_000
TIMEOUT_MS = 60_000


class SimulatedScenarioCluster:
    def __init__(self, seed: int, brokers: Sequence[int], settings: Mapping[str, str] | None = None) -> None:
        every = {**SETTINGS, **(settings or {})}
        self._cluster = SimulatedCluster(seed, brokers=len(brokers), first_broker_id=brokers[0], settings=every)

    def __enter__(self) -> SimulatedScenarioCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._cluster.close()
        if kind is None:
            # Znodes and requests can be right although a task failed or a broker died.
            died = [f"{end.node} died of {end.error!r}" for end in self._cluster.exits if end.is_unexpected]
            assert not (failed := [*self._cluster.loop.failures, *died]), "; ".join(failed)

    # -- actions

    def start(self, broker: int) -> None:
        self._broker(broker).launch()
        events = self._broker(broker).node.events
        assert events is not None
        events.detail = True

    def start_and_expect_exit(self, broker: int) -> None:
        self.start(broker)
        self._until(lambda: not self._broker(broker).is_running, f"broker {broker} has ended by itself")

    def kill(self, broker: int) -> None:
        self._broker(broker).kill()

    def stop(self, broker: int) -> None:
        self._broker(broker).stop()
        self._until(lambda: not self._broker(broker).is_running, f"broker {broker} has ended")

    def pause(self, broker: int) -> None:
        self._broker(broker).pause()

    def resume(self, broker: int) -> None:
        self._broker(broker).resume()

    def ask(self, request: Request) -> Refused | None:
        try:
            self._cluster.ask(request.send(self._admin))
        except (ApiError, NoBrokerAnswers) as error:
            return Refused(str(error))
        return None

    def produce(self, topic_partition: TopicPartition, values: Sequence[bytes]) -> None:
        bootstrap = [f"{broker.node.name}:{PORT}" for broker in self._cluster.brokers]
        network, clock = self._cluster.client_network, self._cluster.simulator.clock
        self._cluster.ask(send_records(network, bootstrap, clock, topic_partition, values))

    def edit(self, *ops: Op) -> None:
        assert self._cluster.zookeeper.operate(ops), f"ZooKeeper refused {ops}"

    # -- observations

    def wait_until(self, condition: Callable[[Tree], bool], what: str) -> None:
        self._until(lambda: condition(tree_of(self)), what)
        self._cluster.run_for(QUIET_MS)

    def transactions(self) -> Sequence[ZnodeTransaction]:
        return self._cluster.zookeeper.transactions

    def requests(self) -> Mapping[int, Sequence[Json]]:
        return of_events(self.records())

    def records(self) -> Mapping[str, Sequence[Envelope]]:
        return {
            log.name: [decode_record(line) for incarnation in sorted(log.lines) for line in log.lines[incarnation]]
            for log in self._cluster.logs
        }

    # -- helpers

    def _broker(self, broker: int) -> SimulatedBroker:
        return self._cluster.broker(broker)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = self._cluster.now_ms + TIMEOUT_MS
        while not condition():
            assert self._cluster.now_ms < deadline, f"not within {TIMEOUT_MS} ms of virtual time: {what}"
            self._cluster.run_for(100)

    def _admin(self, broker: int | None = None) -> AdminClient:
        if broker is None:
            return self._cluster.admin
        if f"/brokers/ids/{broker}" not in tree_of(self):
            raise NoBrokerAnswers(f"broker {broker} is not registered")
        return self._cluster.admin.with_bootstrap(f"broker-{broker}:{PORT}")
