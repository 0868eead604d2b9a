"""Plans of seeds: drawn the same each time, and different from seed to seed."""

from __future__ import annotations

from msgspec import structs

from understudy.clusters.clients.assignors.protocol import PROTOCOLS
from understudy.foundation.eventlog.fences import Fence
from understudy.trials.seeds.client_load import LOAD, PARTS
from understudy.trials.seeds.seed_groups import PlannedMember
from understudy.trials.seeds.seed_plans import SeedPlan, draw_plan

DRAWN = [draw_plan(seed, 30) for seed in range(1, 101)]


def test_a_seed_always_draws_the_same_plan() -> None:
    assert draw_plan(7, 30) == DRAWN[6]
    assert len({str(plan) for plan in DRAWN}) == len(DRAWN)


def test_every_choice_is_drawn_each_way() -> None:
    for name in ("reordering", "unclean_election", "wrong_clocks"):
        assert {getattr(plan, name) for plan in DRAWN} == {True, False}
    assert {plan.brokers for plan in DRAWN} == {3, 4, 5}
    assert {plan.absent for plan in DRAWN} == {None, 1, 2, 3, 4, 5}
    assert all(plan.absent <= plan.brokers for plan in DRAWN if plan.absent is not None)
    assert {plan.partitions for plan in DRAWN} == {1, 2, 3, 4, 5, 6}


def test_each_seed_leaves_most_kinds_of_fault_out() -> None:
    """Swarm testing: which kinds there are is drawn for each seed."""
    kinds = [frozenset(fault.kind for fault in plan.schedule.faults) for plan in DRAWN]
    assert max(map(len, kinds)) <= 6
    assert len(set(kinds)) > 90


def test_a_tenth_of_the_seeds_has_a_clock_of_its_own_on_each_node() -> None:
    plans = [draw_plan(seed, 1) for seed in range(1, 1_001)]
    assert 70 < sum(plan.own_clocks for plan in plans) < 130
    for plan in DRAWN:
        for own_clocks in (True, False):
            given = draw_plan(plan.seed, 30, own_clocks=own_clocks)
            assert given == structs.replace(plan, own_clocks=own_clocks)


def test_members_of_groups_are_drawn_for_some_seeds_in_every_way() -> None:
    with_groups = [plan for plan in DRAWN if plan.members]
    assert 30 < len(with_groups) < 70
    members = [member for plan in with_groups for member in plan.members]
    assert {name for member in members for name in member.assignors} == set(PROTOCOLS)
    assert {member.instance is None for member in members} == {True, False}
    assert {(member.ends_at_ms is None, member.leaves) for member in members} >= {
        (True, True),
        (False, True),
        (False, False),
    }
    for plan in with_groups:
        assert len({member.name for member in plan.members}) == len(plan.members)
        healed_at_ms = plan.schedule.healed_at_ms
        assert all(0 <= member.joins_at_ms < healed_at_ms for member in plan.members)
        assert all(member.joins_at_ms < (member.ends_at_ms or healed_at_ms) <= healed_at_ms for member in plan.members)
        assert all(
            member.joins_at_ms == int(str(plan).splitlines()[place].split()[0]) for place, member in places(plan)
        )


def places(plan: SeedPlan) -> list[tuple[int, PlannedMember]]:
    """The line of each member in the text of a plan."""
    lines = str(plan).splitlines()
    return [(lines.index(str(member)), member) for member in plan.members]


def test_a_seed_without_groups_is_what_it_was_before_seeds_had_them() -> None:
    for plan in DRAWN:
        assert draw_plan(plan.seed, 30, groups=False) == structs.replace(plan, members=(), load=LOAD)


def test_numbers_that_are_given_change_nothing_else() -> None:
    plan = draw_plan(7, 30, brokers=9, partitions=2, fences_off=(Fence.BROKER_EPOCH,))
    assert (plan.brokers, plan.partitions, plan.fences_off) == (9, 2, ("broker.broker-epoch",))
    assert (plan.reordering, plan.actions, plan.load) == (DRAWN[6].reordering, DRAWN[6].actions, DRAWN[6].load)


def test_half_of_the_seeds_have_a_compacted_topic_which_members_read() -> None:
    compacted = [plan for plan in DRAWN if plan.load == PARTS]
    assert 30 < len(compacted) < 70
    assert all(plan.load == LOAD for plan in DRAWN if plan not in compacted)
    read = {member.topics for plan in compacted for member in plan.members}
    assert read == {("ledger",), ("ledger", "table")}
    assert {member.topics for plan in DRAWN if plan not in compacted for member in plan.members} == {("ledger",)}
