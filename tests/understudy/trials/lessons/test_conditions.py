"""Conditions over records and measurements."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.clusters.problems import BadValue
from understudy.foundation.eventlog.records import BrokersChanged, Envelope, Leadership, LeadershipWritten
from understudy.trials.lessons.conditions import fits, holds, parse_condition, values_at


def envelope(data: Any, node: str = "broker-2") -> Envelope:
    return Envelope(
        version=1, run="r", node=node, incarnation=1, seq=7, mono_ms=1_500.0, wall_ms=0.0, type=type(data).__name__,
        cause=None, zxid=0, controller_epoch=1, data=data,
    )  # fmt: skip


WRITTEN = envelope(
    LeadershipWritten(
        why="offline",
        partitions=(Leadership("orders", 0, 3, 1, (3, 4), 2, 1), Leadership("orders", 1, -1, 2, (), 3, 1)),
    )
)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("why", ["offline"]),
        ("partitions.0.leader", [3]),
        ("partitions.*.leader", [3, -1]),
        ("partitions.0.isr.1", [4]),
        ("partitions.7.leader", []),
        ("partitions.0.nothing", []),
        ("broker", [2]),
        ("at_ms", [500.0]),
    ],
)
def test_the_path_of_a_field(path: str, values: list[object]) -> None:
    assert list(values_at(WRITTEN, path, 1_000.0)) == values


def test_a_testbed_is_no_broker() -> None:
    record = envelope(BrokersChanged(new=(), dead=(), bounced=(), live=()), "testbed")
    assert list(values_at(record, "broker")) == [-1]


@pytest.mark.parametrize(
    ("value", "wanted", "is_fit"),
    [
        (3, 3, True),
        ("kill", "kill", True),
        ("kill", "not kill", False),
        ((1, 2), "has 2", True),
        ((1, 2), "lacks 2", False),
        ((1, 2), "size 2", True),
        ((1, 2), "not size 2", False),
        (5.0, "> 3", True),
        (5.0, "<= 3", False),
        ("/brokers/topics/a", "starts with /brokers/topics", True),
        (9, "stop.a.broker", True),
    ],
)
def test_what_a_stop_wants(value: object, wanted: object, is_fit: bool) -> None:
    assert fits(value, wanted, lambda name: 9) is is_fit


def test_a_condition_compares_measurements() -> None:
    numbers = {"a": 3, "b": 2.5}
    assert holds(parse_condition("a > b and b >= 2.5"), numbers.__getitem__)
    assert not holds(parse_condition("a > b and a != 3"), numbers.__getitem__)
    with pytest.raises(BadValue, match="is no comparison"):
        parse_condition("a")
