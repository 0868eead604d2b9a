"""Tests of the assignors: Kafka's recorded answers, worked examples, and what every assignment must be."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.understudy.clusters.clients.assignor_cases import ANSWERS, ASSIGNORS, Case, parse, random_case, show
from understudy.clusters.clients.assignors.eager import assign_range, assign_round_robin
from understudy.clusters.clients.assignors.sticky import assign_cooperative_sticky, assign_sticky
from understudy.clusters.clients.assignors.subscriptions import Assignment, Subscription
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java_order import strings as in_hash_order

LINES = ANSWERS.read_text(encoding="utf-8").splitlines()
RECORDED = list(zip(LINES[::2], LINES[1::2], strict=True))


def numbers(assignment: Assignment, topic: str = "t") -> dict[str, list[int]]:
    """The numbers of one topic's partitions, by member."""
    return {
        member: [partition.partition for partition in assigned if partition.topic == topic]
        for member, assigned in assignment.items()
    }


def group(*members: str, topics: tuple[str, ...] = ("t",)) -> dict[str, Subscription]:
    """Members that are subscribed alike."""
    return {member: Subscription(topics) for member in members}


def owning(generation: int = 1, **owned: tuple[int, ...]) -> dict[str, Subscription]:
    """Members that have had partitions of topic t."""
    return {
        member: Subscription(("t",), tuple(TopicPartition("t", number) for number in numbers), generation)
        for member, numbers in owned.items()
    }


@pytest.mark.parametrize("place", range(len(RECORDED)))
def test_assignment_is_what_kafka_answered(place: int) -> None:
    line, answer = RECORDED[place]
    assert show(parse(line).answer()) == answer


def test_recorded_answers_have_every_assignor_with_and_without_racks_and_earlier_owners() -> None:
    cases = [parse(line) for line, _ in RECORDED]
    kinds = {
        (
            case.assignor,
            any(each.rack for each in case.members.values()),
            any(each.owned for each in case.members.values()),
            len({each.topics for each in case.members.values()}) == 1,
        )
        for case in cases
    }
    assert len(kinds) == len(ASSIGNORS) * 2 * 2 * 2


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        (10, {"C1-0": range(4), "C2-0": range(4, 7), "C2-1": range(7, 10)}),
        (11, {"C1-0": range(4), "C2-0": range(4, 8), "C2-1": range(8, 11)}),
    ],
)
def test_range_gives_the_first_members_one_more(partitions: int, expected: Mapping[str, range]) -> None:
    assigned = assign_range({"t": partitions}, group("C1-0", "C2-0", "C2-1"), {})
    assert numbers(assigned) == {member: list(each) for member, each in expected.items()}


def test_range_gives_a_member_the_same_of_two_topics() -> None:
    assigned = assign_range({"t": 10, "u": 10}, group("C1-0", "C2-0", "C2-1", topics=("t", "u")), {})
    assert numbers(assigned) == numbers(assigned, "u")
    assert [len(each) for each in assigned.values()] == [8, 6, 6]


def test_static_members_come_first_and_keep_their_range_with_a_new_member_id() -> None:
    static = Subscription(("t",), instance_id="a")
    for member_id in ("zz", "00"):
        assigned = assign_range({"t": 3}, {"m": Subscription(("t",)), member_id: static}, {})
        assert numbers(assigned) == {"m": [2], member_id: [0, 1]}


def test_range_prefers_partitions_with_a_replica_in_the_members_rack() -> None:
    members = {"a": Subscription(("t",), rack="r2"), "b": Subscription(("t",), rack="r1")}
    racks = {TopicPartition("t", number): frozenset({("r1", "r2")[number % 2]}) for number in range(4)}
    assert numbers(assign_range({"t": 4}, members, racks)) == {"a": [1, 3], "b": [0, 2]}
    assert numbers(assign_range({"t": 4}, members, {})) == {"a": [0, 1], "b": [2, 3]}


def test_round_robin_skips_members_that_are_not_subscribed() -> None:
    members = {"a": Subscription(("t", "u")), "b": Subscription(("u",)), "c": Subscription(("t", "u"))}
    assigned = assign_round_robin({"t": 2, "u": 2}, members, {})
    assert assigned == {
        "a": (TopicPartition("t", 0), TopicPartition("u", 0)),
        "b": (TopicPartition("u", 1),),
        "c": (TopicPartition("t", 1),),
    }


def test_cooperative_assigns_in_the_second_rebalance_what_a_member_gives_up_in_the_first() -> None:
    first = owning(a=(0, 1, 2, 3), b=())
    given = assign_cooperative_sticky({"t": 4}, first, {})
    assert numbers(given) == {"a": [0, 1], "b": []}
    second = {member: each._replace(owned=given[member], generation=2) for member, each in first.items()}
    assert numbers(assign_cooperative_sticky({"t": 4}, second, {})) == {"a": [0, 1], "b": [2, 3]}
    assert numbers(assign_sticky({"t": 4}, first, {})) == {"a": [0, 1], "b": [2, 3]}


