"""Our cluster goes through Kafka's recorded scenarios, on real processes, and does what Kafka did."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.compare import compare, judge, listed
from tests.golden.real_stage import RealStage
from tests.golden.recording import FOLDER, load
from tests.golden.scenarios import SCENARIOS, perform
from understudy.checkers.verdict import check_run


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_we_do_what_kafka_did(scenario: str, tmp_path: Path) -> None:
    with RealStage(tmp_path) as stage:
        play = perform(scenario, stage)
        violations = check_run(stage.records(), stage.transactions())
    deliberate = [entry for entry in listed(FOLDER / "differences.toml") if entry.scenario in (scenario, "*")]
    unlisted, vanished = judge(compare(load(scenario), play.document), deliberate)
    assert not unlisted, "\n".join(map(str, unlisted))
    assert not vanished
    assert violations == []
