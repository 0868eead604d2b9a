"""Generates docs/reference/state-machines.md: the valid transitions, read from the tables of the product, with
explanations.

The explanations are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from devtools.pages.source import classes, parse
from devtools.pages.text import bullet
from understudy.brokers.coordinator.group.group_state import VALID_PREVIOUS_STATES as VALID_PREVIOUS_GROUP_STATES
from understudy.brokers.coordinator.group.group_state import GroupState
from understudy.controller.transitions import (
    VALID_PREVIOUS_PARTITION_STATES,
    VALID_PREVIOUS_REPLICA_STATES,
    PartitionState,
    ReplicaState,
)
from understudy.history.lake.comments import attribute_docstrings

NAME = "reference/state-machines.md"
SOURCE = "controller/transitions.py"
GROUPS_SOURCE = "brokers/coordinator/group/group_state.py"

HEAD = """\
# State machines

The controller keeps one state for every partition and one for every replica. The states are in its memory only, never
in ZooKeeper: a new controller derives them from what it reads (`startup` in `controller/partition_state_machine.py` and
`controller/replica_state_machine.py`) and loses them when it resigns. The names are Kafka's, as they appear in the
operators' logs and in the event log (`PartitionsMoved`, `ReplicasMoved`).

A group coordinator keeps one state for every group, as its last record in `__consumer_offsets` gives it.

The pictures are drawn from `controller/transitions.py` and `brokers/coordinator/group/group_state.py` by `python -m
devtools.pages`, and a test compares them with these. A move of a partition or replica that is not in its picture is
refused, written to the log as `InvalidTransition`, and the call continues with its other partitions or replicas (PSM-2,
RSM-2).
"""

PARTITIONS = """\
## Partitions

Kafka: `PartitionState`, and `PartitionStateMachine` with its subclass `ZkPartitionStateMachine`. Here:
`handle_state_changes` in `controller/partition_state_machine.py`; who becomes leader is decided by the plain functions
of `controller/leader_election.py`.
"""

REPLICAS = """\
## Replicas

Kafka: `ReplicaState`, and `ReplicaStateMachine` with its subclass `ZkReplicaStateMachine`. Here: `handle_state_changes`
in `controller/replica_state_machine.py`.
"""


GROUPS = """\
## Groups

