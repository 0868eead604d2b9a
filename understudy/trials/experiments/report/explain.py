"""Describes an experiment in words, and writes a plan with everything drawn as YAML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from understudy.clusters.values import CountRange, Span, written_duration
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.history.writing import ordinal
from understudy.trials.experiments.language.action_table import ACTIONS, TARGETS
from understudy.trials.experiments.language.actions import Action
from understudy.trials.experiments.language.document import SCHEMA, Experiment, Step
from understudy.trials.experiments.language.expectations import ALL_SAFETY, LIVENESS, SAFETY, STEADY
from understudy.trials.experiments.language.frozen import FrozenPlan
from understudy.trials.experiments.language.kinds import StepKey


def explain(plan: FrozenPlan, engines: Mapping[str, frozenset[str]]) -> list[str]:
    """Return the lines of `understudy experiment explain`.

    Args:
        engines: the actions that each engine can do, by its name.
    """
    experiment = plan.experiment
    lines = [f"{experiment.name}: {experiment.title}" if experiment.title else experiment.name]
    lines += [experiment.question.strip()] if experiment.question else []
    lines += ["", *_cluster_lines(plan), "", "Before the first step:"]
    lines += [f"  {STEADY[condition].meaning}" for condition in experiment.steady]
    lines += ["", f"Steps, with what seed {plan.seed} draws:"]
    lines += [f"  {step.number}. {step_text(step)}" for step in experiment.steps]
    lines += ["", "Expected:", *(f"  {line}" for line in _expectation_lines(experiment))]
    lines += ["", "Engines:", *(f"  {line}" for line in _engine_lines(experiment, engines))]
    if experiment.defects:
        lines += ["", "Defects that must be found:"]
        for name, defect in experiment.defects.items():
            lines.append(f"  without {name}: {', '.join(defect.breaks)} within {defect.seeds} seeds")
    return lines


def missing_actions(experiment: Experiment, can: frozenset[str]) -> list[str]:
    """The actions of an experiment that an engine cannot do, in the order of the steps."""
    used = dict.fromkeys(step.action.name for step in experiment.steps if step.action is not None)
    return [action for action in used if action not in can]


def step_text(step: Step) -> str:
    """A step in a sentence."""
    parts = []
    if step.at is not None:
        parts.append(f"at {step.at}")
    elif step.when is not None:
        parts.append(f"when {step.when}" + (f" for the {ordinal(step.nth.low)} time" if step.nth.low > 1 else ""))
    elif step.after:
        parts.append(f"after {step.after}")
    if step.wait.ms:
        parts.append(f"{step.wait} later" if parts else f"after {step.wait}")
    if step.action is not None:
        meaning = ACTIONS[step.action.name].meaning
        target, *options = [(key, _value_text(value)) for key, value in _values_of(step.action)]
        names = {name: text for key, text in options for name in (key.name, key.attribute)}
        parts.append(meaning.format(target[1], **names))
        rest = {
            key.name: text
            for key, text in options
            if f"{{{key.name}}}" not in meaning and f"{{{key.attribute}}}" not in meaning
        }
        parts += [f"for {rest.pop('for')}"] if "for" in rest else []
        parts += [f"({', '.join(f'{name} {text}' for name, text in rest.items())})"] if rest else []
    if step.exclude:
        parts.append(f"but not {_value_text(step.exclude)}")
    if step.bind_as:
        parts.append(f"and call it {step.bind_as}")
    if step.mark:
        parts.append(f"and mark this as {step.mark}")
    return " ".join(parts)


def frozen_yaml(plan: FrozenPlan) -> str:
    """Return the plan as an experiment file in which nothing is left to draw."""
    experiment = plan.experiment
    cluster = experiment.cluster
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "name": experiment.name,
        "seed": plan.seed,
        "cluster": {
            "brokers": cluster.brokers,
            **({"racks": list(cluster.racks)} if cluster.racks else {}),
            "session": str(cluster.session),
            **({"zookeepers": cluster.zookeepers} if cluster.zookeepers > 1 else {}),
            "topics": [
                {
                    "name": topic.name,
                    "partitions": topic.partitions,
                    **({"assignment": list(topic.assignment)} if topic.assignment else {"replicas": topic.replicas}),
                    "min_insync": topic.min_insync,
                }
                for topic in cluster.topics
            ],
            **({"set": dict(cluster.settings)} if cluster.settings else {}),
        },
        "load": {
            "producers": experiment.load.producers,
            "consumers": experiment.load.consumers,
            **({"members": experiment.load.members} if experiment.load.members else {}),
            "rate": experiment.load.rate,
            "acks": list(experiment.load.acks),
        },
        "steady": list(experiment.steady),
        "steps": [step_document(step) for step in experiment.steps],
        "lasts": str(experiment.lasts),
        "expect": {
            "always": list(experiment.expect.always),
            "within": {name: str(span) for name, span in experiment.expect.within.items()},
            "sometimes": list(experiment.expect.sometimes),
            "never": list(experiment.expect.never),
        },
    }
    return "\n".join(_yaml_lines(document)) + "\n"


def step_document(step: Step) -> dict[str, Any]:
    """Return a step as the mapping that a file has for it."""
    found: dict[str, Any] = {}
    if step.at is not None:
        found["at"] = str(step.at)
    if step.when is not None:
        found |= {"when": str(step.when), "nth": step.nth.low}
    if step.after:
        found["after"] = step.after
    if step.wait.ms:
        found["wait"] = str(step.wait)
    if step.exclude:
        found["not"] = [str(each) for each in step.exclude]
    found |= {"as": step.bind_as} if step.bind_as else {}
    found |= {"mark": step.mark} if step.mark else {}
    for key, value in _values_of(step.action) if step.action is not None else ():
        if key.kind is TARGETS:
            found[key.name] = list(map(str, value))
        else:
            value = value.low if isinstance(value, CountRange) else value
            found[key.name] = value if isinstance(value, int) else _value_text(value)
    return found


def _values_of(action: Action) -> list[tuple[StepKey, Any]]:
    """Return the keys of an action's step, with their values; the first is the key of the action itself."""
    values = [(key, getattr(action, key.attribute)) for key in ACTIONS[action.name].keys_of(action.name)]
    return [(key, value) for key, value in values if value is not None]


