"""Tests of the plan of keys."""

from __future__ import annotations

import pytest

from understudy.clusters.clients.partitioner import partition_for_key
from understudy.kafka_tools.planning.keys import KeyPlan, key_answer
from understudy.kafka_tools.planning.plan_answer import BadPlan, text_of


def test_partition_of_a_key_before_and_after_the_topic_grows() -> None:
    lines = text_of(key_answer(KeyPlan(partitions=6, keys=("21", "order-2", "é"), grown_to=8))).splitlines()
    row = next(line for line in lines if line.startswith("'21'")).split()
    assert row[1:4] == ["-973932308", "1173551340", "0"]
    assert any(f"{partition_for_key('é'.encode(), 8)}" in line for line in lines if line.startswith("'é'"))
    moved = sum(line.endswith(" moved") for line in lines)
    assert 0 < moved < 3
    assert any(line.startswith(f"{moved} of 3 keys change") for line in lines)


def test_records_without_a_key_are_counted_by_partition() -> None:
    text = text_of(key_answer(KeyPlan(partitions=3, without_key=80, record_bytes=1_000)))
    assert "1-17     " in text
    counts = text.partition("partition  records")[2].splitlines()[1:4]
    assert sum(int(line.split()[1]) for line in counts) == 80


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (KeyPlan(partitions=6), "no key: give some"),
        (KeyPlan(partitions=6, keys=("a",), grown_to=6), "--grown-to 6: the topic has 6 partitions"),
    ],
)
def test_what_cannot_be_is_refused(plan: KeyPlan, message: str) -> None:
    with pytest.raises(BadPlan, match=message):
        key_answer(plan)
