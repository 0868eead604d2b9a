"""Each check of groups accepts and rejects the histories it must, and has at least one of each (T4)."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from msgspec import structs

from tests.understudy.checks.histories import envelope
from understudy.checks.client_history import SendOutcome
from understudy.checks.group_records import add_records
from understudy.checks.groups import (
    GROUP_CHECKS,
    Commit,
    GroupHistory,
    Join,
    LastState,
    OffsetFetch,
    Ownership,
    StoredAssignment,
    check_groups,
)
from understudy.foundation.eventlog.records import (
    AssignedMember,
    Envelope,
    GroupAssigned,
    GroupsLoaded,
    GroupsUnloaded,
    GroupTransition,
    LeaderAndIsrApplied,
    Leadership,
    LeadershipWritten,
    OffsetsCommitted,
    OffsetsRemoved,
    StopReplicaApplied,
)

T0, T1 = ("t", 0), ("t", 1)


def commit(offset: int, began_ms: float, ended_ms: float, outcome: SendOutcome = SendOutcome.OK) -> Commit:
    return Commit("g", T0, offset, outcome, began_ms, ended_ms)


def fetch(offset: int, began_ms: float, ended_ms: float | None = None) -> OffsetFetch:
    return OffsetFetch("g", T0, offset, began_ms, began_ms + 1 if ended_ms is None else ended_ms)


def owns(
    member: str, *partitions: tuple[str, int], generation: int = 1, leader: str = "a", from_ms: float = 0
) -> Ownership:
    return Ownership("g", generation, member, leader, frozenset(partitions), from_ms)


def last(name: str, generation: int | None, *partitions: tuple[str, int]) -> LastState:
    return LastState("g", name, generation, frozenset(partitions))


def stored(generation: int = 1, **partitions: tuple[tuple[str, int], ...]) -> StoredAssignment:
    by_owner = {owner: frozenset(each) for owner, each in partitions.items()}
    return StoredAssignment("g", generation, by_owner, leader="a")


def history(
    *seen: Commit | OffsetFetch | Ownership | Join | LastState | StoredAssignment,
    lost: bool = False,
    fetched: set[str] | None = None,
) -> GroupHistory:
    return GroupHistory(
        commits=[one for one in seen if isinstance(one, Commit)],
        fetches=[one for one in seen if isinstance(one, OffsetFetch)],
        ownerships=[one for one in seen if isinstance(one, Ownership)],
        joins=[one for one in seen if isinstance(one, Join)],
        last=[one for one in seen if isinstance(one, LastState)],
        stored=[one for one in seen if isinstance(one, StoredAssignment)],
        to_be_read={"g": frozenset({T0, T1})},
        fetched_at_end=fetched,
        may_have_lost={"g"} if lost else set(),
    )


REFUSED, UNKNOWN = SendOutcome.FAIL, SendOutcome.INFO
STARTED_AGAIN = (
    owns("a", T0, T1)._replace(instance="one"),
    owns("c", T0, generation=2)._replace(instance="one"),
    last("one", 2, T0),
)
"""A static member had both partitions, and one in the next generation. It may have started again in either."""

ACCEPTED = {
    "G1": {
        "the last offset": history(commit(5, 0, 1), commit(7, 2, 3), fetch(7, 4)),
        "none yet": history(fetch(-1, 0), commit(5, 2, 3)),
        "a commit that goes back on purpose": history(commit(7, 0, 1), commit(5, 2, 3), fetch(5, 4)),
        "a commit that runs beside the fetch": history(commit(5, 0, 1), commit(7, 4, 9), fetch(5, 5), fetch(7, 7)),
        "commits beside each other": history(commit(5, 0, 9), commit(7, 1, 8), fetch(5, 10)),
        "a commit without an answer, stored": history(commit(5, 0, 1), commit(7, 2, 3, UNKNOWN), fetch(7, 4)),
        "a commit without an answer, not stored": history(commit(5, 0, 1), commit(7, 2, 3, UNKNOWN), fetch(5, 4)),
        "a commit without an answer, stored late": history(
            commit(7, 0, 1, UNKNOWN), commit(9, 2, 3), fetch(9, 4), fetch(7, 6)
        ),
        "a refused commit": history(commit(5, 0, 1), commit(7, 2, 3, REFUSED), fetch(5, 4)),
        "lost with its partition": history(commit(5, 0, 1), fetch(-1, 2), lost=True),
        "an answer of a broker that leads no more": replace(
            history(commit(5, 0, 1), commit(7, 2, 3), fetch(5, 4)), of_the_past={0}
        ),
        "the same offset again": history(commit(5, 0, 1), commit(7, 2, 3), commit(5, 4, 5), fetch(5, 6)),
        "a commit without an answer that was seen above the high watermark, and is gone": history(
            commit(5, 0, 1), commit(7, 2, 3, UNKNOWN), fetch(7, 4), fetch(5, 6)
        ),
        "seen, by either of two commits": history(
            commit(7, 0, 1, UNKNOWN), commit(5, 2, 3), commit(7, 4, 5, UNKNOWN), fetch(7, 6), fetch(5, 8)
        ),
    },
    "G2": {
        "each its own": history(owns("a", T0), owns("b", T1)),
        "a static member that started again": history(
            owns("a", T0)._replace(instance="one"), owns("b", T0)._replace(instance="one")
        ),
        "another generation": history(owns("a", T0), owns("b", T0, generation=2)),
        "the same member again": history(owns("a", T0), owns("a", T0, T1)),
        "a group that began again": history(owns("a", T0), owns("b", T0, leader="b", from_ms=9)),
        "generations that were lost": history(commit(1, 0, 1), owns("a", T0), owns("b", T0), lost=True),
    },
    "G3": {
        "all is read": history(Join("g", "a", 0, 1), last("a", 3, T0), last("b", 3, T1)),
        "a join that failed and another": history(
            Join("g", "a", 0, 1, "no"), Join("g", "a", 2, 3), last("a", 1, T0, T1)
        ),
        "no member is left": history(),
        "a static member that started again before it joined without what it had given up": history(
            *STARTED_AGAIN, owns("b", T0, generation=2)._replace(instance="one")
        ),
        "the same, whose former process has not seen the last assignment": history(
            *STARTED_AGAIN, stored(1, one=(T0, T1)), stored(2, one=(T0,))._replace(member_ids={"one": "b"})
        ),
        "a coordinator that does not know that its replica was removed": replace(
            history(Join("g", "a", 0), last("a", None)), left_behind={"g"}
        ),
    },
    "G4": {
        "what was stored": history(stored(a=(T0,), b=(T1,)), owns("a", T0), owns("b", T1)),
        "stored twice, as for a static member that started again": history(
            stored(one=(T0,)), stored(one=(T0,)), owns("a", T0)._replace(instance="one")
        ),
        "no records of a coordinator": history(owns("a", T0)),
        "a store that timed out, which the next coordinator has loaded": replace(
            history(stored(a=(T0,)), owns("b", T0, generation=2)), without_end={("g", 2)}
        ),
        "the same, lost again, after which the group has begun the generation again": replace(
            history(stored(a=(T0, T1)), owns("b", T0, leader="b"), owns("a", T0, T1, from_ms=9)),
            without_end={("g", 1)},
        ),
    },
    "G5": {
        "all is fetched": history(commit(5, 0, 1), fetch(5, 2), fetched={"g"}),
        "a run that has ended early": history(commit(5, 0, 1)),
        "nothing was committed": history(fetched=set()),
    },
}

REJECTED = {
    "G1": {
        "an offset that is gone": history(commit(5, 0, 1), fetch(-1, 2)),
        "an offset that went back": history(commit(5, 0, 1), commit(7, 2, 3), fetch(5, 4)),
        "an offset that was never committed": history(commit(5, 0, 1), fetch(6, 2)),
        "an offset that was refused": history(commit(5, 0, 1, REFUSED), fetch(5, 2)),
        "an offset before its commit": history(fetch(5, 0), commit(5, 2, 3)),
    },
    "G2": {
        "two owners": history(owns("a", T0, T1), owns("b", T1)),
        "two static members": history(owns("a", T0)._replace(instance="one"), owns("b", T0)._replace(instance="two")),
        "two leaders of a group with offsets": history(
            commit(1, 0, 1), owns("a", T0), owns("b", T0, leader="b", from_ms=9)
        ),
    },
    "G3": {
        "a join without an end": history(Join("g", "a", 0)),
        "a member without an assignment": history(last("a", 3, T0, T1), last("b", None)),
        "a member without an assignment, and another group whose coordinator was left behind": replace(
            history(last("a", None)), left_behind={"h"}
        ),
        "two generations": history(last("a", 3, T0), last("b", 4, T1)),
        "a partition without an owner": history(last("a", 3, T0)),
        "a partition with two owners": history(last("a", 3, T0, T1), last("b", 3, T1)),
        "a static member that has not started again": history(*STARTED_AGAIN),
        "a static member that started again before the last generation": history(
            *STARTED_AGAIN, owns("b", T0, T1)._replace(instance="one")
        ),
        "a partition that the static member never had": history(
            owns("a", T0, generation=2)._replace(instance="one"),
            owns("b", T0, generation=2)._replace(instance="one"),
            last("one", 2, T0),
        ),
    },
    "G4": {
        "other partitions": history(stored(a=(T0,)), owns("a", T0, T1)),
        "another generation": history(stored(a=(T0,)), owns("a", T0, generation=2)),
        "another generation, and one whose store timed out": replace(
            history(stored(a=(T0,)), owns("a", T0, generation=2)), without_end={("g", 3)}
        ),
        "a generation begun again, and both times stored": history(
            stored(a=(T0, T1)), stored(b=(T1,))._replace(leader="b"), owns("b", T0, leader="b")
        ),
        "a generation begun again, and other partitions under the leader whose assignment is stored": replace(
            history(stored(a=(T0, T1)), owns("a", T0)), without_end={("g", 1)}
        ),
        "a member without an assignment": history(stored(b=(T0,)), owns("a")),
        "one partition for two": history(stored(a=(T0,), b=(T0,))),
    },
    "G5": {
        "no answer": history(commit(5, 0, 1), fetched=set()),
        "no answer about a commit without an answer": history(commit(5, 0, 1, UNKNOWN), fetched={"h"}),
    },
}

CASES = [
    (check, name, kept, accepted)
    for accepted, table in ((True, ACCEPTED), (False, REJECTED))
    for check, histories in table.items()
    for name, kept in histories.items()
]


@pytest.mark.parametrize(("check", "name", "kept", "accepted"), CASES, ids=[f"{each[0]} {each[1]}" for each in CASES])
def test_check_accepts_and_rejects(check: str, name: str, kept: GroupHistory, accepted: bool) -> None:
    found = {violation.check for violation in check_groups(kept).violations}
    assert found == (set() if accepted else {check})


def test_every_check_has_a_history_of_each_kind_and_counts_what_it_tests() -> None:
    ids = [check.id for check in GROUP_CHECKS]
    assert ids == list(ACCEPTED) == list(REJECTED)
    for check in ids:
        assert all(check_groups(kept).times_tested[check] > 0 for kept in REJECTED[check].values())


def test_violation_names_the_place_and_both_sides() -> None:
    (violation,) = check_groups(history(commit(5, 0, 1), commit(7, 2, 3), fetch(5, 4))).violations
    assert violation.where == "fetch 0"
    assert violation.witness == "g had 5 for t-0 at 0.005 s, after 7 was stored at 0.003 s at the latest"
    (violation,) = check_groups(history(owns("a", T0), owns("b", T0))).violations
    assert violation.witness == "t-0 belongs to a and to b in generation 1 of g"


def test_moments_of_a_witness_count_from_the_first_record_of_the_run() -> None:
    endless = GroupHistory(joins=[Join("g", "member-1", began_ms=17_307_629.0)], zero_ms=17_307_129.0)
    (violation,) = check_groups(endless).violations
    assert violation.witness == "member-1 has been joining g since 0.500 s"


def test_records_of_coordinators_are_added() -> None:
    kept = GroupHistory()
    members = (AssignedMember("a-1", "", "a", (T0,)), AssignedMember("b-1", "two", "b", (T1,)))
    assigned = GroupAssigned(
        group="g", partition=3, generation=2, protocol_type="consumer", protocol="range", leader="a-1", members=members
    )
    removed = OffsetsRemoved(group="h", partition=3, offsets=(), reason="expired")
    other_topic = LeadershipWritten(why="unclean", partitions=(Leadership("t", 3, 1, 1, (1,), 1, 1),))
    add_records(kept, [envelope(assigned), envelope(removed), envelope(other_topic)])
    assigned_to = stored(2, **{"a-1": (T0,), "two": (T1,)})
    assert kept.stored == [assigned_to._replace(member_ids={"two": "b-1"}, leader="a-1")]
    assert kept.may_have_lost == {"h"}
    unclean = LeadershipWritten(why="unclean", partitions=(Leadership("__consumer_offsets", 3, 1, 1, (1,), 1, 1),))
    only_offsets = OffsetsCommitted(group="k", partition=3, generation=0, appended_at=0, offsets=())
    add_records(kept, [envelope(unclean), envelope(assigned), envelope(only_offsets)])
    assert kept.may_have_lost == {"g", "h", "k"}


def all_have_joined(generation: int) -> Envelope:
    return envelope(
        GroupTransition(
            group="g",
            partition=3,
            source="PreparingRebalance",
            target="CompletingRebalance",
            generation=generation,
            members=1,
            reason="all members have joined",
        )
    )


@pytest.mark.parametrize(
    ("begun", "ended", "without_end"),
    [
        pytest.param([1, 2], [2], {1}, id="the next one has ended"),
        pytest.param([1, 1], [1], {1}, id="the generation has begun again, and then ended"),
        pytest.param([1, 1], [1, 1], set(), id="the generation has begun again, and ended both times"),
    ],
)
def test_generations_without_the_end_of_a_store_are_noted(
    begun: list[int], ended: list[int], without_end: set[int]
) -> None:
    kept = GroupHistory()
    members = (AssignedMember("a-1", "", "a", (T0,)),)
    assigned = GroupAssigned(
        group="g", partition=3, generation=0, protocol_type="consumer", protocol="range", leader="a-1", members=members
    )
    ends = [envelope(structs.replace(assigned, generation=each)) for each in ended]
    add_records(kept, [*map(all_have_joined, begun), *ends])
    assert kept.without_end == {("g", each) for each in without_end}


def led(leader: int, epoch: int, mono_ms: float) -> Envelope:
    leadership = Leadership("__consumer_offsets", 3, leader, epoch, (leader,), epoch, 1)
    return structs.replace(envelope(LeadershipWritten(why="offline", partitions=(leadership,))), mono_ms=mono_ms)


def loaded(broker: int, epoch: int, mono_ms: float) -> Envelope:
    data = GroupsLoaded(partition=3, leader_epoch=epoch, groups=1, offsets=1, unreadable=0)
    return structs.replace(envelope(data), node=f"broker-{broker}", mono_ms=mono_ms)


@pytest.mark.parametrize(
    ("coordinator", "began_ms", "is_past"),
    [
        pytest.param(1, 5_000, False, id="the leader"),
        pytest.param(1, 12_000, True, id="a leader that another one has followed"),
        pytest.param(2, 12_000, False, id="its follower"),
        pytest.param(2, 10_100, True, id="one that has just loaded: clocks differ"),
        pytest.param(1, 32_000, True, id="a leader again that has not loaded again"),
        pytest.param(2, 32_000, True, id="the second one after the first leads again"),
    ],
)
def test_answers_of_the_past_are_noted(coordinator: int, began_ms: float, is_past: bool) -> None:
    kept = history(fetch(5, began_ms)._replace(coordinator=coordinator))
    only_offsets = OffsetsCommitted(group="g", partition=3, generation=0, appended_at=0, offsets=())
    records = [led(1, 0, 100), loaded(1, 0, 110), led(2, 1, 10_000), loaded(2, 1, 10_010), led(1, 2, 30_000)]
    add_records(kept, [*records, envelope(only_offsets)])
    assert kept.of_the_past == ({0} if is_past else set())
    final = history(kept.fetches[0]._replace(is_final=True))
    add_records(final, [*records, envelope(only_offsets)])
    assert final.of_the_past == set(), "when the cluster has recovered, no answer is of the past"


FOLLOWS = LeaderAndIsrApplied(
    controller_id=2,
    request_controller_epoch=1,
    request_broker_epoch=1,
    leaders=(),
    followers=(Leadership("__consumer_offsets", 3, 2, 1, (2,), 1, 1),),
    live_leaders=(2,),
    leaderless=(),
)
STOPS = StopReplicaApplied(
    controller_id=2,
    request_controller_epoch=1,
    request_broker_epoch=1,
    partitions=(("__consumer_offsets", 3, 1, True),),
)
STOPS_FIRST = structs.replace(STOPS, partitions=(("__consumer_offsets", 3, 1, False),))
EMPTY = GroupTransition(
    group="g",
    partition=3,
    source="PreparingRebalance",
    target="Empty",
    generation=2,
    members=0,
    reason="no members are left",
)
IN_SYNC_AGAIN = LeadershipWritten(
    why="alter-partition", partitions=(Leadership("__consumer_offsets", 3, 2, 1, (2, 1), 2, 1),)
)
UNLOADS = GroupsUnloaded(partition=3, leader_epoch=1, groups=1, offsets=0)


@pytest.mark.parametrize(
    ("records", "is_left_behind"),
    [
        pytest.param([led(2, 1, 50)], True, id="another leader follows, and no request arrives"),
        pytest.param([], False, id="it leads"),
        pytest.param([led(2, 1, 50), envelope(UNLOADS)], False, id="it gives the groups up"),
        pytest.param([led(2, 1, 50), envelope(FOLLOWS)], False, id="it is to follow"),
        pytest.param([led(2, 1, 50), envelope(STOPS)], False, id="it is to stop"),
        pytest.param([led(2, 1, 50), envelope(IN_SYNC_AGAIN)], False, id="it is in sync with the next leader"),
        pytest.param(
            [led(2, 1, 50), structs.replace(envelope(UNLOADS), incarnation=2)], False, id="it has started again"
        ),
        pytest.param([led(2, 1, 50), envelope(STOPS_FIRST)], True, id="it stops, and the request to delete is lost"),
        pytest.param([led(2, 1, 50), envelope(EMPTY)], False, id="no members are left there"),
        pytest.param(
            [led(2, 1, 50), structs.replace(all_have_joined(2), node="broker-2", mono_ms=60)],
            True,
            id="the next leader has members of the group too",
        ),
    ],
)
def test_groups_of_a_coordinator_without_a_replica_are_noted(records: list[Envelope], is_left_behind: bool) -> None:
    kept = GroupHistory()
    add_records(kept, [led(1, 0, 0), loaded(1, 0, 10), all_have_joined(1), *records])
    assert kept.left_behind == ({"g"} if is_left_behind else set())


def test_ownership_lasts_until_it_is_ended() -> None:
    assert owns("a").until_ms == math.inf
