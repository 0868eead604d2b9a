"""Schedules of faults: their drawing from a seed, their bounds, and their printed form."""

from __future__ import annotations

from understudy.clusters.simulated.randomness import derived
from understudy.trials.seeds.faults import draw_schedule

SECONDS = 30
DRAWN = [draw_schedule(derived(seed, "faults"), brokers=4, duration_ms=SECONDS * 1000) for seed in range(300)]


def test_a_seed_always_draws_the_same_schedule() -> None:
    assert draw_schedule(derived(7, "faults"), brokers=4, duration_ms=30_000) == DRAWN[7]
    assert len({str(schedule) for schedule in DRAWN}) == len(DRAWN)


def test_every_fault_ends_before_all_faults_are_healed() -> None:
    for schedule in DRAWN:
        assert schedule.healed_at_ms == 20_000
        assert schedule.faults
        for fault in schedule.faults:
            assert 0 <= fault.at_ms < schedule.healed_at_ms
            assert fault.at_ms + fault.lasts_ms <= schedule.healed_at_ms
            assert 0 <= fault.target <= 4


def test_every_kind_of_fault_is_drawn_and_at_most_six_per_seed() -> None:
    kinds = [{fault.kind for fault in schedule.faults} for schedule in DRAWN]
    assert max(map(len, kinds)) <= 6
    assert set().union(*kinds) == {
        "kill",
        "lose-power",
        "pause",
        "stop",
        "expire",
        "depose",
        "reset-zookeeper",
        "cut-zookeeper",
        "lost-answer",
        "stop-zookeeper",
        "step-clock",
        "isolate",
        "cut-pair",
        "cut-one-way",
        "reset-network",
        "point-pause",
        "point-crash",
    }


def test_a_schedule_prints_one_line_per_fault_and_the_end_of_all_faults() -> None:
    lines = str(DRAWN[0]).splitlines()
    assert len(lines) == len(DRAWN[0].faults) + 1
    assert lines[-1] == " 20000 ms  heal"
