"""Computes how many partitions a topic needs for a throughput, and what they cost.

A partition is written by producers at Tp and read by one consumer of a group at Tc. Both have to reach the target Tt,
so a topic needs max(Tt / Tp, Tt / Tc) partitions: the slower side decides. The often copied Tt / max(Tp, Tc) lets the
faster side decide, and is too small whenever the two differ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Final, NamedTuple

from understudy.history.writing import counted
from understudy.kafka_tools.planning.plan_answer import AnswerTable, BadPlan, Block, Heading, PlanAnswer

OF_REPLICAS: Final = "replicas of a broker"
OF_PARTITIONS: Final = "partitions of the cluster"
_CURVES: Final = "partition_costs.json"
MOST: Final = 1_000_000
"""Maximum number of partitions of a plan: more than any measured cluster has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsPlan:
    """The input of a plan; rates are in MB/s, a megabyte being 1,000,000 bytes.

    Attributes:
        target: the rate at which the topic has to take records, and its consumers have to read: Tt.
        producer_rate: the rate at which one partition takes records: Tp.
        consumer_rate: the rate at which one consumer reads one partition: Tc.
        rates_from: the origin of the rates, for a person.
        brokers: the number of brokers that the replicas are spread over.
        existing_partitions, existing_replicas: the numbers that the cluster has already; replicas in all.
    """

    target: float
    producer_rate: float
    consumer_rate: float
    rates_from: str
    brokers: int
    replication_factor: int
    existing_partitions: int = 0
    existing_replicas: int = 0


class Needed(NamedTuple):
    """The number of partitions that are needed.

    Attributes:
        for_producers, for_consumers: Tt / Tp and Tt / Tc, rounded up.
        copied_formula: Tt / max(Tp, Tc), rounded up.
        copied_reaches: the throughput that `copied_formula` partitions reach, in MB/s.
    """

    for_producers: int
    for_consumers: int
    copied_formula: int
    copied_reaches: float

    @property
    def partitions(self) -> int:
        return max(self.for_producers, self.for_consumers)


class Curve(NamedTuple):
    """One measured cost.

    Attributes:
        of: the number that it grows with: `OF_REPLICAS` or `OF_PARTITIONS`.
        source: where and how it was measured.
        points: size and cost, ascending by size; at least two.
    """

    what: str
    unit: str
    of: str
    software: str
    source: str
    points: tuple[tuple[float, float], ...]

    def at(self, size: float) -> float:
        """Return the cost on the line through the two points around `size`.

        Beyond the last point it is the line through the last two; below the first one it is the first cost,
        which is higher than the real one.
        """
        place = next((number for number, (end, _) in enumerate(self.points) if size <= end), len(self.points) - 1)
        if place == 0:
            return self.points[0][1]
        (low, low_cost), (high, high_cost) = self.points[place - 1 : place + 1]
        return low_cost + (high_cost - low_cost) * (size - low) / (high - low)


class Cost(NamedTuple):
    """The cost of partitions by one curve.

    Attributes:
        size: the size for which the curve has the cost.
    """

    curve: Curve
    size: int

    @property
    def value(self) -> float:
        return self.curve.at(self.size)

    @property
    def is_measured(self) -> bool:
        """Whether the size lies between the points of the curve."""
        return self.curve.points[0][0] <= self.size <= self.curve.points[-1][0]

    @property
    def is_bound(self) -> bool:
        """Whether it costs less than `value`: the smallest size measured is larger."""
        return self.size < self.curve.points[0][0]


def needed(plan: PartitionsPlan) -> Needed:
    """Return how many partitions the target needs; raises BadPlan for rates that make no plan."""
    for name, rate in (
        ("target", plan.target),
        ("producer rate", plan.producer_rate),
        ("consumer rate", plan.consumer_rate),
    ):
        if not 0 < rate < math.inf:
            raise BadPlan(f"a {name} of {rate:g} MB/s makes no plan; expected more than 0")
    if plan.replication_factor > plan.brokers:
        raise BadPlan(
            f"replication factor {plan.replication_factor}, but there are {plan.brokers} brokers; give as many "
            f"brokers, or a smaller factor"
        )
    producers, consumers = (_parts(plan.target, rate) for rate in (plan.producer_rate, plan.consumer_rate))
    copied = _parts(plan.target, max(plan.producer_rate, plan.consumer_rate))
    found = Needed(producers, consumers, copied, min(plan.target, copied * min(plan.producer_rate, plan.consumer_rate)))
    if found.partitions > MOST:
        raise BadPlan(f"the target needs {found.partitions:,} partitions; a plan has at most {MOST:,}")
    return found


def curves() -> tuple[Curve, ...]:
    """Return the measured curves that the package has."""
    text = resources.files("understudy.kafka_tools.planning").joinpath(_CURVES).read_text(encoding="utf-8")
    return tuple(
        Curve(**{**curve, "points": tuple((size, cost) for size, cost in curve["points"])})
        for curve in json.loads(text)["curves"]
    )


