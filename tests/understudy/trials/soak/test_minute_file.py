"""A minute of a soak as an experiment file: it is read, and its faults are injected in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.checks.partition_clients import ClientCounts
from understudy.cli.main import main
from understudy.trials.experiments.language.reading import read_experiment
from understudy.trials.soak.minute_file import experiment_file, of_minutes
from understudy.trials.soak.totals import (
    ClusterShape,
    FaultRecord,
    Measures,
    MinuteRecord,
    SoakTotals,
    minute_line,
    total_lines,
)

SHAPE = ClusterShape(
    brokers=3, racks=("a", "b", "a"), session_ms=3_000, topic="soak", partitions=3, replicas=3, min_insync=2
)


def fault(
    kind: str,
    verb: str,
    target: str,
    at_ms: float,
    lasts_ms: float | None = 2_000.0,
    *,
    role: str = "",
    minute: int = 4,
    session: int = 1,
) -> FaultRecord:
    return FaultRecord(
        number=1,
        kind=kind,
        session=session,
        minute=minute,
        at_ms=at_ms,
        verb=verb,
        target=target,
        role=role,
        lasts_ms=lasts_ms,
    )


FAULTS = [
    fault("depose", "depose", "2", 100.4, None, role="controller"),
    fault("kill", "kill", "3", 2_500.0, role="leader of soak-1"),
    fault("restart", "stop", "1", 11_000.0),
    fault("short-pause", "pause", "2", 18_000.0, 700.0),
    fault("isolate", "isolate", "1", 22_000.0, 4_000.0),
    fault("pause-zookeeper", "pause", "zookeeper", 34_000.0, 1_000.0),
    fault("restart-zookeeper", "stop", "zookeeper", 40_000.0, 1_500.0),
]


def text(faults: list[FaultRecord], first: int = 4, last: int = 5) -> str:
    return experiment_file(SHAPE, faults, first=first, last=last, seed=9, reason='R1 violated: "a"\nb')


def test_the_steps_have_the_times_and_the_brokers_of_the_soak() -> None:
    lines = text([*FAULTS, fault("kill", "kill", "1", 3_000.0, minute=5)]).splitlines()
    assert "  - {at: 2100ms, depose: controller}  # depose: broker 2" in lines
    assert "  - {at: 4500ms, kill: 3, for: 2000ms}  # kill: the leader of soak-1" in lines
    assert "  - {at: 36000ms, pause-zookeeper: zookeeper, for: 1000ms}  # pause-zookeeper" in lines
    assert "  - {at: 65000ms, kill: 1, for: 2000ms}  # kill" in lines
    assert "lasts: 122s" in lines


def test_the_experiment_runs_in_the_simulator_and_every_fault_is_injected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "minute.yaml"
    path.write_text(text(FAULTS, 4, 4))
    assert main(["experiment", "run", str(path), "--dir", str(tmp_path / "run")]) == 0, capsys.readouterr()
    assert "held: every expectation held" in capsys.readouterr().out


def test_a_minute_without_faults_is_an_experiment_too(tmp_path: Path) -> None:
    path = tmp_path / "minute.yaml"
    path.write_text(text([], 4, 4))
    experiment = read_experiment(path.read_text(), str(path))
    assert experiment.title == "Minute 4 of a soak"
    assert experiment.steps == ()


def test_of_a_minute_that_was_begun_twice_the_second_time_counts() -> None:
    killed = [fault("kill", "kill", "1", 10.0), fault("kill", "kill", "2", 20.0, session=2)]
    before, after = fault("kill", "kill", "3", 1.0, minute=3), fault("kill", "kill", "3", 1.0, minute=6, session=2)
    assert of_minutes([before, *killed, after], 3, 4) == [before, killed[1]]
    assert of_minutes([before, *killed, after], 5, 5) == []


def test_the_lines_say_what_was_done_and_seen() -> None:
    counts = ClientCounts(acknowledged=1_200, errors={"NoLeader": 2, "REQUEST_TIMED_OUT": 3}, gap_ms=4_200.4)
    minute = MinuteRecord(
        minute=3,
        session=1,
        lasted_ms=60_000.0,
        faults={"kill": 2, "depose": 1},
        clients=counts,
        controller_changes=1,
        leader_elections=4,
        measures=Measures(),
    )
    assert minute_line(minute) == (
        "minute 3: 3 faults (depose, kill 2); 1,200 acknowledged; 5 errors (most REQUEST_TIMED_OUT); "
        "longest gap 4.20 s; 1 controller change; 4 leader elections"
    )
    totals = SoakTotals(seed=1, profile="rough", minutes=1, sessions=2, clients=counts)
    assert total_lines(totals)[0] == "1 minute in 2 sessions: no fault"
    assert "1,200 acknowledged, 0 lost, 0 twice" in total_lines(totals)[1]


def test_counts_add_up() -> None:
    counts = ClientCounts(acknowledged=1, lost=1, errors={"a": 1}, gap_ms=5.0)
    counts.add(ClientCounts(acknowledged=2, repeated=3, errors={"a": 1, "b": 1}, gap_ms=3.0))
    assert (counts.acknowledged, counts.lost, counts.repeated, counts.gap_ms) == (3, 1, 3, 5.0)
    assert counts.errors == {"a": 2, "b": 1}
