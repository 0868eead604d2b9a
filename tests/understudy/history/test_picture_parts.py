"""Which parts of the picture a record proves something about."""

from __future__ import annotations

import pytest

from tests.understudy.checks.histories import envelope
from understudy.foundation.eventlog.record_types.base import Leadership
from understudy.foundation.eventlog.record_types.groups import AssignedMember
from understudy.foundation.eventlog.records import (
    ClientConnection,
    ClientLogged,
    ClientRequestBegan,
    ContextLoaded,
    ControllerElected,
    FaultInjected,
    FenceHit,
    GroupAssigned,
    HighWatermarkChanged,
    IsrProposed,
    LeadershipWritten,
    MemberTransition,
    Payload,
    ProcessStarted,
    RequestReceived,
    RequestSent,
    StepReached,
    WatchFiredRecord,
    ZkWrite,
)
from understudy.history.picture_parts import PLACES, link_to, parts_of

WRITTEN = LeadershipWritten(why="offline", partitions=(Leadership("orders", 3, -1, 1, (2,), 1, 1),))
PROPOSED = IsrProposed(
    topic="orders", partition=0, leader_epoch=0, partition_epoch=0, isr=(1, 2), joining=(), leaving=(3,),
    leader_end_offset=5, follower_end_offsets=(),
)  # fmt: skip
RAISED = HighWatermarkChanged(
    topic="orders", topic_id="", partition=0, role="leader", leader_epoch=0, high_watermark=3, log_end_offset=5
)
STATE = "/brokers/topics/orders/partitions/0/state"
WRITE = ZkWrite(purpose="leader-and-isr", paths=("/controller", STATE), operations=2, fenced=True)
SENT = RequestSent(to=2, api="LeaderAndIsr", api_version=7, client_id="1", correlation_id=1)
RECEIVED = RequestReceived(api="LeaderAndIsr", api_version=7, client_id="4", correlation_id=1)
PRODUCED = RequestReceived(api="Produce", api_version=7, client_id="producer-1", correlation_id=1)
ASSIGNED = GroupAssigned(
    group="readers", partition=0, generation=1, protocol_type="consumer", protocol="range", leader="a",
    members=(AssignedMember("a-1", "", "a", ()),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (WRITTEN, ["isr:orders-3", "replica:broker-2:orders-3"]),
        (PROPOSED, ["replica:broker-3:orders-0", "replica:broker-1:orders-0", "isr:orders-0"]),
        (RAISED, ["high-watermark:broker-1:orders-0", "replica:broker-1:orders-0"]),
        (WRITE, ["znode:/controller", "isr:orders-0", "process:broker-1"]),
        (SENT, ["request:broker-1:broker-2", "process:broker-1"]),
        (RECEIVED, ["request:broker-4:broker-1", "process:broker-1"]),
        (PRODUCED, ["process:broker-1"]),
        (ASSIGNED, ["group:broker-1:readers", "member:readers:a"]),
        (FenceHit(fence="kip-380", what="2", offered=-1, known=-1), ["fence:broker-1", "process:broker-1"]),
        (WatchFiredRecord(path="/brokers/ids", kind="children"), ["znode:/brokers/ids", "process:broker-1"]),
        (WatchFiredRecord(path="/brokers/topics", kind="children"), ["process:broker-1"]),
        (
            ControllerElected(broker_id=1, epoch=2, epoch_zk_version=2, session_id=1),
            ["znode:/controller", "process:broker-1", "znode:/controller_epoch"],
        ),
        (ContextLoaded(epoch=1, live_brokers=(), partitions=(), took_ms=1.0), ["process:broker-1"]),
    ],
)
def test_a_record_of_a_broker_proves_something_about(data: Payload, parts: list[str]) -> None:
    assert list(parts_of(envelope(data))) == parts
    assert all(name.partition(":")[0] in PLACES for name in parts)


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("broker-2", ["process:broker-2", "session:broker-2"]),
        ("zookeeper", ["process:zookeeper"]),
        ("broker-3 -> broker-1", ["link:broker-3:broker-1", "process:broker-3", "process:broker-1"]),
        ("broker-3 -> zookeeper", ["link:broker-3:zookeeper", "process:broker-3", "process:zookeeper"]),
    ],
)
def test_a_fault_is_shown_at_its_target(target: str, parts: list[str]) -> None:
    assert list(parts_of(envelope(FaultInjected(fault="cut", target=target), node="testbed"))) == parts


def test_a_record_of_a_testbed_may_prove_nothing_in_the_picture() -> None:
    assert parts_of(envelope(StepReached(step="load"), node="testbed")) == ()


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (ProcessStarted(role="client"), ["client:shop"]),
        (ClientLogged(level="INFO", logger="shop", text="open"), ["client:shop"]),
        (ClientConnection(client_id="one", broker="broker-1", state="connecting"), ["client:shop"]),
        (ClientRequestBegan(api="Metadata", client_id="one", broker="broker-1"), ["client:shop"]),
        (
            MemberTransition(
                client_id="one",
                group="readers",
                member_id="",
                target="PREPARING_REBALANCE",
                generation=-1,
                coordinator=-1,
                partitions=(),
            ),
            ["client:shop", "member:readers:one"],
        ),
    ],
)
def test_a_record_of_a_client_is_shown_on_the_card_of_its_process(data: Payload, parts: list[str]) -> None:
    assert list(parts_of(envelope(data, node="shop"))) == parts


def test_the_start_of_a_testbed_is_shown_nowhere() -> None:
    assert parts_of(envelope(ProcessStarted(role="testbed"), node="testbed")) == ()


def test_a_link_has_the_record_and_each_part_that_it_proves() -> None:
    link = link_to(envelope(RAISED))
    assert link.startswith("#at=broker-1.")
    assert link.endswith("&show=high-watermark:broker-1:orders-0&show=replica:broker-1:orders-0")
