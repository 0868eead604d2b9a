"""Keeps the few records of a run on which `find_missing` depends, so that a run can be judged piece by piece.

The records that are kept of all pieces lead to the same result as all records of the run. Most record types have few
records, which are kept whole. Of requests and answers those are kept that may be the first to a broker, or the last
over a channel, in the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from understudy.foundation.eventlog import records as types
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, Envelope, Payload, RequestReceived
from understudy.foundation.times import micros
from understudy.history.reading.clocks import Incarnation
from understudy.history.reading.run_builder import one_clock
from understudy.history.reading.run_records import At, EpochSeen, Key, RunRecords, Signs

_WHOLE: Final[tuple[type[Payload], ...]] = (
    types.BrokerRegistered,
    types.BrokersChanged,
    types.ControllerElected,
    types.ControllerReady,
    types.ElectionLost,
    types.FaultInjected,
    types.LogSeen,
    types.PointReached,
    types.ProcessExiting,
    types.ProcessStarted,
    types.RunDescribed,
)
_NAMES: Final = {payload: name for name, payload in PAYLOAD_BY_TYPE.items()}
_WHOLE_NAMES: Final = frozenset(_NAMES[kind] for kind in _WHOLE)

_Place: TypeAlias = tuple[Incarnation, int]
"""An incarnation and a sequence number."""
_Channel: TypeAlias = tuple[Incarnation, int, int, int]
"""An incarnation, the broker to which it sends, and the controller epoch and broker epoch of the requests."""


class EvidenceSieve:
    """Takes all records of a piece, and keeps those on which `find_missing` may depend.

    A piece has the records of some numbers of each incarnation, without a gap.
    """

    def __init__(self) -> None:
        self._kept: dict[_Place, Any] = {}
        self._brokers: dict[tuple[Incarnation, int], Any] = {}
        """The first request to each broker."""
        self._sent: dict[_Place, Any] = {}
        """The requests of controllers."""
        self._answers: dict[_Place, Any] = {}
        """The last answer to each request."""
        self._writes: dict[_Place, Any] = {}
        """The answers of ZooKeeper to writes."""
        self._received: dict[tuple[Incarnation, int, int], Any] = {}

    def add(self, name: str, records: Sequence[Any]) -> None:
        """Add records of one type, whose payloads are decoded; each incarnation has its own in order."""
        if name in _WHOLE_NAMES:
            self._keep(records)
        elif name == "RequestSent":
            for at in records:
                self._brokers.setdefault((_own(at), at.data.to), at)
            self._sent.update(((_own(at), at.seq), at) for at in records if at.data.controller_epoch >= 0)
        elif name == "ResponseReceived":
            self._answers.update(((_own(at), at.cause), at) for at in records if at.cause is not None)
        elif name == "RequestReceived":
            self._received.update(
                ((_own(at), at.data.controller_epoch, at.data.broker_epoch), at)
                for at in records
                if at.data.controller_epoch >= 0
            )
        elif name == "ZkWrite":
            self._keep(at for at in records if at.data.purpose == "election")
        elif name == "ZkWriteDone":
            self._writes.update(((_own(at), at.cause), at) for at in records if at.cause is not None)

    def kept(self, first_seqs: Mapping[Incarnation, int]) -> list[Any]:
        """Return the records that are kept, each once, by incarnation and number.

        Args:
            first_seqs: the first sequence number of each incarnation in the piece. The records that led to answers
                before it are in an earlier piece.
        """
        self._keep(self._received.values())
        self._keep(self._brokers.values())
        for answers in (self._answers, self._writes):
            self._keep(at for (own, cause), at in answers.items() if cause < first_seqs[own])
        self._keep(done for place, done in self._writes.items() if place in self._kept)
        self._keep(self._requests())
        return [at for _, at in sorted(self._kept.items(), key=lambda item: item[0])]

    def _requests(self) -> Iterator[Any]:
        """Yield, for each channel, the last request; and the last one that was answered with this answer, and the
        later ones, whose answers may be in the next piece.
        """
        channels: dict[_Channel, list[Any]] = {}
        for (own, _), at in self._sent.items():
            channels.setdefault((own, at.data.to, at.data.controller_epoch, at.data.broker_epoch), []).append(at)
        for (own, _, _, broker_epoch), sent in channels.items():
            yield sent[-1]
            if broker_epoch < 0:
                continue
            for at in reversed(sent):
                answer = self._answers.get((own, at.seq))
                if at.data.api_version < 0:
                    continue
                yield at
                if answer is not None:
                    yield answer
                    break

    def _keep(self, records: Iterable[Any]) -> None:
        self._kept.update(((_own(at), at.seq), at) for at in records)


def _own(record: Any) -> Incarnation:
    return (record.node, record.incarnation)


def evidence_records(
    evidence: Iterable[Envelope],
    stretches: Mapping[Incarnation, tuple[float, float, int]],
    epochs: Iterable[tuple[Incarnation, int, int, float]],
    started_ms: float,
) -> RunRecords:
    """Return the records of a run on one clock and without a gap, as far as `find_missing` and `clock_rows` need them.

    Args:
        evidence: what the sieves of all pieces have kept, by incarnation and number.
        stretches: the first and the last clock of each incarnation in milliseconds, and its last sequence number.
        epochs: for each incarnation and controller epoch, sequence number and clock of its first record.
        started_ms: the smallest wall clock.
    """
    start_us = min(micros(first_ms) for first_ms, _, _ in stretches.values())
    ends = {own: (micros(first) - start_us, micros(last) - start_us) for own, (first, last, _) in stretches.items()}
    by_type: dict[type[Payload], list[At[Any]]] = {}
    received: dict[tuple[Incarnation, int, int], At[RequestReceived]] = {}
    for record in evidence:
        key = Key(micros(record.mono_ms) - start_us, record.node, record.incarnation, record.seq)
        at: At[Any] = At(key, record.data, record.cause, record.controller_epoch)
        if isinstance(record.data, RequestReceived):
            received[at.incarnation, record.data.controller_epoch, record.data.broker_epoch] = at
        else:
            by_type.setdefault(type(record.data), []).append(at)
    return RunRecords(
        Signs(ends),
        by_type,
        (),
        started_ms,
        one_clock(by_type.get(types.ProcessStarted, ()), start_us),
        epochs=(EpochSeen(Key(micros(ms) - start_us, *own, seq), epoch) for own, epoch, seq, ms in epochs),
        last_seqs={own: last_seq for own, (_, _, last_seq) in stretches.items()},
        received=received.values(),
        start_us=start_us,
    )
