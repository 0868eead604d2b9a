"""The recorded logs of three brokers of Apache Kafka 3.9.1: what their import shows of two failovers.

`python -m tests.interop.kafka_samples` records them again; the numbers here are then to be compared and replaced.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.foundation.eventlog.lines import by_run
from tests.understudy.history.kafka_logs.cluster_logs import BROKERS, SAMPLES, unpacked
from tests.understudy.history.kafka_logs.recorded import Recorded, largest_difference, recorded
from understudy.cli.check import check_run_folder
from understudy.cli.main import main
from understudy.foundation.eventlog.records import ContextLoaded, FaultInjected, Leadership
from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.metrics.metrics import measure
from understudy.history.reading.reader import read


class Imports(NamedTuple):
    """The same cluster, imported from different logs."""

    logs: Path
    """From the brokers' logs alone."""
    both: Path
    """From the brokers' logs and ZooKeeper's."""
    zookeeper: Path
    """From ZooKeeper's log alone."""
    faults: Recorded
    """The faults that the testbed injected while the logs were written."""


@pytest.fixture(scope="module")
def imports(tmp_path_factory: pytest.TempPathFactory) -> Imports:
    folder = tmp_path_factory.mktemp("samples")
    zookeeper = ["--zookeeper-log", str(unpacked(SAMPLES / "version-2", folder / "version-2"))]
    logs = [f"--broker={broker}={SAMPLES / f'broker-{broker}'}" for broker in BROKERS]
    for name, arguments in (("logs", logs), ("both", [*logs, *zookeeper]), ("zookeeper", zookeeper)):
        assert main(["import-kafka", *arguments, "--dir", str(folder / name)]) == 0
    faults = recorded(SAMPLES / "faults.jsonl")
    return Imports(folder / "logs", folder / "both", folder / "zookeeper", faults)


def measured(folder: Path) -> RunMetrics:
    ((run, records),) = by_run(read([folder]).records).items()
    return measure(run, records)


def test_the_controllers_and_what_ended_their_reigns(imports: Imports) -> None:
    for folder in (imports.logs, imports.both):
        reigns = measured(folder).reigns
        assert [(reign.epoch, reign.broker, reign.incarnation, reign.ended_by) for reign in reigns] == [
            (1, 3, 1, "silence"),
            (2, 1, 1, "resigned"),
            (3, 2, 2, "resigned"),
        ]
        assert all(reign.ready_at_ms is not None for reign in reigns)


def test_the_failovers_with_zookeepers_log(imports: Imports) -> None:
    """ZooKeeper's log dates the deletion of `/controller`, so that no phase is missing."""
    killed, stopped = measured(imports.both).failovers
    assert (killed.detection_ms, killed.election_ms, killed.takeover_ms, killed.propagation_ms) == (
        6125.0, 22.0, 483.0, 36.0,
    )  # fmt: skip
    assert (killed.partitions, killed.brokers, killed.requests, killed.unanswered) == (9, 2, 12, 0)
    assert (stopped.detection_ms, stopped.election_ms, stopped.takeover_ms, stopped.propagation_ms) == (
        12.0, 17.0, 470.0, 0.0,
    )  # fmt: skip
    assert (stopped.partitions, stopped.brokers, stopped.requests, stopped.unanswered) == (6, 2, 8, 0)


def test_the_takeovers_are_split_as_far_as_kafka_logs_them(imports: Imports) -> None:
    """Kafka logs when it has read the cluster's state, but not how long its writes to ZooKeeper take."""
    for folder, reading_ms in ((imports.logs, (100.0, 97.0)), (imports.both, (104.0, 101.0))):
        failovers = measured(folder).failovers
        assert tuple(row.reading_ms for row in failovers) == reading_ms
        assert [(row.deciding_ms, row.writing_ms) for row in failovers] == [(None, None)] * 2


def test_the_states_that_each_controller_read_are_those_of_zookeepers_log(imports: Imports) -> None:
    logs, both = (
        {
            record.data.epoch: record.data
            for record in recorded(folder).records
            if isinstance(record.data, ContextLoaded)
        }
        for folder in (imports.logs, imports.both)
    )
    assert logs == both
    assert {epoch: len(loaded.partitions) for epoch, loaded in logs.items()} == {1: 0, 2: 9, 3: 6}
    assert logs[2].live_brokers == ((1, 64), (2, 65))


def test_the_failovers_without_zookeepers_log(imports: Imports) -> None:
    """No line has the time at which `/controller` was deleted; unknown values are empty instead of zero."""
    killed, stopped = measured(imports.logs).failovers
    assert [(row.detection_ms, row.election_ms, row.propagation_ms) for row in (killed, stopped)] == [(None,) * 3] * 2
    assert (killed.takeover_ms, killed.outage_ms, killed.partitions, killed.brokers) == (479.0, 6630.0, 9, 2)
    assert (stopped.takeover_ms, stopped.outage_ms, stopped.partitions, stopped.brokers) == (466.0, 499.0, 6, 2)


