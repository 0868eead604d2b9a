"""Experiment files: values that are read, and refusals with every problem and its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.clusters.problems import BadExperiment
from understudy.clusters.values import Span, Target
from understudy.trials.experiments.language.action_table import ACTIONS
from understudy.trials.experiments.language.actions import Action
from understudy.trials.experiments.language.document import Experiment
from understudy.trials.experiments.language.expectations import SAFETY
from understudy.trials.experiments.language.frozen import freeze
from understudy.trials.experiments.language.reading import json_schema, read_experiment, read_experiment_file
from understudy.trials.experiments.language.template import template
from understudy.trials.experiments.report.explain import explain, frozen_yaml

HEAD = "schema: understudy/v1\nname: one\n"


def read(rest: str) -> Experiment:
    return read_experiment(HEAD + rest, "f.yaml")


def problems(rest: str) -> list[tuple[int, str]]:
    with pytest.raises(BadExperiment) as refused:
        read(rest)
    return [(each.line, each.message) for each in refused.value.problems]


def test_the_shortest_file_has_defaults() -> None:
    found = read("steps:\n  - {kill: controller}\n")
    assert found.cluster.brokers == 3
    assert found.cluster.topics[0].name == "orders"
    assert found.expect.always == ("all-safety",)
    assert found.steps[0].action == Action(name="kill", brokers=(Target("controller"),))
    assert found.steps[0].line == 4


def test_a_step_has_its_condition_its_target_and_its_options() -> None:
    (bind, pause) = read(
        "steps:\n  - {as: C, bind: controller}\n"
        "  - {when: 'leader-changed(orders/0)', nth: 2..3, wait: 1s..2s, not: C, pause: all, for: 4s}\n"
    ).steps
    assert bind.bind_as == "C"
    assert str(pause.when) == "leader-changed(orders/0)"
    assert (pause.nth.low, pause.nth.high) == (2, 3)
    assert pause.wait == Span(1_000, 2_000)
    assert pause.exclude == (Target("bound", name="C"),)
    assert pause.action == Action(name="pause", brokers=(Target("all"),), lasts=Span(4_000, 4_000))


def test_series_of_invariants() -> None:
    found = read("steps: [{kill: 1}]\nexpect: {always: [P1-P6, C4a, H1]}\n").expect.always
    assert found == ("P1", "P2", "P3", "P4", "P5", "P6", "C4a", "H1")
    assert set(read("steps: [{kill: 1}]\nexpect: {always: [all-safety]}\n").expect.always) == set(SAFETY)


@pytest.mark.parametrize(
    ("rest", "line", "message"),
    [
        ("stepps: []\nsteps: []\n", 3, "'stepps' is no key of an experiment; did you mean 'steps'?"),
        ("title: x\n", 1, "an experiment lacks steps"),
        ("steps:\n  - {kil: 1}\n", 4, "did you mean 'kill'?"),
        ("steps:\n  - {kill: 1, foor: 3s}\n", 4, "did you mean 'for'?"),
        ("steps:\n  - {kill: 1, pause: 2}\n", 4, "kill and pause"),
        ("steps:\n  - {at: 1s, when: elected, kill: 1}\n", 4, "one condition"),
        ("steps:\n  - {kill: 4}\n", 4, "no broker 4"),
        ("steps:\n  - {kill: B}\n", 4, "no step binds B"),
        ("steps:\n  - {kill: rack(a)}\n", 4, "no broker is in rack a"),
        ("steps:\n  - {after: x, kill: 1}\n", 4, "'x' is no mark of a step"),
        ("steps:\n  - {as: b, bind: 1}\n", 4, "capital letter"),
        ("steps:\n  - {bind: 1}\n", 4, "needs `as`"),
        ("steps:\n  - {at: 1s}\n", 4, "does nothing"),
        ("steps:\n  - kill\n", 4, "is no step"),
        ("steps:\n  - {bounce: 1}\n", 4, "lacks for"),
        (
            "steps:\n  - {arm: 1, point: partition.after_writ, action: pause}\n",
            4,
            "did you mean 'partition.after_write'",
        ),
        ("steps: {}\n", 3, "is no list"),
        ("steps: []\nexpect: {always: [C99]}\n", 4, "'C99' is no invariant"),
        ("steps: []\nexpect: {within: {L9: 3s}}\n", 4, "'L9' is no liveness bound"),
        (
            "steps: []\nexpect: {sometimes: [fenced.zk.controller-epok]}\n",
            4,
            "did you mean 'fenced.zk.controller-epoch'",
        ),
        ("steps: []\nsteady: [one-controler]\n", 4, "did you mean 'one-controller'"),
        ("steps: []\nseed: x\n", 4, "'x' is no whole number"),
        ("steps: []\ncluster: {brokers: 0}\n", 4, "0 is no whole number from 1"),
        ("steps: []\ncluster: {topics: [{name: a/b}]}\n", 4, "'a/b' is no name"),
        ("steps: []\ncluster: {topics: [{name: a, assignment: [9]}]}\n", 4, "no broker 9"),
        (
            "steps: []\nengines: [sim, compose]\ncluster: {zookeepers: 3}\n",
            5,
            "zookeepers: 3 cannot run with the engine compose, which has one server",
        ),
        ("steps: []\ncluster: {zookeepers: 9}\n", 4, "9 is no whole number from 1 to 7"),
        ("steps:\n  - {stop-zookeeper: zookeeper(2)}\n", 4, "there is no ZooKeeper server 2: cluster.zookeepers is 1"),
        ("steps:\n  - {cut: 1, from: zookeeper(7)}\n", 4, "there is no ZooKeeper server 7"),
        (
            "steps:\n  - {stop-zookeeper: 1}\n",
            4,
            "1 is no server of ZooKeeper; expected zookeeper, zookeeper(leader)",
        ),
        (
            "steps:\n  - {stop-zookeeper: zookeeper(last)}\n",
            4,
            "expected zookeeper, zookeeper(leader) or zookeeper(ID)",
        ),
        ("steps: []\nengines: [reel]\n", 4, "did you mean 'real'"),
        ("steps: []\nlasts: 1d\n", 4, "'1d' is no duration"),
    ],
)
def test_a_problem_names_the_line_the_value_and_what_is_expected(rest: str, line: int, message: str) -> None:
    found = problems(rest)
    assert [each for each in found if each[0] == line and message in each[1]], found


def test_all_problems_are_reported_at_once() -> None:
    found = problems("steps:\n  - {kil: 1}\n  - {at: 3x, pause: contoller}\nexpect: {always: [C99]}\n")
    assert [line for line, _ in found] == [4, 5, 5, 6]


def test_producers_take_their_acks_in_turn() -> None:
    assert read('load: {acks: ["0", "1", all]}\nsteps: []\n').load.acks == ("0", "1", "all")
    assert read("load: {acks: all}\nsteps: []\n").load.acks == ("all",)
    assert "did you mean 'all'" in problems("steps: []\nload: {acks: al}\n")[0][1]


def test_another_version_is_refused() -> None:
    with pytest.raises(BadExperiment, match=r"understudy/v2"):
        read_experiment("schema: understudy/v2\nname: x\nsteps: []\n", "f.yaml")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    for name, why in (("missing.yaml", "No such file"), ("bytes.yaml", "not UTF-8")):
        with pytest.raises(BadExperiment, match=why):
            read_experiment_file(tmp_path / name)


def test_the_frozen_plan_is_a_file_that_draws_nothing() -> None:
    plan = freeze(read("steps:\n  - {at: 1s..9s, kill: all, for: 1s..9s}\n  - {settle: 3s, wait: 0s..1s}\n"), 7)
    again = freeze(read_experiment(frozen_yaml(plan), "frozen.yaml"), 99)
    assert [(each.at, each.wait, each.action) for each in again.experiment.steps] == [
        (each.at, each.wait, each.action) for each in plan.experiment.steps
    ]


def test_the_frozen_plan_of_an_ensemble_can_be_run_again() -> None:
    text = "cluster: {zookeepers: 3}\nsteps:\n  - {at: 1s, stop-zookeeper: zookeeper(leader)}\n"
    plan = freeze(read(text), 7)
    assert "3 ZooKeeper servers" in "\n".join(explain(plan, {}))
    again = freeze(read_experiment(frozen_yaml(plan), "frozen.yaml"))
    assert again.experiment.cluster.zookeepers == 3
    assert again.experiment.steps[0].action == plan.experiment.steps[0].action


def test_the_seed_alone_decides_what_is_drawn() -> None:
    experiment = read("steps:\n  - {at: 1s..9s, kill: all, for: 1s..9s}\n")
    assert freeze(experiment, 7) == freeze(experiment, 7)
    assert len({freeze(experiment, seed).experiment.steps[0].at for seed in range(20)}) > 15


def test_the_template_is_an_experiment() -> None:
    assert read_experiment(template("mine"), "mine.yaml").name == "mine"


def test_the_schema_describes_every_key_and_action() -> None:
    schema = json_schema()
    step = schema["properties"]["steps"]["items"]
    assert step["properties"].keys() >= ACTIONS.keys()
    assert schema["additionalProperties"] is step["additionalProperties"] is False
    assert schema["required"] == ["schema", "name", "steps"]
