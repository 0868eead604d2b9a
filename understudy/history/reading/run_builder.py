"""`RunBuilder` gathers the records of one run from its lines, as `RunRecords`.

Records that no metric reads are dropped. The payload of a large line is decoded again when it is needed: the payloads
of a run with 100,000 partitions are gigabytes of objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.eventlog import records as types
from understudy.foundation.eventlog.records import (
    PAYLOAD_BY_TYPE,
    ContextLoaded,
    Envelope,
    LeadershipWritten,
    Payload,
    RequestReceived,
    TopicsChanged,
)
from understudy.foundation.times import micros
from understudy.history.reading.alignment import align
from understudy.history.reading.clock_evidence import EVIDENCE, ClockEvidence, ClockSigns
from understudy.history.reading.clocks import (
    ONE_CLOCK,
    REFERENCE,
    ClockPoint,
    Incarnation,
    MachineClock,
    RunClocks,
)
from understudy.history.reading.findings import LogFinding
from understudy.history.reading.lines import HEADER_DECODER, MAX_LINE_BYTES, PAYLOAD_DECODERS, EnvelopeHeader, LogRow
from understudy.history.reading.run_records import (
    KEPT_TYPES,
    STATE_TYPES,
    At,
    EpochSeen,
    Key,
    RunRecords,
    SequenceDamage,
    SequenceGap,
    Signs,
    StatePayload,
    StateRecord,
)

LARGE_BYTES: Final = 64 * 1024
"""Size above which the payload of a line is not kept, but decoded again from its file."""

Take: TypeAlias = Callable[[Any, str, int, int], None]
"""Takes the next record of an incarnation, an `EnvelopeHeader` or a `LogRow`, and the place of its line: file, offset
and size.

Raises:
    msgspec.MsgspecError, RecursionError, UnicodeDecodeError: the type is not known, or the payload does not fit it.
