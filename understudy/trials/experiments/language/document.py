"""An experiment as values: the contents of a file, with its ranges not drawn yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from understudy.clusters.values import CountRange, Span, Target, Trigger
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.trials.experiments.language.actions import AT_ONCE, Action

SCHEMA: Final = "understudy/v1"
"""The version of the format, the value of the key `schema`."""

ENGINES: Final = ("sim", "real", "compose")

_ONCE: Final = CountRange(1, 1)
_SESSION: Final = Span(3_000, 3_000)
_LASTS: Final = Span(10_000, 10_000)


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A mapping of a file."""

    line: int = 0
    """The line where it begins, from 1; 0 if it is not in the file."""


class Topic(Section, frozen=True, kw_only=True):
    """A topic that is created before the steps."""

    name: str
    partitions: int = 1
    replicas: int = 3
    """The replication factor, limited to the number of brokers."""
    assignment: tuple[int, ...] = ()
    """The brokers of every partition, in order; instead of `replicas`."""
    min_insync: int = 1


class ClusterPlan(Section, frozen=True, kw_only=True):
    """The cluster that an experiment starts."""

    brokers: int = 3
    racks: tuple[str, ...] = ()
    session: Span = _SESSION
    """The ZooKeeper session timeout of the brokers."""
    zookeepers: int = 1
    """Number of ZooKeeper servers; several are an ensemble."""
    topics: tuple[Topic, ...] = (Topic(name="orders", partitions=3, min_insync=2),)
    settings: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Further lines of every server.properties."""

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(topic.name, number) for topic in self.topics for number in range(topic.partitions)]


class LoadPlan(Section, frozen=True, kw_only=True):
    """The load of clients from the beginning to the end of an experiment."""

    producers: int = 1
    consumers: int = 1
    members: int = 0
    """Number of consumers in one group, beside `consumers`, which each read every partition."""
    rate: float = 10.0
    """Batches a second of all producers together."""
    acks: tuple[str, ...] = ("all",)
    """The acks of the producers in turn, repeated if there are fewer."""


class Step(Section, frozen=True, kw_only=True):
    """One step: when it is done, what it does, and to which brokers.

    Attributes:
        number: from 1, in the order of the file; 0 until the ranges are drawn.
        at: the time since the start of the load; `when` and `after` are other conditions. Without any of them a step is
            done after the one before it in the file.
        wait: how long after its condition the step is done.
        action: what it does; None if it only waits or marks.
    """

    number: int = 0
    at: Span | None = None
    when: Trigger | None = None
    nth: CountRange = _ONCE
    after: str = ""
    wait: Span = AT_ONCE
    exclude: tuple[Target, ...] = ()
    bind_as: str = ""
    mark: str = ""
    action: Action | None = None


class Expectations(Section, frozen=True, kw_only=True):
    """The expectations of an experiment."""

    always: tuple[str, ...] = ("all-safety",)
    """Ids of invariants, `P1-P6` for several, `all-safety` for all."""
    within: Mapping[str, Span] = msgspec.field(default_factory=dict)
    """Time after the end of the last fault, by liveness id."""
    sometimes: tuple[str, ...] = ()
    """Marks that the run must reach."""
    never: tuple[str, ...] = ()
    """Marks that the run must not reach."""


class Defect(Section, frozen=True, kw_only=True):
    """The expectations that a run without a fence or a fix must violate."""

    breaks: tuple[str, ...]
    seeds: int = 1
    """Number of seeds of which one must violate them."""


class Experiment(Section, frozen=True, kw_only=True):
    """One experiment file."""

    schema: str = SCHEMA
    name: str
    title: str = ""
    question: str = ""
    story: str = ""
    refs: tuple[str, ...] = ()
    engines: tuple[str, ...] = ("sim", "real")
    seed: int = 1
    cluster: ClusterPlan = msgspec.field(default_factory=ClusterPlan)
    load: LoadPlan = msgspec.field(default_factory=LoadPlan)
    steady: tuple[str, ...] = ("one-controller", "no-leaderless", "no-under-replicated")
    steps: tuple[Step, ...]
    lasts: Span = _LASTS
    """Minimum time that the experiment lasts; steps that are due later extend it."""
    expect: Expectations = msgspec.field(default_factory=Expectations)
    defects: Mapping[str, Defect] = msgspec.field(default_factory=dict)
