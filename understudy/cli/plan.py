"""`understudy plan`: show where replicas, records and consumers would go, and how many partitions are needed.

`plan assignment replicas` places the replicas of a topic step by step, `plan assignment keys` finds the partition of
records, `plan assignment members` assigns partitions to the members of a group before and after some join or leave.
They need no cluster, and decide as Kafka 3.9 does, by the code that Understudy's controller, producer and consumer run.
`plan partitions` computes how many partitions a throughput needs; it measures a cluster for it, or is given the rates.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from understudy.cli import plan_partitions
from understudy.cli.arguments import BadInput, Verbs, reported_as
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.kafka_tools.planning.keys import KeyPlan, key_answer
from understudy.kafka_tools.planning.member_words import changes, members, replica_racks
from understudy.kafka_tools.planning.members import ASSIGNORS, GroupPlan, member_answer
from understudy.kafka_tools.planning.plan_answer import BadPlan, PlanAnswer
from understudy.kafka_tools.planning.replicas import ReplicaPlan, replica_answer

MOST = 10_000
"""Maximum number of partitions or records in one plan."""
MOST_BROKERS = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    plans = parser.add_subparsers(dest="plan", required=True, metavar="PLAN", title="plans")
    assignment = plans.add_parser(
        "assignment",
        help="replicas, keys or members",
        description="Show where the replicas of a topic, records by their key, or the partitions of a group would go.",
    )
    what = assignment.add_subparsers(dest="what", required=True, metavar="WHAT", title="what is assigned")
    _register_replicas(what)
    _register_keys(what)
    _register_members(what)
    plan_partitions.register(plans)


def _register_replicas(what: Verbs) -> None:
    parser = what.add_parser(
        "replicas",
        help="the replicas of a topic to brokers",
        description="Choose the replicas of a topic step by step, and show how even the load of brokers and racks is.",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--brokers", type=_brokers, metavar="IDS", help="brokers without racks, for example 0-5")
    where.add_argument("--rack", nargs="+", type=_rack, metavar="NAME=IDS", help="racks, for example r1=0-2 r2=3,4")
    parser.add_argument("--partitions", type=_amount, required=True, metavar="N", help="of the topic")
    parser.add_argument("--replication-factor", type=_amount, default=3, metavar="N", help="replicas of a partition")
    parser.add_argument(
        "--start", type=_place, default=0, metavar="PLACE", help="the place of the first replica; Kafka draws it"
    )
    parser.add_argument(
        "--shift", type=_place, default=0, metavar="N", help="the distance of the second; Kafka draws it"
    )
    parser.add_argument(
        "--first-partition",
        type=_place,
        default=0,
        metavar="N",
        help="the first partition to place, of a topic that grows",
    )
    parser.add_argument("--disable-rack-aware", action="store_true", help="place as if there were no racks")
    _finish(parser, _replicas)


def _register_keys(what: Verbs) -> None:
    parser = what.add_parser(
        "keys",
        help="records to partitions, by key or without one",
        description="Find the partition of records: by the murmur2 of their key, or a sticky one.",
    )
    parser.add_argument("keys", nargs="*", metavar="KEY", help="keys, as text")
    parser.add_argument("--partitions", type=_amount, required=True, metavar="N", help="of the topic")
    parser.add_argument("--grown-to", type=_amount, metavar="N", help="show also what N partitions would change")
    parser.add_argument("--without-key", type=_amount, default=0, metavar="N", help="send N records without a key")
    parser.add_argument("--record-bytes", type=_amount, default=1_000, metavar="N", help="the size of a record")
    parser.add_argument("--batch-size", type=_amount, default=16_384, metavar="N", help="batch.size of the producer")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="what chance is drawn from")
    _finish(parser, _keys)


def _register_members(what: Verbs) -> None:
    parser = what.add_parser(
        "members",
        help="partitions to the members of a group",
        description="Assign partitions to the members of a group, and show what each --join and --leave changes, in "
        "the order given. A MEMBER is NAME, NAME:TOPIC,… for one that is subscribed to some topics only, and "
        "NAME@RACK or NAME:TOPIC,…@RACK for one in a rack.",
    )
    parser.add_argument("--assignor", choices=tuple(ASSIGNORS), default="range", help="the strategy")
    parser.add_argument(
        "--topic", nargs="+", type=_topic, required=True, action="extend", metavar="NAME:PARTITIONS", help="topics"
    )
    parser.add_argument(
        "--member", nargs="+", required=True, action="extend", metavar="MEMBER", help="the members of the group"
    )
    parser.add_argument(
        "--join", nargs="+", action=_ChangeAction, metavar="MEMBER", help="members that join, one after the other"
    )
    parser.add_argument(
        "--leave", nargs="+", action=_ChangeAction, metavar="NAME", help="members that leave, one after the other"
    )
    parser.add_argument("--rack", nargs="+", type=_rack, metavar="NAME=IDS", help="place the replicas on these brokers")
    parser.add_argument("--replication-factor", type=_amount, default=3, metavar="N", help="replicas of a partition")
    parser.add_argument(
        "--order",
        type=_order,
        metavar="PARTITIONS",
        help="their order for historic-roundrobin, for example t-2,t-0,t-1",
    )
    _finish(parser, _members)


def _finish(parser: argparse.ArgumentParser, make: Callable[[argparse.Namespace], PlanAnswer]) -> None:
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page for a browser instead of text")
    parser.set_defaults(run=run, make=make)


def run(options: argparse.Namespace) -> int:
    with reported_as(BadInput, BadPlan):
        answer: PlanAnswer = options.make(options)
    return plan_partitions.show(answer, options.html)


def _replicas(options: argparse.Namespace) -> PlanAnswer:
    racks = _rack_of(options.rack) if options.rack is not None else dict.fromkeys(options.brokers)
    return replica_answer(
        ReplicaPlan(
            rack_of=racks,
            partitions=options.partitions,
            replication_factor=options.replication_factor,
            start=options.start,
            shift=options.shift,
            first_partition=options.first_partition,
            rack_aware=not options.disable_rack_aware,
        )
    )


def _keys(options: argparse.Namespace) -> PlanAnswer:
    return key_answer(
        KeyPlan(
            partitions=options.partitions,
            keys=options.keys,
            grown_to=options.grown_to,
            without_key=options.without_key,
            record_bytes=options.record_bytes,
            batch_size=options.batch_size,
            seed=options.seed,
        )
    )


def _members(options: argparse.Namespace) -> PlanAnswer:
    topics = _once("--topic", options.topic)
    racks = _rack_of(options.rack) if options.rack is not None else {}
    return member_answer(
        GroupPlan(
            assignor=options.assignor,
            topics=topics,
            members=members(options.member, topics),
            changes=changes(options.changes, topics) if hasattr(options, "changes") else (),
            racks=replica_racks(topics, racks, options.replication_factor),
            order=options.order or (),
        )
    )


class _ChangeAction(argparse.Action):
    """Keeps --join and --leave in the order in which they are given."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        assert isinstance(values, list)
        earlier: tuple[tuple[bool, str], ...] = getattr(namespace, "changes", ())
        namespace.changes = (*earlier, *((self.dest == "join", str(value)) for value in values))


