"""Shows which partition a producer chooses for records: by the hash of their key, or without one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from understudy.clusters.clients.partitioner import BATCH_SIZE, StickyPartition, murmur2, partition_for_key, to_positive
from understudy.kafka_tools.planning.plan_answer import AnswerTable, BadPlan, Bar, Block, Heading, PlanAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPlan:
    """The keys and records for which partitions are chosen.

    Attributes:
        keys: as text; a producer's StringSerializer makes them UTF-8.
        grown_to: the later number of partitions; None if it does not grow.
        without_key: the number of records without a key that are sent, each of `record_bytes`.
        seed: the seed of the random choices.
    """

    partitions: int
    keys: Sequence[str] = ()
    grown_to: int | None = None
    without_key: int = 0
    record_bytes: int = 1_000
    batch_size: int = BATCH_SIZE
    seed: int = 1


def key_answer(plan: KeyPlan) -> PlanAnswer:
    """Return the partition of each key, and of records without one.

    Raises:
        BadPlan: there are neither keys nor records without one, or the topic would shrink.
    """
    if not plan.keys and not plan.without_key:
        raise BadPlan("no key: give some, or --without-key N for N records without one")
    if plan.grown_to is not None and plan.grown_to <= plan.partitions:
        raise BadPlan(f"--grown-to {plan.grown_to}: the topic has {plan.partitions} partitions, and can only get more")
    blocks = (*(_keyed(plan) if plan.keys else ()), *(_without_key(plan) if plan.without_key else ()))
    return PlanAnswer(f"The partitions of records in a topic of {plan.partitions}", blocks)


def _keyed(plan: KeyPlan) -> Iterator[Block]:
    yield "partition = toPositive(murmur2(key)) mod partitions; toPositive cuts the sign bit off."
    rows = []
    moved = 0
    for key in plan.keys:
        data = key.encode()
        hashed = murmur2(data)
        partition = partition_for_key(data, plan.partitions)
        row = [repr(key), str(hashed), str(to_positive(hashed)), str(partition)]
        if plan.grown_to is not None:
            later = partition_for_key(data, plan.grown_to)
            moved += later != partition
            row.append(f"{later}{' moved' if later != partition else ''}")
        rows.append(tuple(row))
    later_head = () if plan.grown_to is None else (f"of {plan.grown_to}",)
    yield AnswerTable(("key", "murmur2", "toPositive", f"of {plan.partitions}", *later_head), tuple(rows))
    if plan.grown_to is not None:
        yield (
            f"{moved} of {len(plan.keys)} keys change their partition when the topic grows: records of a key are in "
            "order only within a partition."
        )


def _without_key(plan: KeyPlan) -> Iterator[Block]:
    sticky = StickyPartition(range(plan.partitions), random.Random(plan.seed), batch_size=plan.batch_size)
    chosen = [sticky.partition_for(plan.record_bytes) for _ in range(plan.without_key)]
    yield Heading(f"{plan.without_key} records of {plan.record_bytes} bytes without a key")
    yield (
        f"A partition is drawn at random and kept until batch.size, {plan.batch_size} bytes, went to it; with seed "
        f"{plan.seed}:"
    )
    rows = []
    record = 1
    for partition, same in groupby(chosen):
        count = len(list(same))
        rows.append((f"{record}-{record + count - 1}" if count > 1 else str(record), str(partition)))
        record += count
    yield AnswerTable(("records", "partition"), tuple(rows))
    counts = Counter(chosen)
    most = max(counts.values())
    yield AnswerTable(
        ("partition", "records", ""),
        tuple((str(each), str(counts[each]), Bar(counts[each], most)) for each in range(plan.partitions)),
    )
