"""Tests of AlterPartition at the controller: verdicts on proposals, writes, responses."""

from __future__ import annotations

import pytest

from tests.controller.harness import ControllerHarness
from tests.controller.requests import StateSent, UpdateMetadataSent
from tests.controller.values import ids, state
from understudy.clusters.simulated.zookeeper import LostAnswer
from understudy.controller.alter_partition import Accept, AlreadySo, Verdict, verdict
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicId
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.eventlog.records import ControllerResigned, FenceHit, LeadershipWritten
from understudy.foundation.wire.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
)
from understudy.foundation.zk.transactions import MAX_LOST_ANSWERS

LIVE = ids(1, 2, 3)
CURRENT = state(1, (1, 2), epoch=5, version=9)


@pytest.mark.spec("IS-10", "IS-11")
@pytest.mark.parametrize(
    ("proposed", "expected"),
    [
        (state(1, (1, 2, 3), epoch=5, version=9), Accept()),
        (state(1, (1,), epoch=5, version=9), Accept()),
        # the leader has a newer epoch, so another broker is controller
        (state(1, (1, 2, 3), epoch=5, version=10), Errors.NOT_CONTROLLER),
        (state(1, (1, 2, 3), epoch=6, version=9), Errors.NOT_CONTROLLER),
        (state(1, (1, 2, 3), epoch=4, version=10), Errors.NOT_CONTROLLER),
        (state(1, (1, 2, 3), epoch=4, version=9), Errors.FENCED_LEADER_EPOCH),
        (state(1, (1, 2, 3), epoch=4, version=8), Errors.FENCED_LEADER_EPOCH),
        # the state is as proposed already; its partition epoch does not matter
        (state(1, (1, 2), epoch=5, version=9), AlreadySo()),
        (state(1, (1, 2), epoch=5, version=3), AlreadySo()),
        (state(1, (1, 2, 3), epoch=5, version=8), Errors.INVALID_UPDATE_VERSION),
        (state(1, (2, 1), epoch=5, version=8), Errors.INVALID_UPDATE_VERSION),
        # recovery
        (state(1, (1, 2), epoch=5, version=9, recovering=True), Errors.INVALID_REQUEST),
        (state(1, (1,), epoch=5, version=9, recovering=True), Errors.INVALID_REQUEST),
        # replicas that may not join
        (state(1, (1, 2, 4), epoch=5, version=9), Errors.INELIGIBLE_REPLICA),
        # beyond Kafka: the sender must be leader and in its own ISR
        (state(2, (1, 2, 3), epoch=5, version=9), Errors.INVALID_REQUEST),
        (state(1, (2, 3), epoch=5, version=9), Errors.INVALID_REQUEST),
        (state(1, (), epoch=5, version=9), Errors.INVALID_REQUEST),
    ],
)
def test_verdict(proposed: LeaderAndIsr, expected: Verdict) -> None:
    assert verdict(CURRENT, proposed, LIVE, 3) == expected


@pytest.mark.spec("IS-10")
def test_verdict_without_leadership_and_for_old_versions() -> None:
    proposed = state(1, (1, 2, 4), epoch=5, version=9)
    assert verdict(None, proposed, LIVE, 3) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert verdict(CURRENT, proposed, LIVE, 1) is Errors.OPERATION_NOT_ATTEMPTED


@pytest.mark.spec("IS-10", "IS-19")
def test_verdict_on_recovering_leaders() -> None:
    recovering = state(1, (1,), epoch=5, version=9, recovering=True)
    assert verdict(recovering, state(1, (1,), epoch=5, version=9), LIVE, 3) == Accept()
    assert verdict(recovering, state(1, (1, 2), epoch=5, version=9, recovering=True), LIVE, 3) is Errors.INVALID_REQUEST
    assert verdict(recovering, recovering, LIVE, 3) == AlreadySo()


# ------------------------------------------------------------------ in a cluster


