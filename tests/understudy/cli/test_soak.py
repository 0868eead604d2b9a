"""The command `understudy soak`: what it refuses, and, on a real cluster, what it does, keeps and continues."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shares import at_night
from tests.understudy.cli.terminal import UNDERSTUDY, Terminal, eventually
from understudy.cli.main import main
from understudy.cli.soak import PROFILE_NAMES
from understudy.clusters.control.client import ControlClient
from understudy.clusters.control.control_file import read_control_file
from understudy.clusters.processes.run_folder import (
    CLUSTER_FILE_VERSION,
    ClusterEntry,
    read_cluster_file,
    this_process,
    write_cluster_file,
)
from understudy.foundation.eventlog.records import FaultInjected
from understudy.history.reading.reader import read
from understudy.trials.soak.live.files import SoakFiles
from understudy.trials.soak.loop import source_of
from understudy.trials.soak.plan import PartitionSeen, PlannedFault, Situation, next_fault
from understudy.trials.soak.profiles import PROFILES
from understudy.trials.soak.totals import ClusterShape, FaultRecord, MinuteRecord, SoakTotals

SESSION_MS = 2_000

# ------------------------------------------------------------------ refusals


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    """The folder of a cluster without a control port, in which a soak has had three minutes."""
    entry = ClusterEntry(
        version=CLUSTER_FILE_VERSION,
        run="r",
        owner=this_process(),
        zookeeper="127.0.0.1:1",
        zookeeper_process=None,
        zookeeper_transaction_log=None,
        bootstrap="127.0.0.1:2",
        brokers=(),
        events="testbed/events",
    )
    write_cluster_file(tmp_path, entry)
    files = SoakFiles(tmp_path)
    files.folder.mkdir()
    shape = ClusterShape(brokers=3, racks=(), session_ms=2_000, topic="soak", partitions=3, replicas=3, min_insync=2)
    files.write_totals(SoakTotals(seed=4, profile="gentle", minutes=3, shape=shape))
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["soak", *arguments])
    return code, capsys.readouterr().err


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = refused(capsys, str(tmp_path))
    assert (code, "is no run folder" in error) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--for", "long"], "'long' is no duration"),
        (["--settle", "3"], "'3' is no duration"),
        (["--seed", "5"], "--seed 5: "),
        (["--profile", "evil"], "holds a soak with --profile gentle"),
        (["--minute", "4"], "has had 3 minutes"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(
    ended: Path, arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = refused(capsys, str(ended), *arguments)
    assert code == 3
    assert why in error


def test_a_cluster_that_has_ended_cannot_be_soaked(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = refused(capsys, str(ended))
    assert (code, "has no control.json" in error) == (2, True)


def test_a_soak_that_has_found_something_does_not_go_on(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SoakFiles(ended).write_totals(SoakTotals(seed=4, profile="gentle", violation="R1 violated at x"))
    code, error = refused(capsys, str(ended))
    assert code == 1
    assert "this soak has ended: R1 violated at x; move" in error


def test_the_profiles_of_the_command_are_those_of_the_table() -> None:
    assert tuple(PROFILES) == PROFILE_NAMES


# ------------------------------------------------------------------ a real cluster


class SoakProcess:
    """A process of `understudy soak`, with the lines that it has printed."""

    def __init__(self, run: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*UNDERSTUDY, "soak", str(run), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []

    def until(self, text: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"it ended without {text!r}: {''.join(self.lines)}")

    def end(self) -> int:
        assert self.process.stdout is not None
        self.lines += self.process.stdout
        code = self.process.wait(120)
        self.process.stdout.close()
        return code

    @property
    def output(self) -> str:
        return "".join(self.lines)


def seed_of(kind: str) -> int:
    """A seed whose first fault is of a kind."""
    now = Situation((1, 2, 3), frozenset(), 1, (PartitionSeen("soak-0", (1, 2, 3), (1, 2, 3), 1),), False, True)
    for seed in itertools.count(1):
        fault = next_fault(PROFILES["evil"], now, source_of(seed, 1), session_ms=SESSION_MS)
        if isinstance(fault, PlannedFault) and fault.kind == kind:
            return seed
    raise AssertionError


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("soak") / "run"
    settings = ("--session-timeout-ms", str(SESSION_MS), "--override", "understudy.events.logs=true")
    terminal = Terminal(folder, "--brokers", "3", *settings)
    try:
        terminal.wait_until_up()
        yield folder
    finally:
        terminal.close()


@pytest.fixture
def run(cluster: Path) -> Path:
    """The cluster without what an earlier test has left of its soak."""
    eventually(lambda: is_whole(cluster), "three brokers, in sync")
    if (cluster / "soak").exists():
        (cluster / "soak").rename(cluster / f"soak-{sum(1 for _ in cluster.glob('soak*'))}")
    return cluster


def is_whole(run: Path) -> bool:
    found = ControlClient(read_control_file(run)).get("/cluster")
    return all(broker["registered"] for broker in found["brokers"]) and not found["under_replicated"]


def states(run: Path) -> list[str]:
    return [broker.state for broker in read_cluster_file(run).brokers]


def faults_on_record(run: Path) -> list[tuple[str, str]]:
    data = [record.data for record in read([run / "testbed" / "events"]).records]
    return [(each.fault, each.target) for each in data if isinstance(each, FaultInjected)]


@pytest.mark.xdist_group("soak")
class TestOnACluster:
    @at_night("`tests/durability` has the same rounds, and a soak that is stopped keeps the same records")
    def test_a_short_soak_holds_and_everything_is_on_record(self, run: Path) -> None:
        before = len(faults_on_record(run))
        soak = SoakProcess(run, "--profile", "evil", "--seed", str(seed_of("kill-and-depose")), "--for", "20s")
        assert soak.end() == 0, soak.output
        assert "held: every invariant held" in soak.output
        files = SoakFiles(run)
        done, totals = list(files.read(FaultRecord)), files.read_totals()
        assert [fault.verb for fault in done[:2]] == ["kill", "depose"]
        on_record = faults_on_record(run)[before:]
        for fault in done:
            target = fault.target if fault.target == "zookeeper" else f"broker-{fault.target}"
            assert (fault.verb, target) in on_record, soak.output
        assert totals is not None
        assert (totals.clients.lost, totals.clients.repeated, totals.violation) == (0, 0, "")
        assert totals.clients.acknowledged > 0
        assert totals.clients.read > 0
        assert sum(minute.clients.acknowledged for minute in files.read(MinuteRecord)) == totals.clients.acknowledged
        assert all(minute.measures.memory > 0 for minute in files.read(MinuteRecord))

    @at_night("a soak runs each time until it is interrupted")
    def test_a_killed_soak_leaves_no_broker_paused_and_the_same_command_goes_on(self, run: Path) -> None:
        seed = str(seed_of("long-pause"))
        soak = SoakProcess(run, "--profile", "evil", "--seed", seed, "--for", "1h")
        soak.until(": pause broker")
        assert "paused" in states(run)
        soak.process.kill()
        soak.end()
        eventually(lambda: states(run) == ["running"] * 3, "the cluster has resumed the broker")
        again = SoakProcess(run, "--for", "15s")
        assert again.end() == 0, again.output
        assert again.output.startswith(f"soak of {run}: profile evil, seed {seed}, session 2, from minute 1")
        assert sorted({fault.session for fault in SoakFiles(run).read(FaultRecord)}) == [1, 2]

    def test_ctrl_c_resumes_a_paused_broker_at_once(self, run: Path) -> None:
        soak = SoakProcess(run, "--profile", "evil", "--seed", str(seed_of("long-pause")))
        soak.until(": pause broker")
        second = SoakProcess(run)
        assert (second.end(), "in use by another soak, process" in second.output) == (3, True)
        soak.process.send_signal(signal.SIGINT)
        assert soak.end() == 130, soak.output
        assert states(run) == ["running"] * 3
        assert "interrupted; the same command goes on" in soak.output

    def test_a_topic_that_lost_its_end_while_no_soak_ran_is_a_violation(self, run: Path) -> None:
        files = SoakFiles(run)
        files.folder.mkdir()
        files.write_totals(SoakTotals(seed=1, profile="gentle", sessions=1, minutes=2, ends={"soak-1": 10**9}))
        soak = SoakProcess(run)
        assert soak.end() == 1, soak.output
        assert "violated: H1: soak-1 ends at " in soak.output
        assert ", though records up to 999999999 were acknowledged before" in soak.output
        assert list(files.read(FaultRecord)) == []

    def test_a_violation_stops_the_soak_and_its_minutes_are_an_experiment(
        self, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        soak = SoakProcess(run, "--profile", "evil", "--seed", str(seed_of("depose")))
        soak.until("fault 1: ")
        ControlClient(read_control_file(run)).post("/produce", {"partition": "soak/0", "values": ["of another client"]})
        assert soak.end() == 1, soak.output
        assert "violated: H4 violated by the clients: soak-0: b'of another client' was read at" in soak.output
        path = run / "soak" / "minute-001.yaml"
        assert f"its last minutes as an experiment: {path}" in soak.output
        assert main(["experiment", "run", str(path), "--dir", str(tmp_path / "experiment")]) == 0
        assert "depose: controller" in path.read_text()
        path.unlink()
        assert main(["soak", str(run), "--minute", "1"]) == 0
        assert path.exists()
        assert json.loads((run / "soak" / "state.json").read_text())["violation"].startswith("H4")
        capsys.readouterr()
        assert main(["soak", str(run)]) == 1
