"""Experiments on broker processes and a real ZooKeeper: the same file, the same verdict as in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shares import SHARES, at_night, share_of
from understudy.clusters.findings import FindingKind
from understudy.foundation.eventlog.records import BrokerRegistered, FaultInjected
from understudy.history.reading.reader import read
from understudy.trials.experiments.engines import ENGINES
from understudy.trials.experiments.language.actions import Action
from understudy.trials.experiments.language.frozen import freeze
from understudy.trials.experiments.language.library import find
from understudy.trials.experiments.language.reading import read_experiment, read_experiment_file
from understudy.trials.experiments.processes.engine import ProcessEngine
from understudy.trials.experiments.report.verdict import Status, Verdict
from understudy.trials.experiments.running import CannotRun, run_experiment

pytestmark = pytest.mark.xdist_group("experiments-on-processes")

IN_TESTS = ("late-order", "zookeeper-away", "rebalance-interrupted", "truncate-to-high-watermark")
"""The others were run by hand, and take as long; these have a point, no ZooKeeper, a group, and a restart.

They are run at night: faults on processes are in `tests/durability`, and here with `kill-controller`.
"""


def test_the_whole_share_has_all_experiments() -> None:
    assert SHARES["experiments-on-processes"].whole == len(IN_TESTS)


def on(engine: str, name: str, folder: Path) -> Verdict:
    return run_experiment(freeze(read_experiment_file(find(name))), ENGINES[engine], folder, command="again")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("kill-controller", marks=pytest.mark.representative("an experiment on processes")),
        *IN_TESTS[: share_of("experiments-on-processes")],
    ],
)
def test_the_verdict_is_that_of_the_simulator(name: str, tmp_path: Path) -> None:
    simulated, real = (on(engine, name, tmp_path / engine) for engine in ("sim", "real"))
    assert real.status is simulated.status is Status.HELD, (simulated.why, real.why)
    expected = read_experiment_file(find(name)).expect.sometimes
    assert all(real.marks[mark] and simulated.marks[mark] for mark in expected)
    assert real.clients.acknowledged > 0
    assert [step.brokers != () for step in real.steps] == [step.brokers != () for step in simulated.steps]


@pytest.mark.parametrize(
    "engine", ["sim", pytest.param("real", marks=at_night("real servers of an ensemble are cut off by other tests"))]
)
def test_a_rack_is_cut_off_with_one_server_of_the_zookeeper_ensemble(engine: str, tmp_path: Path) -> None:
    """The broker in the rack loses its session, and registers again."""
    verdict = on(engine, "cut-off-rack", tmp_path)
    assert verdict.status is Status.HELD, verdict.why
    faults = [each.data for each in read([tmp_path]).records if isinstance(each.data, FaultInjected)]
    targets = [each.target for each in faults if each.fault == "cut"]
    assert "zookeeper-3 -> zookeeper-1, zookeeper-2" in targets
    assert "broker-3 -> zookeeper-1, zookeeper-2" in targets
    registered = [each.node for each in read([tmp_path]).records if isinstance(each.data, BrokerRegistered)]
    assert registered.count("broker-3") == 2
    assert verdict.clients.acknowledged > 0


def test_an_ensemble_is_refused_by_the_engine_that_has_one_server(tmp_path: Path) -> None:
    plan = freeze(read_experiment_file(find("ensemble-leader")))
    with pytest.raises(
        CannotRun, match="the engine compose has one ZooKeeper server, and the experiment asks for 3; run it"
    ):
        run_experiment(plan, ENGINES["compose"], tmp_path / "run", command="again")
    assert not (tmp_path / "run").exists()


def test_every_fault_is_on_record_before_it_is_injected_and_is_ended(tmp_path: Path) -> None:
    text = (
        "schema: understudy/v1\nname: all\ncluster: {brokers: 3, session: 3s, topics: [{name: orders}]}\n"
        "steps:\n  - {at: 500ms, as: C, pause: controller, for: 1s}\n  - {at: 2s, not: C, as: B, kill: random}\n"
        "  - {at: 3s, create-topic: more, partitions: 2}\n  - {at: 4s, pause: C}\nlasts: 6s\n"
        "expect: {always: [C1, H1]}\n"
    )
    verdict = run_experiment(freeze(read_experiment(text, "f")), ENGINES["real"], tmp_path, command="again")
    assert verdict.status is Status.HELD, verdict.why
    faults = [each.data for each in read([tmp_path]).records if isinstance(each.data, FaultInjected)]
    injected = [(each.fault, each.target) for each in faults if each.fault in ("pause", "resume", "kill")]
    (controller,) = verdict.steps[0].brokers
    (killed,) = verdict.steps[1].brokers
    assert injected == [
        ("pause", f"broker-{controller}"),
        ("resume", f"broker-{controller}"),
        ("kill", f"broker-{killed}"),
        ("pause", f"broker-{controller}"),
        ("resume", f"broker-{controller}"),
    ]
    assert ("start", f"broker-{killed}") in [(each.fault, each.target) for each in faults], "healed at the end"


def test_a_broker_that_ends_by_itself_is_a_failure_and_one_that_finds_its_old_registration_is_none(
    tmp_path: Path,
) -> None:
    text = (
        "schema: understudy/v1\nname: ends\ncluster: {brokers: 3, session: 6s}\nsteps: [{mark: begun}]\nlasts: 1s\n"
        "expect: {always: [C1]}\n"
    )
    engine = ProcessEngine.begin(freeze(read_experiment(text, "f")), tmp_path)
    try:
        refused, ends, _ = engine.cluster.brokers
        refused.kill()
        engine.cluster.broker(refused.id).begin_start()
        process = refused.process.process
        assert process is not None
        engine.cluster.wait_until(lambda: not process.is_running, "it has found its old registration")
        assert ends.process.process is not None
        ends.process.process.kill()
        engine.advance(engine.now_ms + 100, lambda _: False)
        engine.heal()
        engine.cluster.settle()
        (failure,) = engine.finish().failures
    finally:
        engine.close()
    assert failure == f"broker-{ends.id} ended by itself with SIGKILL: {ends.process.log}"


def test_a_broker_that_restarts_is_missing_until_it_is_back(tmp_path: Path) -> None:
    """It has ended and is not started yet; then a second restart is under way when everything is healed."""
    text = (
        "schema: understudy/v1\nname: back\ncluster: {brokers: 2, session: 6s}\nsteps: [{at: 1s, restart: 1}]\n"
        "expect: {always: [C1]}\n"
    )
    plan = freeze(read_experiment(text, "f"))
    engine = ProcessEngine.begin(plan, tmp_path)
    try:
        first, second = engine.cluster.brokers
        engine.perform(1, Action(name="restart"), [first.id], ())
        engine.cluster.wait_until(lambda: not first.is_running, "it has ended")
        engine.cluster.wait_until(lambda: engine.cluster.controller_id() == second.id, "the other one is controller")
        found = engine.findings()
        assert found is not None
        assert [each.kind for each in found.unresolved] == [FindingKind.PROCESS]
        engine.advance(engine.now_ms + 200, lambda _: False)
        assert first.is_running
        engine.cluster.settle()
        engine.perform(2, Action(name="restart"), [second.id], ())
        engine.heal()
        assert second.is_running
        engine.cluster.settle()
        assert engine.finish().failures == ()
    finally:
        engine.close()
