"""Tests of the plan of replicas: worked examples, and that the steps are the controller's."""

from __future__ import annotations

import random

import pytest

from understudy.controller.replica_placement import assign_replicas_to_brokers
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.kafka_tools.planning.plan_answer import BadPlan, text_of
from understudy.kafka_tools.planning.replicas import ReplicaPlan, place, replica_answer


def racks(**brokers: str) -> dict[int, str | None]:
    return {int(broker): rack for rack, ids in brokers.items() for broker in ids}


THREE_OF_THREE = racks(r1="012", r2="345", r3="678")
THREE_OF_TWO = racks(r1="05", r2="34", r3="12")
UNEQUAL = racks(r1="012", r2="3")


def test_brokers_alternate_between_racks() -> None:
    plan = ReplicaPlan(rack_of=THREE_OF_THREE, partitions=1, replication_factor=3)
    assert place(plan)[0] == [0, 3, 6, 1, 4, 7, 2, 5, 8]


def test_shift_of_the_second_round_counts_racks() -> None:
    brokers, chosen = place(ReplicaPlan(rack_of=THREE_OF_TWO, partitions=7, replication_factor=3))
    assert brokers == [0, 3, 1, 5, 4, 2]
    assert chosen[6].replicas == (0, 4, 2)


@pytest.mark.parametrize("rack_of", [THREE_OF_TWO, UNEQUAL, dict.fromkeys(range(5))])
def test_plan_is_what_a_controller_does(rack_of: dict[int, str | None]) -> None:
    _, chosen = place(ReplicaPlan(rack_of=rack_of, partitions=20, replication_factor=2, start=1, shift=1))
    by_id = {BrokerId(broker): rack_of[broker] for broker in sorted(rack_of)}
    assigned = assign_replicas_to_brokers(by_id, 20, 2, random.Random(1), fixed_start_index=1)
    assert {each.partition: each.replicas for each in chosen} == assigned


def test_added_partitions_go_on_with_the_rounds() -> None:
    whole = place(ReplicaPlan(rack_of=THREE_OF_TWO, partitions=6, replication_factor=2))[1]
    rest = place(ReplicaPlan(rack_of=THREE_OF_TWO, partitions=3, replication_factor=2, first_partition=3))[1]
    assert rest == whole[3:]


def test_skipped_brokers_and_the_load_of_unequal_racks_are_shown() -> None:
    text = text_of(replica_answer(ReplicaPlan(rack_of=UNEQUAL, partitions=8, replication_factor=2)))
    assert "2          0      1      (2: r1 has one) (0: r1 has one) 3  1, 3" in text
    assert "broker 3 has most, 2.00 × as many" in text
    assert "unequal size" in text
    assert "Every partition is in as many racks" in text


def test_partitions_that_one_rack_can_take_away_are_counted() -> None:
    plan = ReplicaPlan(rack_of=UNEQUAL, partitions=8, replication_factor=2, rack_aware=False)
    text = text_of(replica_answer(plan))
    chosen = place(plan)[1]
    in_one_rack = sum(3 not in each.replicas for each in chosen)
    assert in_one_rack > 0
    assert f"{in_one_rack} of 8 partitions are in fewer racks than they could be." in text
    assert "unequal size" not in text


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            ReplicaPlan(rack_of=UNEQUAL, partitions=1, replication_factor=5),
            "replication factor 5, but there are 4 brokers",
        ),
        (
            ReplicaPlan(rack_of=UNEQUAL, partitions=1, replication_factor=2, start=4),
            "start 4: expected a place in the list of brokers, 0 to 3",
        ),
        (ReplicaPlan(rack_of=UNEQUAL, partitions=1, replication_factor=2, shift=-1), "shift -1: expected"),
    ],
)
def test_what_cannot_be_is_refused(plan: ReplicaPlan, message: str) -> None:
    with pytest.raises(BadPlan, match=message):
        place(plan)
