"""Shows which member of a group gets which partitions and why, and what changes when members join or leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from understudy.clusters.clients.assignors.protocol import COOPERATIVE_STICKY, PROTOCOLS, STICKY
from understudy.clusters.clients.assignors.subscriptions import NO_GENERATION, Assignment, ReplicaRacks, Subscription
from understudy.clusters.nearest_word import did_you_mean
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.kafka_tools.planning import reasons
from understudy.kafka_tools.planning.historic import deal, historic_order
from understudy.kafka_tools.planning.plan_answer import AnswerTable, BadPlan, Block, Heading, PlanAnswer
from understudy.kafka_tools.planning.ranges import ranges
from understudy.kafka_tools.planning.reasons import Rebalance

HISTORIC = "historic-roundrobin"
MOST_REBALANCES = 4
"""Maximum number of rebalances of a change. A cooperative change takes two; more than these would be a bug."""
ASSIGNORS: Mapping[str, Callable[[Rebalance], Iterator[str]]] = {
    "range": reasons.of_range,
    "roundrobin": reasons.of_round_robin,
    STICKY: reasons.of_sticky,
    COOPERATIVE_STICKY: reasons.of_cooperative,
    HISTORIC: reasons.of_historic,
}
"""Reasons of the assignors, as sentences, by Kafka's names, and of the assignor of Kafka's consumer before 0.9."""


class MembershipChange(NamedTuple):
    """A member that joins with a subscription, or leaves (None)."""

    member: str
    subscription: Subscription | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The group that partitions are assigned to.

    Attributes:
        topics: the number of partitions of each.
        members: the members that the group begins with.
        changes: each makes the group rebalance.
        racks: the racks of the partitions' replicas.
        order: the partitions in the order in which the historic assignor deals them out; empty for their hash order.
    """

    assignor: str
    topics: Mapping[str, int]
    members: Mapping[str, Subscription]
    changes: Sequence[MembershipChange] = ()
    racks: ReplicaRacks = field(default_factory=dict)
    order: Sequence[TopicPartition] = ()


def rebalances(plan: GroupPlan) -> list[Rebalance]:
    """Return the generations of a group, the first one with its first members.

    Raises:
        BadPlan: the plan names what does not exist.
    """
    _check(plan)
    members = dict(plan.members)
    done = [_rebalance(plan, _joined(members), members, {})]
    most = MOST_REBALANCES * len(plan.changes) + 1
    for change in plan.changes:
        if change.subscription is None:
            if change.member not in members:
                raise BadPlan(
                    f"--leave {change.member}: no such member{did_you_mean(change.member, members)}; the members then "
                    f"are {', '.join(members)}"
                )
            if len(members) == 1:
                raise BadPlan(f"--leave {change.member}: it is the last member; an empty group assigns nothing")
            del members[change.member]
            cause = f"{change.member} leaves"
        else:
            if change.member in members:
                raise BadPlan(f"--join {change.member}: it is a member already; give another name, or --leave it first")
            members[change.member] = change.subscription
            cause = f"{change.member} joins"
        done.append(_rebalance(plan, cause, members, done[-1].after))
        while plan.assignor == COOPERATIVE_STICKY and _gave_up(done[-1]) and len(done) < most:
            cause = f"{' and '.join(sorted(_gave_up(done[-1])))} gave up partitions and joined again"
            done.append(_rebalance(plan, cause, members, done[-1].after))
    return done


def member_answer(plan: GroupPlan) -> PlanAnswer:
    """Return each member's partitions with the reasons, generation by generation; raises BadPlan."""
    blocks: list[Block] = []
    for generation, rebalance in enumerate(rebalances(plan), 1):
        blocks += [Heading(f"Generation {generation}: {rebalance.cause}")]
        blocks += ASSIGNORS[plan.assignor](rebalance)
        blocks += [_table(rebalance, in_order_dealt=plan.assignor == HISTORIC)]
        if generation > 1:
            blocks += _moves(rebalance, cooperative=plan.assignor == COOPERATIVE_STICKY)
    total = sum(plan.topics.values())
    return PlanAnswer(f"{total} partitions, assigned by {plan.assignor}", tuple(blocks))


