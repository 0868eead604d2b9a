"""Tests of `/isr_change_notification`: ISR changes that leaders wrote are read and sent, and notifications deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from tests.controller.harness import SETTINGS, ControllerHarness, TermHarness, answer_none
from tests.controller.requests import StateSent, UpdateMetadataSent
from tests.controller.values import ids, led, tp
from understudy.controller.events import ElectionType
from understudy.controller.isr_change_notification import process_isr_change_notification
from understudy.controller.reassignment import partition_reassignment
from understudy.controller.settings import ControllerSettings
from understudy.controller.term import Term
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.metadata_version import MetadataVersion
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.client import Failure, SetData
from understudy.foundation.zk.kafka_zk_client import ControllerMoved, ZooKeeperFailure

FOLDER = "/isr_change_notification/"
SHRUNK = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'


def announced(harness: ControllerHarness) -> list[str]:
    return [path.removeprefix(FOLDER) for path in harness.znodes() if path.startswith(FOLDER)]


def shrink(harness: ControllerHarness, *partitions: str) -> None:
    write(harness, SHRUNK, *partitions)


def expand(harness: ControllerHarness, *partitions: str) -> None:
    write(harness, SHRUNK.replace(b"[1]", b"[1,2]"), *partitions)


def write(harness: ControllerHarness, state: bytes, *partitions: str) -> None:
    for name in partitions:
        partition = tp(name)
        path = f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"
        harness.operator.run(harness.operator.client.write(SetData(path, state)))


def announce(harness: ControllerHarness, *partitions: str) -> None:
    harness.operator.run(harness.operator.zk.isr_changes.propagate([tp(name) for name in partitions]))


@pytest.mark.spec("IS-18")
def test_announced_isr_changes_are_read_and_sent_to_all() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2], 1: [1, 2], 2: [1, 2]})
        harness.clear_history()
        shrink(harness, "orders-0", "orders-1")
        announce(harness, "orders-0")
        harness.settle()
        update = UpdateMetadataSent(
            [StateSent(partition="orders-0", leader=1, isr=(1,), version=1)], live_brokers=[0, 1, 2]
        )
        assert [broker.requests() for broker in harness.brokers.values()] == [[update]] * 3, (
            "the znodes know more; only this is announced"
        )
        assert announced(harness) == []
        harness.clear_history()
        announce(harness, "orders-1", "unknown-7")
        harness.settle()
        assert harness.broker(2).requests() == [
            UpdateMetadataSent([StateSent(partition="orders-1", leader=1, isr=(1,), version=1)], live_brokers=[0, 1, 2])
        ], "the watch is armed again"
        harness.clear_history()
        announce(harness, "unknown-7")
        harness.settle()
        assert harness.broker(2).requests() == [UpdateMetadataSent([], live_brokers=[0, 1, 2])], "as from Kafka"
        assert announced(harness) == []


@pytest.mark.spec("IS-18")
def test_malformed_notification_is_deleted() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2]})
        harness.clear_history()
        harness.write_znode(FOLDER + "isr_change_0000000007", b"?")
        assert announced(harness) == []
        assert [broker.requests() for broker in harness.brokers.values()] == [[], [], []]
        assert harness.broker(0).controller.is_active


class LegacyLeaderHarness(TermHarness):
    """`orders-0` is known with the ISR 1, 2; its leader has shrunk and announced it."""

    def __init__(self) -> None:
        super().__init__({"orders": {0: [1, 2]}})

    def __enter__(self) -> LegacyLeaderHarness:
        super().__enter__()
        known = {tp("orders-0"): led(1, (1, 2)).leader_and_isr}
        self.run(self.term.zk.states.create(known, 1, self.term.context.epoch_zk_version))
        self.term.accept(known, "initialise")
        shrink(self, "orders-0")
        announce(self, "orders-0")
        self.clear_history()
        return self


@pytest.mark.spec("IS-18", "RA-13")
def test_announced_isr_change_completes_a_reassignment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    async def maybe_complete(term: Term, partitions: Collection[TopicPartition]) -> None:
        seen.append(
            (list(partitions), [term.context.leadership[partition].leader_and_isr.isr for partition in partitions])
        )

    monkeypatch.setattr(partition_reassignment, "maybe_complete", maybe_complete)
    with LegacyLeaderHarness() as harness:
        harness.term.context.partitions_being_reassigned.add(tp("orders-0"))
        harness.run(process_isr_change_notification(harness.term))
        assert seen == [([tp("orders-0")], [ids(1)])]


@pytest.mark.spec("IS-18")
def test_notifications_are_deleted_although_processing_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(term: Term, partitions: Collection[TopicPartition]) -> None:
        await harness.term.zk.isr_changes.propagate([tp("orders-0")])  # one more, which has not been read
        raise ZooKeeperFailure(Failure.NO_AUTH, "/brokers/topics/orders")

    with LegacyLeaderHarness() as harness:
        monkeypatch.setattr(partition_reassignment, "maybe_complete", fails)
        (read,) = announced(harness)
        with pytest.raises(ZooKeeperFailure, match="orders: NoAuth"):
            harness.run(process_isr_change_notification(harness.term))
        (left,) = announced(harness)
        assert left > read


@pytest.mark.spec("IS-18", "EL-13")
def test_deposed_controller_deletes_no_notification() -> None:
    with LegacyLeaderHarness() as harness:
        harness.depose()
        with pytest.raises(ControllerMoved):
            harness.run(process_isr_change_notification(harness.term))
        assert len(announced(harness)) == 1


OLD_PROTOCOL = replace(SETTINGS, inter_broker_protocol_version=MetadataVersion.parse("2.6"))


def respond_without_partitions(message: Message) -> Message:
    return LeaderAndIsrResponse() if isinstance(message, LeaderAndIsrRequest) else answer_none(message)


def expand_without_announcement(harness: ControllerHarness, replicas: Sequence[int] = (1, 2)) -> None:
    """Create `orders-0` with broker 2 in sync in ZooKeeper but not in memory: its return is not announced."""
    for broker in harness.brokers.values():
        broker.answer = respond_without_partitions
    harness.start()
    harness.create_topic("orders", {0: replicas})
    shrink(harness, "orders-0")
    announce(harness, "orders-0")
    harness.settle()
    expand(harness, "orders-0")
    harness.clear_history()


@pytest.mark.spec("IS-16", "PSM-9")
@pytest.mark.parametrize("settings", [OLD_PROTOCOL, SETTINGS], ids=["old protocol", "old leader, new controller"])
def test_leader_fails_before_announcing_its_isr(settings: ControllerSettings) -> None:
    with ControllerHarness(settings=settings) as harness:
        expand_without_announcement(harness)
        harness.broker(1).crash()
        assert harness.state("orders", 0) == led(2, (2,), epoch=1, version=3, by=1)


@pytest.mark.spec("IS-16", "RSM-7")
def test_follower_fails_before_its_leader_announced_the_isr() -> None:
    with ControllerHarness(settings=OLD_PROTOCOL) as harness:
        expand_without_announcement(harness)
        harness.broker(2).crash()
        assert harness.state("orders", 0) == led(1, (1,), epoch=1, version=3, by=1)


@pytest.mark.spec("IS-16", "CS-9")
def test_leader_shuts_down_before_announcing_its_isr() -> None:
    with ControllerHarness(settings=OLD_PROTOCOL) as harness:
        expand_without_announcement(harness)
        controller = harness.broker(0)
        remaining = controller.run(controller.controller.controlled_shutdown(BrokerId(1), harness.broker(1).epoch))
        assert remaining == (Errors.NONE, ())
        assert harness.state("orders", 0) == led(2, (2,), epoch=1, version=3, by=1)


@pytest.mark.spec("IS-16", "PSM-14")
def test_preferred_election_before_the_isr_was_announced() -> None:
    with ControllerHarness(settings=OLD_PROTOCOL) as harness:
        expand_without_announcement(harness, replicas=(2, 1))
        controller = harness.broker(0)
        elected = controller.run(controller.controller.elect_leaders([tp("orders-0")], ElectionType.PREFERRED))
        assert elected == {tp("orders-0"): BrokerId(2)}
