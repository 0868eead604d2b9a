"""No number of a run changes because a part of its logs is missing, unless the replay says so."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from tests.shares import share_of
from tests.understudy.history.reading.attested_logs import failover
from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.metrics.metrics import measure_records
from understudy.history.reading.findings import NOT_DAMAGE
from understudy.history.reading.reader import find_files, read_lines
from understudy.history.reading.run_builder import run_records_of
from understudy.history.report.replay import Replay, replay_in_python
from understudy.trials.seeds.seeds import run_seed

CUTS = 25


def figures(replay: Replay) -> tuple[RunMetrics, ...]:
    """Return the tables without the rows about missing records."""
    return tuple(msgspec.structs.replace(run, missing=()) for run in replay.runs)


def is_said(replay: Replay) -> bool:
    damage = [finding for finding in replay.findings if finding.kind not in NOT_DAMAGE]
    return bool(damage) or not all(run.is_complete for run in replay.runs)


def cuts(lines: list[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """Yield every tail and every head of a file, without some lines, and what each one is."""
    for number in range(len(lines)):
        yield f"its first {number} lines", lines[:number]
        yield f"its first {number} lines and a half", [*lines[:number], lines[number][: len(lines[number]) // 2]]
        yield f"without its first {number + 1} lines", lines[number + 1 :]
        yield f"without line {number + 1}", [*lines[:number], *lines[number + 1 :]]


def in_memory(lines: Mapping[str, list[bytes]]) -> Replay:
    reading = read_lines({name: own for name, own in lines.items() if own})
    records = run_records_of(reading.records, reading.sequences)
    return Replay(
        runs=(measure_records("run-1", records),), findings=reading.findings, lines=reading.lines, engine="a test"
    )


def test_each_cut_of_each_log_of_a_failover_is_said() -> None:
    whole = failover().lines
    complete = in_memory(whole)
    assert not is_said(complete)
    tried = 0
    for name, lines in whole.items():
        for what, kept in cuts(lines):
            replay = in_memory({**whole, name: kept})
            assert is_said(replay) or figures(replay) == figures(complete), f"{name}: {what}"
            tried += not is_said(replay)
    assert tried == 0, "of logs as short as these each line counts"


@pytest.mark.parametrize("seed", range(1, 1 + share_of("incomplete-logs")))
def test_a_part_that_is_missing_of_a_simulated_run_is_said(seed: int, tmp_path: Path) -> None:
    """Only these logs have several incarnations that were killed, lost answers and elections without a winner.

    Each file is removed, and others lose their end, their beginning, a part of a line or lines between.
    """
    run_seed(seed, 20, events=tmp_path)
    complete = replay_in_python([tmp_path])
    assert not is_said(complete), [*complete.findings, *(run.missing for run in complete.runs)]
    files = find_files([tmp_path])[0]
    chance = random.Random(seed)
    damage = [(file, "is missing", b"") for file in files]
    for _ in range(CUTS):
        file = chance.choice(files)
        lines = file.read_bytes().splitlines(keepends=True)
        damage.append((file, *chance.choice([(what, b"".join(kept)) for what, kept in cuts(lines)])))
    for file, what, left in damage:
        whole = file.read_bytes()
        if left:
            file.write_bytes(left)
        else:
            file.unlink()
        replay = replay_in_python([tmp_path])
        file.write_bytes(whole)
        assert is_said(replay) or figures(replay) == figures(complete), f"{file.name}: {what}"
