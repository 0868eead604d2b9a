"""Columns in doubt: no figure changes without a mark when missing records come back, and lower bounds are lower.

Records are removed from runs whose complete tables are known. SQL does not compute marks, so this is their oracle.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from understudy.foundation.eventlog.records import Envelope
from understudy.foundation.times import micros
from understudy.history.metrics.doubt import COUNTS, is_upper_bound
from understudy.history.metrics.metric_tables import SORTED_BY, TABLES, RunMetrics, Table
from understudy.history.metrics.metrics import measure_records
from understudy.history.metrics.row_tables import ROW_TABLES, EventRow, LeadershipRow, RequestRow, rows
from understudy.history.reading.clocks import Incarnation
from understudy.history.reading.missing import NO_END, NO_INCARNATION, NO_LOG, NO_RECORDS, MissingRecords
from understudy.history.reading.reader import find_files, read, read_lines
from understudy.history.reading.run_builder import run_records_of
from understudy.trials.seeds.seeds import run_seed

LATE = 10**15
KEYS = SORTED_BY | {
    "settings": (),
    "totals": (),
    "reigns": ("epoch", "node", "incarnation"),
    "moments": ("kind", "what", "target", "note"),
    "request_log": ("node", "incarnation", "seq"),
    "event_log": ("node", "incarnation", "event_id"),
    "leaderships": ("topic", "partition", "controller_epoch", "leader", "leader_epoch"),
    "faults": ("fault", "target", "role"),
}
"""Columns that identify a row in a run of which records are missing."""
TIMED = {"moments": "at_ms", "leaderships": "from_ms", "faults": "at_ms"}
"""Times that also identify a row, in a run whose beginning may be missing."""


class Measured(NamedTuple):
    """The tables of a run, and when its first record was written by the monotonic clock, in microseconds."""

    metrics: RunMetrics
    tables: dict[str, tuple[Table, ...]]
    start_us: int


class Cut(NamedTuple):
    """Records that are removed from a run, and the stretch in which they are missing, by the monotonic clock."""

    is_kept: Callable[[Envelope], bool]
    process: Incarnation
    since: int
    until: int
    kind: str


def measured(records: Sequence[Envelope], cut: Cut | None = None) -> Measured:
    start = min(us_of(record) for record in records)
    run = run_records_of(records)
    missing = []
    if cut is not None:
        since, until = max(0, cut.since - start), min(max(0, cut.until - start), run.signs.last_us)
        missing = [MissingRecords(since, until, *cut.process, cut.kind, "it was removed", "broker-1/1#1")]
    metrics = measure_records("run", run, missing)
    found = {name: getattr(metrics, name) for name in TABLES if name not in ("missing", "clocks")}
    tables = {name: content if isinstance(content, tuple) else (content,) for name, content in found.items()}
    return Measured(metrics, tables | {name: tuple(rows(name, run, missing)) for name in ROW_TABLES}, start)


def us_of(record: Envelope) -> int:
    return micros(record.mono_ms)


def by_key(name: str, found: Measured) -> dict[tuple[object, ...], Table]:
    """Return the rows of a table by what identifies them; equal ones are numbered."""
    keyed: dict[tuple[object, ...], Table] = {}
    number = Counter[tuple[object, ...]]()
    for row in found.tables[name]:
        key = tuple(getattr(row, column) for column in KEYS[name])
        if name in TIMED:
            key += (micros(getattr(row, TIMED[name])) + found.start_us,)
        keyed[*key, number[key]] = row
        number[key] += 1
    return keyed


def unmarked_changes(cut: Measured, whole: Measured) -> Iterator[str]:
    """Yield each value that differs from the complete run's and is not in doubt, or breaks a bound."""
    for name in cut.tables:
        right = by_key(name, whole)
        for key, row in by_key(name, cut).items():
            if key in right:
                yield from (f"{name} {key}: {change}" for change in changes(name, row, right[key]))
    bound = cut.metrics.totals.without_controller_ms
    if bound is not None and is_upper_bound(cut.metrics):
        until = cut.metrics.totals.ended_at_ms + (cut.start_us - whole.start_us) / 1000
        if bound < without_controller_ms(whole.metrics, until) - 0.001:
            yield f"without a controller for more than {bound} ms"


def changes(name: str, row: Table, right: Table) -> Iterator[str]:
    for column in row.__struct_fields__:
        if column in ("doubt", "is_complete") or column.endswith("_within_ms"):
            continue
        found, expected = getattr(row, column), getattr(right, column)
        if found != expected and column not in row.doubt:
            yield f"{column} is {found}, and {expected} in the complete run"
        is_bound = column in row.doubt and column in COUNTS.get(name, ()) and None not in (found, expected)
        if is_bound and found > expected:
            yield f"{column} is at least {found}, and {expected} in the complete run"


def without_controller_ms(run: RunMetrics, until: float) -> float:
    spans = [
        (min(row.ready_at_ms, until), min(until if row.ended_at_ms is None else row.ended_at_ms, until))
        for row in run.reigns
        if row.ready_at_ms is not None
    ]
    return until - min(since for since, _ in spans) - sum(max(0.0, end - since) for since, end in spans)


