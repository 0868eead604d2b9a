"""Tests of `GroupMetadata`: members, leaders, protocols, generations, and which offsets expire."""

from __future__ import annotations

import pytest

from tests.brokers.coordinator.group.parts import NOW_MS, ORDERS_0, ORDERS_1, group, member, subscription
from understudy.brokers.coordinator.group.group_metadata import topics_of
from understudy.brokers.coordinator.group.group_offsets import CommittedOffset, OffsetAndMetadata
from understudy.brokers.coordinator.group.group_state import GroupState, InvalidGroupTransition
from understudy.brokers.coordinator.group.member_metadata import JoinGroupResult, SyncGroupResult
from understudy.foundation.cluster.errors import Errors

RANGE = (("range", b""),)
BOTH = (("range", b""), ("sticky", b""))


def ignored(result: object) -> None:
    """The answer to a request of which a test wants to know only whether it waits."""


# ------------------------------------------------------------------ members


def test_the_first_member_leads_and_the_next_one_follows_it() -> None:
    made = group(member("a"), member("b"), member("c"))
    assert made.is_leader("a")
    made.remove("b")
    assert made.is_leader("a")
    made.remove("a")
    assert made.is_leader("c")
    made.remove("c")
    assert made.leader_id is None
    assert made.remove("c") is None


def test_the_rebalance_timeout_is_the_longest_of_any_member() -> None:
    made = group(member("a", rebalance_timeout_ms=10), member("b", rebalance_timeout_ms=30))
    assert made.rebalance_timeout_ms == 30
    made.remove("b")
    assert made.rebalance_timeout_ms == 10
    assert group().rebalance_timeout_ms == 0


def test_members_whose_join_waits_are_counted() -> None:
    made, first, second = group(), member("a"), member("b")
    made.add(first, ignored)
    made.add(second)
    assert (made.awaiting_join, made.not_yet_rejoined, made.has_all_members_joined) == (1, [second], False)
    update = {"rebalance_timeout_ms": 1, "session_timeout_ms": 2}
    made.update_member(second, RANGE, callback=ignored, **update)
    assert made.has_all_members_joined
    made.update_member(second, RANGE, callback=None, **update)
    assert (made.awaiting_join, second.session_timeout_ms) == (1, 2)
    made.answer_join(first, JoinGroupResult("a"))
    assert (made.awaiting_join, first.is_awaiting_join) == (0, False)
    made.answer_join(first, JoinGroupResult("a"))
    assert made.awaiting_join == 0


def test_a_member_that_leaves_is_waited_for_no_more() -> None:
    made, leaving = group(), member("a")
    made.add(leaving, ignored)
    made.add(member("b"), ignored)
    made.remove("a")
    assert (made.awaiting_join, made.has_all_members_joined) == (1, True)


def test_a_second_join_of_a_member_answers_the_first() -> None:
    made, joining, answers = group(), member("a"), list[JoinGroupResult]()
    made.add(joining, answers.append)
    made.update_member(joining, RANGE, rebalance_timeout_ms=1, session_timeout_ms=1, callback=ignored)
    assert [answer.error for answer in answers] == [Errors.REBALANCE_IN_PROGRESS]
    assert made.awaiting_join == 1


def test_a_leader_that_has_not_joined_is_replaced_by_a_member_that_has() -> None:
    made = group(member("a"))
    made.add(member("b"), ignored)
    made.add(member("c"), ignored)
    assert made.elect_joined_leader()
    assert made.is_leader("b")
    assert made.elect_joined_leader()
    assert made.is_leader("b")


def test_no_leader_is_elected_where_no_member_has_joined() -> None:
    assert group().elect_joined_leader() is False
    made = group(member("a"))
    assert made.elect_joined_leader() is False
    assert made.is_leader("a")


def test_a_static_member_takes_its_place_again_and_requests_with_the_old_id_are_fenced() -> None:
    made, static = group(), member("old", instance="i")
    answers: list[JoinGroupResult | SyncGroupResult] = []
    made.add(static, answers.append)
    static.awaiting_sync = answers.append
    assert made.replace_static_member("i", "old", "new") is static
    assert [answer.error for answer in answers] == [Errors.FENCED_INSTANCE_ID] * 2
    assert (static.member_id, made.is_leader("new"), dict(made.static_members)) == ("new", True, {"i": "new"})
    assert list(made.members) == ["new"]
    made.remove("new")
    assert made.static_members == {}