class AlterPartitionHarness(ControllerHarness):
    """Topic orders: 0 led by 1 with [1, 2], 1 led by 2 with [2, 0]; broker 0 is controller."""

    def __enter__(self) -> AlterPartitionHarness:
        super().__enter__()
        self.start()
        self.create_topic("orders", {0: [1, 2], 1: [2, 0]})
        assigned = self.operator.run(self.operator.zk.topics.assignments(["orders"]))["orders"]
        assert assigned.topic_id is not None
        self.topic_id = assigned.topic_id
        self.clear_history()
        return self

    def ask(
        self,
        broker: int,
        *proposals: AlterPartitionRequestPartitionData,
        version: int = 3,
        epoch: int | None = None,
        topic_id: TopicId | None = None,
        at: int = 0,
    ) -> AlterPartitionResponse:
        topic = AlterPartitionRequestTopicData(
            topic_id=topic_id or self.topic_id, topic_name="orders", partitions=proposals
        )
        request = AlterPartitionRequest(
            broker_id=broker,
            broker_epoch=self.brokers[broker].epoch if epoch is None else epoch,
            topics=(topic,),
        )
        member = self.broker(at)
        response = member.run(member.controller.alter_partition(request, version))
        self.settle()
        return response


def proposal(
    partition: int, isr: tuple[int, ...], *, epoch: int = 0, version: int = 0
) -> AlterPartitionRequestPartitionData:
    return AlterPartitionRequestPartitionData(
        partition_index=partition,
        leader_epoch=epoch,
        partition_epoch=version,
        new_isr=isr,
        new_isr_with_epochs=tuple(AlterPartitionBrokerState(broker_id=id_) for id_ in isr),
    )


def errors(response: AlterPartitionResponse) -> list[tuple[int, Errors]]:
    return [(p.partition_index, Errors(p.error_code)) for topic in response.topics for p in topic.partitions]


@pytest.mark.spec("IS-12", "IS-13", "IS-15")
def test_accepted_isr_is_written_sent_to_all_and_returned() -> None:
    with AlterPartitionHarness() as harness:
        response = harness.ask(1, proposal(0, (1,)))
        (topic,) = response.topics
        (partition,) = topic.partitions
        assert topic.topic_id == harness.topic_id
        assert (partition.leader_id, partition.leader_epoch, partition.isr, partition.partition_epoch) == (
            1,
            0,
            (1,),
            1,
        )
        known = harness.state("orders", 0)
        assert known == LeaderIsrAndControllerEpoch(state(1, (1,), version=1), 1), (
            "the leader epoch stays, the version grows"
        )
        for broker in (0, 1, 2):
            assert harness.broker(broker).requests() == [
                UpdateMetadataSent(
                    [StateSent(partition="orders-0", leader=1, isr=(1,), version=1)], live_brokers=[0, 1, 2]
                )
            ]
        assert [record.why for record in harness.broker(0).records(LeadershipWritten)] == ["alter-partition"]


@pytest.mark.spec("IS-10", "IS-13", "BUG-21")
def test_rejected_leader_receives_update_metadata() -> None:
    with AlterPartitionHarness() as harness:
        response = harness.ask(1, proposal(0, (1,), version=7))
        assert errors(response) == [(0, Errors.NOT_CONTROLLER)]
        assert harness.broker(1).requests() == [
            UpdateMetadataSent([StateSent(partition="orders-0", leader=1, isr=(1, 2))], live_brokers=[0, 1, 2])
        ]
        (hit,) = harness.broker(0).records(FenceHit)
        assert (hit.fence, hit.what, hit.offered, hit.known) == ("controller.partition-epochs", "orders-0", 7, 0)
        assert harness.broker(0).controller.is_active, "a leader's word does not cost the role"


@pytest.mark.spec("IS-8")
@pytest.mark.parametrize("epoch", [1, 999_999])
def test_alter_partition_with_another_broker_epoch_is_refused(epoch: int) -> None:
    with AlterPartitionHarness() as harness:
        response = harness.ask(1, proposal(0, (1,)), epoch=epoch)
        assert (response.error_code, response.topics) == (Errors.STALE_BROKER_EPOCH, ())
        assert harness.ask(7, proposal(0, (1,)), epoch=5).error_code == Errors.STALE_BROKER_EPOCH
        assert [hit.fence for hit in harness.broker(0).records(FenceHit)] == ["controller.broker-epoch"]


