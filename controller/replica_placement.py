"""Assigns the replicas of a new topic to brokers. Mirrors `org.apache.kafka.admin.AdminUtils`.

Pure; the random source is an argument.

Three goals:

1. Every broker gets about as many replicas, and leads about as many partitions, as any other.
2. The partitions that one broker leads are followed by different brokers, so that its load spreads when it fails.
3. If every broker has a rack, the replicas of a partition are in different racks as far as there are racks.

The first replicas go round the list of brokers. The others follow at a distance, the shift, which grows by one each
time the first replicas have gone round: otherwise partition 5 of a five-broker cluster would repeat partition 0. Ten
partitions of three replicas over brokers 0 to 4, starting at broker 0 with shift 0:

    broker     0    1    2    3    4
    first     p0   p1   p2   p3   p4      second round:  p5   p6   p7   p8   p9
    second    p4   p0   p1   p2   p3                     p9   p5   p6   p7   p8   shifted: p5 is [0, 2, 3],
    third     p3   p4   p0   p1   p2      …              not [0, 1, 2] again

The start, and independently the first shift, are random, so that many small topics do not all begin on the first
broker. Partitions added to a topic later continue from a fixed start instead (`fixed_start_index`, which is also the
shift).

With racks the list of brokers alternates between racks: r1 {0, 5}, r2 {3, 4}, r3 {1, 2} give [0, 3, 1, 5, 4, 2], so
that neighbours are in different racks. A broker is skipped if its rack has a replica already while another rack has
none, or if it has one itself while another broker has none. So with at least as many replicas as racks every rack gets
one; with fewer, no rack gets two.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import BrokerId


class IncompleteRacks(Exception):
    """Some brokers have a rack and some do not. Kafka's `AdminOperationException`."""


class Placement(NamedTuple):
    """How the replicas of one partition were chosen.

    Attributes:
        shift: the distance of the further replicas from the first, in this round of the first replicas.
        tried: the brokers in the order in which they were considered, and whether each was taken.
    """

    partition: int
    shift: int
    tried: tuple[tuple[BrokerId, bool], ...]

    @property
    def replicas(self) -> tuple[BrokerId, ...]:
        return tuple(broker for broker, taken in self.tried if taken)


def assign_replicas_to_brokers(
    rack_by_broker: Mapping[BrokerId, str | None],
    partitions: int,
    replication_factor: int,
    source: random.Random,
    *,
    fixed_start_index: int | None = None,
    start_partition_id: int = 0,
) -> dict[int, tuple[BrokerId, ...]]:
    """Return the replicas of `partitions` partitions from `start_partition_id` on, the preferred leader first.

    Args:
        rack_by_broker: the brokers to choose from. Without racks they are used in this order.
        fixed_start_index: start and shift in place of two random ones.

    Raises:
        ApiError: INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR, for the client.
        IncompleteRacks: some brokers have a rack and some do not.
    """
    _validate(len(rack_by_broker), partitions, replication_factor)
    racks = {broker: rack for broker, rack in rack_by_broker.items() if rack is not None}
    if racks and len(racks) < len(rack_by_broker):
        without = sorted(rack_by_broker.keys() - racks.keys())
        raise IncompleteRacks(
            f"brokers {without} have no rack, brokers {sorted(racks)} have one; give one to all or to none"
        )

    brokers = rack_alternated(racks) if racks else list(rack_by_broker)
    if fixed_start_index is None:
        start, shift = source.randrange(len(brokers)), source.randrange(len(brokers))
    else:
        start, shift = fixed_start_index, fixed_start_index
    numbers = range(start_partition_id, start_partition_id + partitions)
    placed = placements(brokers, racks, numbers, replication_factor, start=start, shift=shift)
    return {placement.partition: placement.replicas for placement in placed}


def placements(
    brokers: Sequence[BrokerId],
    racks: Mapping[BrokerId, str],
    partitions: Iterable[int],
    replication_factor: int,
    *,
    start: int,
    shift: int,
) -> Iterator[Placement]:
    """Yield how the replicas of each partition are chosen, one partition after the other.

    Args:
        brokers: in the order in which the first replicas go round them; rack-alternated if there are racks. At
            least as many as the replication factor.
        racks: the rack of each broker; empty if racks do not count.
        start: the place of the first partition's first replica.
        shift: the distance of the further replicas in the first round.
    """
    for partition in partitions:
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        first = (partition + start) % len(brokers)
        if racks:
            tried = tuple(_across_racks(brokers, racks, first, shift, replication_factor))
        else:
            tried = tuple(_regardless_of_racks(brokers, first, shift, replication_factor))
        yield Placement(partition, shift, tried)


def rack_alternated(rack_by_broker: Mapping[BrokerId, str]) -> list[BrokerId]:
    """Return the brokers in rounds: one of each rack, racks in order of name, brokers in order of id (AS-4)."""
    queues = grouped((rack_by_broker[broker], broker) for broker in sorted(rack_by_broker))
    rounds = max(len(queue) for queue in queues.values())
    return [queues[rack][turn] for turn in range(rounds) for rack in sorted(queues) if turn < len(queues[rack])]


def _validate(brokers: int, partitions: int, replication_factor: int) -> None:
    if partitions <= 0:
        raise ApiError(Errors.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise ApiError(Errors.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > brokers:
        raise ApiError(
            Errors.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {brokers}.",
        )


def _regardless_of_racks(
    brokers: Sequence[BrokerId], first: int, shift: int, replication_factor: int
) -> Iterator[tuple[BrokerId, bool]]:
    yield brokers[first], True
    for turn in range(replication_factor - 1):
        yield brokers[_replica_index(first, shift, turn, len(brokers))], True


def _across_racks(
    brokers: Sequence[BrokerId], rack_by_broker: Mapping[BrokerId, str], first: int, shift: int, replication_factor: int
) -> Iterator[tuple[BrokerId, bool]]:
    racks = len(set(rack_by_broker.values()))
    replicas = [brokers[first]]
    yield brokers[first], True
    turn = 0
    while len(replicas) < replication_factor:
        candidate = brokers[_replica_index(first, shift * racks, turn, len(brokers))]
        used_racks = {rack_by_broker[replica] for replica in replicas}
        # A broker is never taken twice: the replication factor does not exceed the number of brokers.
        taken = candidate not in replicas and (rack_by_broker[candidate] not in used_racks or len(used_racks) == racks)
        if taken:
            replicas.append(candidate)
        yield candidate, taken
        turn += 1


def _replica_index(first: int, shift: int, turn: int, brokers: int) -> int:
    """Return the position of a further replica: never `first` itself (AS-2)."""
    return (first + 1 + (shift + turn) % (brokers - 1)) % brokers