# ------------------------------------------------------------------ protocols


def test_the_protocol_with_most_votes_is_selected_among_those_that_all_support() -> None:
    made = group(member("a", "range", "sticky"), member("b", "sticky", "range"), member("c", "sticky", "range"))
    assert made.select_protocol() == "sticky"
    made.add(member("d", "range"))
    assert made.select_protocol() == "range"


def test_an_empty_group_supports_every_protocol_that_has_a_name() -> None:
    made = group()
    assert made.supports_protocols("consumer", RANGE)
    assert not made.supports_protocols("", RANGE)
    assert not made.supports_protocols("consumer", ())


def test_a_member_needs_the_groups_type_and_a_protocol_that_all_members_support() -> None:
    made = group(member("a", "range", "sticky"), in_state=GroupState.EMPTY)
    made.transition_to(GroupState.PREPARING_REBALANCE, now_ms=NOW_MS)
    assert made.supports_protocols("consumer", RANGE)
    assert not made.supports_protocols("connect", RANGE)
    assert not made.supports_protocols("consumer", (("roundrobin", b""),))
    made.add(member("b", "sticky"))
    assert not made.supports_protocols("consumer", RANGE)
    assert made.supports_protocols("consumer", BOTH)
    made.remove("b")
    assert made.supports_protocols("consumer", RANGE)


def test_a_consumer_group_knows_the_topics_of_its_members() -> None:
    made = group(member("a", topics=("orders",)), member("b", topics=("orders", "parcels")))
    assert made.compute_subscribed_topics() is None, "the protocol is not chosen yet"
    made.protocol_name = "range"
    assert made.compute_subscribed_topics() == frozenset({"orders", "parcels"})
    made.subscribed_topics = made.compute_subscribed_topics()
    assert (made.is_subscribed_to("parcels"), made.is_subscribed_to("bills")) == (True, False)
    for member_id in ("a", "b"):
        made.remove(member_id)
    assert made.compute_subscribed_topics() == frozenset()


def test_a_group_whose_subscriptions_cannot_be_read_may_consume_every_topic() -> None:
    odd = member("a")
    odd.supported_protocols = (("range", b"\0\0\x7f"),)
    made = group(odd)
    made.protocol_name = "range"
    assert made.compute_subscribed_topics() is None
    assert made.is_subscribed_to("anything")
    other = group(member("a", protocol_type="connect"))
    other.protocol_name = "range"
    assert other.compute_subscribed_topics() is None


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_topics_are_read_of_subscriptions_of_every_version(version: int) -> None:
    assert topics_of(subscription("orders", "parcels", version=version)) == ("orders", "parcels")
    later = b"\0\x63" + subscription("orders", version=version)[2:] + b"what a later version adds"
    assert topics_of(later) == ("orders",)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\0\0\0\0\0\2\0\5ab"])
def test_topics_of_what_is_no_subscription_are_not_known(data: bytes) -> None:
    assert topics_of(data) is None


# ------------------------------------------------------------------ generations


def test_a_generation_begins_with_the_members_and_the_protocol_of_most_of_them() -> None:
    made = group(member("a", "sticky"))
    made.transition_to(GroupState.PREPARING_REBALANCE, now_ms=NOW_MS)
    made.pending_sync_members.add("gone")
    made.init_next_generation(now_ms=NOW_MS + 5)
    assert (made.state, made.generation_id, made.protocol_name) == (GroupState.COMPLETING_REBALANCE, 1, "sticky")
    assert (made.state_timestamp, made.pending_sync_members) == (NOW_MS + 5, set())
    assert made.subscribed_topics == frozenset({"orders"})


def test_a_generation_without_members_leaves_the_group_empty() -> None:
    made = group(member("a"), in_state=GroupState.STABLE)
    made.protocol_name = "range"
    made.remove("a")
    made.transition_to(GroupState.PREPARING_REBALANCE, now_ms=NOW_MS)
    made.init_next_generation(now_ms=NOW_MS)
    assert (made.state, made.generation_id) == (GroupState.EMPTY, 1)
    assert made.described().protocol_data == ""
    assert made.subscribed_topics == frozenset()


