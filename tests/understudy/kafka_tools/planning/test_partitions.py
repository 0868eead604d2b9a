"""Tests of the plan of partitions: the formula, the measured curves, and the printed text."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from understudy.kafka_tools.planning.partitions import (
    OF_REPLICAS,
    Cost,
    Curve,
    PartitionsPlan,
    costs,
    curves,
    needed,
    partitions_answer,
    partitions_json,
)
from understudy.kafka_tools.planning.plan_answer import BadPlan, text_of

PLAN = PartitionsPlan(
    target=500, producer_rate=10, consumer_rate=20, rates_from="given", brokers=5, replication_factor=3
)
CURVE = Curve("memory", "MB", OF_REPLICAS, "x", "here", ((100, 10), (200, 30), (400, 40)))


def test_the_slower_side_decides() -> None:
    assert needed(PLAN) == (50, 25, 25, 250)
    assert needed(PLAN).partitions == 50
    assert needed(replace(PLAN, consumer_rate=4)) == (50, 125, 50, 200)
    assert needed(replace(PLAN, consumer_rate=4)).partitions == 125


def test_the_copied_formula_is_enough_only_where_both_sides_are_equal() -> None:
    equal = needed(replace(PLAN, consumer_rate=10))
    assert (equal.partitions, equal.copied_formula, equal.copied_reaches) == (50, 50, 500)
    assert "gives as many here" in text_of(partitions_answer(replace(PLAN, consumer_rate=10)))
    text = text_of(partitions_answer(PLAN))
    assert "gives 25, too small by 25: the producers would reach 250 MB/s, 50 % of the target" in " ".join(text.split())


def test_parts_are_rounded_up_but_not_by_the_last_binary_digit() -> None:
    assert needed(replace(PLAN, target=500.1)).partitions == 51
    assert needed(replace(PLAN, target=0.3, producer_rate=0.1, consumer_rate=0.1)).partitions == 3
    assert needed(replace(PLAN, target=1)).partitions == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (replace(PLAN, producer_rate=0), "a producer rate of 0 MB/s makes no plan"),
        (replace(PLAN, consumer_rate=float("inf")), "a consumer rate of inf MB/s makes no plan"),
        (replace(PLAN, brokers=2), "replication factor 3, but there are 2 brokers"),
        (replace(PLAN, target=1e9), "needs 100,000,000 partitions; a plan has at most 1,000,000"),
    ],
)
def test_what_makes_no_plan_is_refused(changed: PartitionsPlan, message: str) -> None:
    with pytest.raises(BadPlan, match=message):
        needed(changed)


def test_a_curve_is_a_line_between_and_after_its_points_and_a_bound_before_them() -> None:
    assert [CURVE.at(size) for size in (100, 150, 200, 300, 400, 600)] == [10, 20, 30, 35, 40, 50]
    assert CURVE.at(40) == 10
    assert [Cost(CURVE, size).is_measured for size in (99, 100, 400, 401)] == [False, True, True, False]


def test_every_curve_of_the_package_has_a_source_and_a_counterpart_of_kafka() -> None:
    found = curves()
    assert {curve.what for curve in found} >= {"memory", "open files", "failover of a broker that leads a third"}
    for curve in found:
        assert "make bench" in curve.source
        assert list(curve.points) == sorted(curve.points)
        assert len(curve.points) >= 2
    by_software = [{curve.what for curve in found if curve.software == name} for name in {c.software for c in found}]
    assert len(by_software) == 2
    assert by_software[0] == by_software[1]


def test_costs_are_of_all_replicas_of_a_broker_and_all_partitions_of_the_cluster() -> None:
    plan = replace(PLAN, existing_partitions=1_000, existing_replicas=2_000)
    sizes = {cost.curve.of: cost.size for cost in costs(plan, 50)}
    assert sizes == {"replicas of a broker": 430, "partitions of the cluster": 1_050}


def test_what_was_not_measured_is_marked() -> None:
    text = text_of(partitions_answer(PLAN))
    assert "at most 2.57 s" in text
    assert " *" not in text
    text = text_of(partitions_answer(replace(PLAN, target=2_000_000)))
    assert "at most" not in text
    assert "* beyond what was measured" in text


def test_json_has_what_the_text_has() -> None:
    found = json.loads(json.dumps(partitions_json(PLAN)))
    assert found["partitions"] == 50
    assert found["copied_formula"] == {"partitions": 25, "reaches_mb_per_s": 250}
    assert len(found["costs"]) == len(curves())
    assert all(cost["source"] for cost in found["costs"])
