"""Runs tools on a simulated ZooKeeper, in virtual time, without brokers."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.brokers.parts import StillClock
from tests.understudy.kafka_tools.test_command_lines import NoNetwork
from understudy.clusters.simulated.loop import new_loop
from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper
from understudy.clusters.simulated.zookeeper_client import NodeZooKeeper
from understudy.foundation.cluster.broker import Broker, EndPoint, SecurityProtocol
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.wire.network import Connection, Network
from understudy.foundation.zk.client import Create, Op
from understudy.foundation.zk.znodes import BrokerIdZNode
from understudy.kafka_tools.console import Console, Surroundings
from understudy.kafka_tools.tools import TOOLS

CONNECT = "zk:2181"


class Printed(NamedTuple):
    code: int
    out: str
    err: str


class _OpenPort(NoNetwork):
    """A network on which every port accepts connections, and nothing more."""

    async def connect(self, host: str, port: int, *, timeout_ms: int) -> Connection:  # type: ignore[override]  # the other network never returns
        return _Silent()


class _Silent:
    peer = "zk:2181"

    async def send(self, data: bytes) -> None:
        raise AssertionError("nothing is sent")

    async def receive(self) -> bytes:
        raise AssertionError("nothing is received")

    def close(self) -> None:
        pass


class ZooKeeperBed:
    """A simulated ZooKeeper with some znodes."""

    def __init__(self) -> None:
        self.loop = new_loop()
        self.server = SimulatedZooKeeper(self.loop, random=random.Random(1))
        self._runs = 0

    def make(self, *paths: str, data: bytes | None = None) -> None:
        """Create znodes with the same data, and the parents that are missing."""
        for path in paths:
            names = path.strip("/").split("/")
            for depth in range(1, len(names)):
                self._apply(Create("/" + "/".join(names[:depth])))
            self._apply(Create(path, data))

    def register(self, *brokers: int, racks: Iterable[str] = ()) -> None:
        """Register brokers."""
        for broker, rack in zip(brokers, [*racks, *[None] * len(brokers)], strict=False):
            endpoint = EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, f"h{broker}", 9092)
            described = Broker(id=BrokerId(broker), endpoints=(endpoint,), rack=rack)
            self.make(f"/brokers/ids/{broker}", data=BrokerIdZNode.encode(described, timestamp_ms=0))

    def data(self, path: str) -> str | None:
        """The data of a znode; None if there is no such znode."""
        found = self.server.tree.get(path)
        return None if not hasattr(found, "data") else found.data.decode()

    def _apply(self, op: Op) -> None:
        self.server.tree.transact([op], zxid=1, session_id=0)

    def run(self, tool: str, *words: str, lines: Iterable[str] = (), network: Network | None = None) -> Printed:
        """Run one command line to its end.

        Args:
            lines: of the standard input.
        """
        self._runs += 1
        left = iter(lines)

        async def read_line() -> bytes | None:
            line = next(left, None)
            return None if line is None else line.encode()

        def zookeeper(connect: str) -> NodeZooKeeper:
            _, slash, chroot = connect.partition("/")
            return NodeZooKeeper(self.server, f"tool-{self._runs}", session_timeout_ms=10_000, chroot=slash + chroot)

        out, err = io.StringIO(), io.StringIO()
        surroundings = Surroundings(
            Console(out, err, lambda: "[now]"), network or _OpenPort(), StillClock(), "1", read_line, zookeeper
        )
        code = self.loop.run_until_complete(TOOLS[tool].main(words, surroundings))
        assert self.loop.failures == []
        return Printed(code, out.getvalue(), err.getvalue())


@contextmanager
def zookeeper_bed() -> Iterator[ZooKeeperBed]:
    """A bed that is closed at the end of a block."""
    bed = ZooKeeperBed()
    try:
        yield bed
    finally:
        bed.loop.close()
