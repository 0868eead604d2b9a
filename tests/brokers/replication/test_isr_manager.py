"""Tests of `IsrManager`: a leader sends ISR proposals, applies the responses, and repeats undecided proposals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.brokers.harness import BrokerHarness
from tests.brokers.log.parts import batch, log_with
from tests.brokers.parts import ME, ORDERS_0, OTHER, THIRD, apply_leader_and_isr, leader_and_isr, state
from understudy.brokers.replication.alter_partition_manager import IsrChange
from understudy.brokers.replication.isr_manager import IsrManager
from understudy.brokers.replication.partition import LastFetch, Partition
from understudy.foundation.cluster.errors import Errors, error_for_code
from understudy.foundation.wire.messages.alter_partition import AlterPartitionResponsePartitionData

END, HIGH_WATERMARK = 9, 7


class Queue:
    """Stands for the AlterPartitionManager: keeps the submitted changes until a test answers them."""

    def __init__(self) -> None:
        self.changes: list[IsrChange] = []

    def submit(self, change: IsrChange) -> bool:
        if any(queued.topic_partition == change.topic_partition for queued in self.changes):
            return False
        self.changes.append(change)
        return True


class Leader:
    """Broker 1, leader of `orders-0` at leader epoch 5 with ISR 1, 2, which has proposed to add broker 3."""

    def __init__(self) -> None:
        self.harness = BrokerHarness(log=log_with(log_end_offset=END, high_watermark=HIGH_WATERMARK))
        self.manager: IsrManager = self.harness.services.isr
        self.queue = Queue()
        self.manager.alter_partitions = self.queue  # type: ignore[assignment]  # a fake of what it uses
        self.harness.become_leader("orders", 0)
        self.fetch(THIRD, END)
        assert [change.proposal.isr for change in self.queue.changes] == [(ME, OTHER, THIRD)]

    @property
    def partition(self) -> Partition:
        return self.harness.replicas.partitions[ORDERS_0]

    def fetch(self, follower: int, offset: int) -> None:
        self.manager.follower_fetched(self.partition, follower, offset, leader_epoch=5)

    def answer(self, code: int, *, isr: tuple[int, ...] = (), partition_epoch: int = -1) -> IsrChange:
        """Answer the oldest change in the queue with an error code."""
        change = self.queue.changes.pop(0)
        data = AlterPartitionResponsePartitionData(
            partition_index=0, error_code=code, leader_epoch=5, isr=isr, partition_epoch=partition_epoch
        )
        self.manager._on_answer(change, error_for_code(code), data)
        return change


def run(scenario: Callable[[Leader], None]) -> None:
    """Run `scenario` with a new leader, inside an event loop."""

    async def with_leader() -> None:
        scenario(Leader())

    asyncio.run(with_leader())


@pytest.mark.spec("IS-6")
def test_accepted_proposal_becomes_the_isr() -> None:
    def scenario(leader: Leader) -> None:
        leader.answer(Errors.NONE, isr=(ME, OTHER, THIRD), partition_epoch=1)
        after = leader.partition.state
        assert (after.isr, after.partition_epoch, after.proposal) == ((ME, OTHER, THIRD), 1, None)

    run(scenario)


@pytest.mark.spec("IS-6")
@pytest.mark.parametrize("error", [Errors.OPERATION_NOT_ATTEMPTED, Errors.INELIGIBLE_REPLICA])
def test_proposal_with_operation_not_attempted_is_dropped(error: Errors) -> None:
    def scenario(leader: Leader) -> None:
        leader.answer(error)
        assert (leader.partition.state.proposal, leader.queue.changes) == (None, [])
        assert leader.partition.state.isr == (ME, OTHER)

    run(scenario)


@pytest.mark.spec("IS-6")
@pytest.mark.parametrize(
    ("code", "name"), [(Errors.UNKNOWN_SERVER_ERROR, "UNKNOWN_SERVER_ERROR"), (999, "UNKNOWN_ERROR_CODE_999")]
)
def test_proposal_is_repeated_at_once_after_an_unexpected_error(code: int, name: str) -> None:
    def scenario(leader: Leader) -> None:
        change = leader.answer(code)
        assert leader.queue.changes == [change]
        assert leader.partition.state.proposal == change.proposal
        assert [result["error"] for result in leader.harness.recorder.of("IsrResult")] == [name]

    run(scenario)


UNDECIDED = [
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.UNKNOWN_TOPIC_ID,
    Errors.FENCED_LEADER_EPOCH,
    Errors.INVALID_UPDATE_VERSION,
    Errors.INVALID_REQUEST,
    Errors.NEW_LEADER_ELECTED,
]


@pytest.mark.spec("IS-3", "IS-6")
@pytest.mark.parametrize("error", UNDECIDED)
def test_undecided_proposal_stays_pending_and_is_repeated_unchanged_at_the_next_check(error: Errors) -> None:
    """A deposed controller may have refused the proposal although another has written it: no outcome is assumed."""

    def scenario(leader: Leader) -> None:
        change = leader.answer(error)
        assert (leader.partition.state.proposal, leader.queue.changes) == (change.proposal, [])
        assert leader.partition.state.maximal_isr == (ME, OTHER, THIRD)
        leader.fetch(THIRD, END)
        assert leader.queue.changes == [], "a Fetch proposes nothing while a proposal is pending"
        for _ in range(2):
            leader.manager.check_isrs()
            assert leader.queue.changes == [change], "once, until it is answered"
        assert len(leader.harness.recorder.of("IsrProposed")) == 1
        leader.answer(Errors.NONE, isr=(ME, OTHER, THIRD), partition_epoch=1)
        leader.manager.check_isrs()
        assert (leader.partition.state.isr, leader.queue.changes) == ((ME, OTHER, THIRD), [])

    run(scenario)


def test_undecided_shrinking_is_repeated_too() -> None:
    def scenario(leader: Leader) -> None:
        leader.answer(Errors.NONE, isr=(ME, OTHER, THIRD), partition_epoch=1)
        leader.harness.clock.now_ms += 100_000
        leader.manager.check_isrs()
        change = leader.answer(Errors.UNKNOWN_TOPIC_ID)
        assert change.proposal.leaving == (OTHER,)
        leader.manager.check_isrs()
        assert leader.queue.changes == [change]

    run(scenario)


@pytest.mark.spec("IS-6")
def test_undecided_proposal_ends_with_the_next_leader_epoch() -> None:
    def scenario(leader: Leader) -> None:
        leader.answer(Errors.FENCED_LEADER_EPOCH)
        apply_leader_and_isr(leader.harness.replicas, leader_and_isr(state(leader_epoch=6, partition_epoch=1)))
        assert leader.partition.state.proposal is None
        leader.manager.check_isrs()
        assert leader.queue.changes == []

    run(scenario)


def test_undecided_proposal_is_not_repeated_while_its_follower_has_lost_records() -> None:
    """A follower that returns without its log must not join the ISR by an earlier proposal."""

    def scenario(leader: Leader) -> None:
        change = leader.answer(Errors.UNKNOWN_TOPIC_ID)
        leader.fetch(THIRD, HIGH_WATERMARK - 1)
        leader.manager.check_isrs()
        assert (leader.partition.state.proposal, leader.queue.changes) == (change.proposal, [])
        leader.fetch(THIRD, END)
        leader.manager.check_isrs()
        assert leader.queue.changes == [change]

    run(scenario)


def test_undecided_proposal_of_a_dead_follower_is_repeated_so_that_the_controller_refuses_it() -> None:
    def scenario(leader: Leader) -> None:
        change = leader.answer(Errors.UNKNOWN_TOPIC_ID)
        leader.fetch(THIRD, 0)
        leader.harness.update_metadata({"orders": {0: ME}}, live=(ME, OTHER))
        leader.manager.check_isrs()
        assert leader.queue.changes == [change]
        leader.answer(Errors.INELIGIBLE_REPLICA)
        assert leader.partition.state.proposal is None

    run(scenario)


@pytest.mark.spec("IS-6")
@pytest.mark.parametrize("error", [Errors.NONE, Errors.INELIGIBLE_REPLICA, Errors.NETWORK_EXCEPTION])
def test_answer_that_a_control_request_has_overtaken_is_ignored(error: Errors) -> None:
    def scenario(leader: Leader) -> None:
        apply_leader_and_isr(leader.harness.replicas, leader_and_isr(state(leader_epoch=6, partition_epoch=1)))
        before = leader.partition.state
        leader.answer(error, isr=(ME,), partition_epoch=9)
        assert (leader.partition.state, leader.queue.changes) == (before, [])

    run(scenario)


def test_a_batch_that_is_sent_again_raises_a_high_watermark_that_waited_for_a_broker_that_has_ended() -> None:
    """A leaving broker fetches from the new leader, may not join the ISR, and ends; no follower fetches more."""

    async def scenario() -> None:
        harness, queue = BrokerHarness(), Queue()
        manager = harness.services.isr
        manager.alter_partitions = queue  # type: ignore[assignment]  # a fake of what it uses
        harness.become_leader("orders", 0)
        partition = harness.replicas.partitions[ORDERS_0]
        manager.follower_fetched(partition, THIRD, 0, leader_epoch=5)
        refused = AlterPartitionResponsePartitionData(partition_index=0, error_code=Errors.INELIGIBLE_REPLICA)
        manager._on_answer(queue.changes.pop(0), Errors.INELIGIBLE_REPLICA, refused)
        data = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        harness.replicas.append_as_leader(partition, data, required_acks=-1)
        manager.follower_fetched(partition, OTHER, 1, leader_epoch=5)
        assert partition.log.high_watermark == 0, "broker 3 has just been caught up, and may join the ISR"
        harness.replicas._is_alive = lambda broker: broker != THIRD
        assert harness.replicas.append_as_leader(partition, data, required_acks=-1).info.is_duplicate
        assert partition.log.high_watermark == 1

    asyncio.run(scenario())


def test_fetches_of_a_session_count_by_themselves_only_for_a_follower_at_its_known_offset() -> None:
    def scenario(leader: Leader) -> None:
        count, last = leader.manager.count_session_fetches, LastFetch(1000.0)
        assert not count(leader.partition, 9, END, last), "a follower that has not fetched"
        leader.answer(Errors.NONE, isr=(ME, OTHER, THIRD), partition_epoch=1)
        assert not count(leader.partition, THIRD, END - 1, last), "an offset that is not its log end offset"
        assert count(leader.partition, THIRD, END, last)

    run(scenario)