@pytest.mark.spec("IS-9")
def test_unknown_topic_id_is_returned() -> None:
    unknown = TopicId("x" * 22)
    with AlterPartitionHarness() as harness:
        response = harness.ask(1, proposal(0, (1,)), proposal(1, (1,)), topic_id=unknown)
        assert [topic.topic_id for topic in response.topics] == [unknown]
        assert errors(response) == [(0, Errors.UNKNOWN_TOPIC_ID), (1, Errors.UNKNOWN_TOPIC_ID)]


@pytest.mark.spec("IS-9")
def test_old_versions_have_topic_names_and_plain_ids() -> None:
    with AlterPartitionHarness() as harness:
        response = harness.ask(1, proposal(0, (1,)), version=1)
        assert [topic.topic_name for topic in response.topics] == ["orders"]
        assert errors(response) == [(0, Errors.NONE)]


@pytest.mark.spec("IS-10", "IS-11")
def test_each_partition_has_its_own_verdict() -> None:
    with AlterPartitionHarness() as harness:
        response = harness.ask(1, proposal(0, (1,)), proposal(1, (2,)), proposal(9, (1,)))
        assert sorted(errors(response)) == [
            (0, Errors.NONE),
            (1, Errors.INVALID_REQUEST),
            (9, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        ]


@pytest.mark.spec("IS-10", "CS-12")
def test_shutting_down_broker_may_not_join_the_isr() -> None:
    with AlterPartitionHarness() as harness:
        assert errors(harness.ask(1, proposal(0, (1,)))) == [(0, Errors.NONE)]
        controller = harness.broker(0)
        controller.run(controller.controller.controlled_shutdown(BrokerId(2), harness.broker(2).epoch))
        assert errors(harness.ask(1, proposal(0, (1, 2), version=1))) == [(0, Errors.INELIGIBLE_REPLICA)]


@pytest.mark.spec("IS-12", "IS-14", "R-5", "EL-8")
def test_write_with_unknown_outcome_ends_the_term() -> None:
    with AlterPartitionHarness() as harness:
        lost = LostAnswer("broker-0", "/brokers/topics/orders", applied=True)
        harness.zookeeper.lost_answers += [lost] * MAX_LOST_ANSWERS
        assert harness.ask(1, proposal(0, (1,))).error_code == Errors.UNKNOWN_SERVER_ERROR
        harness.settle(2_000)
        assert harness.zookeeper.lost_answers == []
        controller = harness.broker(0)
        assert [record.epoch for record in controller.records(ControllerResigned)] == [1]
        assert controller.controller.epoch == 2, "it took over again and has read what was written"
        assert errors(harness.ask(1, proposal(0, (1, 2), version=1))) == [(0, Errors.NONE)]


@pytest.mark.spec("IS-12")
def test_conflict_is_returned_as_invalid_update_version() -> None:
    with AlterPartitionHarness() as harness:
        harness.rewrite_state("orders", 0)
        assert errors(harness.ask(1, proposal(0, (1,)))) == [(0, Errors.INVALID_UPDATE_VERSION)]


@pytest.mark.spec("IS-14")
def test_unknown_recovery_state_is_refused() -> None:
    with AlterPartitionHarness() as harness:
        odd = AlterPartitionRequestPartitionData(partition_index=0, leader_recovery_state=7)
        assert harness.ask(1, odd).error_code == Errors.UNKNOWN_SERVER_ERROR
        assert harness.broker(0).controller.is_active
        assert errors(harness.ask(1, proposal(0, (1,)))) == [(0, Errors.NONE)]


@pytest.mark.spec("IS-7")
def test_inactive_controller_responds_not_controller() -> None:
    with AlterPartitionHarness(electable=(0, 1), brokers=(2,)) as harness:
        assert harness.ask(1, proposal(0, (1,)), at=1).error_code == Errors.NOT_CONTROLLER
