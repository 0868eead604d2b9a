"""Judges the records that clients have sent, and the logs: nothing lost, in order, once.

The laws are invariants of `understudy.checks.client_history`. This module makes their history out of the bytes on the
wire and the final logs, and words what they find for the author of a client.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from understudy.checks.check import HistoryCheck
from understudy.checks.client_history import (
    AcknowledgedRecordsAreRead,
    ClientHistory,
    Poll,
    Send,
    SendingProducer,
    SendOutcome,
    SendsKeepTheirOrder,
    ValuesHaveOneOffset,
)
from understudy.checks.facts import name_of
from understudy.testing.simulated_tests.history import history_words as words
from understudy.testing.simulated_tests.history.final_logs import senders
from understudy.testing.simulated_tests.history.wire_records import (
    Assigned,
    Delivered,
    FinalLog,
    LogRecord,
    Partition,
    Processed,
    Sent,
)

_LOG: Final = "log"
_ANY: Final = SendingProducer("any")
_ACKS_1: Final = (
    "acks=1 promises that the leader alone has appended a record: it is lost if the leader fails before the others "
    'have it. Send with acks="all"'
)
_NOT_IDEMPOTENT: Final = (
    "A producer that is not idempotent cannot send a record again without the risk that it is appended twice. Set "
    "enable_idempotence"
)
_KEEPS_NO_ORDER: Final = (
    "A producer that is not idempotent keeps the order only if it sends no record while an earlier one may have to be "
    "sent again"
)


@dataclass(slots=True)
class Evidence:
    """What a run has shown: the clients' records, the marks of services, and the logs.

    Attributes:
        sends: the attempts to send each record, in their order, by the number of the record.
        places: by the number of a record, the offsets that it has in the log of its partition, ascending.
        senders: the number of the record at each offset of a log; missing if no client of the run has sent it.
        records: the records of the logs by partition and offset.
        newest: by partition and key, the last offset that the key has in the log.
    """

    sent: Sequence[Sent]
    delivered: Sequence[Delivered]
    marked: Sequence[Processed]
    assigned: Sequence[Assigned]
    logs: Mapping[Partition, FinalLog]
    sends: dict[int, list[Sent]] = field(default_factory=dict)
    places: dict[int, list[int]] = field(default_factory=dict)
    senders: dict[tuple[Partition, int], int] = field(default_factory=dict)
    records: dict[tuple[Partition, int], LogRecord] = field(default_factory=dict)
    newest: dict[tuple[Partition, bytes | None], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        of_partition: defaultdict[Partition, list[Sent]] = defaultdict(list)
        for each in self.sent:
            self.sends.setdefault(each.send, []).append(each)
            of_partition[each.topic, each.partition].append(each)
        for partition, log in self.logs.items():
            for record, sender in zip(log.records, senders(log, of_partition[partition]), strict=True):
                self.records[partition, record.offset] = record
                self.newest[partition, record.key] = record.offset
                if sender is not None:
                    self.places.setdefault(sender.send, []).append(record.offset)
                    self.senders[partition, record.offset] = sender.send

    def is_superseded(self, partition: Partition, record: LogRecord) -> bool:
        """Whether a log has a later record with the same key, because of which compaction may remove this one."""
        return record.key is not None and self.newest[partition, record.key] > record.offset

    def log_of(self, sent: Sent) -> FinalLog:
        """Return the log of an attempt's partition.

        Raises:
            KeyError: there is none.
        """
        return self.logs[sent.topic, sent.partition]


def _contradictions(check: HistoryCheck[ClientHistory], history: ClientHistory) -> Iterator[int]:
    """Yield the numbers of the sends or polls that contradict an invariant."""
    for witness in check.contradictions(history):
        yield int(witness.where.split()[1])


def _history(evidence: Evidence) -> ClientHistory:
    return ClientHistory(
        may_have_lost={partition for partition, log in evidence.logs.items() if log.may_have_lost},
        compacted={partition for partition, log in evidence.logs.items() if log.is_compacted},
    )


def _is_asked(topic: str | None, partition: Partition) -> bool:
    return topic is None or partition[0] == topic


# ------------------------------------------------------------------ nothing lost


def lost(evidence: Evidence, topic: str | None) -> list[str]:
    """Return a text for each acknowledged record that is lost (H1)."""
    return [lost_in_words(evidence, each) for each in lost_sends(evidence, topic)]


def lost_sends(evidence: Evidence, topic: str | None) -> list[Sent]:
    """Return the acknowledged attempt of each record that is lost (H1), in their order.

    A record that is at another offset than its acknowledgement says is not lost: another attempt has appended it.
    """
    history = _history(evidence)
    history.read_to_the_end |= evidence.logs.keys()
    judged: list[Sent] = []
    replaced: list[Sent] = []
    for send, attempts in evidence.sends.items():
        partition = attempts[0].topic, attempts[0].partition
        if partition not in evidence.logs or not _is_asked(topic, partition):
            continue
        each = next((each for each in attempts if each.is_acknowledged), None)
        offset = None if each is None else evidence.places.get(send, [each.offset])[0]
        if offset is not None and 0 <= offset < evidence.logs[partition].start:
            offset = None
        if each is not None and send not in evidence.places and (partition, offset) in evidence.records:
            replaced.append(each)
            offset = None
        judged.append(each or attempts[-1])
        outcome = SendOutcome.INFO if offset is None else SendOutcome.OK
        history.sends.append(Send(_ANY, partition, str(send), outcome, offset, key=_key(judged[-1].key)))
    for partition, log in evidence.logs.items():
        read = [(record.offset, _value(evidence, partition, record)) for record in log.records]
        history.polls.append(Poll(_LOG, 0, partition, tuple(read), is_final=True))
        # The key of a record that no client here has sent may be the reason that compaction has removed another one.
        history.sends += [
            Send(_ANY, partition, value, SendOutcome.INFO, key=_key(evidence.records[partition, offset].key))
            for offset, value in read
            if (partition, offset) not in evidence.senders
        ]
    missing = [judged[number] for number in _contradictions(AcknowledgedRecordsAreRead(), history)]
    replaced = [each for each in replaced if not evidence.log_of(each).may_have_lost]
    return sorted([*missing, *replaced], key=lambda each: each.order)


def _value(evidence: Evidence, partition: Partition, record: LogRecord) -> str:
    """Return what stands for a record of a log: the number of its send."""
    send = evidence.senders.get((partition, record.offset))
    return f"other {record.offset}" if send is None else str(send)


def lost_in_words(evidence: Evidence, each: Sent) -> str:
    """Return a text about a record that is lost."""
    text = (
        f"{_partition_of(each)}, offset {each.offset}: the {words.content(each)} is lost: "
        f"{words.log_at(evidence.log_of(each), each.offset)}. Attempts: {words.attempts(evidence.sends[each.send])}"
    )
    return f"{text}. {_ACKS_1}" if each.acks == 1 else text


def _key(key: bytes | None) -> str | None:
    return None if key is None else key.hex()


def _partition_of(each: Sent | Delivered | Processed) -> str:
    return name_of((each.topic, each.partition))


# ------------------------------------------------------------------ once


def repeated(evidence: Evidence, topic: str | None) -> list[str]:
    """Return which records of one send are in the log more than once (H3)."""
    history = _history(evidence)
    read: list[int] = []
    for partition, log in evidence.logs.items():
        for record in log.records if _is_asked(topic, partition) else ():
            if (send := evidence.senders.get((partition, record.offset))) is not None:
                history.polls.append(Poll(_LOG, 0, partition, ((record.offset, str(send)),)))
                read.append(send)
    found = dict.fromkeys(read[number] for number in _contradictions(ValuesHaveOneOffset(), history))
    return [_repeated(evidence.sends[send], evidence.places[send]) for send in found]


def _repeated(attempts: Sequence[Sent], places: Sequence[int]) -> str:
    each = attempts[0]
    text = (
        f"{_partition_of(each)}: the {words.content(each)} is in the log {len(places)} times, at the offsets "
        f"{', '.join(map(str, places))}. Attempts: {words.attempts(attempts)}"
    )
    return text if each.sequence >= 0 else f"{text}. {_NOT_IDEMPOTENT}"


# ------------------------------------------------------------------ in order


def disordered(evidence: Evidence, topic: str | None) -> list[str]:
    """Return which records are in the log before others that their producer has sent earlier (H6)."""
    history = _history(evidence)
    judged: list[Sent] = []
    producers = _Producers()
    for send, attempts in evidence.sends.items():
        first = attempts[0]
        partition = first.topic, first.partition
        name = producers.name_of(attempts)
        log = evidence.logs.get(partition)
        if log is None or not _is_asked(topic, partition) or send not in evidence.places:
            continue
        if len(attempts) > 1 and (log.is_compacted or log.start > 0):
            # Its first appearance may have been removed.
            continue
        judged.append(first)
        offset = evidence.places[send][0]
        history.sends.append(Send(SendingProducer(name), partition, str(send), SendOutcome.OK, offset))
    return [
        _disordered(evidence, judged[_place_before(history, number)], judged[number])
        for number in _contradictions(SendsKeepTheirOrder(), history)
    ]


class _Producers:
    """Names the producer of each record. Clients of one process may have the same client id.

    A record continues what a producer has sent to the partition before if it has the same producer id or, without one,
    if the record before it had ended or was sent over the same connection.
    """

    def __init__(self) -> None:
        self._last: defaultdict[object, list[Sequence[Sent]]] = defaultdict(list)
        """The attempts of the last record of each producer, by client, partition and producer id."""

    def name_of(self, attempts: Sequence[Sent]) -> str:
        first = attempts[0]
        key = first.client, first.topic, first.partition, first.producer_id
        known = self._last[key]
        for number, last in enumerate(known):
            if first.producer_id >= 0 or _follows(first, last[0]):
                known[number] = attempts
                return f"{key} {number}"
        known.append(attempts)
        return f"{key} {len(known) - 1}"


def _follows(sent: Sent, before: Sent) -> bool:
    has_ended = before.ended_ms is not None and before.ended_ms <= sent.sent_ms
    return has_ended or before.connection == sent.connection


def _place_before(history: ClientHistory, number: int) -> int:
    """Return the place of the send that the invariant compares with another: the producer's last one before it."""
    send = history.sends[number]
    return next(
        place
        for place in range(number - 1, -1, -1)
        if (history.sends[place].producer, history.sends[place].partition) == (send.producer, send.partition)
    )


def _disordered(evidence: Evidence, before: Sent, after: Sent) -> str:
    text = (
        f"{_partition_of(after)}: the {words.content(after)} is in the log at offset {evidence.places[after.send][0]}, "
        f"before the {words.content(before)} at offset {evidence.places[before.send][0]}, which was sent first. "
        f"Attempts of the first: {words.attempts(evidence.sends[before.send])}. Attempts of the second: "
        f"{words.attempts(evidence.sends[after.send])}"
    )
    return text if after.sequence >= 0 else f"{text}. {_KEEPS_NO_ORDER}"
