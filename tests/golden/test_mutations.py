"""The comparison finds each of several mutations of our controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tests.golden.compare import compare
from tests.golden.recording import load
from tests.golden.scenarios import BROKERS, run_scenario
from tests.golden.simulated_cluster import SimulatedScenarioCluster
from understudy.controller.channels.request_batch import RequestBatch
from understudy.controller.term import Term
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr
from understudy.foundation.zk.client import SetData
from understudy.foundation.zk.transactions import Transactions

SCENARIO = "broker-killed"


def sends_metadata_without_partitions(patch: pytest.MonkeyPatch) -> None:
    before = RequestBatch.add_update_metadata
    patch.setattr(RequestBatch, "add_update_metadata", lambda self, brokers, partitions=(): before(self, brokers))


def sends_no_metadata_after_isr_changes(patch: pytest.MonkeyPatch) -> None:
    before = Term.send_update_metadata

    async def send(self: Term, brokers: Any, partitions: Any = ()) -> None:
        if "AlterPartition" not in self.running:
            await before(self, brokers)

    patch.setattr(Term, "send_update_metadata", send)


def marks_existing_replicas_as_new(patch: pytest.MonkeyPatch) -> None:
    before = RequestBatch.add_leader_and_isr

    def add(self: RequestBatch, brokers: Any, partition: TopicPartition, *, is_new: bool = False) -> None:
        before(self, brokers, partition, is_new=True)

    patch.setattr(RequestBatch, "add_leader_and_isr", add)


def writes_without_the_check_of_the_controller_epoch(patch: pytest.MonkeyPatch) -> None:
    async def send(self: Transactions, ops: Any, purpose: str, fence: Any) -> Any:
        return await self.client.multi(ops)

    patch.setattr(Transactions, "_send", send)


def writes_partition_states_twice(patch: pytest.MonkeyPatch) -> None:
    before = Transactions._send

    async def send(self: Transactions, ops: Any, purpose: str, fence: Any) -> Any:
        answer = await before(self, ops, purpose, fence)
        for op in ops:
            if isinstance(op, SetData) and op.path.endswith("/state"):
                await before(self, [replace(op, version=-1)], purpose, fence)
        return answer

    patch.setattr(Transactions, "_send", send)


def reverses_isrs(patch: pytest.MonkeyPatch) -> None:
    before = Term.accept

    def accept(self: Term, written: Mapping[TopicPartition, LeaderAndIsr], why: str) -> None:
        before(self, {key: replace(state, isr=state.isr[::-1]) for key, state in written.items()}, why)

    patch.setattr(Term, "accept", accept)


@pytest.mark.parametrize(
    ("mutation", "expected"),
    [
        (sends_metadata_without_partitions, "UPDATE_METADATA"),
        (sends_no_metadata_after_isr_changes, "UPDATE_METADATA of orders-0"),
        (marks_existing_replicas_as_new, "LEADER_AND_ISR of orders-"),
        (writes_without_the_check_of_the_controller_epoch, "fence of /brokers/topics/orders/partitions"),
        (writes_partition_states_twice, "writes of /brokers/topics/orders/partitions/0/state"),
        (reverses_isrs, "LEADER_AND_ISR of orders-0"),
    ],
)
def test_a_mutated_controller_is_found(
    mutation: Callable[[pytest.MonkeyPatch], None], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with SimulatedScenarioCluster(1, BROKERS) as cluster:
        found = compare(load(SCENARIO), run_scenario(SCENARIO, cluster))
    assert any(expected in difference.what for difference in found), "\n".join(map(str, found))


def test_a_failed_task_that_is_not_awaited_fails_the_scenario() -> None:
    async def fail() -> None:
        raise RuntimeError("not awaited")

    def run_with_a_failing_task() -> None:
        with SimulatedScenarioCluster(1, BROKERS) as cluster:
            cluster.start(0)
            process = cluster._broker(0).node.process
            assert process is not None
            process.spawn(fail())
            cluster.wait_until(lambda tree: True, "it has failed")

    with pytest.raises(AssertionError, match="not awaited"):
        run_with_a_failing_task()
