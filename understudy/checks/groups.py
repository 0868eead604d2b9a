"""The history of the members of consumer groups, and its invariants (G1 to G5).

The checks compare committed with fetched offsets, and the assignments of members, and use no data of brokers. Only G4
compares assignments with the records of coordinators, which `understudy.checks.group_records` adds to a history.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from understudy.checks.check import HistoryCheck, Judgement, Witness, judge
from understudy.checks.client_history import SendOutcome
from understudy.checks.facts import Partition, name_of
from understudy.checks.missing import NOTHING_MISSING, MissingEvidence, RefutedBy
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.times import moment

NO_OFFSET = -1
"""Offset that is fetched for a partition without a committed offset."""


class Commit(NamedTuple):
    """One partition's offset in a commit that has ended.

    Attributes:
        began_ms, ended_ms: when the first request was sent, and when the last attempt had ended.
        outcome: OK once acknowledged, FAIL if it was refused and nothing can be stored, INFO if nothing is known.
    """

    group: str
    partition: Partition
    offset: int
    outcome: SendOutcome
    began_ms: float
    ended_ms: float
    member: str = ""
    generation: int = -1


class OffsetFetch(NamedTuple):
    """One partition's committed offset as a coordinator has answered it; `NO_OFFSET` if there is none.

    Attributes:
        began_ms, ended_ms: when the answered request was sent, and when its answer came.
        coordinator: the id of the broker that has answered; −1 if it is not known.
        is_final: whether the cluster had recovered from its faults.
    """

    group: str
    partition: Partition
    offset: int
    began_ms: float
    ended_ms: float
    coordinator: int = -1
    is_final: bool = False


class Ownership(NamedTuple):
    """A member's assignment in one generation of its group.

    Attributes:
        member: its member id.
        leader: the member id of the group's leader in that generation.
        until_ms: when it gave the partitions up or had its next assignment; infinite while it still has them.
        instance: the instance id of a static member. When the member starts again, it has another member id and keeps
            its assignment.
    """

    group: str
    generation: int
    member: str
    leader: str
    partitions: frozenset[Partition]
    from_ms: float
    until_ms: float = math.inf
    instance: str | None = None

    @property
    def owner(self) -> str:
        return self.member if self.instance is None else self.instance


class Join(NamedTuple):
    """An attempt of a member to join its group, or to join it again.

    Attributes:
        name: of the member; its member id may change.
        ended_ms: None while it continues.
        reason: why it has no assignment; empty if it has one.
    """

    group: str
    name: str
    began_ms: float
    ended_ms: float | None = None
    reason: str = ""


class StoredAssignment(NamedTuple):
    """The assignment of a generation as a coordinator has recorded it.

    Attributes:
        partitions: by owner, which is the instance id of a static member and the member id of another.
        member_ids: of the static members, by instance id.
        leader: the member id of the group's leader in that generation.
    """

    group: str
    generation: int
    partitions: Mapping[str, frozenset[Partition]]
    member_ids: Mapping[str, str] = MappingProxyType({})
    leader: str = ""


class LastState(NamedTuple):
    """A member's state after the cluster had time to recover, and the group time to rebalance.

    Attributes:
        generation: None if the member has no assignment, or knows that it has to join again.
    """

    group: str
    name: str
    generation: int | None
    partitions: frozenset[Partition]


@dataclass(slots=True)
class GroupHistory:
    """All that the members of a run have seen.

    Attributes:
        commits, fetches, ownerships, joins: each in any order.
        last: the state of each running member at the end.
        to_be_read: by group, the partitions of the topics that its members are subscribed to at the end.
        fetched_at_end: the groups whose offsets were fetched when faults had ended; None if the run ended before.
        of_the_past: the indexes in `fetches` of those that a broker has answered although another one had become leader
            of the group's partition since it loaded the partition. The broker may not have learned of that.
        stored: the assignments that coordinators have recorded; empty if they have recorded none.
        without_end: each (group, generation) that every member had joined, and whose coordinator has not recorded an
            assignment. It may have appended one and not learned whether it is replicated, and the next coordinator
            loads it. If it is lost, the group may begin the same generation again, with another leader.
        left_behind: the groups at a broker that has lost its replica of the group's partition without a request that
            says so. It still leads, can replicate nothing, and its members do not look for another coordinator.
        may_have_lost: the groups whose partition of `__consumer_offsets` had an unclean election or a loss of power, or
            whose offsets were deleted or have expired: offsets and generations may be gone or go back.
        zero_ms: the time of the run's first record. The moments that a witness names count from it.
    """

    commits: list[Commit] = field(default_factory=list)
    fetches: list[OffsetFetch] = field(default_factory=list)
    ownerships: list[Ownership] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    last: list[LastState] = field(default_factory=list)
    to_be_read: dict[str, frozenset[Partition]] = field(default_factory=dict)
    fetched_at_end: set[str] | None = None
    of_the_past: set[int] = field(default_factory=set)
    stored: list[StoredAssignment] = field(default_factory=list)
    without_end: set[tuple[str, int]] = field(default_factory=set)
    left_behind: set[str] = field(default_factory=set)
    may_have_lost: set[str] = field(default_factory=set)
    zero_ms: float = 0.0

    def moment(self, at_ms: float) -> str:
        """Return the text of a time of this history."""
        return moment(at_ms - self.zero_ms)


class AcknowledgedOffsetsStay(HistoryCheck[GroupHistory]):
    """A commit without an answer promises nothing, even if its offset was fetched.

    A new coordinator reads its partition to the end of the log, which may be above the high watermark
    (`GroupMetadataManager.doLoadGroupsAndOffsets`). What it answers then may be gone when the next replica leads. No
    epoch fences an OffsetFetch: a broker answers it until it learns that it no longer leads the partition.
    """

    id = "G1"
    sentence = (
        "a fetched offset is one whose commit had begun and was not refused, and no other commit that was acknowledged "
        "before this fetch began lies wholly between the two, unless a broker has answered that another one has "
        "followed as leader of the group's partition"
    )
    refuted_by = RefutedBy.BROKERS

    def contradictions(self, history: GroupHistory) -> Iterator[Witness]:
        stored = _that_may_be_stored(history.commits)
        commits = grouped(((commit.group, commit.partition), commit) for commit in stored)
        fetches = grouped(
            ((fetch.group, fetch.partition), (number, fetch))
            for number, fetch in enumerate(history.fetches)
            if fetch.group not in history.may_have_lost and number not in history.of_the_past
        )
        for key, found in fetches.items():
            for number, fetch in found:
                self.times_tested += 1
                if (what := _contradiction(fetch, commits.get(key, ()), history)) is not None:
                    yield Witness(f"fetch {number}", what)


class PartitionsHaveOneOwner(HistoryCheck[GroupHistory]):
    id = "G2"
    sentence = (
        "two members have no partition in common in one generation of their group, except if the group began again "
        "because it was empty and had no offsets"
    )
    refuted_by = RefutedBy.BROKERS

    def contradictions(self, history: GroupHistory) -> Iterator[Witness]:
        first_commit_ms: dict[str, float] = {}
        for commit in history.commits:
            if commit.outcome is SendOutcome.OK:
                first_commit_ms[commit.group] = min(commit.ended_ms, first_commit_ms.get(commit.group, commit.ended_ms))
        generations = grouped(
            ((ownership.group, ownership.generation), (number, ownership))
            for number, ownership in enumerate(history.ownerships)
            if ownership.group not in history.may_have_lost
        )
        for (group, _), found in generations.items():
            for place, (number, later) in enumerate(found):
                for _, earlier in found[:place]:
                    if _began_again(earlier, later, first_commit_ms.get(group, math.inf)):
                        continue
                    self.times_tested += later.owner != earlier.owner
                    if what := _two_owners(earlier, later):
                        yield Witness(f"ownership {number}", what)


class RebalancesEnd(HistoryCheck[GroupHistory]):
    """A static member that starts again keeps its assignment, and the group does not rebalance (KIP-345).

    With a cooperative protocol the former process may have given up partitions and ended before it joined again, which
    assigns them to others: as in Kafka, they have no owner until the next rebalance.

    As in Kafka, a leader whose replica was moved away continues to coordinate if the StopReplica did not reach it.
    """

    id = "G3"
    sentence = (
        "when faults have ended, no member is still joining, all members of a group are in one generation, and each "
        "partition of the topics that they are subscribed to belongs to one of them, unless a static member had it "
        "that has started again in this generation, or the coordinator does not know that its replica was removed"
    )
    refuted_by = RefutedBy.BROKERS

    def contradictions(self, history: GroupHistory) -> Iterator[Witness]:
        for number, join in enumerate(history.joins):
            self.times_tested += 1
            if join.ended_ms is None and join.group not in history.left_behind:
                yield Witness(
                    f"join {number}", f"{join.name} has been joining {join.group} since {history.moment(join.began_ms)}"
                )
        for group, what in unfinished_groups(history).items():
            self.times_tested += 1
            if what and group not in history.left_behind:
                yield Witness("the end", what)


class AssignmentsAreStored(HistoryCheck[GroupHistory]):
    """A group without its last records begins a generation again. Its leader then has another member id than before."""

    id = "G4"
    sentence = (
        "what a member is assigned in a generation, under one leader, is what a coordinator has stored for it, where "
        "it has learned that it is stored, and no coordinator has stored a partition for two members"
    )
    refuted_by = RefutedBy.BROKERS

    def contradictions(self, history: GroupHistory) -> Iterator[Witness]:
        stored: defaultdict[tuple[str, int], list[StoredAssignment]] = defaultdict(list)
        for number, assignment in enumerate(history.stored):
            stored[assignment.group, assignment.generation].append(assignment)
            self.times_tested += 1
            seen: dict[Partition, str] = {}
            for owner, partitions in assignment.partitions.items():
                for partition in sorted(partitions & seen.keys()):
                    what = f"{name_of(partition)} of {assignment.group} is stored for {seen[partition]} and for {owner}"
                    yield Witness(f"stored assignment {number}", what)
                seen |= dict.fromkeys(partitions, owner)
        for number, ownership in enumerate(history.ownerships) if history.stored else ():
            records = stored[ownership.group, ownership.generation]
            is_stored = ownership.leader in {each.leader for each in records}
            if (ownership.group, ownership.generation) in history.without_end and not is_stored:
                continue
            self.times_tested += 1
            if ownership.partitions not in [each.partitions.get(ownership.owner) for each in records]:
                what = f"{ownership.owner} has {_names(ownership.partitions)} in generation {ownership.generation} of "
                yield Witness(f"ownership {number}", f"{what}{ownership.group}, which no coordinator has stored")


class OffsetsAreFetchedAtTheEnd(HistoryCheck[GroupHistory]):
    id = "G5"
    sentence = "when faults have ended, the offsets of every group that has committed some are answered"
    refuted_by = RefutedBy.NOTHING

    def contradictions(self, history: GroupHistory) -> Iterator[Witness]:
        if history.fetched_at_end is None:
            return
        for group in sorted({commit.group for commit in history.commits}):
            self.times_tested += 1
            if group not in history.fetched_at_end:
                yield Witness("the end", f"no coordinator answers what {group} has committed")


GROUP_CHECKS: tuple[type[HistoryCheck[GroupHistory]], ...] = (
    AcknowledgedOffsetsStay,
    PartitionsHaveOneOwner,
    RebalancesEnd,
    AssignmentsAreStored,
    OffsetsAreFetchedAtTheEnd,
)


def check_groups(history: GroupHistory, missing: MissingEvidence = NOTHING_MISSING) -> Judgement:
    """Check a history; records of brokers may be `missing` from the run."""
    return judge(GROUP_CHECKS, history, missing)


def unfinished_groups(history: GroupHistory) -> dict[str, str]:
    """Return by group why its rebalance has not ended, as of the last states; empty text if it has ended."""
    groups = grouped((state.group, state) for state in history.last)
    return {group: _unfinished(group, states, history) for group, states in groups.items()}


def _that_may_be_stored(commits: Iterable[Commit]) -> list[Commit]:
    """Return the commits that were not refused. One without an answer may still be on its way, so it has no end."""
    return [
        commit._replace(ended_ms=math.inf) if commit.outcome is SendOutcome.INFO else commit
        for commit in commits
        if commit.outcome is not SendOutcome.FAIL
    ]


def _contradiction(fetch: OffsetFetch, commits: Sequence[Commit], history: GroupHistory) -> str | None:
    """Return what a fetch contradicts; None if it may have read what it did."""
    before = [commit for commit in commits if commit.outcome is SendOutcome.OK and commit.ended_ms < fetch.began_ms]
    shown = f"{fetch.group} had {fetch.offset} for {name_of(fetch.partition)} at {history.moment(fetch.ended_ms)}"
    if fetch.offset == NO_OFFSET:
        candidates = [-math.inf]
    else:
        candidates = [
            commit.ended_ms for commit in commits if commit.offset == fetch.offset and commit.began_ms <= fetch.ended_ms
        ]
        if not candidates:
            return f"{shown}, which was not committed"
    lost = max(before, key=lambda commit: commit.began_ms, default=None)
    if lost is not None and lost.began_ms > max(candidates):
        return f"{shown}, after {lost.offset} was stored at {history.moment(lost.ended_ms)} at the latest"
    return None


def _began_again(earlier: Ownership, later: Ownership, first_commit_ms: float) -> bool:
    """Return whether a group may have begun again with the same generation: a group without offsets is removed."""
    return earlier.leader != later.leader and first_commit_ms >= later.from_ms


def _two_owners(earlier: Ownership, later: Ownership) -> str:
    common = sorted(earlier.partitions & later.partitions)
    if earlier.owner == later.owner or not common:
        return ""
    return (
        f"{name_of(common[0])} belongs to {earlier.owner} and to {later.owner} in generation {later.generation} of "
        f"{later.group}"
    )


def _unfinished(group: str, states: Sequence[LastState], history: GroupHistory) -> str:
    for state in states:
        if state.generation is None:
            return f"{state.name} has no assignment of {group}"
    generations = {state.generation for state in states}
    if len(generations) > 1:
        return f"{group} has members in the generations {sorted(map(str, generations))}"
    owner: dict[Partition, str] = {}
    for state in states:
        for partition in sorted(state.partitions):
            if partition in owner:
                return f"{name_of(partition)} belongs to {owner[partition]} and to {state.name} of {group}"
            owner[partition] = state.name
    missing = history.to_be_read.get(group, frozenset()) - owner.keys()
    if missing and (without_owner := sorted(missing - _given_up(history, group, states[0].generation))):
        return f"{name_of(without_owner[0])} belongs to no member of {group}"
    return ""


def _given_up(history: GroupHistory, group: str, generation: int | None) -> set[Partition]:
    """Return what the static members had before a generation in which they have started again."""
    ids: defaultdict[str, set[str]] = defaultdict(set)
    before: defaultdict[str, set[Partition]] = defaultdict(set)
    for each in history.ownerships:
        if each.group == group and each.instance is not None:
            if each.generation == generation:
                ids[each.instance].add(each.member)
            else:
                before[each.instance] |= each.partitions
    for stored in history.stored:
        if (stored.group, stored.generation) == (group, generation):
            for instance, member in stored.member_ids.items():
                ids[instance].add(member)
    return {partition for instance, known in ids.items() if len(known) > 1 for partition in before[instance]}


def _names(partitions: frozenset[Partition]) -> str:
    return ", ".join(map(name_of, sorted(partitions))) or "nothing"
