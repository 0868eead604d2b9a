"""Reads experiment files: YAML with a versioned schema. Unknown keys are refused, with line and nearest key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from understudy.clusters.problems import BadExperiment, BadValue, Problem, one_of
from understudy.clusters.values import OF_USERS, Target
from understudy.trials.experiments.language import expectations
from understudy.trials.experiments.language.action_table import ACTIONS, TARGETS
from understudy.trials.experiments.language.actions import Answer, OnZooKeeper
from understudy.trials.experiments.language.document import (
    ENGINES,
    SCHEMA,
    ClusterPlan,
    Defect,
    Expectations,
    Experiment,
    LoadPlan,
    Step,
    Topic,
)
from understudy.trials.experiments.language.kinds import (
    COUNT_RANGE,
    NAME,
    SPAN,
    TEXT,
    TRIGGER,
    StepKey,
    ValueKind,
    choice,
    integer,
    list_of,
    mapping_of,
    number,
    read_keys,
    scalar,
    section,
    section_schema,
    word_of,
)
from understudy.trials.experiments.language.marks import MARKS
from understudy.trials.experiments.language.yaml_nodes import YamlNode, parse

MOST_STEPS: Final = 200

# ------------------------------------------------------------------ steps

STEP_KEYS: Final = (
    StepKey("at", SPAN, "do it at this time after the load has begun"),
    StepKey("when", TRIGGER, "do it when this event happens"),
    StepKey("nth", COUNT_RANGE, "do it at the n-th such event; by default the first"),
    StepKey("after", NAME, "do it when the step with this mark is done"),
    StepKey("wait", SPAN, "how long to wait before it is done"),
    StepKey("not", TARGETS, "brokers that the target, or the one of the event, must not be", field="exclude"),
    StepKey("as", NAME, "the name that later steps give the target; it begins with a capital letter", field="bind_as"),
    StepKey("mark", NAME, "a name for this step, which `after` of others names"),
)
"""The keys that every step may have."""


def _read_step(node: YamlNode, problems: list[Problem]) -> Step | None:
    if not isinstance(node.value, dict):
        raise BadValue(f"{node.plain!r} is no step; expected a mapping such as {{at: 4s, kill: controller}}")
    actions = [name for name in node.value if name in ACTIONS]
    if len(actions) > 1:
        raise BadValue(f"a step does one thing, and this one has {' and '.join(actions)}; write two steps")
    common = {key.name: key for key in STEP_KEYS}
    if not actions and (unknown := [name for name in node.value if name not in common]):
        raise one_of(unknown[0], (*ACTIONS, *common), "action or key of a step")
    keys = list(STEP_KEYS)
    words = "a step"
    for name in actions:
        keys += ACTIONS[name].keys_of(name)
        words = f"a step that has {name}"
    found = read_keys(node, keys, problems, words)
    if found is None:
        return None
    own = {key.attribute: found.pop(key.attribute) for key in keys[len(STEP_KEYS) :] if key.attribute in found}
    action = ACTIONS[actions[0]].shape(name=actions[0], **own) if actions else None
    step = Step(line=node.line, action=action, **found)
    _check_step(step)
    return step


def _check_step(step: Step) -> None:
    conditions = [name for name, value in (("at", step.at), ("when", step.when), ("after", step.after)) if value]
    if len(conditions) > 1:
        raise BadValue(f"a step has one condition, and this one has {' and '.join(conditions)}")
    if step.bind_as and not step.bind_as[0].isupper():
        raise BadValue(f"as: {step.bind_as}: the name of a broker begins with a capital letter, for example B")
    if step.action is not None and step.action.name == "bind" and not step.bind_as:
        raise BadValue("a step that has bind needs `as`, the name that later steps use")
    if isinstance(step.action, Answer):
        step.action.armed()
    if step.action is None and not step.mark and step.wait.high_ms == 0:
        raise BadValue(f"this step does nothing; give it an action ({', '.join(ACTIONS)}), a wait or a mark")


def _step_schema() -> dict[str, Any]:
    """Return the schema of a step. It allows the keys of all actions; the reader checks which belong together."""
    keys: dict[str, StepKey] = {key.name: key for key in STEP_KEYS}
    for name, action in ACTIONS.items():
        own, *others = action.keys_of(name)
        keys[name] = own
        for key in others:
            keys.setdefault(key.name, replace(key, is_required=False))
    return section_schema(list(keys.values()))


STEP: Final = ValueKind(_read_step, _step_schema(), "a step")

# ------------------------------------------------------------------ the other sections


TOPIC_KEYS: Final = (
    StepKey("name", NAME, "its name", is_required=True),
    StepKey("partitions", integer(1, 10_000), "how many; by default 1"),
    StepKey("replicas", integer(1, 100), "the replication factor, at most the number of brokers; by default 3"),
    StepKey("assignment", list_of(integer(0, 1_000), most=100), "the brokers of every partition, instead of replicas"),
    StepKey("min_insync", integer(1, 100), "its min.insync.replicas; by default 1"),
)
CLUSTER_KEYS: Final = (
    StepKey("brokers", integer(1, 100), "how many brokers, with ids from 1; by default 3"),
    StepKey("racks", list_of(NAME), "their racks in order, repeated if there are fewer"),
    StepKey("session", SPAN, "the ZooKeeper session timeout of the brokers; by default 3s"),
    StepKey("zookeepers", integer(1, 7), "how many ZooKeeper servers; by default 1, several without compose"),
    StepKey("topics", list_of(section(TOPIC_KEYS, Topic, "a topic")), "topics that exist before the steps"),
    StepKey(
        "set", mapping_of(scalar(str, {}, "a value"), "server.properties"), "lines of server.properties", "settings"
    ),
)
LOAD_KEYS: Final = (
    StepKey("producers", integer(0, 100), "how many producers; by default 1"),
    StepKey("consumers", integer(0, 100), "how many consumers, each of every partition; by default 1"),
    StepKey("members", integer(0, 100), "members of one group, which commit what they have read; by default none"),
    StepKey("rate", number(0.1, 10_000), "batches a second of all producers together; by default 10"),
    StepKey(
        "acks",
        list_of(choice("all", "1", "0"), may_be_single=True),
        "the acks of the producers in turn, repeated if there are fewer; by default all",
    ),
)
_ALWAYS = scalar(expectations.invariants, {"type": "string"}, "an invariant's id, P1-P6 or all-safety")
_BREAKABLE = scalar(expectations.breakable, {"type": "string"}, "an expectation")
_MARK = scalar(word_of(MARKS, "mark"), {"type": "string"}, "a mark")
_WITHIN = replace(
    mapping_of(SPAN, "liveness bounds, for example {L1: 6s}", word_of(expectations.LIVENESS, "liveness bound")),
    schema={"type": "object", "propertyNames": {"enum": list(expectations.LIVENESS)}},
)
_STEADY = scalar(
    word_of(expectations.STEADY, "condition of the steady state"), {"enum": list(expectations.STEADY)}, "a condition"
)
EXPECT_KEYS: Final = (
    StepKey("always", list_of(_ALWAYS), "invariants that hold all the time; by default all-safety"),
    StepKey("within", _WITHIN, "how long after the last fault each liveness bound may take"),
    StepKey("sometimes", list_of(_MARK), "marks that the run must reach"),
    StepKey("never", list_of(_MARK), "marks that the run must not reach"),
)
DEFECT_KEYS: Final = (
    StepKey("breaks", list_of(_BREAKABLE), "the expectations that are violated without it", is_required=True),
    StepKey("seeds", integer(1, 100_000), "within how many seeds; by default 1"),
)


def _build_expectations(*, always: tuple[tuple[str, ...], ...] | None = None, **rest: Any) -> Expectations:
    if always is None:
        return Expectations(**rest)
    return Expectations(always=tuple(dict.fromkeys(each for ids in always for each in ids)), **rest)


KEYS: Final = (
    StepKey("schema", choice(SCHEMA), f"the version of this format: {SCHEMA}", is_required=True),
    StepKey("name", NAME, "the name of the experiment", is_required=True),
    StepKey("title", TEXT, "one line for people"),
    StepKey("question", TEXT, "what the experiment asks"),
    StepKey("story", TEXT, "what one sees, and why"),
    StepKey("refs", list_of(TEXT), "issues and proposals of Kafka that it is about"),
    StepKey("engines", list_of(choice(*ENGINES)), "where it can run; by default sim and real"),
    StepKey("seed", integer(0, 2**62), "the default seed; by default 1"),
    StepKey("cluster", section(CLUSTER_KEYS, ClusterPlan, "cluster"), "the cluster that is started"),
    StepKey("load", section(LOAD_KEYS, LoadPlan, "load"), "what clients do meanwhile"),
    StepKey("steady", list_of(_STEADY), "what must hold before the first step"),
    StepKey("steps", list_of(STEP, most=MOST_STEPS), "what is done", is_required=True),
    StepKey("lasts", SPAN, "the minimum time that the experiment lasts; by default 10s"),
    StepKey("expect", section(EXPECT_KEYS, _build_expectations, "expect"), "what must hold"),
    StepKey(
        "defects",
        mapping_of(section(DEFECT_KEYS, Defect, "a defect"), "defects by name"),
        "fences or fixes that can be switched off, and what that must break",
    ),
)
"""The keys of a file."""


def read_experiment(text: str, source: str) -> Experiment:
    """Read the text of an experiment file.

    Args:
        source: the name of the file, for messages.

    Raises:
        BadExperiment: it cannot be used; the message names every problem with its line.
    """
    found: Experiment = read_document(text, source, _EXPERIMENT)
    return found


def read_document(text: str, source: str, kind: ValueKind) -> Any:
    """Read a YAML text, and return the document that `kind` makes of its root.

    Args:
        source: the name of the file, for messages.

    Raises:
        BadExperiment: the text is no YAML, or there are problems.
    """
    root = parse(text, source)
    problems: list[Problem] = []
    try:
        found = kind.read(root, problems)
    except BadValue as bad:
        raise BadExperiment(source, [Problem(root.line, str(bad))]) from None
    if problems:
        raise BadExperiment(source, problems)
    return found


def read_file(path: Path, kind: ValueKind) -> Any:
    """Read a file as `read_document` does. Raises BadExperiment, also for an unreadable one."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadExperiment(str(path), [Problem(1, f"the file cannot be read: {why}")]) from None
    return read_document(text, str(path), kind)


