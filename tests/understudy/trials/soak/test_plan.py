"""The next fault of a soak: which faults are drawn, and which are never done to an ISR."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from understudy.clusters.verb_table import VERBS
from understudy.trials.experiments.language.action_table import ACTIONS
from understudy.trials.soak.plan import (
    TAKING,
    ZOOKEEPER_TARGET,
    PartitionSeen,
    PlannedFault,
    Situation,
    next_fault,
    too_many,
)
from understudy.trials.soak.profiles import KINDS, PROFILES, ZOOKEEPER, Profile, Range

SESSION_MS = 3_000


def partition(*isr: int, replicas: tuple[int, ...] = (), name: str = "soak-0") -> PartitionSeen:
    return PartitionSeen(name, replicas or isr, isr, isr[0] if isr else -1)


def situation(
    *partitions: PartitionSeen, brokers: int = 3, away: frozenset[int] = frozenset(), proxied: bool = True
) -> Situation:
    running = tuple(broker for broker in range(1, brokers + 1) if broker not in away)
    return Situation(running, away, running[0], partitions or (partition(1, 2, 3),), proxied, True)


def draw(profile: str, now: Situation, seed: int, *, allow_majority: bool = False) -> PlannedFault | str:
    return next_fault(PROFILES[profile], now, random.Random(seed), session_ms=SESSION_MS, allow_majority=allow_majority)


def drawn(profile: str, now: Situation, times: int = 400, *, allow_majority: bool = False) -> list[PlannedFault]:
    found = [draw(profile, now, seed, allow_majority=allow_majority) for seed in range(times)]
    assert all(isinstance(each, PlannedFault) for each in found)
    return [each for each in found if isinstance(each, PlannedFault)]


def taken(fault: PlannedFault) -> set[int]:
    return {int(step.target) for step in fault.steps if step.verb in TAKING and step.target != ZOOKEEPER_TARGET}


# ------------------------------------------------------------------ what may be taken


@pytest.mark.parametrize(
    ("seen", "brokers", "why"),
    [
        (partition(1, 2, 3), {1}, ""),
        (partition(1, 2, 3), {4}, ""),
        (partition(1, 2, 3), {1, 2}, "soak-0 would lose [1, 2], the majority of [1, 2, 3]"),
        (partition(1, 2, 3), {1, 2, 3}, "soak-0 would have no in-sync replica left of [1, 2, 3]"),
        (partition(1, 2), {1}, ""),
        (partition(1, 2), {1, 2}, "soak-0 would have no in-sync replica left of [1, 2]"),
        (partition(1), {1}, "soak-0 would have no in-sync replica left of [1]"),
        (partition(1, 2, 3, 4, 5), {1, 2}, ""),
        (partition(1, 2, 3, 4, 5), {1, 2, 3}, "soak-0 would lose [1, 2, 3], the majority of [1, 2, 3, 4, 5]"),
    ],
)
def test_no_majority_and_no_last_member_of_an_isr_may_be_taken(
    seen: PartitionSeen, brokers: set[int], why: str
) -> None:
    assert too_many(situation(seen, brokers=5), brokers) == why


def test_brokers_taken_one_after_the_other_count_together() -> None:
    """The ISR has shrunk to two when the second broker is to be taken: one of two is no majority."""
    shrunk = partition(2, 3, replicas=(1, 2, 3))
    assert too_many(situation(shrunk), {2}) == ""
    why = too_many(situation(shrunk, away=frozenset({1})), {2})
    assert why == "soak-0 would lose [1, 2], the majority of [1, 2, 3]"


def test_a_broker_of_another_partition_may_be_taken_while_one_is_away() -> None:
    one, other = partition(2, 3, replicas=(1, 2, 3)), partition(4, 5, 6, name="soak-1")
    assert too_many(situation(one, other, brokers=6, away=frozenset({1})), {4}) == ""


# ------------------------------------------------------------------ drawn faults


@pytest.mark.parametrize("profile", PROFILES)
def test_no_fault_of_any_profile_takes_a_majority(profile: str) -> None:
    parts = (partition(1, 2, 3), partition(2, 3, 4, name="soak-1"), partition(5, 1, name="soak-2"))
    now = situation(*parts, brokers=5)
    for fault in drawn(profile, now):
        assert too_many(now, taken(fault)) == "", fault


def test_a_majority_is_taken_where_that_is_allowed() -> None:
    faults = drawn("evil", situation(), allow_majority=True)
    assert any(len(taken(fault)) == 2 for fault in faults)
    assert not any(len(taken(fault)) == 2 for fault in drawn("evil", situation()))


@pytest.mark.parametrize("profile", PROFILES)
def test_every_fault_of_a_profile_is_drawn_and_heavier_ones_more_often(profile: str) -> None:
    parts = (partition(1, 2, 3), partition(3, 4, 5, name="soak-1"))
    counts = Counter(fault.kind for fault in drawn(profile, situation(*parts, brokers=5), 2_000))
    assert set(counts) == set(PROFILES[profile].weights)
    weights = PROFILES[profile].weights
    heaviest, lightest = max(weights, key=weights.__getitem__), min(weights, key=weights.__getitem__)
    assert counts[heaviest] > counts[lightest]


def test_the_same_seed_draws_the_same_fault() -> None:
    assert draw("evil", situation(), 7) == draw("evil", situation(), 7)
    assert len({str(draw("evil", situation(), seed)) for seed in range(20)}) > 10


def test_without_a_proxy_no_broker_is_isolated() -> None:
    kinds = {fault.kind for fault in drawn("rough", situation(proxied=False))}
    assert kinds == set(PROFILES["rough"].weights) - {"isolate"}


def test_without_a_zookeeper_of_its_own_that_is_left_alone() -> None:
    now = situation()._replace(has_zookeeper=False)
    assert not any(step.target == ZOOKEEPER_TARGET for fault in drawn("evil", now) for step in fault.steps)


def test_brokers_with_the_only_replica_are_left_alone_and_the_controller_may_be_deposed() -> None:
    alone = tuple(partition(broker, name=f"alone-{broker}") for broker in (1, 2, 3))
    assert {fault.kind for fault in drawn("rough", situation(*alone))} == {"depose"}


def test_where_nothing_may_be_done_every_reason_is_named() -> None:
    now = situation(partition(1), brokers=1, proxied=False)._replace(controller=None)
    found = draw("rough", now, 1)
    assert isinstance(found, str)
    assert "depose: no broker is the controller" in found
    assert "isolate: the cluster has no proxy" in found
    assert "kill: soak-0 would have no in-sync replica left of [1]" in found


def test_the_killed_broker_is_the_one_that_was_restarted() -> None:
    restarted = [fault for fault in drawn("evil", situation()) if fault.kind == "kill-restarted"]
    assert restarted
    for fault in restarted:
        stop, kill = fault.steps
        assert (stop.verb, kill.verb, stop.target) == ("stop", "kill", kill.target)
        assert kill.after_end


def test_the_controller_that_is_deposed_is_not_the_broker_that_is_killed() -> None:
    faults = [fault for fault in drawn("evil", situation()) if fault.kind == "kill-and-depose"]
    assert faults
    assert all(kill.target != depose.target == "1" for kill, depose in (fault.steps for fault in faults))


def test_short_pauses_end_within_the_session_and_long_ones_after_it() -> None:
    lasts = {
        kind: [fault.steps[0].lasts_ms or 0 for fault in drawn("rough", situation()) if fault.kind == kind]
        for kind in ("short-pause", "long-pause", "isolate")
    }
    assert 0 < min(lasts["short-pause"]) <= max(lasts["short-pause"]) < SESSION_MS
    assert min(lasts["long-pause"]) > SESSION_MS
    assert min(lasts["isolate"]) > SESSION_MS


# ------------------------------------------------------------------ the table


def test_every_verb_of_a_fault_can_be_done_to_its_target_and_written_as_an_experiment() -> None:
    for kind in KINDS.values():
        for step in kind.steps:
            verb = VERBS[step.verb]
            assert bool(verb.undo) == (step.lasts is not None), step
            assert verb.on_zookeeper or step.target != ZOOKEEPER, step
            assert (f"{step.verb}-zookeeper" if step.target == ZOOKEEPER else step.verb) in ACTIONS, step


def test_every_fault_is_in_a_profile_and_each_profile_holds_the_milder_ones() -> None:
    gentle, rough, evil = (set(PROFILES[name].weights) for name in ("gentle", "rough", "evil"))
    assert gentle < rough < evil == set(KINDS)


def test_a_range_says_its_unit() -> None:
    assert str(Range(1_000, 2_500)) == "1 to 2.5 s"
    assert str(Range(0.2, 0.7, in_sessions=True)) == "0.2 to 0.7 sessions"


def test_the_page_has_the_tables_of_the_profiles() -> None:
    lines = (Path(__file__).parents[4] / "docs" / "guides" / "soak.md").read_text(encoding="utf-8").splitlines()
    for name, kind in KINDS.items():
        lasting = [step for step in kind.steps if step.lasts is not None]
        names = [f"{step.verb}: " if len(kind.steps) > 1 else "" for step in lasting]
        spans = [f"{name_of}{step.lasts}" for name_of, step in zip(names, lasting, strict=True)]
        weights = [str(profile.weights.get(name, "—")) for profile in PROFILES.values()]
        assert f"| `{name}` | {kind.meaning} | {'; '.join(spans) or '—'} | {' | '.join(weights)} |" in lines
    rests = " | ".join(str(profile.rest) for profile in PROFILES.values())
    assert f"| | rest between two faults | | {rests} |" in lines


def test_another_broker_is_tried_where_the_first_leaves_nothing_for_a_later_step() -> None:
    """The controller cannot be killed and deposed: if it is drawn to be killed, another broker is killed."""
    only = Profile({"kill-and-depose": 1}, Range(0, 0))
    for seed in range(50):
        fault = next_fault(only, situation(), random.Random(seed), session_ms=SESSION_MS)
        assert isinstance(fault, PlannedFault)
        assert [step.target == "1" for step in fault.steps] == [False, True]
