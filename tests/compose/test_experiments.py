"""Experiments in containers on a Docker engine: the verdict is the simulator's, and nothing is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.compose.compose_cluster import eventually
from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.cleanup import LOG, leftovers
from understudy.clusters.containers.compose_cluster import COMPOSE_FILE, IMAGE_VARIABLE
from understudy.clusters.processes import linux
from understudy.clusters.processes.run_folder import CLUSTER_FILE
from understudy.foundation.eventlog.records import FaultInjected
from understudy.history.reading.reader import read
from understudy.trials.experiments.compose.engine import ComposeEngine
from understudy.trials.experiments.engines import ENGINES
from understudy.trials.experiments.language.frozen import freeze
from understudy.trials.experiments.language.library import find
from understudy.trials.experiments.language.reading import read_experiment, read_experiment_file
from understudy.trials.experiments.report.verdict import Status, Verdict
from understudy.trials.experiments.running import run_experiment

pytestmark = [
    pytest.mark.docker,
    pytest.mark.xdist_group("compose"),
    # For a first build that downloads Spark, on a machine with much else to do.
    pytest.mark.timeout(1800),
]

IN_TESTS = ("kill-controller", "zombie-controller-writes")
"""A kill, and a broker that stops itself at a point; docs/guides/experiments.md lists what else was run."""
EVERY_KIND = """\
schema: understudy/v1
name: every-kind
cluster: {brokers: 3, racks: [a, b, c], session: 3s, topics: [{name: orders, min_insync: 2}]}
load: {producers: 1, consumers: 1, rate: 20}
steps:
  - {at: 500ms, isolate: controller, for: 5s}
  - {at: 9s, pause: rack(b), for: 2s}
  - {at: 13s, pause-zookeeper: zookeeper, for: 1s}
  - {at: 15s, restart: 3}
lasts: 20s
expect: {always: [all-safety], within: {L1: 10s, L2: 10s, L3: 20s}, sometimes: [isr-expanded]}
"""


@pytest.fixture(autouse=True)
def with_the_image_of_this_checkout(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IMAGE_VARIABLE, image)


def on(engine: str, name: str, folder: Path) -> Verdict:
    return run_experiment(freeze(read_experiment_file(find(name))), ENGINES[engine], folder, command="again")


def project_of(folder: Path) -> str:
    return str(yaml.safe_load((folder / COMPOSE_FILE).read_text())["name"])


def left_of(folder: Path) -> dict[str, list[str]]:
    return leftovers(folder, project_of(folder))


@pytest.mark.parametrize("name", IN_TESTS)
def test_the_verdict_is_that_of_the_simulator(name: str, tmp_path: Path) -> None:
    simulated, found = (on(engine, name, tmp_path / engine) for engine in ("sim", "compose"))
    assert found.status is simulated.status is Status.HELD, (simulated.why, found.why)
    expected = read_experiment_file(find(name)).expect.sometimes
    assert all(found.marks[mark] and simulated.marks[mark] for mark in expected)
    assert found.clients.acknowledged > 0
    assert [step.brokers != () for step in found.steps] == [step.brokers != () for step in simulated.steps]
    assert left_of(tmp_path / "compose") == {}


def test_every_kind_of_fault_is_on_record_and_is_ended(tmp_path: Path) -> None:
    verdict = run_experiment(freeze(read_experiment(EVERY_KIND, "f")), ComposeEngine, tmp_path, command="again")
    assert verdict.status is Status.HELD, verdict.why
    faults = [each.data for each in read([tmp_path]).records if isinstance(each.data, FaultInjected)]
    (controller,) = verdict.steps[0].brokers
    assert verdict.steps[1].brokers == (2,)
    injected = [(each.fault, each.target) for each in faults]
    isolated = f"broker-{controller}"
    for target, fault, end in (
        (isolated, "isolate", "heal"),
        ("broker-2", "pause", "resume"),
        ("zookeeper", "pause", "resume"),
    ):
        assert injected.index((fault, target)) < injected.index((end, target))
    restarted = injected.index(("stop", "broker-3"))
    assert ("start", "broker-3") in injected[restarted:]
    assert left_of(tmp_path) == {}
    assert (tmp_path / "broker-1" / "broker.log").stat().st_size > 0


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """An experiment in a program of its own, whose containers run."""
    folder = tmp_path / "run"
    command = ["experiment", "run", "kill-controller", "--engine", "compose", "--dir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    started = subprocess.Popen(
        [sys.executable, "-m", "understudy.cli.main", *command],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        eventually((folder / CLUSTER_FILE).exists, "the cluster serves requests")
        assert len(left_of(folder)["container"]) == 4
        yield started
    finally:
        started.kill()
        started.communicate()
        eventually(lambda: not left_of(folder), "its containers are gone")


def test_a_cleanup_process_takes_the_containers_of_a_killed_experiment_down(
    running: subprocess.Popen[str], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    running.send_signal(signal.SIGKILL)
    running.wait()
    eventually(lambda: not left_of(folder), "containers and network are gone")
    eventually(lambda: "is taken down" in (folder / LOG).read_text(), "the cleanup process has done its work")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_experiment_takes_its_containers_down_itself(
    running: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    running.send_signal(number)
    _, errors = running.communicate(timeout=120)
    assert (running.returncode, errors) == (130, "")
    assert left_of(tmp_path / "run") == {}
    assert (tmp_path / "run" / LOG).read_text() == "", "the cleanup process had nothing to do"
    assert linux.start_time(running.pid) is None


def test_a_second_experiment_in_the_same_folder_is_refused(running: subprocess.Popen[str], tmp_path: Path) -> None:
    plan = freeze(read_experiment_file(find("kill-controller")))
    for engine in (ComposeEngine, ENGINES["real"]):
        with pytest.raises(ClusterError, match=f"in use by another experiment, process {running.pid}"):
            engine.begin(plan, tmp_path / "run")
    assert running.poll() is None
    assert len(left_of(tmp_path / "run")["container"]) == 4