# ------------------------------------------------------------------ runs of the simulator


def cuts(records: Sequence[Envelope], random_cuts: random.Random, number: int) -> Iterator[Cut]:
    """Yield the removal of each node, and of incarnations, tails, heads and holes of some."""
    logs: dict[Incarnation, list[Envelope]] = {}
    for record in sorted(records, key=lambda record: (record.node, record.incarnation, record.seq)):
        logs.setdefault((record.node, record.incarnation), []).append(record)
    for node in sorted({node for node, _ in logs}):
        yield Cut(without_node(node), (node, 0), 0, LATE, NO_LOG)
    for process in random_cuts.choices(sorted(logs), k=number):
        own = logs[process]
        before = [us_of(log[-1]) for name, log in logs.items() if name[0] == process[0] and name < process]
        after = [us_of(log[0]) for name, log in logs.items() if name[0] == process[0] and name > process]
        since, until = max(before, default=0), min(after, default=LATE)
        first, last = sorted(random_cuts.sample(range(len(own) + 1), 2))
        if before or after:
            yield Cut(without(process, 0, LATE), process, since, until, NO_INCARNATION)
        if first > 0:
            yield Cut(without(process, own[first - 1].seq + 1, LATE), process, us_of(own[first - 1]), until, NO_END)
        if first < len(own) - 1:
            yield Cut(without(process, 0, own[first].seq), process, since, us_of(own[first]), NO_RECORDS)
        if 0 < first < last < len(own):
            hole = without(process, own[first].seq, own[last].seq)
            yield Cut(hole, process, us_of(own[first - 1]), us_of(own[last]), NO_RECORDS)


def without_node(node: str) -> Callable[[Envelope], bool]:
    return lambda record: record.node != node


def without(process: Incarnation, first: int, end: int) -> Callable[[Envelope], bool]:
    """Return a function that leaves out the records of a process with a sequence number from `first` to `end`."""
    return lambda record: (record.node, record.incarnation) != process or not first <= record.seq < end


@pytest.mark.parametrize("seed", [3, 28])
def test_no_figure_changes_without_a_mark_when_records_of_a_simulated_run_are_missing(
    seed: int, tmp_path: Path
) -> None:
    """Alone sees the figures of real histories: elections, ISRs, late writes and faults in all their combinations."""
    run_seed(seed, 12, events=tmp_path)
    records = list(read(find_files([tmp_path])[0]).records)
    whole = measured(records)
    assert not any(row.doubt for table in whole.tables.values() for row in table), "nothing is missing"
    tried, marks = 0, 0
    for cut in cuts(records, random.Random(seed), 4):
        kept = [record for record in records if cut.is_kept(record)]
        found = measured(kept, cut)
        assert list(unmarked_changes(found, whole)) == [], cut
        assert not found.metrics.totals.is_complete
        tried += 1
        marks += sum(len(row.doubt) for table in found.tables.values() for row in table)
    assert tried > 10
    assert marks > 1000, "nothing was compared"


def test_impossible_histories_have_marks_too() -> None:
    """Damaged logs have epochs that repeat and decrease, and stretches of any node at any time."""
    for seed in range(40):
        choose = random.Random(seed)
        records = list(read_lines(RandomRun(seed, records=choose.choice((5, 50, 200))).logs.lines).records)
        run = run_records_of(records)
        missing = []
        for node in choose.choices(("", "broker-1", "broker-2", "broker-9", "testbed", "another"), k=3):
            since, until = sorted((choose.randint(0, run.signs.last_us), choose.randint(0, run.signs.last_us)))
            missing.append(
                MissingRecords(since, until, node, choose.randint(0, 2), NO_RECORDS, "a test", "broker-1/1#1")
            )
        metrics = measure_records("run", run, missing)
        assert {"records", "started_ms"} <= set(metrics.totals.doubt)
        for name, kind in ROW_TABLES.items():
            assert all(set(row.doubt) <= set(kind.__struct_fields__) for row in rows(name, run, missing)), name


# ------------------------------------------------------------------ a run written by hand


def killed(cut: Cut | None = None) -> Measured:
    """Measure `killed_controller` before it stops: broker 1 is killed at 2,000 ms, and broker 2 elected at 5,010 ms."""
    records = [record for record in read_lines(killed_controller().lines).records if us_of(record) < 9_000_000]
    return measured([record for record in records if cut is None or cut.is_kept(record)], cut)


def gone(node: str, incarnation: int = 0, since_ms: int = 0, until_ms: float = LATE) -> Cut:
    """Remove the records of a node between two times after the first record of the run."""
    since, until = (since_ms + 1000) * 1000, int((until_ms + 1000) * 1000)

    def is_kept(record: Envelope) -> bool:
        return record.node != node or not since < us_of(record) < until

    return Cut(is_kept, (node, incarnation), since, until, NO_RECORDS)


