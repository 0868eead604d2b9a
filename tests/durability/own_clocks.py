"""A cluster whose brokers each have a monotonic clock of their own, as on several machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from tests.durability.time_namespace import command_in_namespace
from understudy.clusters.processes.broker_process import BrokerProcess
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.foundation.eventlog.files import log_files


class BrokerWithClock(BrokerProcess):
    """A broker process in a time namespace.

    Attributes:
        ahead_s: by how many seconds its clock is ahead; read at each launch.
        ahead_of: the same for each incarnation that was launched, in order.
    """

    ahead_s = 0

    def __init__(self, broker_id: int, directory: Path, *, rack: str | None, properties: Mapping[str, str]) -> None:
        super().__init__(broker_id, directory, rack=rack, properties=properties, forked=False)
        self.ahead_of: list[int] = []

    def prepare(self) -> None:
        """Prepare nothing: the process has to be started in its namespace."""

    def launch(self) -> None:
        self.ahead_of.append(self.ahead_s)
        super().launch()

    def _command(self) -> list[str]:
        return command_in_namespace(self.ahead_s, super()._command())


class ClusterOfClocks(LocalCluster):
    """Three brokers: the first one and the testbed share a clock, and each of the others has one of its own."""

    def __init__(self, directory: Path) -> None:
        properties = {"understudy.faults.file": "faults.json"}
        super().__init__(3, directory=directory, session_timeout_ms=2_000, properties=properties, forked=False)

    def _process(self, broker_id: int, rack: str | None) -> BrokerProcess:
        folder = self.directory / f"broker-{broker_id}"
        broker = BrokerWithClock(broker_id, folder, rack=rack, properties=self._properties)
        broker.ahead_s = 1_000_000 * (broker_id - 1)
        return broker

    def clock(self, broker_id: int) -> BrokerWithClock:
        """Return the process of a broker, with its clock."""
        broker = self.process_of(broker_id)
        assert isinstance(broker, BrokerWithClock)
        return broker

    def ahead_s(self) -> dict[str, list[int]]:
        """Return by how many seconds the clock of each incarnation of each broker was ahead."""
        return {f"broker-{number}": self.clock(number).ahead_of for number in self.broker_ids}


def on_one_clock(run: Path, ahead_s: Mapping[str, list[int]], output: Path) -> None:
    """Write the event logs of a run with the times that one clock for all nodes would have given.

    Args:
        ahead_s: by how many seconds the clock of each incarnation of a node was ahead.
    """
    for folder in sorted(run.glob("*/events")):
        (output / folder.parent.name).mkdir(parents=True)
        for file in log_files(folder):
            ahead_ms = 1_000 * ahead_s[file.node][file.incarnation - 1] if file.node in ahead_s else 0
            lines = [_moved(line, ahead_ms) for line in file.path.read_bytes().splitlines()]
            (output / folder.parent.name / file.path.name).write_bytes(b"".join(lines))


def _moved(line: bytes, ahead_ms: int) -> bytes:
    record = msgspec.json.decode(line)
    record["mono_ms"] = round(record["mono_ms"] - ahead_ms, 3)
    if record["type"] == "ProcessStarted":
        record["data"]["boot"] = "one"
    return msgspec.json.encode(record) + b"\n"