def _once(option: str, pairs: Sequence[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in pairs:
        if name in found:
            raise BadInput(f"{option} {name}: it is given twice; give each once")
        found[name] = value
    if sum(found.values()) > MOST:
        raise BadInput(f"{option}: {sum(found.values())} partitions; expected at most {MOST} in all")
    return found


def _rack_of(racks: Sequence[tuple[str, tuple[int, ...]]]) -> dict[int, str | None]:
    found: dict[int, str | None] = {}
    for rack, brokers in racks:
        for broker in brokers:
            if broker in found:
                raise BadInput(f"--rack {rack}: broker {broker} is in {found[broker]} already; name each broker once")
            found[broker] = rack
    return found


def _amount(text: str) -> int:
    return _bounded(text, 1)


def _place(text: str) -> int:
    return _bounded(text, 0)


def _bounded(text: str, least: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {MOST}")
    return int(text)


def _brokers(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        last = last or first
        if not (first.isdecimal() and last.isdecimal()) or not int(first) <= int(last) < int(first) + MOST_BROKERS:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a list of at most {MOST_BROKERS} broker ids, for example 0-2,7"
            )
        found += range(int(first), int(last) + 1)
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has a broker twice")
    return tuple(found)


def _rack(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, brokers = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=IDS, for example r1=0-2")
    return name, _brokers(brokers)


def _topic(text: str) -> tuple[str, int]:
    name, colon, count = text.rpartition(":")
    if not name or not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:PARTITIONS, for example orders:10")
    return name, _amount(count)


def _order(text: str) -> tuple[object, ...]:
    found = []
    for part in text.split(","):
        topic, dash, number = part.strip().rpartition("-")
        if not topic or not dash or not number.isdecimal():
            raise argparse.ArgumentTypeError(f"{part!r} is not TOPIC-PARTITION, for example orders-0")
        found.append(TopicPartition(topic, int(number)))
    return tuple(found)
