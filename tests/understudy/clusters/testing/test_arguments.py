"""`ClusterArguments`: which arguments of the marker are accepted, and what the refusals say."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.clusters.testing.arguments import BadArguments, ClusterArguments
from understudy.clusters.testing.cluster_under_test import ClusterUnderTest


def test_without_arguments_there_are_three_brokers_for_one_test() -> None:
    assert ClusterArguments.of({}) == ClusterArguments(brokers=3, session_timeout_ms=3_000, scope="function")


def test_equal_arguments_in_another_order_are_equal() -> None:
    one = ClusterArguments.of({"topics": {"a": 1, "b": 2}, "properties": {"x": 1, "y": True}, "racks": ["r"]})
    other = ClusterArguments.of({"racks": ("r",), "properties": {"y": "true", "x": "1"}, "topics": {"b": 2, "a": 1}})
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"broker": 5}, "there is no argument 'broker'; did you mean 'brokers'?; there are brokers, racks, topics"),
        ({"zzz": 5}, "there is no argument 'zzz'; there are brokers"),
        ({"brokers": 0}, "brokers is a whole number from 1, not 0"),
        ({"brokers": True}, "brokers is a whole number from 1, not True"),
        ({"brokers": "5"}, "brokers is a whole number from 1, not '5'"),
        ({"racks": "a"}, "racks is a list of names, not 'a'"),
        ({"racks": [1]}, r"racks is a list of names, not \[1\]"),
        ({"topics": ["orders"]}, r"topics is a dictionary by name, not \['orders'\]"),
        ({"topics": {"orders": 0}}, r"topics\['orders'\], the number of partitions, is a whole number from 1, not 0"),
        ({"session_timeout_ms": 1.5}, "session_timeout_ms is a whole number from 1, not 1.5"),
        ({"proxied": "yes"}, "proxied is True or False, not 'yes'"),
        ({"properties": 3}, "properties is a dictionary by name, not 3"),
        ({"scope": "sesion"}, "scope is 'function' or 'session', not 'sesion'; did you mean 'session'?"),
    ],
)
def test_wrong_arguments_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BadArguments, match=message.replace("?", r"\?")):
        ClusterArguments.of(values)


def test_a_cluster_checks_its_arguments_before_it_starts() -> None:
    with pytest.raises(BadArguments, match="number of partitions"):
        ClusterUnderTest(topics={"orders": -1})