def test_a_group_cannot_become_stable_without_completing_a_rebalance() -> None:
    made = group()
    with pytest.raises(InvalidGroupTransition):
        made.transition_to(GroupState.STABLE, now_ms=NOW_MS)
    assert made.state is GroupState.EMPTY


def test_metadata_and_assignment_are_shown_of_a_stable_group_only() -> None:
    one = member("a")
    one.assignment = b"mine"
    made = group(one, in_state=GroupState.STABLE)
    made.protocol_name = "range"
    shown = made.described()
    assert (shown.group_state, shown.protocol_type, shown.protocol_data) == ("Stable", "consumer", "range")
    assert (shown.members[0].member_metadata, shown.members[0].member_assignment) == (subscription("orders"), b"mine")
    made.transition_to(GroupState.PREPARING_REBALANCE, now_ms=NOW_MS)
    shown = made.described()
    assert (shown.group_state, shown.protocol_data) == ("PreparingRebalance", "")
    assert (shown.members[0].member_metadata, shown.members[0].member_assignment) == (b"", b"")


# ------------------------------------------------------------------ expiry

RETENTION_MS = 1_000
LONG_AGO = OffsetAndMetadata(7, commit_timestamp=NOW_MS - 5 * RETENTION_MS)
JUST_NOW = OffsetAndMetadata(8, commit_timestamp=NOW_MS)


def expired(made: object, now_ms: int) -> list[int]:
    removed = made.remove_expired_offsets(now_ms, RETENTION_MS)  # type: ignore[attr-defined]  # a GroupMetadata
    return [value.offset for value in removed.values()]


def test_offsets_of_clients_without_a_group_expire_after_their_commit() -> None:
    made = group()
    made.offsets.load({ORDERS_0: CommittedOffset(1, LONG_AGO), ORDERS_1: CommittedOffset(2, JUST_NOW)})
    assert expired(made, NOW_MS) == [7]
    assert expired(made, NOW_MS + RETENTION_MS - 1) == []
    assert expired(made, NOW_MS + RETENTION_MS) == [8]


def test_offsets_of_an_empty_group_expire_after_its_last_member_has_left() -> None:
    made = group()
    made.protocol_type = "consumer"
    made.offsets.load({ORDERS_0: CommittedOffset(1, LONG_AGO)})
    assert expired(made, NOW_MS + RETENTION_MS - 1) == []
    assert expired(made, NOW_MS + RETENTION_MS) == [7]


def test_offsets_of_an_empty_group_of_an_old_record_expire_after_their_commit() -> None:
    made = group()
    made.protocol_type, made.state_timestamp = "consumer", None
    made.offsets.load({ORDERS_0: CommittedOffset(1, LONG_AGO), ORDERS_1: CommittedOffset(2, JUST_NOW)})
    assert expired(made, NOW_MS) == [7]


def test_a_stable_group_loses_offsets_of_topics_that_no_member_consumes() -> None:
    made = group(member("a", topics=("parcels",)), in_state=GroupState.STABLE)
    made.protocol_name = "range"
    made.offsets.load({ORDERS_0: CommittedOffset(1, LONG_AGO)})
    assert expired(made, NOW_MS) == [], "the subscriptions are not known"
    made.subscribed_topics = frozenset({"orders"})
    assert expired(made, NOW_MS) == []
    made.subscribed_topics = frozenset({"parcels"})
    assert expired(made, NOW_MS) == [7]


def test_nothing_expires_during_a_rebalance_or_in_groups_of_other_types() -> None:
    for protocol_type, state in (("consumer", GroupState.PREPARING_REBALANCE), ("connect", GroupState.STABLE)):
        made = group(member("a", protocol_type=protocol_type), in_state=state)
        made.protocol_name = "range"
        made.subscribed_topics = frozenset()
        made.offsets.load({ORDERS_0: CommittedOffset(1, LONG_AGO)})
        assert expired(made, NOW_MS) == []
