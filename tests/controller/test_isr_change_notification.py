"""What leaders announce that write their ISRs themselves: read, passed on, and deleted whatever happens."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from controller.isr_change_notification import process_isr_change_notification
from controller.reassignment import partition_reassignment
from controller.term import Term
from foundation.cluster.identifiers import TopicPartition
from foundation.zk.client import Failure, SetData
from foundation.zk.kafka_zk_client import ControllerMoved, ZooKeeperFailure
from tests.controller.office import Office
from tests.controller.stage import Stage
from tests.controller.values import ids, led, tp

FOLDER = "/isr_change_notification/"
SHRUNK = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'


def announced(stage: Stage) -> list[str]:
    return [path.removeprefix(FOLDER) for path in stage.znodes() if path.startswith(FOLDER)]


def shrink(stage: Stage, *partitions: str) -> None:
    for name in partitions:
        partition = tp(name)
        path = f"/brokers/topics/{partition.topic}/partitions/{partition.partition}/state"
        stage.operator.run(stage.operator.client.write(SetData(path, SHRUNK)))


def announce(stage: Stage, *partitions: str) -> None:
    stage.operator.run(stage.operator.zk.isr_changes.propagate([tp(name) for name in partitions]))


@pytest.mark.spec("IS-18")
def test_changes_are_read_from_zookeeper_and_everybody_hears_of_those_partitions() -> None:
    with Stage() as stage:
        stage.start()
        stage.create_topic("orders", {0: [1, 2], 1: [1, 2], 2: [1, 2]})
        stage.forget()
        shrink(stage, "orders-0", "orders-1")
        announce(stage, "orders-0")
        stage.settle()
        told = "UMR E1 orders-0 1@0.1/1 [1] offline [] live [0, 1, 2]"
        assert [member.told() for member in stage.members.values()] == [[told]] * 3, (
            "the znodes know more; only this is announced"
        )
        assert announced(stage) == []
        stage.forget()
        announce(stage, "orders-1", "nobody-7")
        stage.settle()
        assert stage.member(2).told() == ["UMR E1 orders-1 1@0.1/1 [1] offline [] live [0, 1, 2]"], "the watch is armed again"
        assert announced(stage) == []


@pytest.mark.spec("IS-18")
def test_a_notification_nobody_can_read_is_deleted_with_the_others() -> None:
    with Stage() as stage:
        stage.start()
        stage.create_topic("orders", {0: [1, 2]})
        stage.forget()
        stage.write_znode(FOLDER + "isr_change_0000000007", b"?")
        assert announced(stage) == []
        assert [member.told() for member in stage.members.values()] == [[], [], []]
        assert stage.member(0).controller.is_active


class Scene(Office):
    """`orders-0` is known with the ISR 1, 2; its leader has shrunk it and says so."""

    def __init__(self) -> None:
        super().__init__({"orders": {0: [1, 2]}})

    def __enter__(self) -> Scene:
        super().__enter__()
        known = {tp("orders-0"): led(1, (1, 2)).leader_and_isr}
        self.run(self.term.zk.create_partition_states(known, 1, self.term.context.epoch_zk_version))
        self.term.accept(known, "initialise")
        shrink(self, "orders-0")
        announce(self, "orders-0")
        self.forget()
        return self


@pytest.mark.spec("IS-18", "RA-13")
def test_what_is_on_the_move_is_completed_with_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    async def maybe_complete(term: Term, partitions: Collection[TopicPartition]) -> None:
        seen.append((list(partitions), [term.context.leadership[partition].leader_and_isr.isr for partition in partitions]))

    monkeypatch.setattr(partition_reassignment, "maybe_complete", maybe_complete)
    with Scene() as office:
        office.term.context.partitions_being_reassigned.add(tp("orders-0"))
        office.run(process_isr_change_notification(office.term))
        assert seen == [([tp("orders-0")], [ids(1)])]


@pytest.mark.spec("IS-18")
def test_what_was_read_is_deleted_though_something_failed_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(term: Term, partitions: Collection[TopicPartition]) -> None:
        await office.term.zk.isr_changes.propagate([tp("orders-0")])  # a further one, which nobody has read
        raise ZooKeeperFailure(Failure.NO_AUTH, "/brokers/topics/orders")

    with Scene() as office:
        monkeypatch.setattr(partition_reassignment, "maybe_complete", fails)
        (read,) = announced(office)
        with pytest.raises(ZooKeeperFailure, match="orders: NoAuth"):
            office.run(process_isr_change_notification(office.term))
        (left,) = announced(office)
        assert left > read


@pytest.mark.spec("IS-18", "EL-13")
def test_a_deposed_controller_deletes_no_notification() -> None:
    with Scene() as office:
        office.depose()
        with pytest.raises(ControllerMoved):
            office.run(process_isr_change_notification(office.term))
        assert len(announced(office)) == 1
