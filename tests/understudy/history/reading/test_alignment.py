"""The clocks of several machines are aligned, and no offset is further from the truth than it says."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from tests.understudy.history.reading.clock_runs import (
    WALL_MS,
    Machine,
    MachinesRun,
    moved,
    on_one_machine,
    random_run,
)
from tests.understudy.history.report.test_growing_logs import rows
from understudy.foundation.eventlog.records import (
    Envelope,
    LogSeen,
    ProcessExiting,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    ResponseSent,
    RunDescribed,
)
from understudy.foundation.times import micros
from understudy.history.metrics.metric_tables import TABLES, RunMetrics
from understudy.history.metrics.metrics import measure
from understudy.history.reading.clock_evidence import EVIDENCE, MOST_STRETCHES, ClockEvidence, Stretches
from understudy.history.reading.clocks import MESSAGES, REFERENCE, STARTS, WALL_CLOCK, ZXIDS, RunClocks
from understudy.history.reading.findings import CLOCKS_CONTRADICT, WALL_CLOCK_DIFFERS
from understudy.history.reading.lines import decode_record
from understudy.history.reading.reader import read, read_lines
from understudy.history.report.growing_logs import GrowingLogs
from understudy.history.report.replay import replay_in_python


def clocks_of(run: MachinesRun) -> RunClocks:
    return read_lines(run.lines()).clocks["run-1"]


def assert_true(run: MachinesRun, clocks: RunClocks) -> None:
    """Compare the alignment with the true clocks, at times all over the run."""
    for true_ms in range(1_000, 60_000, 3_700):
        assert_true_at(run, clocks, true_ms)


def assert_true_at(run: MachinesRun, clocks: RunClocks, true_ms: float) -> None:
    names = sorted(run.machines)
    reference = next(name for name in names if clocks.number(name) == 0)
    begin_us = clocks.clocks[0].points[0].offset_us
    at_us = {name: round(run.machines[name].at(true_ms) * 1000) for name in names}
    run_us = {name: clocks.of(name).time_us(at_us[name]) for name in names}
    for name in names:
        error_us = abs(run_us[name] - at_us[reference] - begin_us)
        assert error_us <= clocks.of(name).within_us(at_us[name]) + 2, (name, true_ms)
        for other in names:
            error_us = abs(run_us[name] - run_us[other])
            assert error_us <= clocks.within_us(name, other, run_us[name]) + 2, (name, other, true_ms)


@given(seed=st.integers(0, 100_000))
def test_the_true_offset_is_within_the_stated_bounds(seed: int) -> None:
    run = random_run(seed)
    clocks = clocks_of(run)
    boots = {name: machine.boot for name, machine in run.machines.items()}
    assert {name: clocks.of(name).boot for name in boots} == boots
    assert_true(run, clocks)


@given(seed=st.integers(0, 100_000))
def test_logs_without_boots_tell_the_clocks_apart(seed: int) -> None:
    run = random_run(seed, has_boots=False)
    clocks = clocks_of(run)
    names = sorted(run.machines)
    assert [clocks.number(name) == clocks.number(names[0]) for name in names] == [
        run.machines[name] is run.machines[names[0]] for name in names
    ]
    assert_true(run, clocks)


def test_a_machine_that_is_booted_in_the_middle_has_another_clock() -> None:
    run = random_run(3)
    # Its clock begins again, so that its second incarnation seems to have been earlier.
    run.start("broker-9", 1, Machine("host-9", "boot-9", origin_ms=50_000.0), 700.0)
    run.start("broker-9", 2, Machine("host-9", "boot-10", origin_ms=-29_000.0, drift=0.0005), 30_000.0)
    for correlation_id, sent_ms in enumerate((900.0, 12_000.0, 24_000.0), 1_000):
        run.exchange("broker-1", 9, correlation_id, sent_ms, (1.0, 0.5, 2.0))
    for number, sent_ms in enumerate((31_000.0, 40_000.0, 54_000.0), 2_000):
        run.exchange("broker-1", 9, number, sent_ms, (1.0, 0.5, 2.0), incarnation=2)
    clocks = clocks_of(run)
    first, second = clocks.of(("broker-9", 1)), clocks.of(("broker-9", 2))
    assert (first.boot, second.boot) == ("boot-9", "boot-10")
    assert first.time_us(first.points[-1].clock_us) < second.time_us(second.points[0].clock_us)
    assert second.evidence == MESSAGES
    at_us = round(run.machines["broker-9", 2].at(40_000.0) * 1000)
    expected_us = clocks.of(("broker-1", 1)).time_us(round(run.machines["broker-1", 1].at(40_000.0) * 1000))
    assert abs(second.time_us(at_us) - expected_us) <= second.within_us(at_us) + 2 < 10_000


def test_a_machine_that_exchanges_nothing_is_bounded_by_zxids() -> None:
    run = MachinesRun()
    run.start("broker-1", 1, Machine("host-1", "boot-1"), 0.0)
    quiet = Machine("host-2", "boot-2", origin_ms=7_000_000.0, wall_error_ms=-90_000.0)
    run.start("broker-2", 1, quiet, 5.0)
    run.transact("broker-1", 100, 1_000.0, 4.0, {"broker-2": 10.0})
    run.transact("broker-2", 101, 1_020.0, 4.0, {"broker-1": 6.0})
    reading = read_lines(run.lines())
    (clock,) = (clock for clock in reading.clocks["run-1"].clocks if clock.boot == "boot-2")
    assert clock.evidence == ZXIDS
    at_us = round(quiet.at(1_020.0) * 1000)
    assert abs(clock.time_us(at_us) - 1_020_000) <= clock.within_us(at_us) < 12_000
    assert [finding.what for finding in reading.findings if finding.kind == WALL_CLOCK_DIFFERS] == [
        "broker-2 incarnation 1: −90.0 s"
    ]


def test_a_testbed_on_its_own_machine_is_bounded_by_what_it_has_seen_of_the_logs() -> None:
    run = MachinesRun(has_testbed=True)
    testbed = Machine("laptop", "boot-2", origin_ms=9_000_000.0, wall_error_ms=-600_000.0)
    run.start("testbed", 1, testbed, 0.0)
    run.write(0.5, "testbed", RunDescribed())
    run.start("broker-1", 1, Machine("host-1", "boot-1"), 300.0)
    run.write(9_000.0, "broker-1", ProcessExiting(reason="it is stopped"))
    run.write(9_100.0, "testbed", LogSeen(node="broker-1", incarnation=1, seq=2))
    clocks = clocks_of(run)
    clock = clocks.of(("testbed", 1))
    reference = clocks.of(("broker-1", 1))
    assert {clock.evidence, reference.evidence} == {REFERENCE, STARTS}
    at_us, there_us = round(testbed.at(5_000.0) * 1000), 5_000_000
    error_us = abs(clock.time_us(at_us) - reference.time_us(there_us))
    assert error_us <= clocks.within_us(("testbed", 1), ("broker-1", 1), clock.time_us(at_us)) < 250_000


def test_a_clock_that_nothing_else_bounds_is_set_by_the_wall_clock() -> None:
    run = MachinesRun()
    run.start("broker-1", 1, Machine("host-1", "boot-1", wall_error_ms=300.0), 0.0)
    other = Machine("host-2", "boot-2", origin_ms=7_000_000.0, wall_error_ms=-300.0)
    run.start("broker-2", 1, other, 5.0)
    clocks = clocks_of(run)
    assert clocks.clocks[1].evidence == WALL_CLOCK
    assert_true_at(run, clocks, 5.0)


def test_a_wall_clock_that_messages_contradict_is_a_finding() -> None:
    run = random_run(5)
    for machine in run.machines.values():
        machine.wall_error_ms = 0.0
    wrong = run.machines["broker-2", 1]
    wrong.wall_error_ms = 3_600_000.0
    reading = read_lines(run.lines())
    found = {finding.what.split(":")[0] for finding in reading.findings if finding.kind == WALL_CLOCK_DIFFERS}
    assert found == {f"{name} incarnation 1" for (name, _), machine in run.machines.items() if machine is wrong}
    assert_true(run, reading.clocks["run-1"])


def test_clocks_that_contradict_each_other_are_a_finding() -> None:
    """A machine that sleeps stops its monotonic clock."""
    run = random_run(7)
    sleeper = Sleeper("host-9", "boot-9", origin_ms=100_000.0)
    run.start("broker-9", 1, sleeper, 700.0)
    for correlation_id in range(40):
        run.exchange("broker-1", 9, 1_000 + correlation_id, 800.0 + 1_300.0 * correlation_id, (1.0, 0.5, 1.0))
    reading = read_lines(run.lines())
    assert any(finding.kind == CLOCKS_CONTRADICT and "broker-9" in finding.what for finding in reading.findings)
    clocks = reading.clocks["run-1"]
    error_us = abs(
        clocks.of(("broker-9", 1)).time_us(round(sleeper.at(50_000.0) * 1000))
        - clocks.of(("broker-1", 1)).time_us(round(run.machines["broker-1", 1].at(50_000.0) * 1000))
    )
    assert error_us < 6_000_000


class Sleeper(Machine):
    def at(self, true_ms: float) -> float:
        return super().at(true_ms if true_ms < 30_000.0 else true_ms - 5_000.0)


@given(seed=st.integers(0, 100_000))
def test_no_message_is_received_before_it_was_sent(seed: int) -> None:
    records = read_lines(random_run(seed).lines()).records
    assert_causes_first(records)


def assert_causes_first(records: Iterable[Envelope]) -> None:
    sent = set()
    for record in records:
        match record.data:
            case RequestSent() | ResponseSent() as data:
                sent.add((type(data).__name__.removesuffix("Sent"), data.api, data.client_id, data.correlation_id))
            case RequestReceived() | ResponseReceived() as data:
                name = type(data).__name__.removesuffix("Received")
                assert (name, data.api, data.client_id, data.correlation_id) in sent


# ------------------------------------------------------------------ figures


def figures_of(lines: dict[str, list[bytes]]) -> tuple[RunMetrics, RunClocks]:
    reading = read_lines(lines)
    ((run, clocks),) = reading.clocks.items()
    return measure(run, reading.records, reading.sequences, clocks), clocks


def assert_same_figures(found: RunMetrics, expected: RunMetrics, within_ms: float) -> None:
    """Compare all tables but the clocks: times within some milliseconds, everything else exactly."""
    for table in TABLES.keys() - {"clocks"}:
        assert_same(to_builtins(getattr(found, table)), to_builtins(getattr(expected, table)), within_ms, table)


def assert_same(found: object, expected: object, within_ms: float, place: str) -> None:
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        for name, value in expected.items():
            if name != "doubt" and not name.endswith("_within_ms") and name not in found.get("doubt", ()):
                assert_same(found[name], value, within_ms if name.endswith("_ms") else 0.0, f"{place}.{name}")
    elif isinstance(expected, list | tuple):
        assert isinstance(found, list | tuple)
        assert len(found) == len(expected), place
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, within_ms, f"{place}[{number}]")
    elif isinstance(expected, float) and within_ms:
        assert isinstance(found, float)
        assert abs(found - expected) <= within_ms, place
    else:
        assert found == expected, place


def widest_ms(clocks: RunClocks) -> float:
    return max(point.within_us for clock in clocks.clocks for point in clock.points) / 1000


@pytest.fixture(scope="module")
def failover() -> list[Envelope]:
    return on_one_machine()


def by_itself(node: str, ms: float) -> float:
    return ms


def test_figures_of_several_machines_are_those_of_one_within_their_uncertainty(failover: list[Envelope]) -> None:
    expected, one = figures_of(moved(failover, by_itself, lambda node, incarnation: "boot"))
    assert one.is_one
    assert expected.failovers
    draw = random.Random(1)
    origins = {node: draw.uniform(0, 10_000_000_000) for node in {record.node for record in failover}}
    found, clocks = figures_of(
        moved(failover, lambda node, ms: origins[node] + ms, lambda node, incarnation: f"boot of {node}")
    )
    assert len(clocks.clocks) == len(origins)
    assert 0 < widest_ms(clocks) < 1_500
    assert_same_figures(found, expected, 2 * widest_ms(clocks))


def test_old_logs_of_which_one_broker_ran_on_another_machine_have_the_same_figures(failover: list[Envelope]) -> None:
    expected, one = figures_of(moved(failover, by_itself, lambda node, incarnation: ""))
    assert one.is_one
    found, clocks = figures_of(
        moved(failover, lambda node, ms: ms + 5_000_000 if node == "broker-4" else ms, lambda node, incarnation: "")
    )
    assert [clocks.number((f"broker-{broker}", 1)) == clocks.number(("broker-1", 1)) for broker in range(1, 5)] == [
        True,
        True,
        True,
        False,
    ]
    assert_same_figures(found, expected, 2 * widest_ms(clocks))


@pytest.mark.parametrize("boot", ["boot", ""], ids=["with-boots", "old-logs"])
def test_a_wall_clock_that_is_stepped_does_not_divide_a_machine(failover: list[Envelope], boot: str) -> None:
    expected, _ = figures_of(moved(failover, by_itself, lambda node, incarnation: boot))

    def stepped(node: str, ms: float) -> float:
        return WALL_MS + ms + (3_600_000 * int(node[-1]) if node.startswith("broker-") and ms > 4_000 else 0.0)

    found, clocks = figures_of(moved(failover, by_itself, lambda node, incarnation: boot, stepped))
    assert clocks.is_one
    assert found == expected


@pytest.mark.parametrize("has_boots", [True, False], ids=["with-boots", "old-logs"])
@pytest.mark.parametrize("seed", range(6))
def test_figures_of_several_machines_are_the_same_however_they_are_read(
    seed: int, has_boots: bool, tmp_path: Path
) -> None:
    lines = random_run(seed, has_boots=has_boots).lines()
    for name, text in lines.items():
        (tmp_path / name).write_bytes(b"".join(text))
    reading = read([tmp_path])
    ((run, clocks),) = reading.clocks.items()
    expected = measure(run, reading.records, reading.sequences, clocks)
    replay = replay_in_python([tmp_path])
    assert (replay.runs, replay.findings) == ((expected,), reading.findings)
    growing = GrowingLogs([tmp_path])
    for file in sorted(tmp_path.iterdir()):
        growing.add(rows(file))
        growing.replay("here")
    assert growing.replay("here", whole=True, has_ended=True).runs == (expected,)


def test_open_messages_bound_the_memory() -> None:
    """The logs of both ends are read by turns, as they are if they are followed."""
    evidence = ClockEvidence()
    run = random_run(1)
    for number in range(2_000):
        run.exchange("broker-1", 2, 10_000 + number, 1_000.0 + 20 * number, (1.0, 1.0, 1.0))
    records = [decode_record(line) for lines in run.lines().values() for line in lines]
    most = 0
    for record in sorted(records, key=lambda record: record.wall_ms):
        own = evidence.of((record.node, record.incarnation))
        if type(record.data) in EVIDENCE:
            evidence.add(own, micros(record.mono_ms), record.seq, record.cause, record.data)
        most = max(most, evidence.open_messages)
    assert evidence.open_messages == 0
    assert most < 100


def test_bounds_and_points_are_bounded_in_a_long_run() -> None:
    stretches = Stretches()
    for second in range(100_000):
        stretches.add(second * 1_000_000, second * 1_000_000 + 500)
    assert MOST_STRETCHES / 2 <= len(stretches) <= MOST_STRETCHES
