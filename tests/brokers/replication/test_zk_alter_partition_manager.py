"""Tests of `ZkAlterPartitionManager`: a leader writes its ISR to ZooKeeper and notifies the controller later."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controller.harness import ControllerHarness
from tests.controller.values import state, tp
from understudy.brokers.replication.alter_partition_manager import IsrChange
from understudy.brokers.replication.partition import IsrProposal
from understudy.brokers.replication.zk_alter_partition_manager import CHECK_INTERVAL_MS, ZkAlterPartitionManager, is_due
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, BrokerId
from understudy.foundation.wire.messages.alter_partition import AlterPartitionResponsePartitionData
from understudy.foundation.zk.znodes import TopicPartitionStateZNode

LEADER, CONTROLLER_EPOCH = 2, 3
BEFORE = state(LEADER, (2, 1), epoch=7)


def change(name: str = "t-0", *, isr: tuple[int, ...] = (2,), partition_epoch: int = 0) -> IsrChange:
    proposal = IsrProposal(isr=isr, joining=(), leaving=(), leader_epoch=7, partition_epoch=partition_epoch)
    return IsrChange(tp(name), NO_TOPIC_ID, proposal, CONTROLLER_EPOCH)


class Leader:
    """Broker 2, leader of partitions 0 to 2 of topic t since the controller of epoch 3."""

    def __init__(self, harness: ControllerHarness) -> None:
        self.harness = harness
        self.member = harness.broker(LEADER)
        self.answers: list[tuple[str, Errors, int]] = []
        harness.create_topic("t", {0: [2, 1], 1: [2, 1], 2: [2, 1]})
        operator = harness.operator
        elected = operator.run(operator.zk.controller.register_and_increment_epoch(BrokerId(99), timestamp_ms=1))
        states = dict.fromkeys([tp("t-0"), tp("t-1"), tp("t-2")], BEFORE)
        operator.run(operator.zk.states.create(states, CONTROLLER_EPOCH, elected.epoch_zk_version))

        async def begin() -> None:
            self.manager = ZkAlterPartitionManager(
                BrokerId(LEADER), zk=lambda: self.member.zk, clock=self.member.world.clock, on_answer=self._on_answer
            )
            self.member.process.spawn(self.manager.run())

        self.member.run(begin())

    def submit(self, *changes: IsrChange) -> list[bool]:
        async def submit_all() -> list[bool]:
            return [self.manager.submit(one) for one in changes]

        taken = self.member.run(submit_all())
        self.harness.settle(20)
        return taken

    def notifications(self) -> list[bytes | None]:
        found = self.harness.znodes()
        return [found[path] for path in sorted(found) if path.startswith("/isr_change_notification/")]

    def written(self, name: str = "t-0") -> bytes | None:
        return self.harness.znodes()[TopicPartitionStateZNode.path(tp(name))]

    def _on_answer(self, change: IsrChange, error: Errors, answer: AlterPartitionResponsePartitionData) -> None:
        self.answers.append((str(change.topic_partition), error, answer.partition_epoch))


@pytest.fixture
def leader() -> Iterator[Leader]:
    with ControllerHarness(electable=(), brokers=(1, LEADER)) as harness:
        harness.start()
        yield Leader(harness)


@pytest.mark.spec("IS-16")
def test_change_is_written_at_the_known_version_and_keeps_the_controller_epoch(leader: Leader) -> None:
    assert leader.submit(change()) == [True]
    assert leader.answers == [("t-0", Errors.NONE, 1)]
    assert leader.written() == b'{"controller_epoch":3,"leader":2,"version":1,"leader_epoch":7,"isr":[2]}'


@pytest.mark.spec("IS-16")
def test_state_that_the_controller_has_written_meanwhile_stays(leader: Leader) -> None:
    leader.harness.rewrite_state("t", 0)
    leader.submit(change())
    assert leader.answers == [("t-0", Errors.INVALID_UPDATE_VERSION, -1)]
    assert leader.written() == TopicPartitionStateZNode.encode(BEFORE, CONTROLLER_EPOCH)


@pytest.mark.spec("IS-16")
def test_conflict_with_an_equal_state_is_success(leader: Leader) -> None:
    leader.submit(change())
    leader.submit(change())
    assert leader.answers == [("t-0", Errors.NONE, 1), ("t-0", Errors.NONE, 1)]


@pytest.mark.spec("IS-16")
def test_conflict_with_an_equal_isr_of_another_controller_is_no_success(leader: Leader) -> None:
    leader.submit(change()._replace(controller_epoch=4))
    leader.submit(change())
    assert [error for _, error, _ in leader.answers] == [Errors.NONE, Errors.INVALID_UPDATE_VERSION]


@pytest.mark.spec("IS-16")
def test_change_of_a_deleted_partition_is_refused(leader: Leader) -> None:
    leader.submit(change("gone-0"))
    assert leader.answers == [("gone-0", Errors.INVALID_UPDATE_VERSION, -1)]


@pytest.mark.spec("IS-4")
def test_second_change_of_a_partition_is_not_queued(leader: Leader) -> None:
    assert leader.submit(change("t-0"), change("t-1"), change("t-0", isr=(2, 1))) == [True, True, False]
    assert leader.submit(change("t-0", isr=(2, 1), partition_epoch=1)) == [True]
    assert leader.answers == [("t-0", Errors.NONE, 1), ("t-1", Errors.NONE, 1), ("t-0", Errors.NONE, 2)]


def test_change_that_zookeeper_refuses_holds_up_no_other(leader: Leader) -> None:
    leader.submit(change("t-0", isr=tuple(range(300_000))), change("t-1"))
    leader.harness.settle(1_000)
    assert leader.answers == [("t-1", Errors.NONE, 1)]


def test_change_is_written_in_the_next_session(leader: Leader) -> None:
    leader.harness.zookeeper.expire(leader.member.client.session_id)
    leader.submit(change())
    assert leader.answers == []
    leader.member.run(leader.member.open_session())
    leader.harness.settle(500)
    assert leader.answers == [("t-0", Errors.NONE, 1)]
    leader.harness.settle(10_000)
    assert len(leader.notifications()) == 1


@pytest.mark.spec("IS-17")
def test_changes_are_announced_together_after_five_seconds_without_a_change(leader: Leader) -> None:
    leader.submit(change("t-1"))
    leader.harness.settle(4_000)
    leader.submit(change("t-0"))
    leader.harness.settle(4_900)
    assert leader.notifications() == []
    leader.harness.settle(CHECK_INTERVAL_MS)
    expected = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":1}]}'
    assert leader.notifications() == [expected]
    leader.harness.settle(70_000)
    assert leader.notifications() == [expected], "each change is announced once"


@pytest.mark.spec("IS-17")
def test_changes_that_never_pause_are_announced_after_a_minute(leader: Leader) -> None:
    for second in range(0, 64, 4):
        assert leader.notifications() == [], f"after {second} s"
        leader.submit(change("t-0", isr=(2, 1) if second % 8 else (2,), partition_epoch=second // 4))
        leader.harness.settle(3_980)
    assert {error for _, error, _ in leader.answers} == {Errors.NONE}
    assert leader.notifications() == [b'{"version":1,"partitions":[{"topic":"t","partition":0}]}']


@pytest.mark.spec("IS-17")
@pytest.mark.parametrize(
    ("now_ms", "last_change_ms", "last_notification_ms", "due"),
    [
        (10_000, 5_000, 9_000, False),
        (10_001, 5_000, 9_000, True),
        (70_000, 69_999, 10_000, False),
        (70_001, 70_000, 10_000, True),
    ],
)
def test_announcement_is_due(now_ms: float, last_change_ms: float, last_notification_ms: float, due: bool) -> None:
    assert is_due(now_ms, last_change_ms=last_change_ms, last_notification_ms=last_notification_ms) is due