def test_a_killed_controller_is_lost_when_it_was_killed(imports: Imports) -> None:
    """Its last line is the last sign of it: before the fault, by less than a tenth of a second in this recording."""
    (killed_ms,) = (
        r.wall_ms for r in imports.faults.records if isinstance(r.data, FaultInjected) and r.data.fault == "kill"
    )
    for folder in (imports.logs, imports.both):
        metrics = measured(folder)
        lost_ms = metrics.totals.started_ms + metrics.failovers[0].lost_at_ms
        assert killed_ms - 100 < lost_ms <= killed_ms


def test_partition_states_and_reasons_are_the_same_with_and_without_zookeepers_log(imports: Imports) -> None:
    logs, both, zookeeper = recorded(imports.logs), recorded(imports.both), recorded(imports.zookeeper)
    assert Counter(zookeeper.reasons.values()) == {
        "initialise": 9,
        "alter-partition": 12,
        "isr-removal": 22,
        "controlled-shutdown": 7,
        "offline": 5,
    }
    assert logs.reasons == zookeeper.reasons
    assert both.reasons == zookeeper.reasons
    assert largest_difference(both, zookeeper, zookeeper.states()) == 0


def test_elections_and_times_without_a_leader_agree_with_zookeepers_log(imports: Imports) -> None:
    """A line is written after its transaction: each state of a partition differs by at most that time."""
    logs, zookeeper = recorded(imports.logs), recorded(imports.zookeeper)
    assert logs.brokers_by_epoch == zookeeper.brokers_by_epoch == {1: 3, 2: 1, 3: 2}
    assert all(0 <= ms - zookeeper.elections[epoch][1] <= 20 for epoch, (_, ms) in logs.elections.items())
    late_ms = largest_difference(logs, zookeeper, zookeeper.states())
    assert late_ms == 79.0
    stopped_ms = max(
        r.wall_ms
        for r in imports.faults.records
        if isinstance(r.data, FaultInjected) and (r.data.fault, r.data.target) == ("start", "broker-1")
    )
    by_logs, by_zookeeper = logs.leaderless_ms(stopped_ms), zookeeper.leaderless_ms(stopped_ms)
    assert sum(by_zookeeper.values()) > 10_000
    for partition, leaderless_ms in by_zookeeper.items():
        states = sum((state.topic, state.partition) == partition for state in zookeeper.states())
        assert abs(by_logs[partition] - leaderless_ms) <= late_ms * states


def test_a_partition_of_a_killed_controller_is_without_a_leader_from_its_last_line_on(imports: Imports) -> None:
    """Broker 3, the controller, led orders-2 when it was killed, less than a tenth of a second after its last line."""
    (killed_ms,) = (
        r.wall_ms for r in imports.faults.records if isinstance(r.data, FaultInjected) and r.data.fault == "kill"
    )
    states = [
        (ms, state.leader) for state, (_, ms) in recorded(imports.zookeeper).states().items() if in_orders_2(state)
    ]
    next_ms = min(ms for ms, leader in states if leader in (1, 2) and ms > killed_ms)
    assert next_ms - killed_ms > 6_000
    for folder in (imports.logs, imports.both, imports.zookeeper):
        (row,) = (row for row in measured(folder).partitions if (row.topic, row.partition) == ("orders", 2))
        assert 0 <= row.leaderless_ms - (next_ms - killed_ms) < 200


def in_orders_2(state: Leadership) -> bool:
    return (state.topic, state.partition) == ("orders", 2)


def test_a_deleted_topic_ends(imports: Imports) -> None:
    for folder in (imports.logs, imports.both, imports.zookeeper):
        assert recorded(folder).deleted_topics == {"payments"}
        assert {row.topic for row in measured(folder).partitions if row.leader is None} == {"payments"}


def test_the_imported_logs_violate_no_invariant(imports: Imports) -> None:
    for folder in (imports.logs, imports.both, imports.zookeeper):
        report = check_run_folder(folder)
        assert report.violations == ()
        assert report.records > 0


def test_the_replay_makes_a_page_of_the_import(imports: Imports, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--engine", "python", str(imports.both)]) == 0
    page = capsys.readouterr().out
    title = next(line for line in page.splitlines() if line.startswith("Failover to epoch 2"))
    assert title == "Failover to epoch 2: broker 3 → 1 (silence, noticed by broker-1), 6.63 s ± 38.1 ms without one"
    assert "12 requests, none unanswered" in page


def test_two_imports_of_the_same_logs_are_the_same_bytes(imports: Imports, tmp_path: Path) -> None:
    logs = [f"--broker={broker}={SAMPLES / f'broker-{broker}'}" for broker in reversed(BROKERS)]
    assert main(["import-kafka", *logs, "--dir", str(tmp_path / "again")]) == 0
    first = {path.name: path.read_bytes() for path in imports.logs.iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()} == first
