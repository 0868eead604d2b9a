"""Event logs of several machines for tests: generated ones with true clocks, and changed ones of one machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import (
    Envelope,
    LogSeen,
    Payload,
    ProcessExiting,
    ProcessStarted,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    ResponseSent,
    RunDescribed,
    ZkWrite,
    ZkWriteDone,
)
from understudy.history.reading.clocks import Incarnation
from understudy.history.reading.lines import decode_record

WALL_MS = 1_700_000_000_000.0


@dataclass
class Machine:
    """The clocks of one boot of a machine.

    Attributes:
        origin_ms: the monotonic clock when the run begins.
        drift: the fraction by which it runs too fast.
        wall_error_ms: by how much its wall clock is ahead.
    """

    name: str
    boot: str
    origin_ms: float = 0.0
    drift: float = 0.0
    wall_error_ms: float = 0.0
    now_ms: float = 0.0

    def monotonic_ms(self) -> float:
        return self.at(self.now_ms)

    def wall_ms(self) -> float:
        return WALL_MS + self.now_ms + self.wall_error_ms

    def at(self, true_ms: float) -> float:
        """Return the monotonic clock at a time of the run."""
        return self.origin_ms + true_ms * (1 + self.drift)


@dataclass
class MachinesRun:
    """A run whose records are written at true times by the clocks of several machines.

    Records are collected with their times and written by `lines`, so that their times may come in any order.
    """

    machines: dict[Incarnation, Machine] = field(default_factory=dict)
    has_boots: bool = True
    has_testbed: bool = False
    _written: list[tuple[float, int, Incarnation, Payload, int | None, int]] = field(default_factory=list)

    def start(self, node: str, incarnation: int, machine: Machine, true_ms: float) -> None:
        self.machines[node, incarnation] = machine
        boot, name = (machine.boot, machine.name) if self.has_boots else ("", "")
        role = "testbed" if node == "testbed" else "broker"
        has_testbed = self.has_testbed and role == "broker"
        self.write(
            true_ms, node, ProcessStarted(role=role, machine=name, boot=boot, has_testbed=has_testbed), incarnation
        )

    def write(
        self, true_ms: float, node: str, data: Payload, incarnation: int = 1, *, cause: int | None = None, zxid: int = 0
    ) -> int:
        """Write a record, and return a number for it that later records may have as their cause."""
        self._written.append((true_ms, len(self._written), (node, incarnation), data, cause, zxid))
        return len(self._written) - 1

    def lines(self) -> dict[str, list[bytes]]:
        """Return the lines of each file."""
        files: dict[str, list[bytes]] = {}
        logs: dict[Incarnation, EventLog] = {}
        numbers: dict[int, int] = {}
        for true_ms, number, name, data, cause, zxid in sorted(self._written, key=lambda one: one[:2]):
            machine = self.machines[name]
            machine.now_ms = true_ms
            if name not in logs:
                lines = files.setdefault(f"{name[0]}-{name[1]:04d}-0001.jsonl", [])
                logs[name] = EventLog(run="run-1", node=name[0], incarnation=name[1], clock=machine, write=lines.append)
            logs[name].saw_zxid(zxid)
            numbers[number] = logs[name].append(data, cause=None if cause is None else numbers[cause])
        return files

    # -- what nodes do

    def exchange(
        self,
        controller: str,
        broker: int,
        correlation_id: int,
        sent_ms: float,
        delays: Iterable[float],
        incarnation: int = 1,
    ) -> None:
        """Send a control request to an incarnation of a broker, which answers it.

        Args:
            delays: the times on the way, until the answer, and on the way back.
        """
        there, processing, back = delays
        node = f"broker-{broker}"
        api, epoch = "UpdateMetadata", 10 * broker + incarnation
        request = RequestSent(
            to=broker,
            api=api,
            api_version=8,
            client_id=controller,
            correlation_id=correlation_id,
            controller_epoch=1,
            broker_epoch=epoch,
        )
        receipt = RequestReceived(
            api=api,
            api_version=8,
            client_id=controller,
            correlation_id=correlation_id,
            controller_epoch=1,
            broker_epoch=epoch,
        )
        answer = ResponseSent(api=api, client_id=controller, correlation_id=correlation_id)
        answered = ResponseReceived(sender=broker, api=api, client_id=controller, correlation_id=correlation_id)
        sent = self.write(sent_ms, controller, request)
        received = self.write(sent_ms + there, node, receipt, incarnation)
        self.write(sent_ms + there + processing, node, answer, incarnation, cause=received)
        self.write(sent_ms + there + processing + back, controller, answered, cause=sent)

    def transact(self, node: str, zxid: int, began_ms: float, took_ms: float, observers: Mapping[str, float]) -> None:
        """Write to ZooKeeper; observers write a record with its zxid some time after its commit."""
        written = ZkWrite(purpose="topic", paths=("/brokers/topics/a",), operations=1, fenced=False)
        began = self.write(began_ms, node, written)
        done_ms = began_ms + took_ms
        self.write(done_ms, node, ZkWriteDone(outcome="Ok", zxid=zxid), cause=began, zxid=zxid)
        for observer, after_ms in observers.items():
            self.write(began_ms + took_ms / 2 + after_ms, observer, ZkWriteDone(outcome="NodeExists"), zxid=zxid)


def random_run(seed: int, *, has_boots: bool = True, seconds: float = 60.0) -> MachinesRun:
    """Return a run of up to six brokers on up to four machines, whose clocks have origins and drifts of their own."""
    draw = random.Random(seed)
    run = MachinesRun(has_boots=has_boots, has_testbed=draw.random() < 0.5)
    machines = [
        Machine(
            f"host-{number}",
            f"boot-{number}",
            origin_ms=draw.uniform(0, 2_000_000) + 4_000_000 * number,
            drift=draw.uniform(-0.0005, 0.0005),
            wall_error_ms=draw.uniform(-400, 400),
        )
        for number in range(draw.randint(2, 4))
    ]
    end_ms = seconds * 1000
    brokers = draw.randint(3, 6)
    for broker in range(1, brokers + 1):
        run.start(f"broker-{broker}", 1, machines[broker % len(machines)], draw.uniform(1, 500))
    quiet = draw.choice([0, brokers])
    # A broker that exchanges nothing with others, except through ZooKeeper.
    for correlation_id in range(draw.randint(2, 80)):
        to = draw.randint(2, brokers)
        if to != quiet:
            delays = [draw.expovariate(1 / draw.choice([0.2, 5, 50])) for _ in range(3)]
            run.exchange("broker-1", to, correlation_id, draw.uniform(600, end_ms - 5_000), delays)
    times = sorted(draw.uniform(600, end_ms - 5_000) for _ in range(draw.randint(0, 30)))
    for zxid, began_ms in enumerate(times, 100):
        observers = {f"broker-{draw.randint(1, brokers)}": draw.expovariate(1 / 20)}
        run.transact(f"broker-{draw.randint(1, brokers)}", zxid, began_ms, draw.uniform(0.1, 3), observers)
    for broker in range(1, brokers + 1):
        run.write(end_ms, f"broker-{broker}", ProcessExiting(reason="the run is over"))
    if run.has_testbed:
        run.start("testbed", 1, draw.choice(machines), 0.0)
        run.write(0.1, "testbed", RunDescribed())
        for broker in range(1, brokers + 1):
            run.write(end_ms + draw.uniform(10, 500), "testbed", LogSeen(node=f"broker-{broker}", incarnation=1, seq=1))
    return run


def on_one_machine(draw: int = 1) -> list[Envelope]:
    """Return the records of a simulated failover, by one clock, with the `ProcessStarted` of each incarnation."""
    with SimulatedCluster(seed=draw, brokers=4) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=6, replication_factor=3)
        cluster.run_for(2.0)
        controller = cluster.controller()
        controller.kill()
        cluster.run_for(8.0)
        controller.start()
        cluster.settle()
    return [decode_record(line) for line in cluster.log_lines]


def moved(
    records: Iterable[Envelope],
    clock_ms: Callable[[str, float], float],
    boot_of: Callable[[str, int], str],
    wall_ms: Callable[[str, float], float] | None = None,
) -> dict[str, list[bytes]]:
    """Return the lines of records by other clocks.

    Args:
        clock_ms: returns the clock of a node at a time by the clock of the given records.
        boot_of: returns the boot of an incarnation.
        wall_ms: the same for its wall clock; by default it is right.
    """
    files: dict[str, list[bytes]] = {}
    encoder = msgspec.json.Encoder()
    numbered: dict[Incarnation, int] = {}
    for record in sorted(records, key=lambda record: (record.node, record.incarnation, record.seq)):
        name = (record.node, record.incarnation)
        lines = files.setdefault(f"{record.node}-{record.incarnation:04d}-0001.jsonl", [])
        data = record.data
        boot = boot_of(*name)
        now_ms = record.mono_ms
        wall = WALL_MS + now_ms if wall_ms is None else wall_ms(record.node, now_ms)
        times = {"mono_ms": round(clock_ms(record.node, now_ms), 3), "wall_ms": round(wall, 3)}
        if isinstance(data, ProcessStarted):
            data = msgspec.structs.replace(data, boot=boot)
        elif name not in numbered:
            # The simulator writes no `ProcessStarted`.
            started = ProcessStarted(role="broker", boot=boot)
            first = msgspec.structs.replace(record, seq=1, type="ProcessStarted", data=started, cause=None, **times)
            lines.append(encoder.encode(first) + b"\n")
            numbered[name] = 1
        more = numbered.setdefault(name, 0)
        cause = None if record.cause is None else record.cause + more
        replaced = msgspec.structs.replace(record, seq=record.seq + more, cause=cause, data=data, **times)
        lines.append(encoder.encode(replaced) + b"\n")
    return files
