"""Shows how a controller chooses the replicas of a topic, step by step, and how even the outcome is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from understudy.controller.replica_placement import Placement, placements, rack_alternated
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.kafka_tools.planning.plan_answer import AnswerTable, BadPlan, Bar, Block, Heading, PlanAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlan:
    """The topic and the brokers on which its replicas are placed.

    Attributes:
        rack_of: the rack of each broker; None for one without. Either all have one or none has.
        start: the place of the first partition's first replica in the list of brokers. Kafka draws it.
        shift: the distance of the further replicas in the first round. Kafka draws it, apart from `start`.
        rack_aware: False as with `--disable-rack-aware` of Kafka's tools.
    """

    rack_of: Mapping[int, str | None]
    partitions: int
    replication_factor: int
    start: int = 0
    shift: int = 0
    first_partition: int = 0
    rack_aware: bool = True


def place(plan: ReplicaPlan) -> tuple[list[BrokerId], list[Placement]]:
    """Return the list of brokers through which first replicas rotate, and how each partition's replicas were chosen.

    Raises:
        BadPlan: the plan is impossible.
    """
    if plan.replication_factor > len(plan.rack_of):
        raise BadPlan(
            f"replication factor {plan.replication_factor}, but there are {len(plan.rack_of)} brokers; give as many "
            "brokers, or a smaller factor"
        )
    for name, value in (("start", plan.start), ("shift", plan.shift)):
        if not 0 <= value < len(plan.rack_of):
            raise BadPlan(f"{name} {value}: expected a place in the list of brokers, 0 to {len(plan.rack_of) - 1}")
    racks = _racks(plan) if plan.rack_aware else {}
    brokers = rack_alternated(racks) if racks else [BrokerId(broker) for broker in sorted(plan.rack_of)]
    numbers = range(plan.first_partition, plan.first_partition + plan.partitions)
    chosen = placements(brokers, racks, numbers, plan.replication_factor, start=plan.start, shift=plan.shift)
    return brokers, list(chosen)


def replica_answer(plan: ReplicaPlan) -> PlanAnswer:
    """Return the steps, and the load of each broker and rack; raises BadPlan."""
    brokers, chosen = place(plan)
    racks = _racks(plan)
    return PlanAnswer(
        f"{_number(plan.partitions, 'partition')} of {_number(plan.replication_factor, 'replica')} on "
        f"{_number(len(brokers), 'broker')}, from place {plan.start} with shift {plan.shift}",
        (
            *_rules(plan, brokers, racks),
            _steps(chosen, racks),
            Heading("The load of each broker"),
            _loads(brokers, chosen, racks),
            *_imbalance(plan, chosen, racks),
        ),
    )


def _racks(plan: ReplicaPlan) -> dict[BrokerId, str]:
    return {BrokerId(broker): rack for broker, rack in sorted(plan.rack_of.items()) if rack is not None}


def _rules(plan: ReplicaPlan, brokers: Sequence[BrokerId], racks: Mapping[BrokerId, str]) -> Iterator[Block]:
    count = len(brokers)
    listed = ", ".join(map(str, brokers))
    if racks and plan.rack_aware:
        yield f"The brokers in rounds, one of each rack: {listed}"
        yield "A broker is skipped while another rack has no replica and its own has one."
    else:
        yield f"The brokers in order{', racks left aside' if racks else ''}: {listed}"
    factor = f" × {len(set(racks.values()))} racks" if racks and plan.rack_aware else ""
    yield f"First replica: the broker at place (partition + {plan.start}) mod {count}."
    if plan.replication_factor > 1:
        yield (
            f"Further replicas, tried with turn 0, 1, 2, …: place (first + 1 + (shift{factor} + turn) "
            f"mod {count - 1}) mod {count}."
        )
        yield f"The shift grows by one with partitions {count}, {2 * count}, …: no round repeats the one before."


def _steps(chosen: Sequence[Placement], racks: Mapping[BrokerId, str]) -> AnswerTable:
    rows = []
    for placement in chosen:
        (first, _), *others = placement.tried
        so_far = [first]
        words = []
        for broker, taken in others:
            if taken:
                so_far.append(broker)
                words.append(str(broker))
            else:
                words.append(f"({broker}: {'is one' if broker in so_far else f'{racks[broker]} has one'})")
        replicas = ", ".join(map(str, placement.replicas))
        rows.append((str(placement.partition), str(placement.shift), str(first), " ".join(words), replicas))
    return AnswerTable(("partition", "shift", "first", "then", "replicas"), tuple(rows))


def _loads(brokers: Sequence[BrokerId], chosen: Sequence[Placement], racks: Mapping[BrokerId, str]) -> AnswerTable:
    leads, holds = _leads(chosen), _holds(chosen)
    most = max(holds.values())
    return AnswerTable(
        ("broker", *(("rack",) if racks else ()), "leads", "replicas", ""),
        tuple(
            (
                str(broker),
                *((racks[broker],) if racks else ()),
                str(leads[broker]),
                str(holds[broker]),
                Bar(holds[broker], most),
            )
            for broker in sorted(brokers)
        ),
    )


def _imbalance(plan: ReplicaPlan, chosen: Sequence[Placement], racks: Mapping[BrokerId, str]) -> Iterator[Block]:
    holds = _holds(chosen)
    average = sum(holds.values()) / len(plan.rack_of)
    busiest, most = max(sorted(holds.items()), key=lambda one: one[1])
    yield f"On average a broker has {average:.1f} replicas; broker {busiest} has most, {most / average:.2f} × as many."
    if not racks:
        return
    sizes = Counter(racks.values())
    by_rack: Counter[str] = Counter()
    for broker, count in holds.items():
        by_rack[racks[broker]] += count
    each = {rack: by_rack[rack] / sizes[rack] for rack in sorted(sizes)}
    highest = max(by_rack.values())
    yield Heading("The load of each rack")
    yield AnswerTable(
        ("rack", "brokers", "replicas", "per broker", ""),
        tuple(
            (rack, str(sizes[rack]), str(by_rack[rack]), f"{each[rack]:.1f}", Bar(by_rack[rack], highest))
            for rack in each
        ),
    )
    if plan.rack_aware and len(set(sizes.values())) > 1:
        yield (
            "The racks are of unequal size, and each gets about as many replicas as another: a broker in a small rack "
            "has more to do. Equal racks would even it out."
        )
    possible = min(plan.replication_factor, len(sizes))
    fewer = sum(len({racks[broker] for broker in placement.replicas}) < possible for placement in chosen)
    if fewer:
        yield f"{fewer} of {len(chosen)} partitions are in fewer racks than they could be."
    else:
        yield "Every partition is in as many racks as it can be."


def _leads(chosen: Sequence[Placement]) -> Counter[BrokerId]:
    return Counter(placement.replicas[0] for placement in chosen)


def _holds(chosen: Sequence[Placement]) -> Counter[BrokerId]:
    return Counter(broker for placement in chosen for broker in placement.replicas)


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
