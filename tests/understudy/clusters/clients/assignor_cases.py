"""Cases for the assignors as lines of text, random ones and Kafka's answers to them.

devtools/judges/java/assignors/Assignors.java describes the lines; `python -m tests.interop.test_assignors` records.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from understudy.clusters.clients.assignors.eager import assign_range, assign_round_robin
from understudy.clusters.clients.assignors.sticky import assign_cooperative_sticky, assign_sticky
from understudy.clusters.clients.assignors.subscriptions import Assignment, Assignor, Subscription
from understudy.foundation.cluster.identifiers import TopicPartition

ANSWERS = Path(__file__).with_name("assignments_of_kafka.txt")
"""Kafka's answers: the line of a case and the line of its answer, in turns."""

ASSIGNORS: Mapping[str, Assignor] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    "sticky": assign_sticky,
    "cooperative-sticky": assign_cooperative_sticky,
}


class Case(NamedTuple):
    """One call of an assignor.

    Attributes:
        topics: the racks of each partition's replicas, by topic.
    """

    assignor: str
    topics: dict[str, tuple[frozenset[str], ...]]
    members: dict[str, Subscription]

    def line(self) -> str:
        """Return the line that Assignors.java reads."""
        topics = ";".join(
            f"{topic}={','.join('+'.join(sorted(racks)) for racks in partitions)}"
            for topic, partitions in self.topics.items()
        )
        members = ";".join(
            "|".join(
                (
                    member,
                    ",".join(each.topics),
                    ",".join(map(str, each.owned)),
                    str(each.generation),
                    each.instance_id or "",
                    each.rack or "",
                )
            )
            for member, each in self.members.items()
        )
        return f"{self.assignor}\t{topics}\t{members}"

    def answer(self) -> Assignment:
        """Return what our assignor makes of it."""
        counts = {topic: len(partitions) for topic, partitions in self.topics.items()}
        racks = {
            TopicPartition(topic, number): here
            for topic, partitions in self.topics.items()
            for number, here in enumerate(partitions)
        }
        return ASSIGNORS[self.assignor](counts, self.members, racks)


def parse(line: str) -> Case:
    """Return the case of a line."""
    assignor, topics, members = line.split("\t")
    found = {}
    for text in _split(topics, ";"):
        topic, _, partitions = text.partition("=")
        found[topic] = tuple(frozenset(_split(racks, "+")) for racks in partitions.split(","))
    subscriptions = {}
    for text in members.split(";"):
        member, subscribed, owned, generation, instance, rack = text.split("|")
        subscriptions[member] = Subscription(
            tuple(_split(subscribed, ",")),
            tuple(TopicPartition(each.rpartition("-")[0], int(each.rpartition("-")[2])) for each in _split(owned, ",")),
            int(generation),
            instance or None,
            rack or None,
        )
    return Case(assignor, found, subscriptions)


def show(assignment: Assignment) -> str:
    """Return the line that Assignors.java prints of an assignment."""
    return ";".join(f"{member}={','.join(map(str, assignment[member]))}" for member in sorted(assignment))


def random_case(draw: random.Random) -> Case:
    """Draw a group: alike or different subscriptions, with or without racks, with earlier owners or without."""
    racks = draw.sample(["r1", "r2", "r3"], draw.randint(1, 3)) if draw.random() < 0.4 else []
    topics = {
        f"t{number}": tuple(
            frozenset(draw.sample(racks, draw.randint(1, len(racks)))) if racks else frozenset()
            for _ in range(draw.randint(1, 8))
        )
        for number in range(draw.randint(1, 5))
    }
    names = [f"{draw.choice(('consumer', 'C1', 'm'))}-{draw.randrange(10_000)}" for _ in range(draw.randint(1, 20))]
    names = list(dict.fromkeys(names))
    alike = draw.random() < 0.5
    subscribed = {
        name: tuple(sorted(topics if alike else draw.sample(sorted(topics), draw.randint(1, len(topics)))))
        for name in names
    }
    owned, generation = _owners(draw, topics, subscribed)
    return Case(
        draw.choice(sorted(ASSIGNORS)),
        topics,
        {
            name: Subscription(
                subscribed[name],
                owned[name],
                generation[name],
                f"i{place}" if draw.random() < 0.2 else None,
                draw.choice(racks) if racks and draw.random() < 0.8 else None,
            )
            for place, name in enumerate(names)
        },
    )


def _owners(
    draw: random.Random, topics: Mapping[str, tuple[frozenset[str], ...]], subscribed: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, tuple[TopicPartition, ...]], dict[str, int]]:
    """Draw what each member has, and of which generation; some partitions are claimed by two members."""
    owned: dict[str, list[TopicPartition]] = {name: [] for name in subscribed}
    generation = dict.fromkeys(subscribed, -1)
    if draw.random() < 0.7:
        joined = draw.sample(sorted(subscribed), draw.randint(1, len(subscribed)))
        generation |= {name: draw.choice((3, 4, 4, 4, 4)) for name in joined}
        claims = 2 if draw.random() < 0.2 else 1
        for topic, partitions in topics.items():
            possible = [name for name in joined if topic in subscribed[name]]
            for number in range(len(partitions)):
                for name in draw.sample(possible, min(claims, len(possible))):
                    if draw.random() < 0.9:
                        owned[name].append(TopicPartition(topic, number))
    return {name: tuple(each) for name, each in owned.items()}, generation


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if text else []
