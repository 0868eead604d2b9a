"""The cluster of a scenario as processes: brokers as `understudy up` starts them, and an embedded ZooKeeper."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from kazoo.client import KazooClient, TransactionRequest

from tests.golden.recording import Json
from tests.golden.requests import of_events
from tests.golden.scenario_cluster import Refused, Request, Tree, send_records, tree_of
from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.checks.history import ZnodeTransaction
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.processes.broker_process import HOST, BrokerProcess
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.foundation.cluster.errors import ApiError
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import Envelope, RequestDetail
from understudy.foundation.zk.client import Create, Delete, Op, SetData
from understudy.history.reading.reader import read
from understudy.history.reading.transaction_log import read_transaction_logs

QUIET_S = 1.5
QUIET_POLLS = 10
"""Each poll reads all logs again, so on a busy machine, where brokers are slow, polls take longer too."""
TIMEOUT_S = 120.0
POLL_S = 0.1
SESSION_TIMEOUT_MS = 8_000
"""Long enough that no session ends by itself on a busy machine; one scenario starts a broker within its old session."""


class ProcessCluster:
    """Broker processes and a ZooKeeper.

    Args:
        directory: holds all their files.
        settings: keys of `server.properties` that the scenario adds.
    """

    def __init__(self, directory: Path, brokers: Sequence[int], settings: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._settings = dict(settings or {})
        self._ids = tuple(brokers)
        self._zookeeper = EmbeddedZooKeeper(directory / "zookeeper")
        self._brokers: dict[int, BrokerProcess] = {}

    def __enter__(self) -> ProcessCluster:
        self._zookeeper.start()
        properties = {
            "zookeeper.connect": self._zookeeper.connect_string,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "auto.leader.rebalance.enable": "false",
            "understudy.run.id": "golden",
            "understudy.events.detail": "true",
            **self._settings,
        }
        self._brokers = {
            broker: self._broker(broker, self._directory / f"broker-{broker}", properties) for broker in self._ids
        }
        return self

    def _broker(self, broker: int, directory: Path, properties: Mapping[str, str]) -> BrokerProcess:
        return BrokerProcess(broker, directory, rack=None, properties=properties)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self._brokers.values():
            if broker.process is not None:
                broker.process.kill()
        self._zookeeper.stop()

    # -- actions

    def start(self, broker: int) -> None:
        self._brokers[broker].launch()

    def start_and_expect_exit(self, broker: int) -> None:
        self.start(broker)
        self._brokers[broker].should_run = False
        assert self._process(broker).wait(TIMEOUT_S), (
            f"broker {broker} still runs: {self._process(broker).log_tail(20)}"
        )

    def kill(self, broker: int) -> None:
        self._brokers[broker].should_run = False
        self._process(broker).kill()

    def stop(self, broker: int) -> None:
        self._brokers[broker].should_run = False
        self._process(broker).ask_to_end()
        assert self._process(broker).wait(TIMEOUT_S), (
            f"broker {broker} did not end: {self._process(broker).log_tail(20)}"
        )

    def pause(self, broker: int) -> None:
        self._process(broker).pause()

    def resume(self, broker: int) -> None:
        self._process(broker).resume()

    def ask(self, request: Request) -> Refused | None:
        try:
            asyncio.run(request.send(self._admin))
        except (ApiError, NoBrokerAnswers) as error:
            return Refused(str(error))
        return None

    def produce(self, topic_partition: TopicPartition, values: Sequence[bytes]) -> None:
        bootstrap = [f"{HOST}:{port}" for port in self._ports().values()]
        asyncio.run(send_records(SocketNetwork(), bootstrap, MachineClock(), topic_partition, values))

    def edit(self, *ops: Op) -> None:
        client = KazooClient(self._zookeeper.connect_string)
        client.start()
        try:
            transaction = client.transaction()
            for op in ops:
                _add(transaction, op)
            results = transaction.commit()
            assert not any(isinstance(result, Exception) for result in results), f"ZooKeeper refused {ops}: {results}"
        finally:
            client.stop()
            client.close()

    # -- observations

    def wait_until(self, condition: Callable[[Tree], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        before, since, polls = -1, time.monotonic(), 0
        while True:
            self._check()
            size = self._size()
            polls += 1
            if size != before:
                before, since, polls = size, time.monotonic(), 0
            is_quiet = polls >= QUIET_POLLS and time.monotonic() - since > QUIET_S
            if is_quiet and self._is_settled() and condition(tree_of(self)):
                return
            assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s: {what}\n{self._logs()}"
            time.sleep(POLL_S)

    def transactions(self) -> Sequence[ZnodeTransaction]:
        return read_transaction_logs(self._zookeeper.transaction_log_dir)

    def requests(self) -> Mapping[int, Sequence[Json]]:
        return of_events(self.records())

    def records(self) -> Mapping[str, Sequence[Envelope]]:
        by_node: dict[str, list[Envelope]] = {}
        for record in read([broker.events for broker in self._brokers.values() if broker.events.exists()]).records:
            by_node.setdefault(record.node, []).append(record)
        return {
            node: sorted(by_node[node], key=lambda record: (record.incarnation, record.seq)) for node in sorted(by_node)
        }

    # -- helpers

    def _admin(self, broker: int | None = None) -> AdminClient:
        ports = self._ports()
        if broker is not None and broker not in ports:
            raise NoBrokerAnswers(f"broker {broker} is not registered")
        asked = ports.values() if broker is None else [ports[broker]]
        return AdminClient(SocketNetwork(), [f"{HOST}:{port}" for port in asked])

    def _ports(self) -> dict[int, int]:
        """The port of each registered broker."""
        tree = tree_of(self)
        ids = sorted(int(path.rpartition("/")[2]) for path in tree if path.startswith("/brokers/ids/"))
        return {broker: json.loads(tree[f"/brokers/ids/{broker}"].data or b"")["port"] for broker in ids}

    def _size(self) -> int:
        """The number of answered requests and transactions. Requests without answer do not count: controllers repeat
        them to an unreachable broker for ever."""
        answered = [
            record
            for of_node in self.records().values()
            for record in of_node
            if isinstance(record.data, RequestDetail)
        ]
        return len(answered) + len(self.transactions())

    def _is_settled(self) -> bool:
        """Whether a quiet cluster has no request in flight."""
        return True

    def _process(self, broker: int) -> Any:
        process = self._brokers[broker].process
        assert process is not None
        return process

    def _check(self) -> None:
        for broker in self._brokers.values():
            if broker.should_run and broker.process is not None:
                broker.process.check()

    def _logs(self) -> str:
        return "\n".join(
            f"{b.name}:\n{b.process.log_tail(15)}" for b in self._brokers.values() if b.process is not None
        )


def _add(transaction: TransactionRequest, op: Op) -> None:
    match op:
        case Create(path, data):
            transaction.create(path, data or b"", sequence=op.sequential)
        case SetData(path, data, version):
            transaction.set_data(path, data, version)
        case Delete(path, version):
            transaction.delete(path, version)
        case _:
            raise AssertionError(f"an operator makes no {op}")
