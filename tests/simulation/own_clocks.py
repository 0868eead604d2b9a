"""Runs seeds with one clock and with a clock for each node, and compares what a replay says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from understudy.foundation.eventlog.records import Envelope
from understudy.history.metrics.metric_tables import SORTED_BY, TABLES, RunMetrics
from understudy.history.reading.clocks import Incarnation, RunClocks
from understudy.history.reading.reader import read
from understudy.history.report.replay import replay_in_python
from understudy.trials.seeds.seeds import run_seed

SECONDS: Final = 20
_RATE: Final = 2e-4
"""The largest difference of the rates of two clocks of a run: each differs by 100 ppm from the right one."""
_ROUNDING_MS: Final = 0.004


def differences(seed: int, folder: Path, seconds: int = SECONDS) -> list[str]:
    """Return the differences that the uncertainty of clocks does not cover: of records' times, then of figures."""
    for name, own in (("one", False), ("own", True)):
        run_seed(seed, seconds, own_clocks=own, events=folder / name)
    one, own_ = (read([folder / name]) for name in ("one", "own"))
    (run,) = one.clocks
    found = [*wrong_times(one.records, own_.records, own_.clocks[run])]
    figures = [replay_in_python([folder / name]) for name in ("one", "own")]
    for replay, name in zip(figures, ("one", "own"), strict=True):
        found += [f"{name}: {missing}" for metrics in replay.runs for missing in metrics.missing]
    (expected,), (metrics,) = (replay.runs for replay in figures)
    return [*found, *wrong_figures(expected, metrics)]


def wrong_times(one: Sequence[Envelope], own: Sequence[Envelope], clocks: RunClocks) -> Iterator[str]:
    """Yield the incarnations with a time that is not within its uncertainty."""
    if clocks.is_one:
        yield "the clocks are one"
        return
    true_ms = {_place(record): record.mono_ms for record in one}
    reference = [record for record in own if clocks.number(_incarnation(record)) == 0]
    first, last = reference[0], reference[-1]
    began_ms, ended_ms = true_ms[_place(first)], true_ms[_place(last)]
    rate = (last.mono_ms - first.mono_ms) / (ended_ms - began_ms)
    wrong: set[Incarnation] = set()
    for record in own:
        name = _incarnation(record)
        should_ms = first.mono_ms + (true_ms[_place(record)] - began_ms) * rate
        within_ms = clocks.within_us(_incarnation(first), name, round(record.mono_ms * 1000)) / 1000
        if abs(record.mono_ms - should_ms) > within_ms + _ROUNDING_MS and name not in wrong:
            wrong.add(name)
            yield f"{name} #{record.seq}: {record.mono_ms - should_ms:+,.3f} ms, said to be within {within_ms:,.3f} ms"


def _place(record: Envelope) -> tuple[str, int, int]:
    return record.node, record.incarnation, record.seq


def _incarnation(record: Envelope) -> Incarnation:
    return record.node, record.incarnation


def wrong_figures(expected: RunMetrics, metrics: RunMetrics) -> Iterator[str]:
    widest_ms = 2 * max(clock.within_ms for clock in metrics.clocks)
    for table in TABLES.keys() - {"clocks", "missing"}:
        for one, own in zip(_rows(table, expected), _rows(table, metrics), strict=False):
            for column, value in one.items():
                if column == "doubt" or column.endswith("_within_ms") or column in own["doubt"]:
                    continue
                within_ms = own.get(column.replace("_ms", "_within_ms"), widest_ms) if column.endswith("_ms") else 0.0
                if not _agree(value, own[column], within_ms):
                    key = {name: own[name] for name in SORTED_BY.get(table, ())}
                    yield f"{table} {key} {column}: {own[column]} ± {within_ms}, on one clock {value}"
        if len(_rows(table, expected)) != len(_rows(table, metrics)):
            yield f"{table}: other rows"


def _agree(value: Any, own: Any, within_ms: float | None) -> bool:
    if not isinstance(value, float) or not isinstance(own, float):
        return bool(value == own)
    return abs(own - value) <= (within_ms or 0.0) + abs(value) * _RATE + _ROUNDING_MS


def _rows(table: str, metrics: RunMetrics) -> list[Mapping[str, Any]]:
    found = getattr(metrics, table)
    rows: list[Mapping[str, Any]] = [
        msgspec.structs.asdict(row) for row in (found if isinstance(found, tuple) else (found,))
    ]
    if table == "moments":  # of different nodes, so that their order is uncertain
        rows.sort(key=lambda row: (row["kind"], row["what"], row["target"], row["note"], row["at_ms"]))
    return rows
