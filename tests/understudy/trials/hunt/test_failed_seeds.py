"""Files about a failed seed: its folder, its report, and a plan that violates the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.eventlog.records import Envelope
from understudy.foundation.times import moment
from understudy.history.reading.reader import read
from understudy.trials.hunt.failed_seeds import LAST_EVENTS, last_events, write_down
from understudy.trials.hunt.plan_files import read_plan
from understudy.trials.hunt.plan_shrinking import kind_of
from understudy.trials.seeds.seeds import run_plan, run_seed

SECONDS = 9


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> tuple[Envelope, ...]:
    folder = tmp_path_factory.mktemp("run")
    run_seed(2, SECONDS, events=folder)
    return read([folder]).records


def place(record: Envelope) -> str:
    return f"{record.node}/{record.incarnation}#{record.seq}"


def test_the_events_end_with_the_witness(records: tuple[Envelope, ...]) -> None:
    witness = records[len(records) // 2]
    lines = last_events(records, f"C4a violated at {place(witness)}: a reason. It should hold that …")
    assert 10 < len(lines) <= LAST_EVENTS
    assert place(witness) in lines[-1]
    assert lines[-1].strip().startswith(f"{moment(witness.mono_ms - records[0].mono_ms)}  ")


def test_the_events_end_with_the_transaction(records: tuple[Envelope, ...]) -> None:
    lines = last_events(records, "C3 violated at zxid 30: a reason. It should hold that …")
    last = next(record for record in reversed(records) if place(record) == lines[-1].split()[2])
    assert last.zxid <= 30


def test_records_about_the_partition_are_among_them(records: tuple[Envelope, ...]) -> None:
    problem = "R6 violated at the end: ledger-0: broker 2 has not …"
    about = [line for line in last_events(records, problem, most=10_000) if "topic=ledger partition=0" in line]
    assert len(about) > 3
    assert not any("topic=ledger partition=1" in line for line in last_events(records, problem, most=10_000))


def test_without_a_witness_they_end_with_the_run(records: tuple[Envelope, ...]) -> None:
    lines = last_events(records, "Unsettled: seed 2, not settled within 30 s without faults", most=7)
    assert len(lines) == 7


def test_a_failed_seed_leaves_a_plan_that_violates_the_same(tmp_path: Path) -> None:
    """Without its fence in ZooKeeper, every seed in which the controller changes violates C3."""
    failed = write_down(1, SECONDS, tmp_path, commit="0123456789ab", fences_off=(Fence.ZK_CONTROLLER_EPOCH,))
    assert failed is not None
    assert failed.folder == tmp_path / "seed-1"
    assert failed.shrunk.kind == "C3"
    assert failed.faults_left <= 0.1
    file = read_plan(failed.folder / "plan.json")
    assert (file.plan, file.violates, file.commit) == (failed.shrunk.plan, "C3", "0123456789ab")
    again = run_plan(file.plan)
    assert again.problems == failed.shrunk.report.problems
    assert again.judgement.log_digest == failed.shrunk.report.judgement.log_digest
    report = (failed.folder / "report.txt").read_text()
    for text in (
        "Seed 1 violates C3 at commit 0123456789ab",
        f"understudy simulate --seed 1 --seconds {SECONDS} --without zk.controller-epoch",
        f"understudy simulate --plan {failed.folder / 'plan.json'}",
        failed.shrunk.problem,
        "relevant events of the shrunk run:",
    ):
        assert text in report
    assert "C3" in map(kind_of, failed.whole.problems)
    assert len(read([failed.folder / "events"]).records) == failed.shrunk.report.judgement.records
    assert len(read([failed.folder / "whole-run"]).records) == failed.whole.judgement.records


def test_a_seed_that_fails_again_gets_another_folder(tmp_path: Path) -> None:
    for _ in range(2):
        write_down(1, SECONDS, tmp_path, commit="", fences_off=(Fence.ZK_CONTROLLER_EPOCH,), most_runs=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-1", "seed-1-2"]


def test_a_seed_that_does_not_fail_is_not_written_down(tmp_path: Path) -> None:
    assert write_down(1, SECONDS, tmp_path, commit="") is None
    assert list(tmp_path.iterdir()) == []
