"""The plan of a reassignment: its JSON file, its checks, and the throttles of the partitions that it moves.

Mirrors the functions of Kafka's `ReassignPartitionsCommand` that send no request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.list_partition_reassignments import OngoingPartitionReassignment
from understudy.kafka_tools.errors import COMMAND_FAILED, ToolError, illegal_argument
from understudy.kafka_tools.json_input import VERSION, duplicates, parse_versioned

ANY = "any"
"""The log directory that stands for any."""

Assignment = Mapping[TopicPartition, Sequence[int]]
Ongoing = Mapping[TopicPartition, OngoingPartitionReassignment]


class Move(NamedTuple):
    """The brokers from which and to which a partition is copied."""

    sources: frozenset[int]
    destinations: frozenset[int]


def parse_reassignment(text: str) -> list[tuple[TopicPartition, list[int]]]:
    """Return the partitions of `--reassignment-json-file` with their new replicas.

    Raises:
        ToolError: the file is wrong, or names a log directory other than "any".
    """
    data = parse_versioned(text)
    found = []
    for each in data.objects("partitions") if "partitions" in data else ():
        partition = TopicPartition(each.text("topic"), each.number("partition"))
        replicas = each.numbers("replicas")
        directories = each.texts("log_dirs") if "log_dirs" in each else [ANY] * len(replicas)
        if len(directories) != len(replicas):
            raise ToolError(
                COMMAND_FAILED,
                f"Size of replicas list {replicas} is different from size of log dirs list "
                f"[{', '.join(directories)}] for partition {partition}",
            )
        other = next((directory for directory in directories if directory != ANY), None)
        if other is not None:
            raise illegal_argument(
                f'log_dirs of {partition} names {other}; expected "any", for moves between the log directories of '
                "a broker are not supported"
            )
        found.append((partition, replicas))
    return found


def parse_topics(text: str) -> list[str]:
    """Return the topics of `--topics-to-move-json-file`. Raises ToolError."""
    data = parse_versioned(text)
    return [each.text("topic") for each in data.objects("topics")] if "topics" in data else []


def check_reassignment(plan: Sequence[tuple[TopicPartition, Sequence[int]]]) -> Assignment:
    """Return a plan by partition. Raises ToolError if it is empty or has something twice."""
    if not plan:
        raise ToolError(COMMAND_FAILED, "Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in plan):
        raise ToolError(COMMAND_FAILED, "Partition replica list cannot be empty")
    repeated = duplicates(partition for partition, _ in plan)
    if repeated:
        listed = ",".join(map(str, repeated))
        raise ToolError(COMMAND_FAILED, f"Partition reassignment contains duplicate topic partitions: {listed}")
    twice = [(partition, again) for partition, replicas in plan if (again := duplicates(replicas))]
    if twice:
        listed = ". ".join(
            f"{partition} contains multiple entries for {','.join(map(str, again))}" for partition, again in twice
        )
        raise ToolError(COMMAND_FAILED, f"Partition replica lists may not contain duplicate entries: {listed}")
    return dict(plan)


def as_json(assignment: Assignment) -> str:
    """Return an assignment as the JSON that the tool reads."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(assignment[partition]),
            "log_dirs": [ANY] * len(assignment[partition]),
        }
        for partition in sorted(assignment)
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)


def moves(ongoing: Ongoing, proposed: Assignment, current: Assignment) -> dict[TopicPartition, Move]:
    """Return the brokers of each copy when `proposed` begins; a partition that moves already keeps its sources."""
    found = {}
    for partition, state in ongoing.items():
        adding = frozenset(state.adding_replicas)
        found[partition] = Move(frozenset(state.replicas) - adding, adding)
    for partition, replicas in proposed.items():
        sources = found[partition].sources if partition in found else frozenset(current[partition])
        found[partition] = Move(sources, frozenset(replicas) - sources)
    return found


def throttled_replicas(moving: Mapping[TopicPartition, Move]) -> dict[str, tuple[str, str]]:
    """Return the throttled replicas of leaders and of followers by topic, as their configurations list them."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for partition, move in moving.items():
        number = partition.partition
        leaders.setdefault(partition.topic, set()).update(f"{number}:{broker}" for broker in move.sources)
        followers.setdefault(partition.topic, set()).update(f"{number}:{broker}" for broker in move.destinations)
    return {topic: (",".join(sorted(leaders[topic])), ",".join(sorted(followers[topic]))) for topic in leaders}
