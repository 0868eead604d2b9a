"""What the comparison is worth: a controller that does one thing otherwise than Kafka is told apart from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from controller.channels.request_batch import RequestBatch
from controller.term import Term
from foundation.cluster.identifiers import TopicPartition
from foundation.cluster.leadership import LeaderAndIsr
from foundation.zk.client import SetData
from foundation.zk.transactions import Transactions
from tests.golden.compare import compare
from tests.golden.recording import load
from tests.golden.scenarios import BROKERS, perform
from tests.golden.simulated_stage import SimulatedStage

SCENARIO = "broker-killed"


def tells_nobody_of_partitions(patch: pytest.MonkeyPatch) -> None:
    before = RequestBatch.add_update_metadata
    patch.setattr(RequestBatch, "add_update_metadata", lambda self, brokers, partitions=(): before(self, brokers))


def keeps_isr_changes_to_itself(patch: pytest.MonkeyPatch) -> None:
    before = Term.send_update_metadata

    async def send(self: Term, brokers: Any, partitions: Any = ()) -> None:
        if "AlterPartition" not in self.running:
            await before(self, brokers)

    patch.setattr(Term, "send_update_metadata", send)


def calls_old_replicas_new(patch: pytest.MonkeyPatch) -> None:
    before = RequestBatch.add_leader_and_isr

    def add(self: RequestBatch, brokers: Any, partition: TopicPartition, *, is_new: bool = False) -> None:
        before(self, brokers, partition, is_new=True)

    patch.setattr(RequestBatch, "add_leader_and_isr", add)


def writes_without_a_check_of_the_epoch(patch: pytest.MonkeyPatch) -> None:
    async def send(self: Transactions, ops: Any, purpose: str, fence: Any) -> Any:
        return await self.client.multi(ops)

    patch.setattr(Transactions, "_send", send)


def writes_a_state_once_more(patch: pytest.MonkeyPatch) -> None:
    before = Transactions._send

    async def send(self: Transactions, ops: Any, purpose: str, fence: Any) -> Any:
        answer = await before(self, ops, purpose, fence)
        for op in ops:
            if isinstance(op, SetData) and op.path.endswith("/state"):
                await before(self, [replace(op, version=-1)], purpose, fence)
        return answer

    patch.setattr(Transactions, "_send", send)


def turns_isrs_around(patch: pytest.MonkeyPatch) -> None:
    before = Term.accept

    def accept(self: Term, written: Mapping[TopicPartition, LeaderAndIsr], why: str) -> None:
        before(self, {key: replace(state, isr=state.isr[::-1]) for key, state in written.items()}, why)

    patch.setattr(Term, "accept", accept)


@pytest.mark.parametrize(
    ("mutation", "expected"),
    [
        (tells_nobody_of_partitions, "UPDATE_METADATA"),
        (keeps_isr_changes_to_itself, "UPDATE_METADATA of orders-0"),
        (calls_old_replicas_new, "LEADER_AND_ISR of orders-"),
        (writes_without_a_check_of_the_epoch, "fence of /brokers/topics/orders/partitions"),
        (writes_a_state_once_more, "writes of /brokers/topics/orders/partitions/0/state"),
        (turns_isrs_around, "LEADER_AND_ISR of orders-0"),
    ],
)
def test_a_controller_that_differs_is_told_apart(
    mutation: Callable[[pytest.MonkeyPatch], None], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with SimulatedStage(1, BROKERS) as stage:
        found = compare(load(SCENARIO), perform(SCENARIO, stage))
    assert any(expected in difference.what for difference in found), "\n".join(map(str, found))


def test_a_task_that_fails_unseen_fails_the_scenario() -> None:
    async def fail() -> None:
        raise RuntimeError("nobody waits for me")

    def scene() -> None:
        with SimulatedStage(1, BROKERS) as stage:
            stage.start(0)
            process = stage._broker(0).node.process
            assert process is not None
            process.spawn(fail())
            stage.wait_until(lambda tree: True, "it has failed")

    with pytest.raises(AssertionError, match="nobody waits for me"):
        scene()
