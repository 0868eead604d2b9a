"""`aligned_clocks` aligns the wall clocks of brokers and ZooKeeper by their pairs, and says how wrong it may be.

A wall clock that fits the others stays as it is: machines keep their clocks by NTP, and one machine has one. The time
of the run is the wall clock that most others fit. A clock that does not fit is moved into its bounds.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from understudy.history.kafka_logs.clock_offsets import ONE_MACHINE, ZOOKEEPER, ImportedClock, ImportedClocks
from understudy.history.kafka_logs.clock_pairs import ClockPairs
from understudy.history.reading.alignment import align
from understudy.history.reading.clock_bounds import TimeBand
from understudy.history.reading.clocks import REFERENCE, ClockPoint, Incarnation, MachineClock, PairBounds, RunClocks
from understudy.history.reading.findings import CLOCKS_CONTRADICT

MOST_POINTS: Final = 128
"""Maximum number of times of a clock at which its uncertainty is kept, beside those at which its offset turns."""

_FIRST: Final = re.compile(r" incarnation 1\b")
"""A broker has one wall clock, whatever process reads it."""


def aligned_clocks(pairs: ClockPairs) -> ImportedClocks:
    """Align the clocks of all logs."""
    evidence = pairs.evidence
    names = {name: own for name, own in evidence.incarnations.items() if own.records}
    if len(names) < 2:
        return ONE_MACHINE
    spans = {name: (own.first_us, own.last_us) for name, own in names.items()}
    free = align(evidence)
    bounds = free.bounds
    assert bounds is not None, "each clock has a name of its own"
    numbers = {name: free.clocks.number(name) for name in names}
    fitting = _largest_fitting(numbers, bounds)
    for name in fitting:
        evidence.incarnations[name].boot = "the clocks that fit"
    moved = align(evidence).clocks
    reference = fitting[0]
    clocks = {name: _unbounded(name, moved, reference, spans[name][0], is_kept=name in fitting) for name in names}
    # What ZooKeeper has dated is in the logs of all brokers, so that its clock has the narrowest bounds to each.
    anchor = max(
        (name for name in names if name[0] == ZOOKEEPER), key=lambda name: pairs.pairs[name], default=reference
    )
    found = []
    for name in (*fitting, *sorted(set(names) - set(fitting))):
        clock = clocks[name]
        if name != anchor:
            band = _placed(bounds.band(numbers[anchor], numbers[name]), clocks[anchor])
            evidence_of = next(
                kind for kind in (free.clocks.of(name).evidence, free.clocks.of(anchor).evidence) if kind != REFERENCE
            )
            clock = clock._replace(points=_with_bounds(clock, band), evidence=evidence_of)
        offsets = {point.offset_us for point in clock.points}
        steady_us = offsets.pop() if len(offsets) == 1 else None
        found.append(ImportedClock(name, clock, pairs.pairs[name], *spans[name], steady_us))
    contradictions = [_FIRST.sub("", finding.what) for finding in free.findings if finding.kind == CLOCKS_CONTRADICT]
    return ImportedClocks(found, contradictions=contradictions)


def _largest_fitting(numbers: Mapping[Incarnation, int], bounds: PairBounds) -> list[Incarnation]:
    """Return the most clocks of which each two may show the same time, brokers first."""
    order = sorted(numbers, key=lambda name: (name[0] == ZOOKEEPER, numbers[name]))
    fit = {  # one reference after the other: the bounds to a new one are expensive
        one: {other for other in order if other != one and _fit(bounds.band(numbers[one], numbers[other]))}
        for one in order
    }
    best: list[Incarnation] = []
    for first in order:
        if first[0] == ZOOKEEPER and best:
            break
        found = [first]
        for name in order:
            if name != first and all(name in fit[other] for other in found):
                found.append(name)
        if len(found) > len(best):
            best = found
    return best


def _fit(bands: Sequence[TimeBand]) -> bool:
    return all(band.low_us <= 0 <= band.high_us for band in bands)


def _unbounded(
    name: Incarnation, moved: RunClocks, reference: Incarnation, first_us: int, *, is_kept: bool
) -> MachineClock:
    """Return a clock with its offset to the reference, without an uncertainty."""
    points: tuple[ClockPoint, ...] = (ClockPoint(first_us, 0, 0),)
    if not is_kept:
        own, other = moved.of(name), moved.of(reference)
        points = tuple(ClockPoint(us, other.clock_us(own.time_us(us)) - us, 0) for us, _, _ in own.points)
    return MachineClock(name[0], name[0], points, REFERENCE)


def _placed(bands: Sequence[TimeBand], anchor: MachineClock) -> list[TimeBand]:
    """Return a band in the time of another clock as a band in the time of the run."""
    return [
        TimeBand(us, anchor.time_us(us + low_us) - us, anchor.time_us(us + high_us) - us)
        for us, low_us, high_us in bands
    ]


def _with_bounds(clock: MachineClock, bands: Sequence[TimeBand]) -> tuple[ClockPoint, ...]:
    """Return the points of a clock and some more, each with an uncertainty that covers the bands around it."""
    step = -(-len(bands) // MOST_POINTS)
    times = sorted({point.clock_us for point in clock.points} | {band.clock_us for band in (*bands[::step], bands[-1])})
    offsets = [clock.offset_us(us) for us in times]
    within = [0] * len(times)
    for band in _filled(bands, times):
        offset = clock.offset_us(band.clock_us)
        wrong = max(band.high_us - offset, offset - band.low_us, 0) + 1
        place = bisect_left(times, band.clock_us)
        near = (place,) if place < len(times) and times[place] == band.clock_us else (place - 1, place)
        for number in near:
            if 0 <= number < len(times):
                within[number] = max(within[number], wrong)
    return tuple(map(ClockPoint, times, offsets, within))


def _filled(bands: Sequence[TimeBand], times: Iterable[int]) -> Iterable[TimeBand]:
    """Yield the bands, and those between two of them at further times."""
    clocks = [band.clock_us for band in bands]
    yield from bands
    for us in times:
        place = bisect_right(clocks, us)
        before, after = bands[max(place - 1, 0)], bands[min(place, len(bands) - 1)]
        width = after.clock_us - before.clock_us
        share = (us - before.clock_us) / width if width else 0.0
        low = before.low_us + share * (after.low_us - before.low_us)
        high = before.high_us + share * (after.high_us - before.high_us)
        yield TimeBand(us, int(low) - 1, int(high) + 1)