def _value_text(value: Any) -> str:
    match value:
        case TopicPartition():
            return f"{value.topic}/{value.partition}"
        case float():
            return written_duration(value) if value >= 0 else f"-{written_duration(-value)}"
        case tuple() if not isinstance(value, Span | CountRange):
            return " and ".join(map(_value_text, value))
    return str(value)


def _yaml_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """YAML with one line for each key, and for each step; JSON values are YAML."""
    for key, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield f"{key}:"
            for each in value:
                yield f"  - {_inline(each)}"
        else:
            yield f"{key}: {_inline(value)}"


def _inline(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _cluster_lines(plan: FrozenPlan) -> list[str]:
    cluster, load = plan.experiment.cluster, plan.experiment.load
    servers = f"{cluster.zookeepers} ZooKeeper servers, " if cluster.zookeepers > 1 else ""
    lines = [
        f"Cluster: {cluster.brokers} brokers, {servers}ZooKeeper session timeout {cluster.session}",
        *(f"  server.properties: {key}={value}" for key, value in cluster.settings.items()),
    ]
    for topic in cluster.topics:
        replicas = (
            f"on brokers {list(topic.assignment)}" if topic.assignment else f"replication factor {topic.replicas}"
        )
        lines.append(
            f"  topic {topic.name}: {topic.partitions} partitions, {replicas}, min.insync.replicas {topic.min_insync}"
        )
    produced = f"{load.producers} producers (acks={', '.join(load.acks)}, {load.rate:g} batches a second)"
    members = f", {load.members} members of a group" if load.members else ""
    return [*lines, f"Load: {produced}, {load.consumers} consumers{members}"]


def _expectation_lines(experiment: Experiment) -> list[str]:
    expect = experiment.expect
    if ALL_SAFETY in expect.always or set(expect.always) >= set(SAFETY):
        lines = [f"always: all {len(SAFETY)} invariants"]
    else:
        lines = [f"always {name}: {SAFETY[name]}" for name in expect.always]
    for name, bound in expect.within.items():
        lines.append(f"{name} within {bound} after the last fault: {LIVENESS[name].meaning}")
    lines += [f"at least once: {mark}" for mark in expect.sometimes]
    lines += [f"never: {mark}" for mark in expect.never]
    return lines


def _engine_lines(experiment: Experiment, engines: Mapping[str, frozenset[str]]) -> Iterator[str]:
    for name in experiment.engines:
        if name not in engines:
            yield f"{name}: not built yet"
            continue
        missing = missing_actions(experiment, engines[name])
        yield f"{name}: {'can run it' if not missing else 'cannot do ' + ', '.join(missing)}"