Kafka: `GroupState`, and `GroupCoordinator`. Here: `brokers/coordinator/group/rebalances.py`; every move is a record
`GroupTransition`.
"""


class Move(NamedTuple):
    """A valid transition: when it happens, and which writes and requests follow."""

    when: str
    effect: str


Moves: TypeAlias = Mapping[tuple[Enum, Enum], Move]
ValidPrevious: TypeAlias = Mapping[Any, Sequence[Enum]]
"""The valid previous states of each state."""

_MEMORY_ONLY = "memory only"

_P = PartitionState
PARTITION_MOVES: Moves = {
    (_P.NON_EXISTENT, _P.NEW): Move(
        "The controller has read the assignment of a new partition from the topic's znode.", _MEMORY_ONLY
    ),
    (_P.NEW, _P.ONLINE): Move(
        "The partition gets its first leader: the first live replica. All live replicas are its ISR (PSM-5).",
        "state znode created; LeaderAndIsr (new) to the ISR, UpdateMetadata to all brokers",
    ),
    (_P.ONLINE, _P.ONLINE): Move(
        "The leader changes although it is alive: preferred election, reassignment or controlled shutdown.",
        "state znode written with a higher leader epoch; LeaderAndIsr to its replicas, UpdateMetadata to all brokers",
    ),
    (_P.OFFLINE, _P.ONLINE): Move(
        "A live replica is elected: one of the ISR or, if unclean election is allowed, any (PSM-12).",
        "as Online to Online",
    ),
    (_P.NEW, _P.OFFLINE): Move(
        "Its topic is deleted, or its state znode exists already: it is read, and a leader is elected next (BUG-10).",
        _MEMORY_ONLY,
    ),
    (_P.ONLINE, _P.OFFLINE): Move(
        "The broker or the log directory of its leader has failed, or its topic is deleted.", _MEMORY_ONLY
    ),
    (_P.OFFLINE, _P.OFFLINE): Move("The same, for a partition that has no leader already.", "nothing changes"),
    (_P.OFFLINE, _P.NON_EXISTENT): Move(
        "The deletion of its topic has begun.", "memory only; UpdateMetadata with leader −2 follows (TD-4)"
    ),
}

_R = ReplicaState
REPLICA_MOVES: Moves = {
    (_R.NON_EXISTENT, _R.NEW): Move(
        "A partition is created, or a reassignment adds the replica.",
        "LeaderAndIsr (new) to it if the partition has a leader, UpdateMetadata to all brokers",
    ),
    (_R.NEW, _R.ONLINE): Move(
        "The partition has its first leader, or the added replica has joined the ISR.",
        "nothing: its broker has had the LeaderAndIsr already (RSM-4)",
    ),
    (_R.ONLINE, _R.ONLINE): Move(
        "A new controller takes over, or its broker has announced a failed log directory:"
        " it is sent the current state.",
        "LeaderAndIsr to it, UpdateMetadata to all brokers",
    ),
    (_R.OFFLINE, _R.ONLINE): Move("Its broker has registered again.", "as Online to Online"),
    (_R.DELETION_INELIGIBLE, _R.ONLINE): Move(
        "Its broker has registered again, while the deletion of the topic waits.", "as Online to Online"
    ),
    (_R.NEW, _R.OFFLINE): Move(
        "Its broker fails, or the reassignment that adds it is cancelled, before it is Online.", "as Online to Offline"
    ),
    (_R.ONLINE, _R.OFFLINE): Move(
        "Its broker or log directory fails, its broker leaves by controlled shutdown, its topic is deleted, "
        "or a reassignment removes it.",
        "StopReplica to it; it leaves the ISR in ZooKeeper; LeaderAndIsr to the other replicas, UpdateMetadata to all "
        "brokers",
    ),
    (_R.OFFLINE, _R.OFFLINE): Move("The same, for a replica that is Offline already.", "as Online to Offline"),
    (_R.DELETION_INELIGIBLE, _R.OFFLINE): Move(
        "Its deletion is tried again; or, at a takeover, its broker is not alive.", "as Online to Offline"
    ),
    (_R.OFFLINE, _R.DELETION_STARTED): Move(
        "Its topic is deleted, or a reassignment removes it, and it has stopped.", "StopReplica with deletion to it"
    ),
    (_R.DELETION_STARTED, _R.DELETION_SUCCESSFUL): Move(
        "Its broker has answered that it is deleted; a reassignment does not wait for the answer (BUG-15).",
        _MEMORY_ONLY,
    ),
    (_R.DELETION_STARTED, _R.DELETION_INELIGIBLE): Move(
        "Its broker has answered with an error, or has failed.", _MEMORY_ONLY
    ),
    (_R.OFFLINE, _R.DELETION_INELIGIBLE): Move(
        "Its topic is deleted while its broker or log directory is down.", _MEMORY_ONLY
    ),
    (_R.DELETION_SUCCESSFUL, _R.NON_EXISTENT): Move(
        "All replicas of the topic are deleted, or a reassignment ends.", "memory only: it leaves the assignment"
    ),
}


_G = GroupState
_DEAD_GROUP = "it is forgotten; requests that wait are answered NOT_COORDINATOR"
GROUP_MOVES: Moves = {
    (_G.PREPARING_REBALANCE, _G.EMPTY): Move(
        "The last member has left or failed.", "a record without members, which nothing waits for"
    ),
    (_G.EMPTY, _G.PREPARING_REBALANCE): Move(
        "The first member joins.", "JoinGroup waits at least `group.initial.rebalance.delay.ms`, for more members"
    ),
    (_G.STABLE, _G.PREPARING_REBALANCE): Move(
        "A member joins, leaves or fails, or joins again with other metadata; or the leader joins again.",
        "heartbeats are answered REBALANCE_IN_PROGRESS; JoinGroup waits for all members, or for the rebalance timeout",
    ),
    (_G.COMPLETING_REBALANCE, _G.PREPARING_REBALANCE): Move(
        "The same, or the assignment could not be stored, or members have not sent SyncGroup in time.",
        "every SyncGroup that waits is answered REBALANCE_IN_PROGRESS",
    ),
    (_G.PREPARING_REBALANCE, _G.COMPLETING_REBALANCE): Move(
        "All members have joined, or the others are removed at the end of the rebalance timeout.",
        "a new generation: every JoinGroup is answered, and the leader is given all members",
    ),
    (_G.COMPLETING_REBALANCE, _G.STABLE): Move(
        "The leader's assignment is stored on all in-sync replicas.", "every SyncGroup is answered"
    ),
    **{(source, _G.DEAD): Move("This broker leads the partition no more.", _DEAD_GROUP) for source in _G},
    (_G.EMPTY, _G.DEAD): Move(
        "It is deleted, its last offset has expired, or this broker leads the partition no more.",
        "tombstones, unless the partition has moved",
    ),
    (_G.DEAD, _G.DEAD): Move("The same, for a group that is Dead already.", "nothing changes"),
}


def page() -> str:
    of_groups = attribute_docstrings(classes(parse(GROUPS_SOURCE))["GroupState"])
    documented = {name: attribute_docstrings(owner) for name, owner in classes(parse(SOURCE)).items()}
    return "\n".join(
        [
            HEAD,
            PARTITIONS,
            *_machine(VALID_PREVIOUS_PARTITION_STATES, PARTITION_MOVES, documented["PartitionState"]),
            "",
            REPLICAS,
            *_machine(VALID_PREVIOUS_REPLICA_STATES, REPLICA_MOVES, documented["ReplicaState"]),
            "",
            GROUPS,
            *_machine(VALID_PREVIOUS_GROUP_STATES, GROUP_MOVES, of_groups),
            "",
        ]
    )


def legal_moves(valid_previous: ValidPrevious) -> list[tuple[Enum, Enum]]:
    """Every legal move as (source, target), in the order of the table."""
    return [(source, target) for target, sources in valid_previous.items() for source in sources]


def diagram(valid_previous: ValidPrevious) -> Iterator[str]:
    """The moves as a Mermaid state diagram, which GitHub draws."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield from (f"    {source.value} --> {target.value}" for source, target in legal_moves(valid_previous))
    yield "```"


def _machine(valid_previous: ValidPrevious, moves: Moves, documented: Mapping[str, str]) -> Iterator[str]:
    yield from diagram(valid_previous)
    yield ""
    yield "| state | what it means |"
    yield "|---|---|"
    yield from (f"| {state.value} | {documented[state.name]} |" for state in valid_previous)
    yield ""
    for source, target in legal_moves(valid_previous):
        when, effect = moves[source, target]
        yield bullet(f"**{source.value} → {target.value}.** {when} *Effect:* {effect}.")
