"""Groups runs by their settings, and summarises each group's failovers. No numpy is needed here.

`observe` keeps only the compared values of a run's tables, so that ten thousand runs fit into memory.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple, TypeAlias

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.times import micros
from understudy.history.compare.modes import phases_of
from understudy.history.metrics.incomplete_runs import first_evidence
from understudy.history.metrics.metric_tables import PHASES, Failover, RunMetrics, Settings, Table, Totals
from understudy.history.metrics.settings import SETTING_NAMES

SETTINGS: tuple[str, ...] = SETTING_NAMES
"""Names of the settings by which runs can be grouped."""
UNKNOWN = "unknown"
"""Text for a setting that a run's records do not contain."""
USE_THEM = "--incomplete also uses runs with missing records"
"""Advice if runs are left out."""

Key: TypeAlias = tuple[str, ...]
"""The values of the settings by which runs are grouped, as text."""


class CannotCompare(Exception):
    """The runs cannot be compared as requested. The message has the reason, and valid choices if there are any."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that is compared between groups."""

    name: str
    unit: str
    """The unit of a value divided by `scale`."""
    scale: int
    """Number by which a compared whole number is divided to get a value in `unit`."""
    meaning: str


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("detection", "ms", 1_000, "from the loss of the controller until a broker notices it"),
    Quantity("election", "ms", 1_000, "from noticing to the election of another"),
    Quantity("takeover", "ms", 1_000, "from the election until every request is in its channel"),
    Quantity("reading", "ms", 1_000, "of the takeover: until the cluster's state is read"),
    Quantity("propagation", "ms", 1_000, "from the end of the takeover to the last answer of a broker"),
    Quantity("outage", "ms", 1_000, "from the loss until another controller is ready"),
    Quantity("leaderless", "partition-s", 1_000_000, "partition-seconds without a leader, in a whole run"),
)
"""Quantities that are compared: four phases of each failover and a part of one, the outage, and the leaderless time of
each run. Their values are compared as whole microseconds or partition-microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The values that one run contributes to a comparison."""

    run: str
    opened_by: str
    """The command that shows this run alone."""
    settings: Mapping[str, str]
    failovers: int
    cause: str
    """The causes of its failovers, for example `kill`."""
    values: Mapping[str, tuple[int, ...]]
    """The values of each quantity."""
    within: Mapping[str, int]
    """By how much the values of each quantity may be wrong, because clocks of several machines were aligned."""
    phases: tuple[tuple[int | None, ...], ...]
    """`PHASES` of each failover that has all phases of its mode; None for a phase that the mode does not have."""
    doubtful: int
    """The number of its values that are left out, because their evidence may be in missing records."""
    missing: str
    """The first evidence that records of the run are missing; empty if it is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteRun:
    """A run with missing records."""

    run: str
    opened_by: str
    """As in `Observation`; empty if no command is known."""
    missing: str
    """The first evidence that records are missing."""


def command_in_lake(lake: str, run: str) -> str:
    """Return the command that shows a run of a lake."""
    return f"understudy replay {shlex.quote(lake)} --run {shlex.quote(run)}"


def observe(run: RunMetrics, opened_by: str, missing: str | None = None) -> Observation:
    """Return the compared values of a run.

    Args:
        missing: as in `Observation`; None to take it from the run's table of missing records.
    """
    why = first_evidence(run.missing) if missing is None else missing
    return observe_rows(run.run, run.settings, run.totals, run.failovers, opened_by, why)


def observe_rows(
    run: str, settings: Settings, totals: Totals, failovers: Sequence[Failover], opened_by: str, missing: str
) -> Observation:
    """Return the compared values of a run, from its rows in the three tables that have them.

    Args:
        missing: as in `Observation`.
    """
    rows: dict[str, Sequence[Table]] = dict.fromkeys((*PHASES, "reading", "outage"), failovers) | {
        "leaderless": (totals,)
    }
    figures = {name: [found for row in rows[name] if (found := _figure(row, name)) is not None] for name in rows}
    sound = {name: [figure for figure in found if not figure.is_doubtful] for name, found in figures.items()}
    expected = phases_of(settings.mode or UNKNOWN, PHASES)
    phases = [{phase: _figure(row, phase) for phase in expected} for row in failovers]
    causes = sorted({UNKNOWN if "cause" in row.doubt else row.cause for row in failovers})
    return Observation(
        run=run,
        opened_by=opened_by,
        settings={name: _text(getattr(settings, name)) for name in SETTINGS},
        failovers=len(failovers),
        cause=" and ".join(causes) or "no failover",
        values={name: tuple(figure.us for figure in found) for name, found in sound.items()},
        within={name: max((figure.within_us for figure in found), default=0) for name, found in sound.items()},
        phases=tuple(
            tuple(figure.us if (figure := found.get(phase)) else None for phase in PHASES)
            for found in phases
            if all(figure is not None and not figure.is_doubtful for figure in found.values())
        ),
        doubtful=sum(len(figures[name]) - len(sound[name]) for name in rows),
        missing=missing,
    )


class _Figure(NamedTuple):
    """A number of a row."""

    us: int
    within_us: int
    """By how much it may be wrong."""
    is_doubtful: bool
    """Whether its evidence may be in missing records."""


def _figure(row: Table, name: str) -> _Figure | None:
    """Return a quantity of a row; None if the row has none."""
    ms = getattr(row, f"{name}_ms")
    if ms is None:
        return None
    within_ms = getattr(row, f"{name}_within_ms", None) or 0.0  # no such column if its records are of one process
    return _Figure(micros(ms), micros(within_ms), f"{name}_ms" in row.doubt)


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """The runs whose chosen settings have the same values."""

    key: Key
    runs: tuple[Observation, ...]

    @property
    def failovers(self) -> int:
        return sum(run.failovers for run in self.runs)

    @property
    def doubtful(self) -> int:
        """The number of values that are left out; see `Observation`."""
        return sum(run.doubtful for run in self.runs)

    def within(self, quantity: str) -> int:
        """Return by how much the values of a quantity may be wrong."""
        return max((run.within[quantity] for run in self.runs), default=0)

    def values_by_run(self, quantity: str) -> list[tuple[int, ...]]:
        """Return the values of a quantity, run by run; a run may have none."""
        return [run.values[quantity] for run in self.runs]

    def values(self, quantity: str) -> list[int]:
        """Return all values of a quantity, sorted."""
        return sorted(value for run in self.runs for value in run.values[quantity])

    def mean_phases_ms(self) -> dict[str, float]:
        """Return the mean of each phase over the failovers that have all phases, in ms; empty if there is none.

        In a group of a mode that does not have all phases, the phases that it has.
        """
        rows = [row for run in self.runs for row in run.phases]
        whole = [row for row in rows if None not in row] or rows
        columns = zip(PHASES, zip(*whole, strict=True), strict=False)
        return {phase: fmean(values) / 1_000 for phase, column in columns if (values := _without_none(column))}

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of the runs, sorted."""
        return tuple(sorted({run.settings["mode"] for run in self.runs}))

    def leaderless_s_by_cause(self) -> dict[str, tuple[float, int]]:
        """Return the mean leaderless partition-seconds of the runs with each cause, and the number of these runs."""
        by_cause = grouped((run.cause, value) for run in self.runs for value in run.values["leaderless"])
        return {cause: (fmean(found) / 1_000_000, len(found)) for cause, found in sorted(by_cause.items())}


