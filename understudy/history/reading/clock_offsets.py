"""`offset_points` chooses the offset of a clock within its bounds: the one that changes the least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from understudy.history.reading.clock_bounds import ROUNDING_US, TimeBand
from understudy.history.reading.clocks import ClockPoint

MOST_POINTS: Final = 512
"""Maximum number of points of a clock."""


def offset_points(bands: Sequence[TimeBand]) -> tuple[ClockPoint, ...]:
    """Return a line in a band by not too many points, with a width that covers the whole band between them."""
    step = -(-(len(bands) - 1) // (MOST_POINTS - 1)) or 1
    line = [*map(_point, bands, _steadiest(bands))]
    points = [*line[:-1:step], line[-1]]
    widest = [point.within_us for point in points]
    for band_of, (place, (before, after)) in zip(
        (bands[begin : begin + step + 1] for begin in range(0, len(bands), step)),
        enumerate(pairwise(points)),
        strict=False,
    ):
        width = after.clock_us - before.clock_us
        for band in band_of[1:-1]:
            share = (band.clock_us - before.clock_us) / width
            middle = before.offset_us + share * (after.offset_us - before.offset_us)
            within = before.within_us + share * (after.within_us - before.within_us)
            lacking = int(max(band.high_us - middle, middle - band.low_us) - within) + 1
            if lacking > 0:
                widest[place] = max(widest[place], before.within_us + lacking)
                widest[place + 1] = max(widest[place + 1], after.within_us + lacking)
    return tuple(point._replace(within_us=within) for point, within in zip(points, widest, strict=True))


def _point(band: TimeBand, offset_us: int) -> ClockPoint:
    within_us = max(band.high_us - offset_us, offset_us - band.low_us)
    return ClockPoint(band.clock_us, offset_us, within_us + ROUNDING_US)


def _steadiest(bands: Sequence[TimeBand]) -> list[int]:
    """Return the offset at each time of a band that changes the least, so that durations on one clock remain.

    It is one number if the whole band has one, else a string that is pulled straight within the inner half of the band.
    """
    lowest, highest = max(band.low_us for band in bands), min(band.high_us for band in bands)
    if lowest <= highest:
        return [(lowest + highest) // 2] * len(bands)
    inner = [_inner_half(band) for band in bands]
    knots = _straightened(inner)
    offsets = []
    for (since, begin), (until, end) in pairwise(knots):
        slope = (end - begin) / (until - since)
        offsets += [begin + round((band.clock_us - since) * slope) for band in bands if since <= band.clock_us < until]
    return [*offsets, knots[-1][1]]


def _inner_half(band: TimeBand) -> TimeBand:
    quarter = (band.high_us - band.low_us) // 4
    return TimeBand(band.clock_us, band.low_us + quarter, band.high_us - quarter)


def _straightened(bands: Sequence[TimeBand]) -> list[tuple[int, int]]:
    """Return the times and offsets at which a straightened string turns, from the middle of the first to the last."""
    first, last = (
        bands[0],
        bands[-1]._replace(
            low_us=(bands[-1].low_us + bands[-1].high_us) // 2, high_us=(bands[-1].low_us + bands[-1].high_us) // 2
        ),
    )
    corridor = [*bands[1:-1], last]
    knots, place = [(first.clock_us, (first.low_us + first.high_us) // 2)], 0
    while place < len(corridor):
        since, begin = knots[-1]
        least, most = -math.inf, math.inf
        turn = low_turn = high_turn = len(corridor) - 1
        offset = last.low_us
        for number in range(place, len(corridor)):
            band = corridor[number]
            low, high = ((edge - begin) / (band.clock_us - since) for edge in (band.low_us, band.high_us))
            if low > most:
                turn, offset = high_turn, corridor[high_turn].high_us
                break
            if high < least:
                turn, offset = low_turn, corridor[low_turn].low_us
                break
            if low >= least:
                least, low_turn = low, number
            if high <= most:
                most, high_turn = high, number
        knots.append((corridor[turn].clock_us, offset))
        place = turn + 1
    return knots