def _check(plan: GroupPlan) -> None:
    if plan.order and plan.assignor != HISTORIC:
        raise BadPlan(f"--order is for --assignor {HISTORIC}; {plan.assignor} has an order of its own")
    every = {TopicPartition(topic, number) for topic, count in plan.topics.items() for number in range(count)}
    if plan.order and (set(plan.order) != every or len(plan.order) != len(every)):
        wrong = [*sorted(set(plan.order) - every), *sorted(every - set(plan.order)), *plan.order]
        raise BadPlan(f"--order: expected each of the {len(every)} partitions once; see {wrong[0]}")
    changed = {change.member: change.subscription for change in plan.changes if change.subscription is not None}
    for member, subscription in ({**plan.members, **changed}).items():
        for topic in subscription.topics:
            if topic not in plan.topics:
                raise BadPlan(
                    f"member {member}: no topic {topic!r}{did_you_mean(topic, plan.topics)}; give --topic {topic}:N"
                )


def _rebalance(plan: GroupPlan, cause: str, members: Mapping[str, Subscription], before: Assignment) -> Rebalance:
    asked = {
        member: each._replace(owned=before.get(member, ()), generation=1 if member in before else NO_GENERATION)
        for member, each in members.items()
    }
    if plan.assignor == HISTORIC:
        after = deal(plan.order or historic_order(plan.topics), members)
    else:
        after = PROTOCOLS[plan.assignor].assign(plan.topics, asked, plan.racks)
    return Rebalance(cause, plan.topics, asked, plan.racks, before, after)


def _gave_up(rebalance: Rebalance) -> set[str]:
    """Return the members that lost partitions in a rebalance, and are members still."""
    return {
        member for member, assigned in rebalance.after.items() if set(rebalance.before.get(member, ())) - set(assigned)
    }


def _joined(members: Mapping[str, Subscription]) -> str:
    *first, last = members
    return f"{', '.join(first)} and {last} join" if first else f"{last} joins"


def _table(rebalance: Rebalance, *, in_order_dealt: bool) -> AnswerTable:
    is_first = not rebalance.before
    rows = []
    for member in sorted(rebalance.after):
        assigned = rebalance.after[member]
        had = set(rebalance.before.get(member, ()))
        shown = ", ".join(map(str, assigned)) if in_order_dealt else ranges(assigned)
        row = [member, str(len(assigned)), shown or "nothing"]
        if not is_first:
            row += [ranges(sorted(set(assigned) - had)) or "-", ranges(sorted(had - set(assigned))) or "-"]
        rows.append(tuple(row))
    return AnswerTable(("member", "has", "partitions", *(() if is_first else ("new", "given up"))), tuple(rows))


def _moves(rebalance: Rebalance, *, cooperative: bool) -> Iterator[str]:
    owner_before = {partition: member for member, had in rebalance.before.items() for partition in had}
    owner_after = {partition: member for member, has in rebalance.after.items() for partition in has}
    orphans = {partition for partition, owner in owner_before.items() if owner not in rebalance.after}
    moved = {each for each, owner in owner_after.items() if each in owner_before and owner_before[each] != owner}
    reassigned = {each for each in owner_after if each not in owner_before}
    given_up = [partition for partition in owner_before if partition not in owner_after]
    if orphans:
        yield f"{len(orphans)} were those of the member that has left; {len(moved - orphans)} others moved."
    elif not given_up:
        yield f"{len(moved | reassigned)} have moved to another member."
    if cooperative:
        if given_up:
            yield (
                f"{len(given_up)} are given up first and assigned in the next generation. The others are read on "
                "meanwhile (KIP-429)."
            )
    else:
        stopped = sum(len(had) for member, had in rebalance.before.items() if member in rebalance.after)
        yield f"Members give up all they have while the group rebalances: {stopped} are not read meanwhile."