"""


class RunBuilder:
    """Gathers the records of one run, incarnation by incarnation or by turns.

    Args:
        start_us: the first clock of the run in microseconds. If it is wrong, all times are moved at the end.
        keeps_large: also keep the payloads of large lines.
        aligns: also gather what aligns the clocks of several machines. It needs the zxids, which a `LogRow` lacks.

    Attributes:
        signs_of_clocks: whether it should be built again with `aligns`.
        findings: the flaws of the clocks, after `records`.
    """

    def __init__(self, start_us: int = 0, *, keeps_large: bool = False, aligns: bool = False) -> None:
        self.signs_of_clocks = ClockSigns()
        self.findings: tuple[LogFinding, ...] = ()
        self._evidence = ClockEvidence() if aligns else None
        self._start = start_us
        self._large_bytes = MAX_LINE_BYTES if keeps_large else LARGE_BYTES
        self._started_ms = math.inf
        self._signs: dict[Incarnation, list[int]] = {}
        self._kept: dict[type, list[At[Any]]] = {kind: [] for kind in KEPT_TYPES}
        self._states: list[StateRecord] = []
        self._epochs: dict[tuple[str, int, int], Key] = {}
        """The first record of each incarnation and controller epoch."""
        self._gaps: list[SequenceGap] = []
        self._last_seqs: dict[Incarnation, int] = {}
        self._received: dict[tuple[Incarnation, int, int], At[RequestReceived]] = {}
        self._actions: dict[str, tuple[Callable[[Any], Payload], Callable[[At[Any]], None] | None]] = {
            name: (PAYLOAD_DECODERS[name].decode, self._keep_of(kind))
            for name, kind in PAYLOAD_BY_TYPE.items()
            if kind not in STATE_TYPES
        }

    @property
    def has_records(self) -> bool:
        return any(self._signs.values())

    def taker(self, node: str, incarnation: int) -> Take:
        """Return the function that takes the records of an incarnation. If it raises for a record, this is left out."""
        signs = self._signs.setdefault((node, incarnation), [])
        evidence = self._evidence
        clock = None if evidence is None else evidence.of((node, incarnation))
        actions, adders, epochs = self._actions, _EVIDENCE, self._epochs
        floor, earliest, epoch = math.floor, math.inf, 0
        new = tuple.__new__  # in half the time of calling `Key`

        def take(record: EnvelopeHeader | LogRow, file: str, offset: int, size: int) -> None:
            nonlocal earliest, epoch
            us = floor(record.mono_ms * 1000 + 0.5) - self._start
            action = actions.get(record.type)
            if action is None:
                self._add_state(record, Key(us, node, incarnation, record.seq), file, offset, size)
            else:
                decode, keep = action
                data = decode(record.data)
                if keep is not None:
                    key = new(Key, (us, node, incarnation, record.seq))
                    keep(At(key, data, record.cause, record.controller_epoch))
            signs.append(us)
            if record.controller_epoch != epoch:
                epoch = record.controller_epoch
                epochs.setdefault((node, incarnation, epoch), Key(us, node, incarnation, record.seq))
            if record.wall_ms < earliest:
                earliest = record.wall_ms
                self._started_ms = min(self._started_ms, earliest)
            if clock is not None and evidence is not None:
                if record.zxid > clock.zxid or record.mono_ms >= clock.next_wall_ms:  # type: ignore[union-attr]  # a row has no zxid, and is no evidence
                    clock.see(file, record)
                if (add := adders.get(record.type)) is not None:
                    add(evidence, clock, us + self._start, record.seq, record.cause, data)

        return take

    def add(self, record: Envelope) -> None:
        """Add a record that has been decoded."""
        key = Key(micros(record.mono_ms) - self._start, record.node, record.incarnation, record.seq)
        data = record.data
        if isinstance(data, LeadershipWritten | ContextLoaded | TopicsChanged):
            self._states.append(StateRecord(type(data), key, record.controller_epoch, partial(_same, data)))
        elif (keep := self._keep_of(type(data))) is not None:
            keep(At(key, data, record.cause, record.controller_epoch))
        self._signs.setdefault((record.node, record.incarnation), []).append(key.us)
        self._epochs.setdefault((record.node, record.incarnation, record.controller_epoch), key)
        self._started_ms = min(self._started_ms, record.wall_ms)

    def note_sequence(self, damage: SequenceDamage) -> None:
        """Note the last sequence number of an incarnation, and the numbers that are missing before it."""
        incarnation = (damage.writer[1], damage.writer[2])
        self._last_seqs[incarnation] = damage.last_seq
        for first, last, from_ms, until_ms in damage.gaps:
            from_us, until_us = micros(from_ms) - self._start, micros(until_ms) - self._start
            self._gaps.append(SequenceGap(incarnation, from_us, until_us, first, last))

    def records(self) -> RunRecords:
        """Return the records so far; more may be added, and this may be called again."""
        if self._evidence is not None:
            for name, own in self._signs.items():
                if own:
                    found = self._evidence.of(name)
                    found.records, found.last_us = len(own), max(own) + self._start
            clocks, self.findings, _ = align(self._evidence)
            if not clocks.is_one:
                return self._aligned(clocks)
        if first_us := min((min(times) for times in self._signs.values() if times), default=0):
            self._move(-first_us)
        clocks = one_clock(self._kept[types.ProcessStarted], self._start)
        return self._run_records(self._signs, self._kept, self._states, clocks, self._start, lambda key: key)

    def _run_records(
        self,
        signs: Mapping[Incarnation, Sequence[int]],
        kept: Mapping[type, Sequence[At[Any]]],
        states: Iterable[StateRecord],
        clocks: RunClocks,
        start_us: int,
        placed: Callable[[Key], Key],
    ) -> RunRecords:
        """Return the records of the run.

        Args:
            placed: returns the place of a record by the reference clock.
        """
        return RunRecords(
            Signs(signs),
            kept,
            states,
            self._started_ms if self.has_records else 0.0,
            clocks,
            gaps=[gap.placed(placed) for gap in self._gaps],
            epochs=(EpochSeen(placed(key), epoch) for (_, _, epoch), key in self._epochs.items() if epoch > 0),
            last_seqs=self._last_seqs,
            received=[msgspec.structs.replace(at, key=placed(at.key)) for at in self._received.values()],
            start_us=start_us,
        )

    def _keep_of(self, kind: type) -> Callable[[At[Any]], None] | None:
        """Return the function that keeps records of a type; None for a type of which only the time is kept."""
        if kind is RequestReceived:
            return self._keep_received
        return self._kept[kind].append if kind in self._kept else None

    def _keep_received(self, at: At[RequestReceived]) -> None:
        if at.data.controller_epoch >= 0:
            self._received[at.incarnation, at.data.controller_epoch, at.data.broker_epoch] = at

    def _aligned(self, clocks: RunClocks) -> RunRecords:
        """Return the records with their times by the reference clock."""
        signs = {name: own for name, own in self._signs.items() if own}
        start = self._start
        first_us = min(clocks.of(name).time_us(min(own) + start) for name, own in signs.items())
        moves = {name: clocks.of(name).mover(start, first_us) for name in signs}
        moved = {name: list(map(moves[name], own)) for name, own in signs.items()}
        kept = {kind: _placed(found, moves) for kind, found in self._kept.items()}
        states = [msgspec.structs.replace(one, key=_placed_key(one.key, moves)) for one in self._states]
        return self._run_records(moved, kept, states, clocks, first_us, lambda key: _placed_key(key, moves))

    def _add_state(self, record: EnvelopeHeader | LogRow, key: Key, file: str, offset: int, size: int) -> None:
        name = record.type
        if name not in _STATE_DECODERS:
            raise msgspec.ValidationError(f"record type {name!r} is not known")
        if size > self._large_bytes:
            read = partial(_read_again, name, file, offset)
        else:
            read = partial(_same, _STATE_DECODERS[name].decode(record.data))
        self._states.append(StateRecord(_STATE_TYPES[name], key, record.controller_epoch, read))

    def _move(self, us: int) -> None:
        """Move all times, because the run begins at another time than expected."""
        self._start -= us
        for times in self._signs.values():
            times[:] = [time + us for time in times]
        for kept in self._kept.values():
            kept[:] = [msgspec.structs.replace(at, key=_moved(at.key, us)) for at in kept]
        for name, at in self._received.items():
            self._received[name] = msgspec.structs.replace(at, key=_moved(at.key, us))
        self._states[:] = [msgspec.structs.replace(state, key=_moved(state.key, us)) for state in self._states]
        self._epochs.update((seen, _moved(key, us)) for seen, key in self._epochs.items())
        self._gaps[:] = [gap._replace(from_us=gap.from_us + us, until_us=gap.until_us + us) for gap in self._gaps]


def one_clock(started: Iterable[At[types.ProcessStarted]], start_us: int) -> RunClocks:
    """Return the clock of a run that has one, with the name of its machine if a process has written it.

    Args:
        started: the starts of the run's processes.
        start_us: the clock of the first record, in microseconds.
    """
    named = min((at for at in started if at.data.boot), key=lambda at: at.key, default=None)
    machine, boot = (named.data.machine, named.data.boot) if named else ("", "")
    return RunClocks([MachineClock(machine, boot, (ClockPoint(start_us, 0, 0),), REFERENCE)])


def taker_of_runs(
    builders: dict[str, RunBuilder],
    starts: Mapping[str, int] | None = None,
    *,
    keeps_large: bool = False,
    several: Collection[str] = (),
) -> Callable[[EnvelopeHeader | LogRow], Take]:
    """Return a function that returns the taker for a record's incarnation, and adds its run's builder to `builders`.

    Args:
        starts: the first clocks of runs, as far as they are known.
        several: the runs whose clocks are aligned.
    """

    def taker(record: EnvelopeHeader | LogRow) -> Take:
        builder = builders.get(record.run)
        if builder is None:
            builder = builders[record.run] = RunBuilder(
                (starts or {}).get(record.run, 0), keeps_large=keeps_large, aligns=record.run in several
            )
        builder.signs_of_clocks.add(record)
        return builder.taker(record.node, record.incarnation)

    return taker


_EVIDENCE: Final = {kind.__name__: add for kind, add in EVIDENCE.items()}
_STATE_TYPES: dict[str, type[StatePayload]] = {kind.__name__: kind for kind in STATE_TYPES}
_STATE_DECODERS: dict[str, msgspec.json.Decoder[StatePayload]] = {
    name: msgspec.json.Decoder(kind) for name, kind in _STATE_TYPES.items()
}


def _damage(writer: tuple[str, str, int], records: Iterable[Envelope]) -> SequenceDamage:
    """Return the numbers without a record."""
    in_sequence = sorted(records, key=lambda record: record.seq)
    before_first = msgspec.structs.replace(in_sequence[0], seq=0)
    gaps = tuple(
        (before.seq + 1, after.seq - 1, before.mono_ms, after.mono_ms)
        for before, after in pairwise((before_first, *in_sequence))
        if after.seq > before.seq + 1
    )
    return SequenceDamage(writer, in_sequence[-1].seq, gaps)


def _same(payload: StatePayload) -> StatePayload:
    return payload


def _read_again(name: str, file: str, offset: int) -> StatePayload:
    with Path(file).open("rb") as stream:
        stream.seek(offset)
        header = HEADER_DECODER.decode(stream.readline(MAX_LINE_BYTES + 2))
    return _STATE_DECODERS[name].decode(header.data)


def _placed(found: Iterable[At[Any]], moves: Mapping[Incarnation, Callable[[int], int]]) -> list[At[Any]]:
    """Return the records with their times by the reference clock."""
    placed: list[At[Any]] = []
    new = tuple.__new__
    known: Incarnation = ("", 0)
    move: Callable[[int], int] = int
    for at in found:
        us, node, incarnation, seq = at.key
        if known[1] != incarnation or known[0] != node:
            known = (node, incarnation)
            move = moves[known]
        placed.append(At(new(Key, (move(us), node, incarnation, seq)), at.data, at.cause, at.controller_epoch))
    return placed


def _placed_key(key: Key, moves: Mapping[Incarnation, Callable[[int], int]]) -> Key:
    return key._replace(us=moves[key.node, key.incarnation](key.us))


def _moved(key: Key, us: int) -> Key:
    return key._replace(us=key.us + us)


def run_records_of(
    records: Iterable[Envelope],
    sequences: Iterable[SequenceDamage] | None = None,
    clocks: RunClocks = ONE_CLOCK,
) -> RunRecords:
    """Place the records of one run, given in any order.

    Args:
        sequences: the damage that their reader has found, of this run and others. By default each sequence number
            without a record is missing, so that records which could not be read are missing as well.
        clocks: the clocks by which the times of the records have been aligned, as `RunReading` has them.
    """
    given = list(records)
    builder = RunBuilder(min((micros(record.mono_ms) for record in given), default=0))
    for record in given:
        builder.add(record)
    own = grouped(((record.run, record.node, record.incarnation), record) for record in given)
    damaged = (_damage(writer, of) for writer, of in own.items()) if sequences is None else sequences
    for damage in damaged:
        if damage.writer in own:
            builder.note_sequence(damage)
    found = builder.records()
    if not clocks.is_one:
        found.clocks = clocks
    return found
