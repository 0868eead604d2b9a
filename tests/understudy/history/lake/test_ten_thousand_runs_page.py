"""The commands and programs in docs/guides/ten-thousand-runs.md run as they are written there, with fewer runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.shares import at_night
from understudy.history.metrics.row_tables import RequestRow
from understudy.history.report.replay import measure_files, row_table_rows
from understudy.history.report.runs import find_logs

PAGE = (Path(__file__).parents[4] / "docs" / "guides" / "ten-thousand-runs.md").read_text()
INSTALL, *COMMANDS = [
    line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]
TABLES, APART, RANGES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
FEWER = {"--repeat 10 ": "--repeat 1 ", "--repeat 2500 --seed 11": "--repeat 1 --seed 2"}
"""Numbers of runs on the page, and what the test takes for them."""
GROUPS = [(3, 10), (3, 50), (5, 10), (5, 50)]
"""Brokers and partitions."""


@at_night("sweeps, ingest and the tables of a lake have tests of their own")
@pytest.mark.timeout(600)
def test_the_page_is_walked_from_a_few_runs_to_many_and_to_one(tmp_path: Path) -> None:
    (tmp_path / "apart.py").write_text(APART)
    assert INSTALL == "pip install 'WHEEL[spark]' duckdb"
    sweep, ingest, few, page, sweep_many, ingest_many, many = COMMANDS
    run(tmp_path, sweep)
    run(tmp_path, ingest)
    assert "'request_log'" in run(tmp_path, f"python -c {shlex.quote(TABLES)}")
    assert shown(run(tmp_path, few)) == expected(tmp_path / "few")
    run(tmp_path, page)
    assert "b5-p50-t6000-kill-1" in (tmp_path / "run.html").read_text()
    run(tmp_path, sweep_many)
    run(tmp_path, ingest_many)
    (tmp_path / "apart.py").write_text(APART + RANGES)
    printed = run(tmp_path, many)
    assert shown(printed) == expected(tmp_path / "few", tmp_path / "many")
    found = re.findall(r"^(\d) brokers, (\d+) partitions: median [\d.]+ to [\d.]+ ms", printed, re.MULTILINE)
    assert [(int(brokers), int(partitions)) for brokers, partitions in found] == GROUPS


def run(folder: Path, command: str) -> str:
    """Run a command of the page with fewer runs; return what it prints."""
    for many, fewer in FEWER.items():
        command = command.replace(many, fewer)
    program, *arguments = shlex.split(command)
    programs = {"python": [sys.executable], "understudy": [sys.executable, "-m", "understudy.cli.main"]}
    done = subprocess.run(
        [*programs[program], *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def shown(printed: str) -> list[tuple[int, int, int, float]]:
    """Brokers, partitions, number of failovers and longest time of each row that the program has printed."""
    rows = re.findall(r"^│ +(\d+) │ +(\d+) │ +(\d+) │ +[\d.]+ │ +[\d.]+ │ +([\d.]+) │ b\S+", printed, re.MULTILINE)
    return [(int(brokers), int(partitions), int(count), float(longest)) for brokers, partitions, count, longest in rows]


def expected(*folders: Path) -> list[tuple[int, int, int, float]]:
    """The same, computed from the event logs."""
    apart: dict[tuple[int, int], list[float]] = {group: [] for group in GROUPS}
    for group in find_logs(folders).groups:
        (metrics,) = measure_files(group).runs
        (requests,) = (rows for name, _, rows in row_table_rows(group) if name == "request_log")
        for failover in metrics.failovers:
            first: dict[int, float] = defaultdict(lambda: float("inf"))
            for row in requests:
                assert isinstance(row, RequestRow)
                is_of_it = (row.node, row.controller_epoch) == (f"broker-{failover.broker}", failover.epoch)
                if is_of_it and row.api == "UpdateMetadata" and row.answered_at_ms is not None:
                    first[row.to] = min(first[row.to], row.answered_at_ms)
            settings = metrics.settings
            assert settings.brokers is not None
            assert settings.partitions is not None
            apart[settings.brokers, settings.partitions].append(max(first.values()) - min(first.values()))
    return [(*group, len(times), round(max(times), 1)) for group, times in apart.items()]
