"""Tests of the registry of switches: names, counts, and the records of a switch that is off."""

from __future__ import annotations

import re

import pytest

from tests.brokers.parts import Recorder
from understudy.foundation.eventlog.fences import SWITCHES, Fence, Fences
from understudy.foundation.eventlog.rules import Fix


def test_every_switch_has_a_name_of_its_own() -> None:
    assert len(SWITCHES) == len(Fence) + len(Fix) >= 25
    for fix in Fix:
        assert re.fullmatch(r"(kafka|kip)-\d+", fix.value), fix
        assert fix.name == fix.value.upper().replace("-", "_")


def test_a_fix_that_is_on_counts_and_records_nothing() -> None:
    recorder = Recorder()
    fences = Fences(recorder.log)
    assert fences.rules.bounced_broker_is_noticed.holds_for("broker 2")
    assert fences.hits[Fix.KIP_380] == 1
    assert recorder.lines == []


def test_a_fix_that_is_off_records_what_it_would_have_decided() -> None:
    recorder = Recorder()
    fences = Fences(recorder.log, switched_off=[Fix.KIP_380])
    assert not fences.rules.bounced_broker_is_noticed.holds_for(("broker", 2))
    assert fences.rules.unknown_epoch_ends_with_one_before.holds_for("orders-0"), "only the one named is off"
    assert fences.hits == {Fix.KIP_380: 1, Fix.KIP_279: 1}
    (hit,) = recorder.of("FenceHit")
    assert (hit["fence"], hit["what"], hit["switched_off"]) == ("kip-380", "('broker', 2)", True)


@pytest.mark.parametrize("is_on", [True, False])
def test_a_fence_records_every_hit(is_on: bool) -> None:
    recorder = Recorder()
    fences = Fences(recorder.log, switched_off=() if is_on else [Fence.BROKER_EPOCH])
    assert fences.record_hit(Fence.BROKER_EPOCH, what="StopReplica from 1", offered=3, known=4) is is_on
    (hit,) = recorder.of("FenceHit")
    assert hit["switched_off"] is not is_on
