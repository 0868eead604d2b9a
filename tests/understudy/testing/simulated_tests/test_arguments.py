"""The arguments of `simulated` that it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.testing.simulated_tests.arguments import BadArguments, checked_arguments
from understudy.testing.simulated_tests.faults.faults import PROFILES


def test_the_defaults_are_three_brokers_and_a_minute_of_failovers() -> None:
    arguments = checked_arguments({})
    assert (arguments.seeds, arguments.brokers, arguments.seconds) == (100, 3, 60.0)
    assert arguments == checked_arguments({"faults": "failover"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"brokers": 0}, "brokers is a whole number from 1 to 50, and not 0"),
        ({"brokers": 1000}, "brokers is a whole number from 1 to 50, and not 1000"),
        ({"brokers": True}, "brokers is a whole number from 1 to 50, and not True"),
        ({"seeds": 0}, "seeds is a whole number from 1, and not 0"),
        ({"seeds": -1}, "seeds is a whole number from 1, and not -1"),
        ({"seeds": "x"}, "seeds is a whole number from 1, and not 'x'"),
        ({"minutes": 0}, "minutes is a number of virtual minutes above 0, such as 0.5, and not 0"),
        ({"minutes": -2}, "minutes is a number of virtual minutes above 0, such as 0.5, and not -2"),
        ({"minutes": float("nan")}, "minutes is a number of virtual minutes above 0, such as 0.5, and not nan"),
        ({"minutes": "1"}, "minutes is a number of virtual minutes above 0, such as 0.5, and not '1'"),
        ({"racks": "a"}, "racks is a list of names, and not 'a'"),
        ({"settings": ["a"]}, "settings is a dictionary of keys of server.properties"),
        ({"seed": 3}, "@simulated has no argument 'seed'; did you mean 'seeds'?; it has seeds, brokers"),
    ],
)
def test_a_bad_value_is_refused_with_what_was_expected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadArguments) as refused:
        checked_arguments(given)
    assert message in str(refused.value)


def test_an_unknown_profile_of_faults_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(BadArguments) as refused:
        checked_arguments({"faults": "failovers"})
    assert "did you mean 'failover'?" in str(refused.value)
    assert all(repr(profile) in str(refused.value) for profile in PROFILES)


def test_an_unknown_kind_of_fault_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(BadArguments, match="did you mean 'kill'"):
        checked_arguments({"faults": ["kil"]})
