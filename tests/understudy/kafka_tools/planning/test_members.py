"""Tests of the plan of a group: worked examples, and what a member that joins or leaves changes."""

from __future__ import annotations

from itertools import chain

import pytest

from understudy.clusters.clients.assignors.subscriptions import Subscription
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.kafka_tools.planning.historic import deal, historic_order
from understudy.kafka_tools.planning.member_words import changes, member, members, replica_racks
from understudy.kafka_tools.planning.members import ASSIGNORS, GroupPlan, member_answer, rebalances
from understudy.kafka_tools.planning.plan_answer import BadPlan, text_of
from understudy.kafka_tools.planning.ranges import ranges
from understudy.kafka_tools.planning.reasons import Rebalance

TEN = {"t": 10}


def plan(
    assignor: str, topics: dict[str, int], words: str, *, join: str = "", leave: str = "", order: str = ""
) -> GroupPlan:
    changed = [*((True, word) for word in join.split()), *((False, word) for word in leave.split())]
    return GroupPlan(
        assignor=assignor,
        topics=topics,
        members=members(words.split(), topics),
        changes=changes(changed, topics),
        order=tuple(TopicPartition("T1", int(number)) for number in order),
    )


def owned(rebalance: Rebalance, topic: str = "t") -> dict[str, list[int]]:
    return {
        name: [each.partition for each in assigned if each.topic == topic] for name, assigned in rebalance.after.items()
    }


@pytest.mark.parametrize(("count", "sizes"), [(10, (4, 3, 3)), (11, (4, 4, 3))])
def test_range_gives_neighbours_and_the_first_members_one_more(count: int, sizes: tuple[int, ...]) -> None:
    (only,) = rebalances(plan("range", {"t": count}, "C1-0 C2-0 C2-1"))
    numbers = iter(range(count))
    assert list(owned(only).values()) == [[next(numbers) for _ in range(size)] for size in sizes]


def test_range_with_two_topics_gives_the_first_member_two_more() -> None:
    group = plan("range", {"t": 10, "u": 10}, "C1-0 C2-0 C2-1")
    (only,) = rebalances(group)
    assert owned(only, "t") == owned(only, "u")
    assert [len(each) for each in only.after.values()] == [8, 6, 6]
    assert "t, u: 10 partitions of each for C1-0, C2-0, C2-1; 3 each, and one more for C1-0." in text_of(
        member_answer(group)
    )


def test_historic_round_robin_deals_in_the_order_of_the_hash() -> None:
    group = plan("historic-roundrobin", {"T1": 10}, "C1-0 C1-1 C2-0 C2-1", order="5308214769")
    assert owned(rebalances(group)[0], "T1") == {
        "C1-0": [5, 2, 6],
        "C1-1": [3, 1, 9],
        "C2-0": [0, 4],
        "C2-1": [8, 7],
    }
    assert "T1-5, T1-2, T1-6" in text_of(member_answer(group))


def test_historic_order_is_that_of_the_hash_of_the_name() -> None:
    order = historic_order({"t": 11, "u": 1})
    assert sorted(order) == sorted({*(TopicPartition("t", number) for number in range(11)), TopicPartition("u", 0)})
    assert order.index(TopicPartition("t", 1)) < order.index(TopicPartition("t", 2))
    assert deal(order, {"b", "a"})["a"] == tuple(order[::2])


def test_cooperative_members_give_up_first_and_get_in_the_next_generation() -> None:
    first, joined, again, left = rebalances(plan("cooperative-sticky", {"t": 6}, "A B", join="C", leave="A"))
    assert owned(first) == {"A": [0, 2, 4], "B": [1, 3, 5]}
    assert owned(joined) == {"A": [0, 2], "B": [1, 3], "C": []}
    assert again.cause == "A and B gave up partitions and joined again"
    assert owned(again) == {"A": [0, 2], "B": [1, 3], "C": [4, 5]}
    assert left.cause == "A leaves"
    assert sorted(chain(*owned(left).values())) == list(range(6))


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "historic-roundrobin"])
def test_eager_assignors_need_one_generation_for_each_change(assignor: str) -> None:
    group = plan(assignor, TEN, "A B", join="C", leave="B")
    done = rebalances(group)
    assert [each.cause for each in done] == ["A and B join", "C joins", "B leaves"]
    assert all(sorted(chain(*owned(each).values())) == list(range(10)) for each in done)
    assert "Members give up all they have while the group rebalances: 10 are not read meanwhile." in text_of(
        member_answer(group)
    )


def test_moves_are_counted() -> None:
    sticky, by_range = (text_of(member_answer(plan(each, TEN, "A B", leave="A"))) for each in ("sticky", "range"))
    assert "5 were those of the member that has left; 0 others moved." in sticky
    assert "5 were those of the member that has left; 0 others moved." in by_range
    joined = text_of(member_answer(plan("range", TEN, "A B", join="C")))
    assert "4 have moved to another member." in joined


def test_members_in_racks_get_partitions_with_a_replica_there() -> None:
    topics = {"t": 4}
    racks = replica_racks(topics, {0: "r1", 1: "r2"}, 1)
    group = GroupPlan(assignor="range", topics=topics, members=members(["A@r2", "B@r1"], topics), racks=racks)
    assert owned(rebalances(group)[0]) == {"A": [1, 3], "B": [0, 2]}
    assert "4 of 4 partitions have a replica in the rack of their member" in text_of(member_answer(group))


def test_words_of_members() -> None:
    assert member("A", {"t": 1, "u": 1}) == ("A", Subscription(("t", "u")))
    assert member("A:t@r1", {"t": 1}) == ("A", Subscription(("t",), rack="r1"))
    for bad in ("", ":t", "A:", "A@", "A:t,,u"):
        with pytest.raises(BadPlan, match="is not a member: expected NAME"):
            member(bad, {"t": 1})


def test_topic_without_subscribers_is_left_alone() -> None:
    for assignor in ASSIGNORS:
        if assignor != "historic-roundrobin":
            text = text_of(member_answer(plan(assignor, {"t": 2, "u": 2}, "A:t B:t")))
            assert "u 0" not in text


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (lambda: plan("range", TEN, "A A"), "--member A: it is given twice"),
        (lambda: plan("range", TEN, "A:tt"), "member A: no topic 'tt'.*give --topic tt:N"),
        (lambda: plan("range", TEN, "A", join="B:x"), "member B: no topic 'x'"),
        (lambda: plan("range", TEN, "A", join="A"), "--join A: it is a member already"),
        (lambda: plan("range", TEN, "Anna B", leave="Ana"), "--leave Ana: no such member; did you mean 'Anna'"),
        (lambda: plan("range", TEN, "A", leave="A"), "--leave A: it is the last member"),
        (lambda: plan("range", {"T1": 2}, "A", order="01"), "--order is for --assignor historic-roundrobin"),
        (lambda: plan("historic-roundrobin", {"T1": 2}, "A", order="02"), "each of the 2 partitions once; see T1-2"),
        (lambda: plan("historic-roundrobin", {"T1": 2}, "A", order="011"), "each of the 2 partitions once"),
    ],
)
def test_what_does_not_exist_is_refused(group: object, message: str) -> None:
    assert callable(group)
    with pytest.raises(BadPlan, match=message):
        rebalances(group())


def test_ranges_of_partitions() -> None:
    partitions = [TopicPartition("t", number) for number in (0, 1, 2, 5)] + [TopicPartition("u", 0)]
    assert ranges(partitions) == "t 0-2,5; u 0"
