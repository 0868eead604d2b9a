"""Records of fences, named points, injected faults and the steps of a scenario."""

from __future__ import annotations

from typing import TypeAlias

from foundation.eventlog.record_types.base import RecordPayload


class FenceHit(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a node when one of its fences meets something stale: a request or a write of an earlier epoch."""

    fence: str
    """The fence's name, for example `broker.broker-epoch`; `foundation.eventlog.fences` lists them."""
    what: str
    """What was stale, for example `LeaderAndIsr from 1` or `orders-3`."""
    offered: int
    """The epoch or version that it had."""
    known: int
    """The epoch or version that the node compared it with."""
    switched_off: bool = False
    """Whether an experiment had switched the fence off, so that nothing was refused."""


class PointReached(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a node when it reaches a named point armed by an experiment, before the action is carried out."""

    point: str
    """The point's name, for example `failover.after_epoch`."""
    action: str
    """`pause` or `crash`."""


class FaultInjected(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the testbed or the simulator when it injects a fault or ends one.

    Version 0.1.0 wrote this record as `FaultStruck`.
    """

    fault: str
    """`kill`, `pause`, `continue`, `stop`, `start`, `cut`, `reset`, `heal`, `expire`, `depose`, `write` …"""
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


ExperimentRecord: TypeAlias = FenceHit | PointReached | FaultInjected | StepReached
