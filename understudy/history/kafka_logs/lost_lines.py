"""`lost_stretches` finds the beginnings and ends that the logs of a broker have lost, although the broker acted then.

An idle broker writes no line for hours, so that silence shows nothing. What others have logged that it did shows it: a
registration, a request that it handled, an ISR that it changed. It has lines about that itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import Final, NamedTuple

from understudy.foundation.eventlog.records import LostStretch
from understudy.history.kafka_logs.clock_offsets import ImportedClocks, clock_of_broker
from understudy.history.kafka_logs.clock_pairs import UNKNOWN_EPOCH, Sighting
from understudy.history.kafka_logs.entries import LogSource
from understudy.history.kafka_logs.survey import EntryKind
from understudy.history.reading.run_records import broker_node

MARGIN_MS: Final = 5_000
"""Time between what a broker did and what others logged of it, at most."""


class _Found(NamedTuple):
    ms: float
    what: str


def lost_stretches(
    sources: Iterable[LogSource],
    sightings: Iterable[Sighting],
    registered: Mapping[int, Set[int]],
    clocks: ImportedClocks,
) -> tuple[LostStretch, ...]:
    """Return the stretches before the first and after the last line of a broker's logs in which it acted.

    Args:
        registered: the broker epochs of each broker that its own log has. They grow, so that a registration is before
            or after them whatever the clocks are.
    """
    ends: dict[tuple[int, EntryKind], tuple[float, float]] = {}
    for source in sources:
        clock = clock_of_broker(source.broker)
        for part in source.parts:
            if part.first_ms is None:
                continue
            first, last = clocks.run_ms(clock, part.first_ms), clocks.run_ms(clock, part.last_ms)
            for kind in part.kinds:
                known = ends.get((source.broker, kind), (first, last))
                ends[source.broker, kind] = min(first, known[0]), max(last, known[1])
    before: dict[tuple[int, EntryKind], _Found] = {}
    after: dict[tuple[int, EntryKind], _Found] = {}
    for sighting in sightings:
        ms = clocks.run_ms(sighting.clock, sighting.ms)
        margin = MARGIN_MS + clocks.within_ms(sighting.clock, clock_of_broker(sighting.broker), ms)
        what = f"{sighting.clock[0]} logged that {sighting.what}"
        own = registered.get(sighting.broker, ()) if sighting.epoch != UNKNOWN_EPOCH else ()
        given = [kind for kind in EntryKind if kind in sighting.kinds and (sighting.broker, kind) in ends]
        if not given:
            continue
        begins = sighting.broker, min(given, key=lambda kind: ends[sighting.broker, kind][0])
        stops = sighting.broker, max(given, key=lambda kind: ends[sighting.broker, kind][1])
        is_before = sighting.epoch < min(own) if own else ms + margin < ends[begins][0]
        is_after = sighting.epoch > max(own) if own else ms - margin > ends[stops][1]
        if is_before and (begins not in before or ms < before[begins].ms):
            before[begins] = _Found(ms, what)
        if is_after and (stops not in after or ms < after[stops].ms):
            after[stops] = _Found(ms, what)
    stretches: dict[tuple[int, bool], list[LostStretch]] = defaultdict(list)
    for (broker, kind), found in before.items():
        evidence = f"{found.what} before its {kind.value} begins"
        stretches[broker, True].append(LostStretch(broker_node(broker), 0.0, ends[broker, kind][0], evidence))
    for (broker, kind), found in after.items():
        evidence = f"{found.what} after its {kind.value} ends"
        stretches[broker, False].append(LostStretch(broker_node(broker), ends[broker, kind][1], 0.0, evidence))
    longest = {key: max(of, key=lambda one: one.until_ms - one.from_ms) for key, of in stretches.items()}
    return tuple(longest[key] for key in sorted(longest, key=lambda key: (key[0], not key[1])))
