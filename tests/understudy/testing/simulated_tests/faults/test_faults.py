"""Faults of tests in virtual time are drawn from the seed, or written as steps of experiments."""

from __future__ import annotations

import pickle
import random
from collections.abc import Mapping, Sequence

import pytest

from understudy.testing.simulated_tests.faults.faults import KINDS, PROFILES, BadFault, Fault, check_faults, draw_faults


def drawn(seed: int, kinds: Sequence[str], seconds: float = 60.0) -> tuple[Fault, ...]:
    return draw_faults(random.Random(seed), kinds, seconds=seconds, brokers=3)


@pytest.mark.parametrize("kinds", [PROFILES["failover"], ("kill", "stop", "kill-service", "pause-service")])
def test_a_minute_of_failovers_has_about_five_faults(kinds: Sequence[str]) -> None:
    counts = [len(drawn(seed, kinds)) for seed in range(300)]
    assert 4.5 < sum(counts) / len(counts) < 7
    assert min(counts) >= 1


@pytest.mark.parametrize("profile", ["failover", "evil"])
def test_a_test_of_half_a_second_is_struck_in_a_good_share_of_seeds(profile: str) -> None:
    struck = sum(drawn(seed, PROFILES[profile])[0].at_ms < 500 for seed in range(300))
    assert struck > 120


def test_the_same_seed_draws_the_same_faults_and_each_kind_is_drawn() -> None:
    assert drawn(7, PROFILES["evil"]) == drawn(7, tuple(reversed(PROFILES["evil"])))
    assert drawn(7, PROFILES["none"]) == ()
    names = {fault.action.name for seed in range(200) for fault in drawn(seed, PROFILES["evil"])}
    assert names == {kind.removesuffix("-service") for kind in KINDS}


def test_a_fault_is_a_value_that_is_written_as_a_step() -> None:
    for seed in range(40):
        for fault in drawn(seed, PROFILES["evil"], seconds=5):
            assert pickle.loads(pickle.dumps(fault)) == fault
            assert str(fault)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("{at: 10s, kill: leader(orders/0), for: 3s}", "10.000 s  kill leader(orders/0) (SIGKILL) for 3s"),
        ("at: 1s, pause: service(billing), for: 5s", "1.000 s  pause service(billing) (SIGSTOP) for 5s"),
        (
            {"when": "elected", "wait": "200ms", "drop-answer": "clients", "to": "all", "api": "Produce"},
            "0.200 s after elected  break the connection of clients instead of answering its next request to all",
        ),
    ],
)
def test_a_fault_is_written_by_hand_as_a_step_of_an_experiment(given: str | Mapping[str, object], text: str) -> None:
    (fault,) = drawn(1, check_faults([given]))
    assert text in str(fault)
    assert drawn(1, check_faults([fault.step]))[0].action == fault.action


def test_ranges_of_a_step_are_drawn_by_the_seed() -> None:
    times = {drawn(seed, check_faults(["at: 1s..9s, kill: controller"]))[0].at_ms for seed in range(10)}
    assert len(times) > 5
    assert all(1_000 <= each <= 9_000 for each in times)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("failovr", "one of 'none', 'failover', 'evil', or a list of kinds and steps, and not 'failovr'; did you mean"),
        ("kill", r"write faults=\['kill'\] for this kind alone"),
        (["kil"], "the unknown kind 'kil'; did you mean 'kill'"),
        ([5], "has 5; expected the name of a kind, or a step"),
        (5, "and not 5"),
        (["kill: controller"], "needs `at` or `when`"),
        (["at: 1s, kil: controller"], "cannot be read: 'kil' is no action"),
        (["at: soon, kill: controller"], "'soon' is no duration"),
        (["at: 1s, produce: orders/0"], "injects no fault"),
        (["at: 1s, kill: B"], "`not`, `as`, `mark` and their names are for experiments only"),
    ],
)
def test_a_fault_that_no_test_can_have_is_refused_with_what_was_expected(given: Sequence[str], message: str) -> None:
    with pytest.raises(BadFault, match=message):
        check_faults(given)
