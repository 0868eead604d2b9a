"""`render`: the page of a run, its size, and control characters in logs. The metrics have tests of their own."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from understudy.history.metrics.metric_tables import Missing, RunMetrics
from understudy.history.metrics.metrics import measure
from understudy.history.reading.findings import GAP, TORN_LINE, LogFinding
from understudy.history.reading.missing import NO_ELECTION, NO_END, NOT_ENDED
from understudy.history.reading.reader import read_lines
from understudy.history.report.replay import Replay
from understudy.history.report.report import PAGE, render
from understudy.history.report.runs import DIFFERENT_RUNS
from understudy.history.writing import WIDTH


def killed() -> Replay:
    logs = killed_controller()
    reading = read_lines(logs.lines)
    return Replay(runs=(measure(logs.run, reading.records),), findings=(), lines=reading.lines, engine="a test")


def random_runs(count: int) -> tuple[RunMetrics, ...]:
    return tuple(
        measure(f"run-{seed}", read_lines(RandomRun(seed, records=300).logs.lines).records) for seed in range(count)
    )


def test_the_page_of_a_killed_controller() -> None:
    assert render(killed()).splitlines() == [
        "Run run-1: 8.100 s from 2023-11-14 22:13:21 UTC, 4 nodes, 50 records",
        "  computed by a test",
        "",
        "Faults",
        "  at   2.000 s  kill broker-1, the controller",
        "",
        "Controllers: 3.05 s without one",
        "  epoch   1  broker 1   from   0.210 s until 2.000 s: kill        ready after 20 ms",
        "  epoch   2  broker 2   from   5.010 s until 8.100 s: stop        ready after 40 ms",
        "",
        "Failover to epoch 2: broker 1 → 2 (kill, noticed by broker-3), 3.05 s without a controller",
        "  detection    3,000.000 ms  ████████████████████████████████████",
        "  election        10.000 ms  ▏",
        "  takeover        40.000 ms  ▌                                    2 partitions, 2 brokers",
        "    of which reading 10 ms, deciding 25 ms, writing 5 ms",
        "  propagation     30.000 ms  ▍                                    2 requests, none unanswered",
        "",
        "Partitions: 2, leaderless for 3.030 partition-seconds; elections 3 clean, 0 unclean; ISR −2 +1",
        "  orders-0: 3.03 s without a leader; at the end leader 2 in epoch 1",
        "",
        "Requests                                            sent  answered          p50          p99",
        "  Reelect                     UpdateMetadata           2         2     4.000 ms    20.000 ms",
        "  TopicChange                 LeaderAndIsr             1         1     5.000 ms     5.000 ms",
        "",
        "Fences: refused 1",
        "  broker.controller-epoch on broker-1 refused LeaderAndIsr from 1: came with 1, known 2",
        "",
        "Logs: 50 lines, no findings",
    ]


def test_the_page_names_runs_in_which_no_controller_was_ready() -> None:
    whole = killed().runs[0]
    never = msgspec.structs.replace(
        whole, run="a-run", totals=msgspec.structs.replace(whole.totals, without_controller_ms=None)
    )
    assert "Controllers: none was ready" in render(dataclasses.replace(killed(), runs=(never,))).splitlines()
    page = render(dataclasses.replace(killed(), runs=(never, whole))).splitlines()
    place = page.index("Longest without a controller")
    assert [line.rstrip() for line in page[place + 1 : place + 4]] == [
        f"  {'run-1':<40}  3,050.000 ms  1 failover",
        f"  {'a-run':<40}             —  1 failover",
        "  No controller was ready in 1 run",
    ]


def test_the_page_leaves_out_numbers_of_brokers_and_partitions_that_are_not_known() -> None:
    whole = killed().runs[0]
    for brokers, shown in ((2, "▌                                    2 brokers"), (None, "▌")):
        row = msgspec.structs.replace(whole.failovers[0], partitions=None, brokers=brokers)
        page = render(dataclasses.replace(killed(), runs=(msgspec.structs.replace(whole, failovers=(row,)),)))
        assert f"  takeover        40.000 ms  {shown}" in page.splitlines()


@pytest.mark.parametrize("runs", [0, 1, 2, 30])
def test_a_page_has_a_bounded_size(runs: int) -> None:
    findings = tuple(LogFinding("/" + "x" * 300, line, GAP, "broker-1 incarnation 1", 2) for line in range(50))
    page = render(Replay(runs=random_runs(runs), findings=findings, lines=10, engine="a test")).splitlines()
    assert max(map(len, page)) <= WIDTH
    assert len(page) <= PAGE + 15, "even for a run with many faults"
    assert any("x/" not in line and "gap: broker-1" in line and ":3" in line for line in page), "line numbers are kept"


def test_different_runs_with_one_id_are_the_first_finding() -> None:
    findings = tuple(LogFinding("a.jsonl", line, GAP, "broker-1 incarnation 1") for line in range(50))
    mixed = LogFinding("b.jsonl", 0, DIFFERENT_RUNS, "run-1")
    page = render(dataclasses.replace(killed(), findings=(*findings, mixed))).splitlines()
    assert page[page.index("Logs: 50 lines, 51 findings") + 1] == "  different runs with one id: run-1 (b.jsonl)"


def test_control_characters_in_a_log_are_escaped() -> None:
    run = killed().runs[0]
    moment = msgspec.structs.replace(run.moments[-1], kind="fault", what="\x1b[31mkill\n", target="broker-\u202e1")
    hostile = msgspec.structs.replace(run, run="run\x07", moments=(moment,))
    page = render(dataclasses.replace(killed(), runs=(hostile,)))
    assert all(sign.isprintable() or sign == "\n" for sign in page)
    assert "\\x1b[31mkill\\x0a" in page


def missing(node: str, number: int, kind: str = NO_END) -> Missing:
    return Missing(
        node=node,
        incarnation=number,
        from_ms=3000.5,
        until_ms=9000,
        kind=kind,
        evidence=f"testbed saw {number} records of it, and there are 5",
        witness="testbed/1#9",
    )


def incomplete(*rows: Missing, findings: tuple[LogFinding, ...] = ()) -> Replay:
    whole = killed()
    run = msgspec.structs.replace(whole.runs[0], missing=rows)
    return dataclasses.replace(whole, runs=(run,), findings=findings)


def logs_of(page: str) -> list[str]:
    lines = page.splitlines()
    return lines[next(number for number, line in enumerate(lines) if line.startswith("Logs: ")) :]


def test_the_page_of_an_incomplete_run_lists_the_records_that_are_missing() -> None:
    assert logs_of(render(incomplete(missing("broker-3", 6)))) == [
        "Logs: 50 lines, incomplete: records are missing in 1 place",
        "  broker-3/6 from 3.001 s to 9.000 s, no end: testbed saw 6 records of it, and there are 5",
        "    (testbed/1#9)",
    ]
    torn = (LogFinding("a.jsonl", 7, TORN_LINE, ""),)
    page = logs_of(render(incomplete(*(missing("broker-3", number) for number in range(1, 9)), findings=torn)))
    assert page[:2] == [
        "Logs: 50 lines, 1 finding, incomplete: records are missing in 8 places",
        "  torn line (a.jsonl:7)",
    ]
    assert [line for line in page if line.startswith("  broker-3/")][-1].startswith("  broker-3/5 ")
    assert page[-1] == "  … and 3 more"


def test_the_page_of_a_run_that_has_not_ended_says_so() -> None:
    page = logs_of(render(incomplete(missing("testbed", 1, NOT_ENDED))))
    assert page[0] == "Logs: 50 lines, not ended"
    assert page[1].startswith("  testbed/1 from 3.001 s to 9.000 s, not ended: ")


def test_the_page_of_many_runs_counts_the_incomplete_ones() -> None:
    row = missing("", 0, NO_ELECTION)
    first = incomplete(missing("broker-3", 6), msgspec.structs.replace(row, incarnation=None)).runs[0]
    second = msgspec.structs.replace(killed().runs[0], run="run-2")
    assert logs_of(render(dataclasses.replace(killed(), runs=(first, second)))) == [
        "Logs: 50 lines, 1 of 2 runs incomplete",
        "  run-1, incomplete: records are missing in 2 places: a controller, broker-3/6",
    ]
