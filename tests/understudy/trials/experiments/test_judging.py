"""The verdict on a run whose event logs lack records: it is neither held nor violated, and names them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from tests.understudy.trials.experiments.simulated import HEAD
from understudy.cli.experiment import describe
from understudy.foundation.eventlog.records import ControllerElected, Envelope, FenceHit
from understudy.trials.experiments.judging import judge
from understudy.trials.experiments.language.frozen import freeze
from understudy.trials.experiments.language.reading import read_experiment
from understudy.trials.experiments.report.html_page import html_page
from understudy.trials.experiments.report.junit import junit_xml
from understudy.trials.experiments.report.verdict import Status, Verdict
from understudy.trials.experiments.runner import Runner, RunOutcome
from understudy.trials.experiments.simulated.engine import SimulatedEngine

EXPERIMENT = (
    HEAD + "steps:\n  - {at: 1s, as: C, kill: controller}\n  - {at: 9s, start: C}\n"
    "expect: {sometimes: [elected], never: [unclean-election]}\n"
)

Change = Callable[[Sequence[Envelope]], Sequence[Envelope]]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    plan = freeze(read_experiment(EXPERIMENT, "f.yaml"), None)
    engine = SimulatedEngine.begin(plan, tmp_path_factory.mktemp("run"))
    try:
        return Runner(plan, engine).run()
    finally:
        engine.close()


def judged(outcome: RunOutcome, node: str, change: Change) -> Verdict:
    """Judge the run with other records of one node, or of every node if `node` is empty."""
    assert outcome.data is not None
    records = {name: change(own) if node in ("", name) else own for name, own in outcome.data.records.items()}
    data = dataclasses.replace(outcome.data, records=records)
    return judge(dataclasses.replace(outcome, data=data), "again")


def second_controller(outcome: RunOutcome) -> str:
    assert outcome.data is not None
    every = [record for own in outcome.data.records.values() for record in own]
    return max((r.controller_epoch, r.node) for r in every if isinstance(r.data, ControllerElected))[1]


def test_a_complete_run_is_held(outcome: RunOutcome) -> None:
    verdict = judged(outcome, "broker-1", lambda own: own)
    assert (verdict.status, verdict.missing) == (Status.HELD, ())


def test_a_run_that_lacks_the_end_of_a_log_cannot_be_judged(outcome: RunOutcome, tmp_path: Path) -> None:
    verdict = judged(outcome, second_controller(outcome), lambda own: own[: len(own) // 2])
    assert verdict.status is Status.UNJUDGED
    assert verdict.exit_code == 2
    assert verdict.violations == ()
    assert verdict.missing[0].startswith(f"{second_controller(outcome)} incarnation 1, from ")
    lines = describe(verdict, tmp_path)
    assert f"  missing: {verdict.missing[0]}" in lines
    assert any("invariants held in the records that are there" in line for line in lines)
    assert verdict.missing[0] in html_page(verdict).replace("&#x27;", "'")
    (suite,) = ElementTree.fromstring(junit_xml([verdict]))
    assert (suite.attrib["failures"], suite.attrib["errors"]) == ("0", "1")
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict


def test_a_mark_that_missing_records_may_have_is_not_judged(outcome: RunOutcome) -> None:
    verdict = judged(outcome, "", lambda own: [each for each in own if not isinstance(each.data, ControllerElected)])
    assert "elected" not in verdict.marks
    assert [(each.kind, each.name) for each in verdict.unjudged] == [("sometimes", "elected")]
    assert verdict.status is Status.UNJUDGED
    assert any(second_controller(outcome) in missing for missing in verdict.missing)


def test_a_contradiction_among_the_records_that_are_there_violates_an_incomplete_run(outcome: RunOutcome) -> None:
    refused = FenceHit(fence="broker.controller-epoch", what="UpdateMetadata", offered=3, known=2)

    def wrong(own: Sequence[Envelope]) -> Sequence[Envelope]:
        return [*own[:50], msgspec.structs.replace(own[50], type="FenceHit", data=refused)]

    verdict = judged(outcome, "broker-2", wrong)
    assert verdict.status is Status.VIOLATED
    assert [each.name for each in verdict.violations] == ["C4a"]
    assert verdict.missing