def read_experiment_file(path: Path) -> Experiment:
    """Read an experiment file. Raises BadExperiment, also if the file cannot be read."""
    found: Experiment = read_file(path, _EXPERIMENT)
    return found


def _inconsistencies(experiment: Experiment) -> list[Problem]:
    """Return the problems between values: names that no step gives, brokers and racks that do not exist."""
    problems = []
    cluster = experiment.cluster
    brokers = range(1, cluster.brokers + 1)
    for name, defect in experiment.defects.items():
        try:
            expectations.switches(name)
        except BadValue as bad:
            problems.append(Problem(defect.line, str(bad)))
    marks = {step.mark or step.bind_as for step in experiment.steps} - {""}
    bound = {step.bind_as for step in experiment.steps} | {mark for mark in marks if mark[0].isupper()}
    for step in experiment.steps:
        if step.after and step.after not in marks:
            problems.append(Problem(step.line, str(one_of(step.after, sorted(marks) or ("none",), "mark of a step"))))
        for target in targets_of(step):
            if target.role == "bound" and target.name not in bound:
                problems.append(Problem(step.line, f"no step binds {target.name}: {{as: {target.name}, bind: …}}"))
            elif target.role == "broker" and target.broker_id not in brokers:
                problems.append(
                    Problem(step.line, f"there is no broker {target.broker_id}: ids are 1 to {len(brokers)}")
                )
            elif target.role in OF_USERS:
                words = f"{target} is no broker: only tests in virtual time (understudy.testing.simulated) have it"
                problems.append(Problem(step.line, words))
            elif target.role == "rack" and target.name not in cluster.racks:
                problems.append(Problem(step.line, f"no broker is in rack {target.name}: see cluster.racks"))
    problems += _problems_of_ensemble(experiment)
    for topic in cluster.topics:
        unknown = [broker for broker in topic.assignment if broker not in brokers]
        problems += [Problem(topic.line, f"there is no broker {each}: ids are 1 to {len(brokers)}") for each in unknown]
    return problems


