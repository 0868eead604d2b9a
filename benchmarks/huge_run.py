"""Writes the event logs of a run with very many partitions, in which one controller follows another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from understudy.foundation.eventlog.files import JsonLinesFiles
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    EventStarted,
    FaultInjected,
    LeaderAndIsrApplied,
    Leadership,
    LeadershipWritten,
    MetadataUpdated,
    ProcessStarted,
    RequestSent,
    ResponseReceived,
    WatchFiredRecord,
)

BROKERS = (1, 2, 3)
BATCH = 10_000
PER_TOPIC = 100


@dataclass
class _Clock:
    now_ms: float = 1000.0

    def monotonic_ms(self) -> float:
        return self.now_ms

    def wall_ms(self) -> float:
        return 1_700_000_000_000.0 + self.now_ms


def write_huge_run(folder: Path, *, partitions: int, controllers: int) -> None:
    """Write what the brokers of such a run would have written: each controller reads all states, and writes a third."""
    clock = _Clock()
    logs = {
        node: EventLog(run="huge", node=node, incarnation=1, clock=clock, write=JsonLinesFiles(folder, node).write)
        for node in ("testbed", *(f"broker-{broker}" for broker in BROKERS))
    }
    for node, log in logs.items():
        log.append(ProcessStarted(role="testbed" if node == "testbed" else "broker"))
    for broker in BROKERS:
        logs[f"broker-{broker}"].append(BrokerRegistered(broker_id=broker, broker_epoch=1, session_id=broker))
    states = [
        Leadership(f"topic-{number // PER_TOPIC}", number % PER_TOPIC, BROKERS[number % 3], 0, BROKERS, 0, 1)
        for number in range(partitions)
    ]
    for epoch in range(1, controllers + 1):
        controller = BROKERS[epoch % 3]
        states = _reign(logs, clock, states, controller, epoch)
        clock.now_ms += 5_000
        logs["testbed"].append(FaultInjected(fault="depose", target="/controller", role="controller"))
        clock.now_ms += 10


def _reign(
    logs: dict[str, EventLog], clock: _Clock, states: list[Leadership], controller: int, epoch: int
) -> list[Leadership]:
    own = logs[f"broker-{controller}"]
    for broker in BROKERS:
        logs[f"broker-{broker}"].append(WatchFiredRecord(path="/controller", kind="deleted"))
    event = own.append(EventStarted(event_id=epoch, event="Reelect", queued_ms=0.1))
    own.append(
        ControllerElected(broker_id=controller, epoch=epoch, epoch_zk_version=epoch, session_id=controller), cause=event
    )
    clock.now_ms += 1_000
    own.append(
        ContextLoaded(
            epoch=epoch, live_brokers=tuple((b, 1) for b in BROKERS), partitions=tuple(states), took_ms=1_000
        ),
        cause=event,
    )
    moved = [_moved(state, epoch) if number % 3 == epoch % 3 else state for number, state in enumerate(states)]
    changed = [after for before, after in zip(states, moved, strict=True) if before is not after]
    for begin in range(0, len(changed), BATCH):
        clock.now_ms += 20
        batch = tuple(changed[begin : begin + BATCH])
        own.append(LeadershipWritten(why="offline", partitions=batch), cause=event)
    for broker in BROKERS:
        sent = own.append(
            RequestSent(
                to=broker,
                api="UpdateMetadata",
                api_version=8,
                client_id=str(controller),
                correlation_id=epoch,
                controller_epoch=epoch,
                partitions=len(moved),
                event="Reelect",
            ),
            cause=event,
        )
        clock.now_ms += 100
        log = logs[f"broker-{broker}"]
        log.append(
            MetadataUpdated(
                controller_id=controller,
                request_controller_epoch=epoch,
                request_broker_epoch=1,
                live_brokers=BROKERS,
                partitions=tuple(moved),
            )
        )
        log.append(
            LeaderAndIsrApplied(
                controller_id=controller,
                request_controller_epoch=epoch,
                request_broker_epoch=1,
                leaders=tuple(state for state in changed if state.leader == broker),
                followers=tuple(state for state in changed if state.leader != broker),
                live_leaders=BROKERS,
            )
        )
        own.append(
            ResponseReceived(
                sender=broker, api="UpdateMetadata", client_id=str(controller), correlation_id=epoch, took_ms=100
            ),
            cause=sent,
        )
    own.append(
        ControllerReady(epoch=epoch, brokers=BROKERS, topics=len(moved) // PER_TOPIC, partitions=len(moved), took_ms=1),
        cause=event,
    )
    return moved


def _moved(state: Leadership, epoch: int) -> Leadership:
    leader = BROKERS[(BROKERS.index(state.leader) + 1) % 3]
    return Leadership(
        state.topic, state.partition, leader, state.leader_epoch + 1, BROKERS, state.partition_epoch + 1, epoch
    )
