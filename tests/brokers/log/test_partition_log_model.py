"""Random sequences of operations on a log and on a list of batches, with ends of the process and losses of power."""

from __future__ import annotations

import pytest

from tests.brokers.log.log_model import EndingDisk, LogModel, ProcessEnded

SEEDS = range(25)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_has_what_was_appended(seed: int) -> None:
    model = LogModel(seed)
    for _ in range(80):
        model.step()
        model.compare()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_log_that_is_opened_again_is_the_same(seed: int) -> None:
    model = LogModel(seed)
    for _ in range(80):
        model.step()
        if model.source.random() < 0.2:
            end, start = model.end_offset, model.log.log_start_offset
            if model.source.random() < 0.5:
                model.close_and_open()
                assert model.log.log_start_offset == start
            else:
                model.end_process_and_open(lose_power=False)
                assert model.log.log_start_offset <= start, "perhaps that of an older checkpoint"
            assert model.end_offset == end
            model.compare()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loss_of_power_leaves_what_was_flushed_and_what_follows_it_without_gaps(seed: int) -> None:
    model = LogModel(seed)
    for _ in range(120):
        model.step()
        if model.source.random() < 0.15:
            model.end_process_and_open(lose_power=True)
            model.compare()
        elif model.source.random() < 0.05:
            model.close_and_open()
            model.compare()


@pytest.mark.parametrize("lose_power", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_an_end_within_an_operation_leaves_a_log_that_goes_on(seed: int, lose_power: bool) -> None:
    disk = EndingDisk()
    model = LogModel(seed, disk)
    ends = 0
    for _ in range(120):
        if model.source.random() < 0.3:
            disk.faults.calls_left = model.source.randrange(8)
        batches, end_offset = list(model.batches), model.end_offset
        model.least_end = end_offset
        try:
            model.step()
        except ProcessEnded:
            ends += 1
            if not model.batches and model.end_offset > 0 and model.least_end == 0:
                # The log was being emptied: it has a part of what it had.
                model.batches = batches
            elif len(model.batches) <= len(batches):
                model.batches = batches
            disk.faults.calls_left = None
            model.end_process_and_open(lose_power=lose_power)
            model.compare()
        disk.faults.calls_left = None
    assert ends > 0