def _problems_of_ensemble(experiment: Experiment) -> Iterator[Problem]:
    cluster = experiment.cluster
    if cluster.zookeepers > 1 and "compose" in experiment.engines:
        words = f"zookeepers: {cluster.zookeepers} cannot run with the engine compose, which has one server"
        yield Problem(cluster.line, words)
    for step in experiment.steps:
        for target in targets_of(step):
            is_server = target.role == "zookeeper" and target.name.isdecimal()
            if is_server and not 1 <= int(target.name) <= cluster.zookeepers:
                words = f"there is no ZooKeeper server {target.name}: cluster.zookeepers is {cluster.zookeepers}"
                yield Problem(step.line, words)


def targets_of(step: Step) -> list[Target]:
    """Every target that a step names."""
    if step.action is None:
        return list(step.exclude)
    servers = (step.action.server,) if isinstance(step.action, OnZooKeeper) else ()
    return [*step.exclude, *step.action.brokers, *step.action.peers, *servers]


_EXPERIMENT: Final = section(KEYS, Experiment, "an experiment", _inconsistencies)
EXPERIMENT_WITHIN: Final = section(
    [replace(key, is_required=key.name == "steps") for key in KEYS],
    partial(Experiment, name="lesson"),
    "an experiment",
    _inconsistencies,
)
"""An experiment that is part of a lesson file; it needs neither `schema` nor `name`."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a file, for editors. The reader checks more: which keys belong together, and names."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An experiment of Understudy",
        **section_schema(KEYS),
    }
