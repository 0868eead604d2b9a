"""`understudy check` over runs without a part of their event logs: a missing record is no fault of the cluster."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.shares import share_of
from understudy.checks.check import Violation
from understudy.checks.history import ZnodeTransaction
from understudy.checks.invariant_checker import InvariantChecker
from understudy.cli.check import CANNOT_BE_JUDGED, check_run_folder, describe
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.eventlog.fences import SWITCHES, Switch
from understudy.foundation.eventlog.records import Envelope
from understudy.history.reading.completeness import judge_completeness
from understudy.history.reading.reader import read
from understudy.trials.seeds.judgement import SeedJudgement, judge
from understudy.trials.seeds.seeds import run_seed

SECONDS = 12
SHARE = share_of("incomplete-runs")
"""Number of seeds, and number of damages to each of their files."""
SEEDS = (41, 42, 43, 44, 45)
"""Seeds whose folders hold all invariants, also without the history of the znodes."""

Damage = Callable[[list[bytes], random.Random], bytes | None]
"""Returns the content of a file whose lines are given; None removes the file."""


def without_end(lines: list[bytes], draw: random.Random) -> bytes:
    return b"".join(lines[: draw.randrange(len(lines))])


def without_end_of_a_line(lines: list[bytes], draw: random.Random) -> bytes:
    whole = b"".join(lines)
    return whole[: draw.randrange(len(whole))]


def without_beginning(lines: list[bytes], draw: random.Random) -> bytes:
    return b"".join(lines[draw.randrange(1, len(lines) + 1) :])


def without_a_part(lines: list[bytes], draw: random.Random) -> bytes:
    first = draw.randrange(len(lines))
    return b"".join([*lines[:first], *lines[first + draw.randint(1, 30) :]])


def without_file(lines: list[bytes], draw: random.Random) -> None:
    return None


DAMAGES: tuple[Damage, ...] = (without_file, without_end, without_end_of_a_line, without_beginning, without_a_part)


def event_logs(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.jsonl"))


@contextmanager
def damaged(path: Path, damage: Damage, draw: random.Random) -> Iterator[None]:
    """Let a file be damaged while the block runs."""
    whole = path.read_bytes()
    left = damage(whole.splitlines(keepends=True), draw)
    path.unlink() if left is None else path.write_bytes(left)
    try:
        yield
    finally:
        path.write_bytes(whole)


def run(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch, *fences_off: Switch) -> list[ZnodeTransaction]:
    """Run a seed, leave its event logs in a folder, and return the history of the znodes."""
    clusters: list[SimulatedCluster] = []

    def keep(cluster: SimulatedCluster) -> SeedJudgement:
        clusters.append(cluster)
        return judge(cluster)

    monkeypatch.setattr("understudy.trials.seeds.seeds.judge", keep)
    run_seed(seed, SECONDS, fences_off=fences_off, events=folder)
    return list(clusters[0].zookeeper.transactions)


def violations(folder: Path, transactions: list[ZnodeTransaction]) -> list[Violation]:
    """Check a folder with the history of its znodes, which the simulator does not write."""
    reading = read([folder])
    nodes: defaultdict[str, list[Envelope]] = defaultdict(list)
    for record in sorted(reading.records, key=lambda record: (record.node, record.incarnation, record.seq)):
        nodes[record.node].append(record)
    missing = judge_completeness(reading.records, reading.findings).evidence(has_znodes=True)
    return InvariantChecker(missing=missing).run(nodes, transactions)


@pytest.mark.parametrize("seed", SEEDS[:SHARE])
def test_no_part_of_a_log_whose_absence_is_seen_lets_a_check_be_violated(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = run(seed, tmp_path, monkeypatch)
    assert check_run_folder(tmp_path).exit_code == 0
    assert violations(tmp_path, transactions) == []
    draw = random.Random(seed)
    for path in event_logs(tmp_path):
        for damage in draw.sample(DAMAGES, SHARE):
            with damaged(path, damage, draw):
                report = check_run_folder(tmp_path)
                assert report.exit_code == CANNOT_BE_JUDGED, (path.name, damage, describe(report))
                assert violations(tmp_path, transactions) == [], (path.name, damage)


def test_a_real_violation_is_still_found_without_a_part_of_another_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = run(3, tmp_path, monkeypatch, SWITCHES["zk.controller-epoch"])
    found = {each.check for each in violations(tmp_path, transactions)}
    assert {"C3"} <= found
    for path in event_logs(tmp_path):
        with damaged(path, without_file, random.Random(1)):
            assert {"C3"} <= {each.check for each in violations(tmp_path, transactions)}


def test_requests_of_two_controllers_that_contradict_each_other_are_a_violation_in_an_incomplete_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(SEEDS[0], tmp_path, monkeypatch)
    first, *_, last = (path for path in event_logs(tmp_path) if path.name.startswith("broker-"))
    lines = [json.loads(line) for line in first.read_bytes().splitlines()]
    applied = [line for line in lines if line["type"] == "MetadataUpdated"]
    applied[-1]["data"]["request_controller_epoch"] = 0
    first.write_text("".join(json.dumps(line) + "\n" for line in lines))
    last.unlink()
    report = check_run_folder(tmp_path)
    assert report.exit_code == 1
    assert "C4a" in {each.check for each in report.violations}
    assert report.missing


def test_without_the_end_of_the_testbeds_log_the_end_of_no_other_log_is_attested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = run(SEEDS[0], tmp_path, monkeypatch)
    draw = random.Random(1)
    (testbed,) = (path for path in event_logs(tmp_path) if path.parts[-3] == "testbed")
    with damaged(testbed, lambda lines, draw: b"".join(lines[:-12]), draw):
        assert check_run_folder(tmp_path).exit_code == CANNOT_BE_JUDGED
        for path in event_logs(tmp_path):
            if path != testbed:
                with damaged(path, without_end, draw):
                    assert violations(tmp_path, transactions) == [], path.name