def test_a_failover_is_certain_if_records_are_missing_only_after_its_last_answer() -> None:
    (row,) = killed(gone("broker-3", 1, 5_200)).metrics.failovers
    assert row.doubt == ()
    (row,) = killed(gone("broker-1", 2, 6_150)).metrics.failovers
    assert row.doubt == ()


def test_the_loss_depends_on_the_testbed_and_all_brokers_and_the_takeover_on_the_new_controller() -> None:
    loss = {"cause", "by_fault", "lost_at_ms", "detection_ms", "outage_ms", "noticed_by", "election_ms"}
    (row,) = killed(gone("testbed", 1, 1_900, 5_900)).metrics.failovers
    assert (set(row.doubt), row.cause) == (loss, "silence")
    (row,) = killed(gone("broker-3", 1, 2_500, 5_005)).metrics.failovers
    assert set(row.doubt) == {"noticed_by", "detection_ms", "election_ms"}
    (row,) = killed(gone("broker-2", 1, 5_015, 5_040)).metrics.failovers
    takeover = {"reading_ms", "deciding_ms", "writing_ms", "propagation_ms", "requests", "unanswered"}
    assert set(row.doubt) == takeover | {"takeover_ms"} - {"takeover_ms"}
    assert row.takeover_ms == 40.0


def test_records_of_the_old_controller_after_it_was_killed_change_nothing() -> None:
    metrics = killed(gone("broker-1", 2, 6_150)).metrics
    assert [row.doubt for row in metrics.reigns] == [(), ()], "broker 3 saw no deletion of /controller"
    assert "without_controller_ms" not in metrics.totals.doubt


def test_the_time_without_a_controller_is_an_upper_bound_if_only_another_reign_may_be_missing() -> None:
    metrics = killed(gone("broker-2")).metrics
    assert [(row.epoch, row.doubt) for row in metrics.reigns] == [(1, ("noticed_at_ms", "noticed_by"))]
    assert {"controllers", "without_controller_ms"} <= set(metrics.totals.doubt)
    assert is_upper_bound(metrics)
    assert not is_upper_bound(killed(gone("testbed")).metrics), "the kill is missing"


def test_times_after_the_first_record_are_certain_if_the_testbed_wrote_it() -> None:
    assert killed(gone("broker-3")).metrics.moments[0].doubt == ()
    assert killed(gone("testbed", 1, -1, 500)).metrics.reigns[0].doubt[:2] == ("elected_at_ms", "ended_at_ms")


def test_an_answered_request_and_an_ended_event_are_certain_and_others_are_not() -> None:
    tables = killed(gone("broker-2", 1, 5_056, 5_079)).tables
    requests = {(row.node, row.to): row.doubt for row in tables["request_log"] if isinstance(row, RequestRow)}
    assert requests == {
        ("broker-1", 2): (),
        ("broker-2", 2): ("answered_at_ms", "error", "failed_at_ms", "failure", "refused"),
    }
    events = [row for row in killed(gone("broker-2", 1, 5_045, 5_055)).tables["event_log"] if isinstance(row, EventRow)]
    certain = [(row.node, row.event, row.ended_at_ms is None, row.doubt) for row in events if row.node == "broker-1"]
    assert certain == [("broker-1", "Startup", False, ()), ("broker-1", "TopicChange", False, ())]
    (cut,) = [row for row in events if row.node == "broker-2"]
    assert cut.ended_at_ms is None
    assert {"ended_at_ms", "took_ms", "outcome"} <= set(cut.doubt)


def test_a_leadership_is_in_doubt_from_the_last_record_of_its_controller_on() -> None:
    spans = [row for row in killed(gone("broker-2", 1, 6_300)).tables["leaderships"] if isinstance(row, LeadershipRow)]
    doubts = {(row.topic, row.partition, row.why): row.doubt for row in spans}
    assert doubts["orders", 0, "initialise"] == doubts["orders", 0, "loaded"] == ("leaderless_ms",), (
        "the session timeout may be missing, from which the time of a loss without a fault follows"
    )
    assert doubts["orders", 0, "offline"] == ("leaderless_ms", "until_ms")


def test_what_is_missing_is_in_doubt_only_in_rows_that_depend_on_it() -> None:
    metrics = killed(gone("broker-3", 1, 6_500)).metrics
    assert [row.doubt for row in metrics.fence_hits] == [()]
    assert [row.doubt for row in metrics.requests] == [(), ()], "broker 2 was the last controller, and reigned on"
    assert set(metrics.totals.doubt) >= {"records", "requests", "fence_hits"}
    assert "nodes" not in metrics.totals.doubt
    assert "nodes" in killed(gone("broker-3")).metrics.totals.doubt


def test_the_complete_run_has_no_mark_and_no_row_of_missing_records() -> None:
    whole = killed()
    assert whole.metrics.missing == ()
    assert whole.metrics.totals.is_complete
    assert {row.doubt for table in whole.tables.values() for row in table} == {()}
