"""Armed answers as steps of experiments: in the simulator, and on processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.understudy.trials.experiments.simulated import HEAD, run
from understudy.clusters.problems import BadExperiment
from understudy.foundation.eventlog.records import AnswerInjected, StepReached
from understudy.trials.experiments.engine import ExperimentEngine
from understudy.trials.experiments.language.frozen import freeze
from understudy.trials.experiments.language.reading import read_experiment
from understudy.trials.experiments.processes.engine import ProcessEngine
from understudy.trials.experiments.report.explain import frozen_yaml
from understudy.trials.experiments.report.verdict import Status
from understudy.trials.experiments.runner import Runner
from understudy.trials.experiments.simulated.engine import SimulatedEngine

ALL = """
steps:
  - {at: 1s, as: L, bind: leader:orders/0}
  - {at: 1s, answer: L, api: Produce, error: NOT_LEADER_OR_FOLLOWER, times: 3, topic: orders, partition: 0}
  - {when: answer-injected(L), nth: 3, answer: L, api: Fetch, error: OFFSET_OUT_OF_RANGE}
  - {when: answer-injected(L), nth: 4, answer: L, api: Produce, error: REQUEST_TIMED_OUT, and: apply, throttle-ms: 20}
  - {when: answer-injected(L), nth: 5, answer: all, api: Metadata, error: LEADER_NOT_AVAILABLE, client: nobody}
lasts: 4s
"""


@pytest.mark.parametrize("engine", [SimulatedEngine, ProcessEngine], ids=lambda each: each.name)
def test_a_client_is_answered_as_the_steps_say_and_goes_on(engine: type[ExperimentEngine], tmp_path: Path) -> None:
    plan = freeze(read_experiment(HEAD + ALL, "f.yaml"), 3)
    running = engine.begin(plan, tmp_path)
    try:
        outcome = Runner(plan, running).run()
    finally:
        running.close()
    assert [step.failure for step in outcome.steps] == [""] * 5
    (missed,) = outcome.not_injected
    assert missed.startswith("answer: broker-1, broker-2, broker-3 received no request for")
    data = outcome.data
    assert data is not None
    given = [
        record.data
        for records in data.records.values()
        for record in records
        if isinstance(record.data, AnswerInjected)
    ]
    assert [(each.api, each.error, each.hit, each.is_applied) for each in given] == [
        *(("Produce", "NOT_LEADER_OR_FOLLOWER", number, False) for number in (1, 2, 3)),
        ("Fetch", "OFFSET_OUT_OF_RANGE", 1, False),
        ("Produce", "REQUEST_TIMED_OUT", 1, True),
    ]
    armed = [
        record.data.note
        for records in data.records.values()
        for record in records
        if isinstance(record.data, StepReached) and record.data.step == "armed"
    ]
    assert len(armed) == 6
    assert {send.outcome.name for send in data.load.history.sends} == {"OK"}


def test_the_same_seed_gives_the_same_event_log(tmp_path: Path) -> None:
    logs = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        run(ALL, folder, seed=4)
        logs.append({path.name: path.read_bytes() for path in folder.rglob("*.jsonl")})
    assert logs[0] == logs[1]
    assert any(b"AnswerInjected" in content for content in logs[0].values())


def test_an_answer_that_is_never_given_is_not_injected(tmp_path: Path) -> None:
    verdict = run("steps:\n  - {at: 1s, answer: 2, api: DeleteTopics, error: NOT_CONTROLLER}\n", tmp_path)
    assert verdict.status is Status.NOT_INJECTED
    assert verdict.why == (
        "answer: broker-2 received no request for answer-1: 1 × DeleteTopics answered with NOT_CONTROLLER"
    )


def test_a_run_reaches_the_mark_of_an_answer(tmp_path: Path) -> None:
    text = (
        "steps:\n  - {at: 1s, answer: all, api: Metadata, throttle-ms: 10, times: 100}\n"
        "load: {members: 1}\nexpect: {sometimes: [answer-injected]}\n"
    )
    assert run(text, tmp_path).status is Status.HELD


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("api: Heartbeat, error: NOT_COORDINATOR, topic: orders", "Heartbeat requests are about no topic"),
        ("api: Produce, error: NOT_COORDINATOR, partition: 1", "partition 1 needs a topic"),
        ("api: Produce", "an answer needs an error other than NONE, or a throttle time"),
        ("api: StopReplica, error: NONE", "'StopReplica' is no choice here"),
        ("error: NOT_COORDINATOR", "a step that has answer lacks api"),
    ],
)
def test_values_that_do_not_fit_are_refused_with_their_line(step: str, message: str) -> None:
    with pytest.raises(BadExperiment) as bad:
        read_experiment(f"{HEAD}steps:\n  - {{at: 1s, answer: controller, {step}}}\n", "f.yaml")
    assert bad.value.problems[0].line == 4
    assert message in bad.value.problems[0].message


def test_the_frozen_plan_arms_the_same_answer() -> None:
    plan = freeze(read_experiment(HEAD + ALL, "f.yaml"), 2)
    again = read_experiment(frozen_yaml(plan), "frozen.yaml")
    assert [step.action for step in again.steps] == [step.action for step in plan.experiment.steps]
