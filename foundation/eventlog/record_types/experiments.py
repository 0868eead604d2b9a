"""Records of fences, named points, injected faults, the steps of a scenario and the settings of a run."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from understudy.foundation.eventlog.record_types.base import RecordPayload


class FenceHit(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a node when one of its fences meets something stale: a request or a write of an earlier epoch.

    Also written if an experiment has switched off the fix of a historic bug, and the fix would have mattered.
    """

    fence: str
    """The name of the fence or fix, for example `broker.broker-epoch`; `understudy.foundation.eventlog.fences` lists
    them.
    """
    what: str
    """What was stale, or what the fix is about, for example `LeaderAndIsr from 1` or `orders-3`."""
    offered: int
    """The epoch or version that it had; -1 for a fix."""
    known: int
    """The epoch or version that the node compared it with; -1 for a fix."""
    switched_off: bool = False
    """Whether an experiment had switched it off, so that nothing was refused; always true for a fix."""


class PointReached(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a node when it reaches a named point armed by an experiment, before the action is carried out."""

    point: str
    """The point's name, for example `failover.after_epoch`."""
    action: str
    """`pause` or `crash`."""


class AnswerInjected(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it gives an answer that an experiment or a test has armed, before it is sent."""

    answer: str
    """The name under which the answer was armed."""
    hit: int
    """How often it has been given, this time included."""
    times: int
    """For how many requests it was armed."""
    api: str
    """Kafka's name of the request, for example `Produce`."""
    api_version: int
    """The version of the request."""
    client_id: str
    """The name the client gives itself."""
    correlation_id: int
    """The number of the request on its connection."""
    error: str
    """Kafka's name of the error; `NONE` if the answer was only throttled."""
    partitions: tuple[tuple[str, int], ...]
    """(topic, partition) of what the error is for; partition −1 for the topic itself, topic empty if the request names
    it by id. Empty if the error is for something else."""
    is_applied: bool
    """Whether the request was handled as well."""
    throttle_ms: int
    """The throttle time in the answer, in milliseconds."""


class FaultInjected(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the testbed or the simulator when it injects a fault or ends one.

    Version 0.1.0 wrote this record as `FaultStruck`.
    """

    fault: str
    """`kill`, `power_loss`, `pause`, `resume`, `stop`, `start`, `cut`, `reset`, `heal`, `expire`, `depose`, …"""
    target: str
    """The node, for example `broker-1`, a connection, `broker-1 -> broker-2`, or the path of a znode."""
    role: str = ""
    """The role for which the node was chosen, for example `controller`."""


class StepReached(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the testbed or the simulator when a scenario reaches a step."""

    step: str
    """The step's name."""
    note: str = ""
    """What happens in it, in words."""


class AlignedClock(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The wall clock of one imported node, written as an array of four values."""

    node: str
    """The node."""
    evidence: str
    """The first evidence that bounds it from both sides: `reference`, `messages`, `zxids`, `starts` or `wall clock`."""
    points: tuple[tuple[float, float], ...]
    """(`mono_ms`, by how many milliseconds it may be wrong); in between it is interpolated."""
    is_mixed: bool = False
    """Whether ZooKeeper's clock has dated some of its records, so that the distance of two of them may be wrong."""


class LostStretch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stretch of an imported node's log that is missing, written as an array of four values."""

    node: str
    """The node."""
    from_ms: float
    """`mono_ms` of the last line before it; 0 if the log begins after it."""
    until_ms: float
    """`mono_ms` of the first line after it; 0 if the log ends before it."""
    evidence: str
    """What shows that the node acted in it."""


class RunDescribed(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the testbed, the compose file or the simulator when a run begins: how it was set up. Also written by
    `understudy import-kafka`, before the first record of a broker whose logs are missing, and before all others if it
    has aligned the clocks of several machines, found that logs have lost lines, or read the log of a KRaft quorum.

    Whatever is not known is null or empty. A reader takes each setting from the first such record that has it.
    """

    world: str = ""
    """Where the brokers run: `simulator`, `processes` or `containers`."""
    brokers: int | None = None
    """How many brokers the cluster has."""
    partitions: int | None = None
    """How many partitions the experiment creates; null if clients create topics as they like."""
    session_timeout_ms: int | None = None
    """`zookeeper.session.timeout.ms` of the brokers, in a KRaft cluster `broker.session.timeout.ms` of the controllers;
    null if they differ."""
    seed: int | None = None
    """What every random number of a simulated run is derived from."""
    fault: str = ""
    """The fault that the experiment injects into the controller, for example `kill`; empty if none is planned."""
    software_version: str = ""
    """The version of the brokers' software: of Understudy, or of Apache Kafka if `understudy sweep` has run that."""
    software_commit: str = ""
    """The commit of Understudy's sources, shortened."""
    without_log: tuple[str, ...] = ()
    """Nodes that write no event log, for example `broker-4` if that is a broker of Apache Kafka."""
    lost_logs: tuple[str, ...] = ()
    """Nodes whose logs `understudy import-kafka` was not given, though it was given the logs of others: what it has of
    them is from ZooKeeper's log."""
    lost_stretches: tuple[LostStretch, ...] = ()
    """Stretches whose lines are not in the logs that `understudy import-kafka` was given, though the node acted in
    them."""
    aligned_clocks: tuple[AlignedClock, ...] = ()
    """The wall clocks by which `understudy import-kafka` has aligned all `mono_ms`, the reference first; empty if all
    logs are from one machine."""
    is_kraft: bool = False
    """Whether the run is imported from a KRaft cluster. Its controller epochs are epochs of the quorum, and have
    gaps: an election that no node wins has an epoch as well."""


ExperimentRecord: TypeAlias = FenceHit | PointReached | AnswerInjected | FaultInjected | StepReached | RunDescribed
