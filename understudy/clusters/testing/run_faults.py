"""Reads the faults of a test from the event logs of its run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from understudy.clusters.testing.faults import FaultsOfTest, faults_among
from understudy.foundation.eventlog.records import Envelope, StepReached
from understudy.history.reading.reader import read

TEST_BEGUN: Final = "test begun"
"""The step that `ClusterUnderTest` records when a test begins; faults before it belong to an earlier test."""


def faults_of_test(run_folder: Path) -> FaultsOfTest:
    """Read the faults since the last test began in a run. The run's cluster may still be running."""
    folders = [run_folder / "testbed" / "events", *run_folder.glob("broker-*/events")]
    records = read([folder for folder in folders if folder.is_dir()]).records
    begun_ms = max((record.wall_ms for record in records if _begins_a_test(record)), default=0.0)
    return faults_among(records, begun_ms)


def describe_run(run_folder: Path) -> str:
    """Describe a run for the output of a failed test: its folder, the faults of the test, and how to check the run."""
    found = faults_of_test(run_folder)
    return "\n".join(
        [
            f"run folder: {run_folder}",
            "faults injected by the test:" if found.faults else "the test injected no fault",
            *found.lines(),
            f"to check its invariants: understudy check {run_folder}",
        ]
    )


def _begins_a_test(record: Envelope) -> bool:
    return isinstance(record.data, StepReached) and record.data.step == TEST_BEGUN