@pytest.mark.parametrize("partitions", [3, 4])
def test_partition_that_two_members_claim_for_one_generation_is_kept_by_neither(partitions: int) -> None:
    assigned = assign_cooperative_sticky({"t": partitions}, owning(a=(0, 1), b=(0, 2), c=()), {})
    assert numbers(assigned) == {"a": [1, *([3] if partitions == 4 else [])], "b": [2], "c": []}


@pytest.mark.parametrize("older_first", [True, False])
def test_claim_of_the_newer_generation_counts(older_first: bool) -> None:
    names = in_hash_order(["a", "b"])
    older, newer = names if older_first else reversed(names)
    members = owning(1, **{older: (0, 1)}) | owning(2, **{newer: (0, 1)}) | group("c")
    assert numbers(assign_sticky({"t": 2}, members, {}))[newer] == [0]


def test_partition_that_no_longer_exists_is_not_kept() -> None:
    assert numbers(assign_sticky({"t": 2}, owning(a=(0, 1, 7), b=(5,)), {})) == {"a": [0], "b": [1]}


def test_previous_owner_that_is_no_longer_subscribed_gets_nothing() -> None:
    partitions = {"t": 6, "u": 1}
    members = {
        "a": Subscription(("u",), tuple(TopicPartition("t", number) for number in range(6)), 1),
        "b": Subscription(("t",), tuple(TopicPartition("t", number) for number in range(6)), 2),
        "c": Subscription(("t", "u")),
    }
    assigned = assign_sticky(partitions, members, {})
    assert numbers(assigned)["a"] == []
    assert sorted(map(len, numbers(assigned).values())) == [0, 3, 3]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_topic_that_does_not_exist_is_not_assigned(assignor: str) -> None:
    assert ASSIGNORS[assignor]({}, group("a", "b"), {}) == {"a": (), "b": ()}
    assert ASSIGNORS[assignor]({"t": 1}, {}, {}) == {}
    assert ASSIGNORS[assignor]({"t": 1}, {"a": Subscription(())}, {}) == {"a": ()}


CASES = st.integers(0, 2**32).map(lambda seed: random_case(random.Random(seed)))


@given(CASES)
def test_each_partition_of_a_subscribed_topic_has_one_owner_that_is_subscribed(case: Case) -> None:
    assigned = case.answer()
    given_out = sorted(partition for each in assigned.values() for partition in each)
    assert len(set(given_out)) == len(given_out)
    assert all(partition.topic in case.members[member].topics for member in assigned for partition in assigned[member])
    if case.assignor != "cooperative-sticky":
        subscribed = {topic for each in case.members.values() for topic in each.topics}
        assert given_out == [
            TopicPartition(topic, number) for topic in sorted(subscribed) for number in range(len(case.topics[topic]))
        ]


@given(CASES, st.randoms(use_true_random=False))
def test_assignment_does_not_depend_on_the_order_of_topics_or_members(case: Case, draw: random.Random) -> None:
    members = list(case.members.items())
    topics = list(case.topics.items())
    draw.shuffle(members)
    draw.shuffle(topics)
    again = case._replace(topics=dict(topics), members=dict(members))
    # Two members in one bucket of the hash table stay in the order in which the coordinator lists them.
    if in_hash_order(again.members) == in_hash_order(case.members):
        assert show(again.answer()) == show(case.answer())


@given(CASES)
def test_members_that_are_subscribed_alike_differ_by_one_partition_at_most(case: Case) -> None:
    loads = [len(assigned) for assigned in case._replace(assignor="sticky").answer().values()]
    if len({each.topics for each in case.members.values()}) == 1:
        assert max(loads) - min(loads) <= 1


@given(CASES)
def test_sticky_assignment_that_is_balanced_stays(case: Case) -> None:
    case = case._replace(assignor="sticky")
    first = case.answer()
    members = {
        member: each._replace(owned=first[member], generation=9, rack=None) for member, each in case.members.items()
    }
    assert case._replace(members=members).answer() == first


@given(CASES)
def test_member_that_joins_takes_partitions_and_the_others_exchange_none(case: Case) -> None:
    topics = tuple(sorted(case.topics))
    members = {member: Subscription(topics) for member in case.members}
    case = case._replace(assignor="sticky", members=members)
    before = case.answer()
    joined = {member: Subscription(topics, before[member], 1) for member in members} | {"new": Subscription(topics)}
    after = case._replace(members=joined).answer()
    assert all(set(after[member]) <= set(before[member]) for member in members)


@given(CASES)
def test_cooperative_rebalances_end_with_the_sticky_assignment_of_everything(case: Case) -> None:
    case = case._replace(assignor="cooperative-sticky")
    for generation in range(5, 9):
        assigned = case.answer()
        case = case._replace(
            members={
                member: each._replace(owned=assigned[member], generation=generation)
                for member, each in case.members.items()
            }
        )
    assert case.answer() == assigned
    subscribed = {topic for each in case.members.values() for topic in each.topics}
    assert sum(map(len, assigned.values())) == sum(len(case.topics[topic]) for topic in subscribed)