def _without_none(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def check_settings(names: Sequence[str], option: str) -> None:
    """Raise `CannotCompare` if a name is no setting, or is given twice."""
    unknown = sorted(set(names) - set(SETTINGS))
    if unknown:
        raise CannotCompare(f"{option}: {', '.join(unknown)} is no setting; the settings are {', '.join(SETTINGS)}")
    if len(set(names)) < len(names):
        raise CannotCompare(f"{option}: a setting is given twice")


def check_runs(runs: int, failovers: int, left_out: Sequence[IncompleteRun]) -> None:
    """Check that there is something to compare.

    Args:
        runs, failovers: their numbers in all groups.

    Raises:
        CannotCompare: there is no failover, perhaps because runs are left out.
    """
    if not runs and left_out:
        first = left_out[0]
        listed = f"; `{first.opened_by}` lists all" if first.opened_by else ""
        raise CannotCompare(
            f"none of the runs is complete, for example {first.run}: {first.missing}{listed}. Bring the missing event "
            f"logs; {USE_THEM}"
        )
    if not failovers:
        others = "1 other is" if len(left_out) == 1 else f"{len(left_out):,} others are"
        about_them = f"; {others} left out, because records are missing: {USE_THEM}" if left_out else ""
        raise CannotCompare(f"none of the runs has a failover, and only failovers can be compared{about_them}")


def incomplete_of(runs: Iterable[Observation]) -> tuple[IncompleteRun, ...]:
    """Return the runs with missing records, sorted by their ids."""
    found = (IncompleteRun(run=run.run, opened_by=run.opened_by, missing=run.missing) for run in runs if run.missing)
    return tuple(sorted(found, key=lambda run: (run.run, run.opened_by)))


def group_runs(runs: Iterable[Observation], by: Sequence[str]) -> tuple[RunGroup, ...]:
    """Return the groups of runs with equal values of the settings `by`, ordered by these values.

    Raises:
        CannotCompare: a name is no setting.
    """
    check_settings(by, "--by")
    in_sequence = sorted(runs, key=lambda run: (run.run, run.opened_by))
    groups = grouped((tuple(run.settings[name] for name in by), run) for run in in_sequence)
    return tuple(RunGroup(key=key, runs=tuple(groups[key])) for key in sorted(groups, key=in_order))


def in_order(key: Key) -> tuple[tuple[bool, float, str], ...]:
    """Return the sort key of a group: numbers by size, before texts."""
    return tuple((not text.isdecimal(), float(text) if text.isdecimal() else 0.0, text) for text in key)


def baseline_keys(keys: Iterable[Key], by: Sequence[str], baseline: Mapping[str, str]) -> dict[Key, Key]:
    """Return the key of the group with which each group is compared, by the group's own key; empty without a baseline.

    The counterpart has the values of `baseline`, and otherwise the group's own values. Groups that are a baseline
    themselves, and groups whose counterpart has no run, are left out.

    Raises:
        CannotCompare: a name of `baseline` is not among `by`, or no group has these values.
    """
    check_settings(tuple(baseline), "--baseline")
    if not_grouped := sorted(set(baseline) - set(by)):
        raise CannotCompare(
            f"--baseline names {', '.join(not_grouped)}, by which the runs are not grouped; add it to --by"
        )
    found = sorted(keys, key=in_order)
    wanted = {name: baseline[name] for name in by if name in baseline}
    if not any(_has(key, by, wanted) for key in found):
        present = "; ".join(
            f"{name} is {', '.join(dict.fromkeys(key[by.index(name)] for key in found))}" for name in wanted
        )
        raise CannotCompare(f"--baseline {assignments(wanted)} matches no run: {present}")
    counterparts = {
        key: tuple(wanted.get(name, value) for name, value in zip(by, key, strict=True))
        for key in found
        if not _has(key, by, wanted)
    }
    return {key: other for key, other in counterparts.items() if other in found}


def assignments(settings: Mapping[str, str]) -> str:
    """Return the names and values of settings as text."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _has(key: Key, by: Sequence[str], wanted: Mapping[str, str]) -> bool:
    return all(key[list(by).index(name)] == value for name, value in wanted.items())
