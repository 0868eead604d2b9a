"""The stage made of processes: a ZooKeeper of its own, brokers as `understudy up` starts them, and its transaction log."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from kazoo.client import KazooClient

from brokers.socket_network import SocketNetwork
from foundation.cluster.errors import ApiError
from foundation.eventlog.reader import read
from foundation.eventlog.records import Envelope
from tests.golden.scenarios import BROKERS, ConfigChange, Election, Reassignment, Refused, Tree, tree_of
from understudy.admin_client import AdminClient
from understudy.checkers.history import ZnodeTransaction
from understudy.testbed.broker_process import BrokerProcess
from understudy.testbed.embedded_zookeeper import EmbeddedZooKeeper
from understudy.testbed.transaction_log import read_transaction_logs

QUIET_S = 1.5
TIMEOUT_S = 60.0
POLL_S = 0.1
SESSION_TIMEOUT_MS = 3_000


class RealStage:
    def __init__(self, directory: Path, brokers: Sequence[int] = BROKERS) -> None:
        self._directory = directory
        self._ids = tuple(brokers)
        self._zookeeper = EmbeddedZooKeeper(directory / "zookeeper")
        self._brokers: dict[int, BrokerProcess] = {}

    def __enter__(self) -> RealStage:
        self._zookeeper.start()
        properties = {
            "zookeeper.connect": self._zookeeper.connect_string,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "auto.leader.rebalance.enable": "false",
            "understudy.run.id": "golden",
            "understudy.events.detail": "true",
        }
        self._brokers = {
            broker: BrokerProcess(broker, self._directory / f"broker-{broker}", rack=None, properties=properties)
            for broker in self._ids
        }
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for broker in self._brokers.values():
            if broker.process is not None:
                broker.process.kill()
        self._zookeeper.stop()

    # -- what is done

    def start(self, broker: int) -> None:
        self._brokers[broker].launch()

    def kill(self, broker: int) -> None:
        self._brokers[broker].should_live = False
        self._process(broker).kill()

    def stop(self, broker: int) -> None:
        self._brokers[broker].should_live = False
        self._process(broker).ask_to_end()
        assert self._process(broker).wait(TIMEOUT_S), f"broker {broker} did not end: {self._process(broker).log_tail(20)}"

    def create_topic(self, name: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str]) -> Refused | None:
        return self._ask(lambda admin: admin.create_topic(name, assignment=assignment, configs=configs))

    def create_partitions(self, topic: str, count: int, assignment: Sequence[Sequence[int]]) -> Refused | None:
        return self._ask(lambda admin: admin.create_partitions(topic, count, assignment))

    def delete_topic(self, name: str) -> Refused | None:
        return self._ask(lambda admin: admin.delete_topics(name))

    def elect_leaders(self, election: Election) -> Refused | None:
        return self._ask(election.hold)

    def change_config(self, change: ConfigChange) -> Refused | None:
        return self._ask(change.make, [self._port(change.asked)])

    def reassign_partitions(self, reassignment: Reassignment) -> Refused | None:
        return self._ask(reassignment.begin)

    def create_znode(self, path: str, data: bytes) -> None:
        client = KazooClient(self._zookeeper.connect_string)
        client.start()
        try:
            client.create(path, data)
        finally:
            client.stop()
            client.close()

    # -- what is seen

    def wait_until(self, condition: Callable[[Tree], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        before, since = -1, time.monotonic()
        while True:
            self._check()
            size = self._size()
            if size != before:
                before, since = size, time.monotonic()
            if time.monotonic() - since > QUIET_S and condition(tree_of(self)):
                return
            assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s: {what}\n{self._logs()}"
            time.sleep(POLL_S)

    def transactions(self) -> Sequence[ZnodeTransaction]:
        return read_transaction_logs(self._zookeeper.transaction_log_dir)

    def records(self) -> Mapping[str, Sequence[Envelope]]:
        by_node: dict[str, list[Envelope]] = {}
        for record in read([broker.events for broker in self._brokers.values() if broker.events.exists()]).records:
            by_node.setdefault(record.node, []).append(record)
        return {node: sorted(by_node[node], key=lambda record: (record.incarnation, record.seq)) for node in sorted(by_node)}

    # -- how

    def _ask(self, question: Callable[[AdminClient], Any], ports: Sequence[int] | None = None) -> Refused | None:
        async def ask() -> None:
            bootstrap = [f"127.0.0.1:{port}" for port in (self._ports() if ports is None else ports)]
            await question(AdminClient(SocketNetwork(), bootstrap))

        try:
            asyncio.run(ask())
        except ApiError as error:
            return Refused(str(error))
        return None

    def _ports(self) -> list[int]:
        tree = tree_of(self)
        return [json.loads(tree[path].data or b"")["port"] for path in sorted(tree) if path.startswith("/brokers/ids/")]

    def _port(self, broker: int) -> int:
        port: int = json.loads(tree_of(self)[f"/brokers/ids/{broker}"].data or b"")["port"]
        return port

    def _size(self) -> int:
        """Grows with everything that happens."""
        files = [path for broker in self._brokers.values() if broker.events.exists() for path in broker.events.iterdir()]
        return sum(path.stat().st_size for path in files) + len(self.transactions())

    def _process(self, broker: int) -> Any:
        process = self._brokers[broker].process
        assert process is not None
        return process

    def _check(self) -> None:
        for broker in self._brokers.values():
            if broker.should_live and broker.process is not None:
                broker.process.check()

    def _logs(self) -> str:
        return "\n".join(f"{b.name}:\n{b.process.log_tail(15)}" for b in self._brokers.values() if b.process is not None)
