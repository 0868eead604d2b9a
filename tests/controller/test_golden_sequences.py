"""Recordings of Kafka's controller: the same writes for each znode, the same requests in the same order for each
broker.

The brokers of the harness only receive; requests of Apache Kafka's brokers and tools in the recording (AlterPartition,
ControlledShutdown, ElectLeaders) are sent here at the same place. Recordings of whole clusters are compared in
`tests/golden`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.controller.harness import ControllerHarness, ReceivedRequest
from understudy.checks.history import OpKind
from understudy.controller.events import ElectionType
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, BrokerId, TopicPartition
from understudy.foundation.wire.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest

RECORDINGS = Path(__file__).parent.parent / "golden"
SIX = {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1], 3: [0, 2, 1], 4: [1, 0, 2], 5: [2, 1, 0]}
NAMES = {
    LeaderAndIsrRequest: "LEADER_AND_ISR",
    UpdateMetadataRequest: "UPDATE_METADATA",
    StopReplicaRequest: "STOP_REPLICA",
}

Request = tuple[str, int, str, dict[str, Any], list[dict[str, Any]]]
"""Kind, version, client id, header, partitions."""


def recording(name: str) -> dict[str, dict[str, Any]]:
    """The steps of a recording by name."""
    return {step["step"]: step for step in json.loads((RECORDINGS / f"{name}.json").read_text())["steps"]}


# ------------------------------------------------------------------ requests


def camel(name: str) -> str:
    head, *tail = name.split("_")
    joined = head + "".join(word.capitalize() for word in tail)
    return {"isKraftController": "isKRaftController"}.get(joined, joined)


def as_recorded(value: object) -> Any:
    """One of our messages in the form of Kafka's request log."""
    if isinstance(value, msgspec.Struct):
        return {camel(name): as_recorded(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple):
        return [as_recorded(item) for item in value]
    return value


def normal(key: str, version: int, client: str, request: dict[str, Any]) -> Request:
    """Kind, header and sorted partitions; of values that the recording masks (ids, ports) only whether they exist."""
    partitions = []
    for topic in request["topicStates"]:
        for state in topic["partitionStates"]:
            entry = {name: value for name, value in state.items() if name != "topicName"}
            partitions.append(
                {"topic": topic["topicName"], "has id": topic.get("topicId", NO_TOPIC_ID) != NO_TOPIC_ID, **entry}
            )
    header: dict[str, Any] = {
        name: request[name] for name in ("controllerId", "controllerEpoch", "isKRaftController") if name in request
    }
    if key == "LEADER_AND_ISR":
        header["type"] = request["type"]
        header["liveLeaders"] = sorted(leader["brokerId"] for leader in request["liveLeaders"])
    if key == "UPDATE_METADATA":
        header["liveBrokers"] = sorted(broker["id"] for broker in request["liveBrokers"])
    return key, version, client, header, sorted(partitions, key=lambda entry: (entry["topic"], entry["partitionIndex"]))


def merged(requests: list[Request]) -> list[Request]:
    """Merge neighbouring requests of the same kind and header."""
    out: list[Request] = []
    for request in requests:
        if out and out[-1][:4] == request[:4]:
            together = [*out[-1][4], *request[4]]
            sorted_together = sorted(together, key=lambda entry: (entry["topic"], entry["partitionIndex"]))
            out[-1] = (*request[:4], sorted_together)
        else:
            out.append(request)
    return out


def recorded_requests(step: dict[str, Any], broker: int) -> list[Request]:
    sent = [s for s in step["requests"] if s["to"] == broker and s["key"] in NAMES.values()]
    return merged([normal(s["key"], s["version"], s["client"], s["request"]) for s in sent])


def our_requests(received: list[ReceivedRequest]) -> list[Request]:
    return merged(
        [normal(NAMES[type(h.message)], h.version, h.client_id or "", as_recorded(h.message)) for h in received]
    )


# ------------------------------------------------------------------ writes


def is_compared(path: str) -> bool:
    """Whether a path holds a state, an assignment or requested reassignments."""
    of_topic = path.startswith("/brokers/topics/") and (path.endswith("/state") or path.count("/") == 3)
    return of_topic or path == "/admin/reassign_partitions"


def without_id(data: Any) -> Any:
    """The recording masks topic ids."""
    return {name: value for name, value in data.items() if name != "topic_id"} if data else data


def recorded_writes(step: dict[str, Any]) -> dict[str, list[Any]]:
    """For each znode the data written, in order, each with its version; None if it was deleted."""
    writes: dict[str, list[Any]] = {}
    for txn in step["txns"]:
        for op in txn.get("multi", [txn]):
            if op["op"] in ("create", "setData") and is_compared(op["path"]):
                writes.setdefault(op["path"], []).append((op.get("version") or 0, without_id(op["data"])))
            elif op["op"] == "delete" and is_compared(op["path"]):
                writes.setdefault(op["path"], []).append(None)
    return writes


class Observation:
    """The writes and requests since it was created."""

    def __init__(self, harness: ControllerHarness) -> None:
        self.harness = harness
        self.first = len(harness.zookeeper.transactions)
        harness.clear_history()

    def writes(self) -> dict[str, list[Any]]:
        writes: dict[str, list[Any]] = {}
        for txn in self.harness.zookeeper.transactions[self.first :]:
            for op in txn.writes:
                if op.kind in (OpKind.CREATE, OpKind.SET) and is_compared(op.path):
                    writes.setdefault(op.path, []).append((op.version, without_id(json.loads(op.data or b""))))
                elif op.kind is OpKind.DELETE and is_compared(op.path):
                    writes.setdefault(op.path, []).append(None)
        return writes

    def must_equal(self, step: dict[str, Any], *, brokers: tuple[int, ...]) -> None:
        assert self.writes() == recorded_writes(step)
        for broker in brokers:
            assert our_requests(self.harness.broker(broker).received) == recorded_requests(step, broker), f"to {broker}"


# ------------------------------------------------------------------ the recorded AlterPartitions


def alter_partitions(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The accepted AlterPartitions, in order. The first after a takeover is still sent to the old controller."""
    for sent in step["requests"]:
        if sent["key"] == "ALTER_PARTITION" and sent["response"]["errorCode"] == 0:
            yield sent["request"]


def send_alter_partition(harness: ControllerHarness, controller: int, recorded: dict[str, Any]) -> None:
    """Send the recorded proposal of an ISR to the controller."""
    topic_id = harness.operator.run(harness.operator.zk.topics.assignments(["orders"]))["orders"].topic_id
    assert topic_id is not None
    partitions = tuple(
        AlterPartitionRequestPartitionData(
            partition_index=data["partitionIndex"],
            leader_epoch=data["leaderEpoch"],
            new_isr_with_epochs=tuple(
                AlterPartitionBrokerState(broker_id=m["brokerId"]) for m in data["newIsrWithEpochs"]
            ),
            leader_recovery_state=data["leaderRecoveryState"],
            partition_epoch=data["partitionEpoch"],
        )
        for topic in recorded["topics"]
        for data in topic["partitions"]
    )
    request = AlterPartitionRequest(
        broker_id=recorded["brokerId"],
        broker_epoch=harness.broker(recorded["brokerId"]).epoch,
        topics=(AlterPartitionRequestTopicData(topic_id=topic_id, partitions=partitions),),
    )
    broker = harness.broker(controller)
    response = broker.run(broker.controller.alter_partition(request, 3))
    assert response.error_code == 0
    assert all(data.error_code == 0 for topic in response.topics for data in topic.partitions)
    harness.settle()


# ------------------------------------------------------------------ the scenarios


@pytest.mark.spec("GT-1", "FO-8", "BR-12", "EL-5")
def test_startup() -> None:
    steps = recording("startup")
    with ControllerHarness(electable=(0, 1, 2), brokers=()) as harness:
        harness.operator.boot()
        harness.operator.run(harness.operator.open_session())
        for broker in (0, 1, 2):
            observed = Observation(harness) if broker else None
            harness.broker(broker).start()
            harness.settle()
            there = tuple(range(broker + 1))
            for one in there:
                assert our_requests(harness.broker(one).received) == recorded_requests(
                    steps[f"start broker {broker}"], one
                )
            assert observed is None or observed.writes() == {}


@pytest.mark.spec("GT-1", "PSM-5", "TC-11", "TC-12", "FO-5", "RSM-4")
def test_create_topic() -> None:
    steps = recording("create-topic")
    with ControllerHarness() as harness:
        harness.start()
        observed = Observation(harness)
        harness.create_topic("orders", {p: SIX[p] for p in range(4)})
        observed.must_equal(steps["create orders 4x3 by tool with a config"], brokers=(0, 1, 2))

        observed = Observation(harness)
        harness.write_znode("/brokers/topics/direct", b'{"version":1,"partitions":{"0":[0,1],"7":[2,0],"3":[1,2]}}')
        observed.must_equal(
            steps["create direct by writing the znode, partitions 0 3 7, version 1 without topic id"], brokers=(0, 1, 2)
        )
        rewritten = json.loads(harness.znodes()["/brokers/topics/direct"] or b"")
        assert rewritten["version"] == 3
        assert len(rewritten["topic_id"]) == 22

        observed = Observation(harness)
        harness.add_partitions("orders", SIX)
        observed.must_equal(steps["add partitions: orders to 6"], brokers=(0, 1, 2))


@pytest.mark.spec("GT-2", "GT-3", "BR-14", "BR-15", "RSM-6", "RSM-7", "IS-12", "IS-13")
def test_broker_killed() -> None:
    steps = recording("broker-killed")
    with ControllerHarness() as harness:
        harness.start()
        observed = Observation(harness)
        harness.create_topic("orders", SIX)
        observed.must_equal(steps["create orders"], brokers=(0, 1, 2))

        observed = Observation(harness)
        harness.broker(1).crash()
        observed.must_equal(steps["kill -9 broker 1"], brokers=(0, 2))

        observed = Observation(harness)
        harness.broker(1).start()
        harness.settle()
        for recorded in alter_partitions(steps["broker 1 returns"]):
            send_alter_partition(harness, 0, recorded)
        observed.must_equal(steps["broker 1 returns"], brokers=(0, 1, 2))


@pytest.mark.spec("GT-8", "GT-4", "FO-9", "FO-10", "PE-2", "PE-3", "PSM-14")
def test_controller_killed() -> None:
    steps = recording("controller-killed")
    # In the recording broker 2 won; here it is the only electable one left.
    with ControllerHarness(electable=(0, 2), brokers=(1,)) as harness:
        harness.start()
        harness.create_topic("orders", SIX)
        observed = Observation(harness)
        harness.broker(0).crash()
        observed.must_equal(steps["kill -9 broker 0, the controller"], brokers=(1, 2))

        observed = Observation(harness)
        harness.broker(0).start()
        harness.settle()
        for recorded in alter_partitions(steps["broker 0 returns"]):
            send_alter_partition(harness, 2, recorded)
        observed.must_equal(steps["broker 0 returns"], brokers=(0, 1, 2))

        observed = Observation(harness)
        broker = harness.broker(2)
        everything = [TopicPartition("orders", p) for p in SIX]
        results = broker.run(broker.controller.elect_leaders(everything, ElectionType.PREFERRED))
        harness.settle()
        elected = {partition.partition for partition, result in results.items() if isinstance(result, int)}
        assert elected == {0, 3}
        observed.must_equal(next(step for name, step in steps.items() if "preferred" in name), brokers=(0, 1, 2))


@pytest.mark.spec("GT-7", "CS-8", "CS-9", "CS-10", "CS-11", "CS-12", "PSM-15")
def test_controlled_shutdown() -> None:
    steps = recording("controlled-shutdown")
    leaving = next(step for name, step in steps.items() if "SIGTERM broker 1" in name)
    with ControllerHarness(electable=(0, 2), brokers=(1,)) as harness:
        harness.start()
        harness.create_topic("orders", SIX)
        observed = Observation(harness)
        controller = harness.broker(0)
        answer = controller.run(controller.controller.controlled_shutdown(BrokerId(1), harness.broker(1).epoch))
        assert answer == (Errors.NONE, ())
        harness.settle()
        sent = our_requests(harness.broker(1).received)
        harness.broker(1).crash()
        observed.must_equal(leaving, brokers=(0, 2))
        # The last StopReplica finds the broker gone; whether the recording has it is a matter of milliseconds.
        assert sent[: len(recorded_requests(leaving, 1))] == recorded_requests(leaving, 1)
        assert [request[0] for request in sent[len(recorded_requests(leaving, 1)) :]] in (
            [],
            ["STOP_REPLICA"],
            ["UPDATE_METADATA", "STOP_REPLICA"],
        )

        observed = Observation(harness)
        harness.broker(1).start()
        harness.settle()
        returns = next(step for name, step in steps.items() if "returns" in name)
        for recorded in alter_partitions(returns):
            send_alter_partition(harness, 0, recorded)
        observed.must_equal(returns, brokers=(0, 1, 2))

        observed = Observation(harness)
        answer = controller.run(controller.controller.controlled_shutdown(BrokerId(0), controller.epoch))
        assert answer == (Errors.NONE, ())
        harness.settle()
        controller.run(controller.controller.shutdown())
        controller.crash()
        observed.must_equal(steps["SIGTERM broker 0, the controller"], brokers=(1, 2))


@pytest.mark.spec("GT-5", "RA-8", "RA-10", "RA-11", "RA-12", "RA-14", "RA-16", "RA-18", "IS-13", "PSM-13", "CX-5")
def test_reassignment() -> None:
    steps = recording("reassignment")
    with ControllerHarness(electable=(0,), brokers=(1, 2, 3)) as harness:
        harness.start()
        observed = Observation(harness)
        harness.create_topic("orders", {p: SIX[p] for p in range(3)})
        observed.must_equal(steps["create orders"], brokers=(0, 1, 2, 3))

        moved = steps["execute: 0 to 3,1,2 and 1 to 2,3"]
        observed = Observation(harness)
        controller = harness.broker(0)
        asked = {
            TopicPartition("orders", 0): (BrokerId(3), BrokerId(1), BrokerId(2)),
            TopicPartition("orders", 1): (BrokerId(2), BrokerId(3)),
        }
        results = controller.run(controller.controller.alter_partition_reassignments(asked))
        assert results == dict.fromkeys(asked)
        harness.settle()
        for recorded in alter_partitions(moved):
            send_alter_partition(harness, 0, recorded)
        observed.must_equal(moved, brokers=(0, 1, 2, 3))

        reordered = steps["by writing /admin/reassign_partitions: reorder 2 to 1,2,0"]
        harness.broker(3).crash()
        observed = Observation(harness)
        asked_by_znode = b'{"version":1,"partitions":[{"topic":"orders","partition":2,"replicas":[1,2,0]}]}'
        harness.write_znode("/admin/reassign_partitions", asked_by_znode)
        observed.must_equal(reordered, brokers=(0, 1, 2))