def costs(plan: PartitionsPlan, partitions: int) -> list[Cost]:
    """Return the costs of the cluster with `partitions` more, by every curve."""
    all_partitions = plan.existing_partitions + partitions
    replicas = math.ceil((plan.existing_replicas + partitions * plan.replication_factor) / plan.brokers)
    sizes = {OF_REPLICAS: replicas, OF_PARTITIONS: all_partitions}
    return [Cost(curve, sizes[curve.of]) for curve in curves()]


def partitions_answer(plan: PartitionsPlan) -> PlanAnswer:
    """Return the plan for a person; raises BadPlan."""
    found = needed(plan)
    return PlanAnswer(f"{counted(found.partitions, 'partition')} for {plan.target:g} MB/s", tuple(_blocks(plan, found)))


def partitions_json(plan: PartitionsPlan) -> dict[str, object]:
    """Return the plan for a program, rates in MB/s; raises BadPlan."""
    found = needed(plan)
    return {
        "target_mb_per_s": plan.target,
        "producer_rate_mb_per_s": plan.producer_rate,
        "consumer_rate_mb_per_s": plan.consumer_rate,
        "rates_from": plan.rates_from,
        "partitions": found.partitions,
        "partitions_for_producers": found.for_producers,
        "partitions_for_consumers": found.for_consumers,
        "copied_formula": {"partitions": found.copied_formula, "reaches_mb_per_s": found.copied_reaches},
        "brokers": plan.brokers,
        "replication_factor": plan.replication_factor,
        "existing_partitions": plan.existing_partitions,
        "costs": [
            {
                "what": cost.curve.what,
                "unit": cost.curve.unit,
                "software": cost.curve.software,
                "of": cost.curve.of,
                "size": cost.size,
                "value": round(cost.value, 3),
                "is_measured": cost.is_measured,
                "is_bound": cost.is_bound,
                "source": cost.curve.source,
            }
            for cost in costs(plan, found.partitions)
        ],
    }


def _blocks(plan: PartitionsPlan, found: Needed) -> Iterator[Block]:
    slower = "producers" if found.for_producers >= found.for_consumers else "consumers"
    yield f"Rates of one partition: {plan.rates_from}."
    yield AnswerTable(
        ("side", "MB/s of a partition", "partitions"),
        (
            ("producers", f"Tp = {plan.producer_rate:.1f}", f"Tt / Tp = {found.for_producers:,}"),
            ("consumers", f"Tc = {plan.consumer_rate:.1f}", f"Tt / Tc = {found.for_consumers:,}"),
        ),
    )
    yield f"Both sides have to reach Tt, so max(Tt / Tp, Tt / Tc) decides: the {slower}."
    if found.copied_formula < found.partitions:
        yield (
            f"The often copied Tt / max(Tp, Tc) gives {found.copied_formula:,}, too small by "
            f"{found.partitions - found.copied_formula:,}: the {slower} would reach {found.copied_reaches:.0f} MB/s, "
            f"{100 * found.copied_reaches / plan.target:.0f} % of the target."
        )
    else:
        yield "The often copied Tt / max(Tp, Tc) gives as many here, because both sides are about as fast."
    yield from _costs_in_words(plan, found)


def _costs_in_words(plan: PartitionsPlan, found: Needed) -> Iterator[Block]:
    after = costs(plan, found.partitions)
    yield Heading("What they cost")
    existing = f" beside {plan.existing_partitions:,} that are there" if plan.existing_partitions else ""
    yield (
        f"{counted(found.partitions, 'partition')} × {counted(plan.replication_factor, 'replica')} on "
        f"{counted(plan.brokers, 'broker')}{existing}. These curves were measured elsewhere: their growth carries "
        "over, their seconds and megabytes may not."
    )
    rows = []
    for before, cost in zip(costs(plan, 0), after, strict=True):
        change = cost.value - before.value
        unit = f" {cost.curve.unit}" if cost.curve.unit else ""
        digits = 2 if cost.curve.unit == "s" else 0
        rows.append(
            (
                cost.curve.what,
                cost.curve.software,
                f"{'at most ' if cost.is_bound else ''}{cost.value:,.{digits}f}{unit}{_star(cost)}",
                f"{change:+,.{digits}f}{unit}" if plan.existing_partitions else "",
                f"{cost.size:,} {cost.curve.of}",
            )
        )
    yield AnswerTable(("cost", "of", "in all", "change" if plan.existing_partitions else "", "with"), tuple(rows))
    if any(cost.is_bound for cost in after):
        yield "At most: the cost of the smallest number that was measured."
    if any(map(_star, after)):
        yield "* beyond what was measured: the line through the last two points."
    sources: dict[str, list[str]] = {}
    for cost in after:
        names = sources.setdefault(cost.curve.source, [])
        if cost.curve.what not in names:
            names.append(cost.curve.what)
    yield Heading("Where the curves are from")
    for source, names in sources.items():
        words = ", ".join(names)
        yield f"{words[0].upper()}{words[1:]}: {source}."


def _star(cost: Cost) -> str:
    return "" if cost.is_measured or cost.is_bound else " *"


def _parts(target: float, rate: float) -> int:
    # 500 / 0.1 must not become 5,001 by the last binary digit.
    return max(1, math.ceil(round(target / rate, 9)))
