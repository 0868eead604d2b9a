"""Any sequence of appends, compactions, ends of the process, losses of power and restarts keeps the newest values."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.brokers.log.compacted_model import CompactedModel
from tests.shares import share_of
from understudy.brokers.config.kafka_config import KafkaConfig

STEPS = (
    *["append"] * 8,
    *["commit"] * 3,
    *["clean"] * 4,
    "roll",
    "wait",
    "truncate",
    "begin_epoch",
    "checkpoint",
    "checkpoint_high_watermarks",
    "close_and_open",
    "kill",
    "lose_power",
)
FEW_KEYS = replace(KafkaConfig(), log_cleaner_dedupe_buffer_size=3 * 192, log_cleaner_io_buffer_load_factor=1.0)
"""The map has room for fewer keys than there are, so that segments are compacted in part."""

SEEDS = range(share_of("compaction-ends"))


@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), min_size=20, max_size=80))
@settings(max_examples=40, deadline=None)
def test_the_newest_values_are_kept(seed: int, steps: list[str]) -> None:
    model = CompactedModel(random.Random(seed))
    for name in steps:
        model.step(name)
        model.compare()


@given(
    seed=st.integers(0, 2**32),
    steps=st.lists(
        st.tuples(st.sampled_from(STEPS), st.one_of(st.none(), st.integers(0, 25)), st.booleans()),
        min_size=20,
        max_size=80,
    ),
)
@settings(max_examples=40, deadline=None)
def test_an_end_within_a_step_loses_no_value(seed: int, steps: list[tuple[str, int | None, bool]]) -> None:
    model = CompactedModel(random.Random(seed))
    for name, ends_after, lose_power in steps:
        model.step(name, ends_after=ends_after, lose_power=lose_power)
        model.compare()


@pytest.mark.parametrize("config", [KafkaConfig(), FEW_KEYS], ids=["all keys", "few keys"])
@pytest.mark.parametrize("lose_power", [False, True], ids=["killed", "without power"])
@pytest.mark.parametrize("seed", SEEDS)
def test_an_end_at_any_call_of_a_compaction_loses_no_value(seed: int, lose_power: bool, config: KafkaConfig) -> None:
    model = CompactedModel(random.Random(seed), config)
    for _ in range(30):
        for _ in range(model.source.randint(1, 25)):
            model.step("append")
        model.step("commit")
        model.step("wait")
        model.step("clean", ends_after=model.source.randrange(60), lose_power=lose_power)
        model.compare()
        model.step("clean")
        model.compare()
    assert model.ends > 5


def test_a_compaction_leaves_one_value_of_each_key_below_the_active_segment() -> None:
    model = CompactedModel(random.Random(0))
    for _ in range(200):
        model.step("append")
    model.log.update_high_watermark(model.log.log_end_offset)
    active = model.log.segments[-1].base_offset
    before = len(model.stored())
    model.step("clean")
    compacted = [record.key for record in model.stored() if record.offset < active]
    assert len(compacted) == len(set(compacted))
    assert len(model.stored()) < before / 5
    assert model.log.first_dirty_offset == active
