"""Tests of `StateWrites`, the write loop of elections, ISR removals and reassignments."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from tests.controller.harness import RecordedPoints, TermHarness
from tests.controller.values import state, tp
from understudy.controller.leader_election import under_new_leader
from understudy.controller.settings import ControllerSettings
from understudy.controller.state_writes import Outcome, StateChangeFailed, States, StateWrites
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.eventlog.records import FenceHit, LeadershipWritten
from understudy.foundation.zk.client import Delete, Failure
from understudy.foundation.zk.kafka_zk_client import ZooKeeperFailure
from understudy.foundation.zk.partition_states import OnWritten, PartitionStates

A, B, C = tp("orders-0"), tp("orders-1"), tp("orders-2")


class ThreePartitionsHarness(TermHarness):
    """Partitions A, B and C, led by 1 with ISR [1, 2]; writes raise their leader epochs."""

    def __init__(self, settings: ControllerSettings | None = None) -> None:
        super().__init__({"orders": {0: [1, 2], 1: [1, 2], 2: [1, 2]}}, settings=settings)
        self.decided: list[list[TopicPartition]] = []
        self.writes: StateWrites

    def __enter__(self) -> ThreePartitionsHarness:
        super().__enter__()
        context = self.term.context
        first = dict.fromkeys((A, B, C), state(1, (1, 2)))

        def take(finished: Mapping[TopicPartition, LeaderAndIsr | Failure]) -> None:
            self.term.accept({p: s for p, s in finished.items() if isinstance(s, LeaderAndIsr)}, "initialise")

        self.run(self.term.zk.states.create(first, context.epoch, context.epoch_zk_version, take))
        self.clear_history()
        return self

    def write(self, why: str = "preferred", unclean: Collection[TopicPartition] = ()) -> dict[TopicPartition, Outcome]:
        self.writes = StateWrites(self.term, "partition", why=why)
        self.run(self._write_in_rounds(unclean))
        return self.writes.outcomes

    async def _write_in_rounds(self, unclean: Collection[TopicPartition]) -> None:
        with self.writes.failures_as_outcomes([A, B, C]):
            while states := await self.writes.undecided():
                self.decided.append(list(states))
                raised = {p: under_new_leader(known, known.leader, known.isr) for p, known in states.items()}
                await self.writes.write(raised, unclean=unclean)

    def leader_epochs(self) -> list[int]:
        """The leader epochs of A, B and C in memory."""
        return [self.term.context.leadership[partition].leader_and_isr.leader_epoch for partition in (A, B, C)]


def test_a_failed_change_is_explained_with_what_zookeeper_answered_if_it_refused() -> None:
    assert StateChangeFailed("too late").message == "too late"
    assert StateChangeFailed("too late", Failure.BAD_VERSION).message == "too late: BadVersion"


@pytest.mark.spec("PSM-9")
def test_decision_from_memory_is_written_recorded_and_passed_on() -> None:
    with ThreePartitionsHarness() as harness:
        points = RecordedPoints()
        harness.term.points = points
        outcomes = harness.write()
        assert outcomes == dict.fromkeys((A, B, C), state(1, (1, 2), epoch=1, version=1))
        assert harness.decided == [[A, B, C]]
        assert harness.writes.accepted == outcomes
        assert harness.leader_epochs() == [1, 1, 1]
        assert points.passed == ["partition.before_write", "partition.after_write"]
        (record,) = harness.controller.records(LeadershipWritten)
        assert (record.why, len(record.partitions)) == ("preferred", 3)


@pytest.mark.spec("PSM-9")
def test_only_conflicting_states_are_read_and_decided_again() -> None:
    with ThreePartitionsHarness() as harness:
        harness.rewrite_state("orders", 1)
        outcomes = harness.write()
        assert harness.decided == [[A, B, C], [B]]
        assert outcomes[B] == state(1, (1, 2), epoch=1, version=2)
        assert list(harness.writes.accepted) == [A, C, B]
        assert harness.leader_epochs() == [1, 1, 1]


def test_state_that_keeps_conflicting_fails_after_the_bound() -> None:
    with ThreePartitionsHarness(ControllerSettings(conflict_rounds=1)) as harness:
        harness.rewrite_state("orders", 1)
        outcomes = harness.write()
        assert outcomes[B] == StateChangeFailed("its state kept changing, 1 times", Failure.BAD_VERSION)
        assert harness.leader_epochs() == [1, 0, 1]


@pytest.mark.spec("EL-15")
def test_missing_state_and_state_of_a_newer_controller_are_never_decided_on() -> None:
    with ThreePartitionsHarness() as harness:
        leadership = harness.term.context.leadership
        del leadership[A]
        leadership[B] = LeaderIsrAndControllerEpoch(leadership[B].leader_and_isr, 7)
        outcomes = harness.write()
        assert harness.decided == [[C]]
        assert outcomes[A] == StateChangeFailed("its leader and ISR could not be read", Failure.NO_NODE)
        assert outcomes[B] == StateChangeFailed("its state was written by controller epoch 7")
        (hit,) = harness.controller.records(FenceHit)
        assert (hit.fence, hit.what, hit.offered, hit.known) == (
            "controller.state-controller-epoch",
            "orders-1",
            1,
            7,
        )


def test_state_deleted_in_zookeeper_fails_alone() -> None:
    with ThreePartitionsHarness() as harness:
        path = "/brokers/topics/orders/partitions/1/state"
        harness.operator.run(harness.operator.client.write(Delete(path)))
        outcomes = harness.write()
        assert outcomes[B] == StateChangeFailed("its state could not be written", Failure.NO_NODE)
        assert harness.leader_epochs() == [1, 0, 1]


def test_unchanged_states_are_passed_on_and_not_written() -> None:
    with ThreePartitionsHarness() as harness:
        before = harness.zookeeper.zxid
        writes = StateWrites(harness.term, "partition", why="preferred")

        async def keep_all() -> None:
            with writes.failures_as_outcomes([A, B]):
                while states := await writes.undecided():
                    writes.keep(states)

        harness.run(keep_all())
        assert writes.outcomes == dict.fromkeys((A, B), state(1, (1, 2)))
        assert writes.unchanged == {A, B}
        assert writes.accepted == writes.outcomes
        assert harness.zookeeper.zxid == before


def test_unclean_elections_are_recorded_as_such() -> None:
    with ThreePartitionsHarness() as harness:
        harness.write("offline", unclean={B})
        records = harness.controller.records(LeadershipWritten)
        assert [(record.why, [led.partition for led in record.partitions]) for record in records] == [
            ("offline", [0, 2]),
            ("unclean", [1]),
        ]


@pytest.mark.parametrize("failure", [Failure.NO_AUTH, Failure.UNKNOWN])
def test_zookeeper_failure_fails_only_the_states_not_written_before(
    failure: Failure, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = PartitionStates.update

    async def fail_after_the_first(
        self: PartitionStates, states: States, controller_epoch: int, epoch_zk_version: int, on_written: OnWritten
    ) -> tuple[TopicPartition, ...]:
        await update(self, {A: states[A]}, controller_epoch, epoch_zk_version, on_written)
        raise ZooKeeperFailure(failure, "/x")

    with ThreePartitionsHarness() as harness:
        monkeypatch.setattr(PartitionStates, "update", fail_after_the_first)
        if failure is Failure.UNKNOWN:
            with pytest.raises(ZooKeeperFailure):
                harness.write()
        else:
            outcomes = harness.write()
            assert outcomes == {
                A: state(1, (1, 2), epoch=1, version=1),
                B: StateChangeFailed(f"/x: {failure.value}", failure),
                C: StateChangeFailed(f"/x: {failure.value}", failure),
            }
        assert harness.leader_epochs() == [1, 0, 0]
        assert list(harness.writes.accepted) == [A]
