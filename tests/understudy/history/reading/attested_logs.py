"""Event logs as today's brokers and testbeds begin and end them: their ends are attested by other records."""

from __future__ import annotations

from typing import Any

from tests.foundation.eventlog.lines import Logs
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    ControllerElected,
    ControllerReady,
    FaultInjected,
    LogSeen,
    Payload,
    ProcessExiting,
    ProcessStarted,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    RunDescribed,
    StepReached,
    ZkWrite,
    ZkWriteDone,
)


class Cluster(Logs):
    """The logs of three brokers and their testbed, as today's writers begin and end them.

    Args:
        boot: what identifies the monotonic clock; empty in older logs, which do not have the record before either.
        has_testbed: whether there is a testbed.
    """

    def __init__(self, *, boot: str = "boot-1", has_testbed: bool = True) -> None:
        super().__init__()
        self.boot = boot
        self.has_testbed = has_testbed
        self.incarnations: dict[str, int] = {}
        self.registrations: dict[int, int] = {}
        self.requests: dict[tuple[int, int], int] = {}

    def start(self, ms: float, node: str) -> None:
        """Start the next incarnation of a node. A broker has the number of its start and its id in its epoch."""
        before = self.incarnations.get(node, 0)
        self.incarnations[node] = before + 1
        written = self.lines.get(f"{node}-{before:04d}-0001.jsonl", [])
        is_new = bool(self.boot)
        broker = -1 if node == "testbed" else int(node[-1])
        started = ProcessStarted(
            role="testbed" if broker < 0 else "broker",
            broker_id=broker,
            pid=1,
            boot=self.boot,
            after_seq=len(written) if is_new else 0,
            has_testbed=self.has_testbed and is_new,
        )
        self.write(ms, node, started)
        if broker > 0:
            self.registrations[broker] = 10 * (before + 1) + broker
            registered = BrokerRegistered(broker_id=broker, broker_epoch=self.registrations[broker], session_id=1)
            self.write(ms + 1, node, registered)

    def write(self, ms: float, node: str, payload: Payload, *, cause: int | None = None) -> int:
        return self.at(ms, node, payload, cause=cause, incarnation=self.incarnations[node])

    def elect(self, ms: float, broker: int, epoch: int, brokers: tuple[int, ...] = (1, 2, 3)) -> None:
        node = f"broker-{broker}"
        write = ZkWrite(purpose="election", paths=("/controller",), operations=2, fenced=False)
        seq = self.write(ms, node, write)
        self.write(ms, node, ZkWriteDone(outcome="Ok"), cause=seq)
        self.node(node, self.incarnations[node]).saw_controller_epoch(epoch)
        elected = ControllerElected(broker_id=broker, epoch=epoch, epoch_zk_version=epoch, session_id=1)
        self.write(ms, node, elected)
        self.write(ms + 1, node, ControllerReady(epoch=epoch, brokers=brokers, topics=0, partitions=0, took_ms=1))

    def ask(self, ms: float, sender: int, to: int, epoch: int) -> None:
        """Send a request from a controller to a broker, which answers in a millisecond."""
        number = self.requests[epoch, to] = self.requests.get((epoch, to), -1) + 1
        request: dict[str, Any] = {
            "api": "UpdateMetadata",
            "api_version": 8,
            "client_id": str(sender),
            "correlation_id": number,
            "controller_epoch": epoch,
            "broker_epoch": self.registrations[to],
        }
        seq = self.write(ms, f"broker-{sender}", RequestSent(to=to, **request))
        self.node(f"broker-{to}", self.incarnations[f"broker-{to}"]).saw_controller_epoch(epoch)
        self.write(ms + 0.5, f"broker-{to}", RequestReceived(**request))
        answer = ResponseReceived(sender=to, api="UpdateMetadata", client_id=str(sender), correlation_id=number)
        self.write(ms + 1, f"broker-{sender}", answer, cause=seq)

    def end(self, ms: float) -> None:
        """End the testbed, which sees the logs of all brokers."""
        for node, incarnation in self.incarnations.items():
            if node != "testbed":
                seq = len(self.lines[f"{node}-{incarnation:04d}-0001.jsonl"])
                self.write(ms, "testbed", LogSeen(node=node, incarnation=incarnation, seq=seq))
        self.write(ms, "testbed", ProcessExiting(reason="stopped"))


def failover(*, boot: str = "boot-1", has_testbed: bool = True) -> Cluster:
    """Broker 1 is the controller and is killed at 3 s; broker 2 follows it, and broker 1 starts again at 5 s.

    All times are after the first record, which is at 1000 ms. Broker 3 is stopped at 7 s.
    """
    logs = Cluster(boot=boot, has_testbed=has_testbed)
    if has_testbed:
        logs.start(1000, "testbed")
        logs.write(1000, "testbed", RunDescribed(world="processes", brokers=3))
    for broker in (1, 2, 3):
        logs.start(1100, f"broker-{broker}")
    logs.elect(1200, 1, 1)
    logs.ask(1298, 1, 2, 1)
    logs.ask(1300, 1, 3, 1)
    if has_testbed:
        logs.write(4000, "testbed", FaultInjected(fault="kill", target="broker-1", role="controller"))
    logs.elect(5000, 2, 2, (2, 3))
    logs.ask(5100, 2, 3, 2)
    logs.start(6000, "broker-1")
    logs.ask(6100, 2, 1, 2)
    if has_testbed:
        logs.write(8000, "testbed", FaultInjected(fault="stop", target="broker-3"))
    logs.write(8100, "broker-3", ProcessExiting(reason="SIGTERM"))
    logs.write(9000, "broker-2", StepReached(step="the last record of a broker"))
    if has_testbed:
        logs.end(9500)
    return logs
