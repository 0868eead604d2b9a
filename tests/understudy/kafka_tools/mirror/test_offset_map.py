"""The map of a copy's offsets: what follows from the target's end, and what groups get."""

from __future__ import annotations

import random

from understudy.kafka_tools.mirror.offset_map import LIMIT, MirroredOffsets, Position, Run


def test_records_that_follow_each_other_are_one_run() -> None:
    found = MirroredOffsets()
    assert found.add(100, 110, 0, 10)
    assert not found.add(110, 125, 10, 15)
    assert found.runs == (Run(100, 0, None),)
    assert found.position_for(0) == Position(100, True)
    assert found.position_for(25) == Position(125, True)
    assert found.translate(117, 25) == 17


def test_a_gap_between_batches_begins_another_run() -> None:
    found = MirroredOffsets()
    found.add(0, 10, 0, 10)
    assert found.add(50, 60, 10, 10)
    assert found.runs == (Run(0, 0, 10), Run(50, 10, None))
    assert found.position_for(10) == Position(50, True)
    assert found.position_for(9) == Position(9, True)
    # A group that has committed an offset within the gap reads what follows it next.
    assert found.translate(30, 20) == 10
    assert found.translate(55, 20) == 15


def test_within_a_batch_with_gaps_only_its_beginning_is_known() -> None:
    found = MirroredOffsets()
    found.add(0, 10, 0, 4)
    assert found.position_for(4) == Position(10, True)
    assert found.position_for(2) == Position(0, False)
    assert found.translate(9, 4) == 0
    assert found.translate(10, 4) == 4


def test_a_plan_that_was_not_appended_is_taken_back() -> None:
    found = MirroredOffsets()
    found.add(0, 10, 0, 10)
    found.add(50, 60, 10, 3)
    found.truncate(10)
    assert found.position_for(10) == Position(50, True)
    found.truncate(5)
    assert found.position_for(5) == Position(5, True)
    assert not found.add(5, 10, 5, 5)


def test_a_truncated_source_makes_earlier_runs_void() -> None:
    found = MirroredOffsets()
    found.add(0, 100, 0, 100)
    found.add(60, 70, 100, 10)
    assert found.runs == (Run(60, 100, None),)
    assert found.translate(65, 110) == 105


def test_no_offset_goes_beyond_what_is_acknowledged() -> None:
    found = MirroredOffsets()
    found.add(0, 100, 0, 100)
    assert found.translate(100, 40) == 40
    assert found.translate(1_000, 40) == 40
    assert MirroredOffsets().translate(0, 0) is None


def test_random_maps_are_exact_at_ends_of_batches_and_never_let_a_group_skip_a_record() -> None:
    for seed in range(60):
        source = random.Random(seed)
        found, position, target = MirroredOffsets(), source.randint(0, 50), 0
        offsets: list[int] = []
        ends = {0: position}
        for _ in range(source.randint(1, 60)):
            position += source.choice((0, 0, 0, 7))
            span = source.randint(1, 12)
            kept = sorted(source.sample(range(position, position + span), source.randint(1, span)))
            if source.random() < 0.7:
                kept = list(range(position, position + span))
            found.add(kept[0], position + span, target, len(kept))
            offsets += kept
            target, position = target + len(kept), position + span
            ends[target] = position
            assert found.position_for(target) == Position(position, True)
        for end, following in ends.items():
            place = found.position_for(end)
            assert place is not None
            assert place.is_exact
            # The next record of the source is the same, whether the gap before it is skipped or not.
            assert [each for each in offsets if each >= place.source][:1] == offsets[end : end + 1]
            assert place.source >= following or not offsets[end:]
        if len(found.runs) > LIMIT:
            found.thin(target)
        translated = [found.translate(offset, target) for offset in range(position + 3)]
        for offset, copied in enumerate(translated):
            assert copied is not None
            assert copied <= sum(each < offset for each in offsets)
        assert translated == sorted(each for each in translated if each is not None)


def test_old_runs_are_thinned_and_new_ones_and_plans_are_kept() -> None:
    found = MirroredOffsets()
    for number in range(500):
        found.add(10 * number, 10 * number + 5, 5 * number, 5)
        if number < 400:
            found.thin(5 * number)
    runs = found.runs
    assert runs[0] == Run(0, 0, 5)
    assert len(runs) <= LIMIT + 100
    assert [run.source for run in runs[-100:]] == [10 * number for number in range(400, 500)]
    found.thin(2_500)
    assert len(found.runs) <= LIMIT
    # If runs were left out, the position lies before the missing ones.
    assert found.position_for(2_500) == Position(4_995, True)
    place = found.position_for(1_001)
    assert place is not None
    assert place.source <= 2_002
