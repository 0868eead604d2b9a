"""Writes a `Comparison` as JSON: all numbers of the pages. `units` has the units of the quantities."""

from __future__ import annotations

import msgspec

from understudy.history.compare.comparison import Comparison, MetricChange, ValueDistribution
from understudy.history.compare.groups import QUANTITIES, Quantity
from understudy.history.compare.modes import CLOCKS, LACKING, MEASURED
from understudy.history.metrics.metric_tables import PHASES

VERSION = 1


def as_json(comparison: Comparison) -> str:
    """Return the comparison as indented JSON."""
    page = {
        "version": VERSION,
        "by": comparison.by,
        "baseline": comparison.baseline,
        "tests": comparison.tests,
        "groups": [
            {
                "settings": dict(zip(comparison.by, group.key, strict=True)),
                "modes": group.modes,
                "runs": group.runs,
                "failovers": group.failovers,
                "doubtful": group.doubtful,
                "quantities": {
                    quantity.name: _distribution(group.distributions[quantity.name], quantity)
                    | ({"change": _change(change, quantity, comparison.by)} if change else {})
                    for quantity in QUANTITIES
                    for change in [group.changes.get(quantity.name)]
                },
                "mean_phases_ms": group.mean_phases_ms,
                "leaderless_by_cause": {
                    cause: {"mean_partition_s": mean, "runs": runs}
                    for cause, (mean, runs) in group.leaderless_s_by_cause.items()
                },
            }
            for group in comparison.groups
        ],
        "worst": {
            quantity.name: [
                {"run": worst.run, "value": worst.value / quantity.scale, "command": worst.opened_by}
                for worst in comparison.worst[quantity.name]
            ]
            for quantity in QUANTITIES
            if quantity.name in comparison.worst
        },
        "incomplete": {
            "used": comparison.uses_incomplete,
            "runs": [
                {"run": run.run, "missing": run.missing, "command": run.opened_by} for run in comparison.incomplete
            ],
        },
        "modes": {
            mode: {
                "records": CLOCKS[mode],
                "measured": {quantity: ends[mode] for quantity, ends in MEASURED.items() if mode in ends},
                "lacking": {quantity: why for (quantity, of), why in LACKING.items() if of == mode},
            }
            for mode in comparison.modes
        },
        "units": {quantity.name: quantity.unit for quantity in QUANTITIES},
        "phases": PHASES,
    }
    return msgspec.json.format(msgspec.json.encode(page), indent=2).decode()


def _distribution(found: ValueDistribution, quantity: Quantity) -> dict[str, object]:
    return {
        "n": found.n,
        "runs": found.runs,
        **{
            "max" if percent == 100 else f"p{percent}": None if value is None else value / quantity.scale
            for percent, value in found.quantiles.items()
        },
        "within": found.within / quantity.scale,
        "intervals": {f"p{percent}": _scaled(ends, quantity) for percent, ends in found.intervals.items()},
    }


def _change(change: MetricChange, quantity: Quantity, by: tuple[str, ...]) -> dict[str, object]:
    return {
        "baseline": dict(zip(by, change.baseline, strict=True)),
        "p50_difference": change.difference / quantity.scale,
        "interval": _scaled(change.interval, quantity),
        "share": change.share,
        "p": change.p,
        "corrected_p": change.corrected_p,
        "within": change.within / quantity.scale,
        "verdict": change.verdict,
    }


def _scaled(ends: tuple[int, int] | None, quantity: Quantity) -> tuple[float, float] | None:
    return None if ends is None else (ends[0] / quantity.scale, ends[1] / quantity.scale)
