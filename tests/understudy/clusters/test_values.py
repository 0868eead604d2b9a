"""Durations, ranges, targets and triggers as an experiment file writes them."""

from __future__ import annotations

import random

import pytest

from understudy.clusters.problems import BadValue
from understudy.clusters.values import (
    CountRange,
    Span,
    Target,
    Trigger,
    parse_count_range,
    parse_signed_duration,
    parse_span,
    parse_target,
    parse_trigger,
    written_duration,
)
from understudy.foundation.cluster.identifiers import TopicPartition


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("4s", Span(4_000, 4_000)),
        ("200ms", Span(200, 200)),
        ("1.5s", Span(1_500, 1_500)),
        ("2m", Span(120_000, 120_000)),
        ("1s..4s", Span(1_000, 4_000)),
        ("0s..200ms", Span(0, 200)),
    ],
)
def test_durations_and_ranges(text: str, span: Span) -> None:
    assert parse_span(text) == span
    assert parse_span(str(span)) == span, "what is written can be read"


@pytest.mark.parametrize("text", ["4", "s", "-4s", "4 seconds", "25h", "4s..1s", "1s..", "", None, True])
def test_what_is_no_duration_is_refused_by_name(text: object) -> None:
    with pytest.raises(BadValue) as refused:
        parse_span(text)
    assert repr(text) in str(refused.value) or "''" in str(refused.value)


def test_a_range_is_drawn_by_the_seed_within_its_bounds() -> None:
    span = Span(1_000, 4_000)
    drawn = [span.draw(random.Random(seed)) for seed in range(50)]
    assert len(set(drawn)) > 40
    assert all(1_000 <= each <= 4_000 for each in drawn)
    assert drawn == [span.draw(random.Random(seed)) for seed in range(50)]


def test_a_clock_may_go_back() -> None:
    assert parse_signed_duration("-5s") == -5_000
    assert parse_signed_duration("30s") == parse_signed_duration("+30s") == 30_000


def test_counts() -> None:
    assert parse_count_range(3) == CountRange(3, 3)
    assert parse_count_range("2..6") == CountRange(2, 6)
    for wrong in (0, "6..2", "x", "1.5"):
        with pytest.raises(BadValue, match=str(wrong)):
            parse_count_range(wrong)


ORDERS_0 = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("controller", Target("controller")),
        ("leader(orders/0)", Target("leader", partition=ORDERS_0)),
        ("leader:orders/0", Target("leader", partition=ORDERS_0)),
        ("follower( orders/0 )", Target("follower", partition=ORDERS_0)),
        ("rack(a)", Target("rack", name="a")),
        ("rack:a", Target("rack", name="a")),
        (2, Target("broker", broker_id=2)),
        ("broker-2", Target("broker", broker_id=2)),
        ("B", Target("bound", name="B")),
        ("zookeeper", Target("zookeeper")),
    ],
)
def test_targets(text: object, target: Target) -> None:
    assert parse_target(text) == target
    assert parse_target(str(target)) == target, "what is written can be read"


@pytest.mark.parametrize("text", ["contoller", "leader", "leader(orders)", "leader(orders/x)", "rack()", "b", ""])
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        parse_target(text)


def test_a_wrong_role_suggests_the_right_one() -> None:
    with pytest.raises(BadValue, match="did you mean 'controller'"):
        parse_target("contoller")


def test_triggers() -> None:
    assert parse_trigger("elected") == Trigger("elected")
    assert parse_trigger("registered(B)") == Trigger("registered", ("B",))
    assert parse_trigger("point(C, partition.after_write)") == Trigger("point", ("C", "partition.after_write"))
    for wrong in ("electd", "leader-changed", "point(C)", "elected(B, C)", "leader-changed(orders)", "registered()"):
        with pytest.raises(BadValue):
            parse_trigger(wrong)


def test_durations_are_written_shortly() -> None:
    assert [written_duration(ms) for ms in (0, 200, 1_000, 1_500, 61_000)] == ["0s", "200ms", "1s", "1.5s", "61s"]
