"""The history of the producers and consumers of a cluster, and its invariants (H1 to H8).

The checks use no data of brokers: they compare sent with read records, as a user of the cluster could.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from understudy.checks.check import HistoryCheck, Judgement, Witness, judge
from understudy.checks.facts import Partition, name_of
from understudy.checks.missing import NOTHING_MISSING, MissingEvidence, RefutedBy

Read: TypeAlias = tuple[int, str]
"""(offset, value) of a record."""


class SendOutcome(enum.Enum):
    """The outcome of a send."""

    OK = "ok"
    """It was acknowledged, at an offset."""
    FAIL = "fail"
    """It was refused before anything was appended: the record is in no log, and never will be."""
    INFO = "info"
    """Nothing is known, as after a timeout: the record may be in the log, or may get there."""


class SendingProducer(NamedTuple):
    """A producer, and what its settings promise.

    Attributes:
        waits_for_all: whether it sends with acks=all.
        never_repeats: whether each record is appended at most once: it is idempotent, or does not retry.
        keeps_order: whether records are appended in the order of sends: it is idempotent, or has one request in flight.
    """

    name: str
    waits_for_all: bool = True
    never_repeats: bool = True
    keeps_order: bool = True


NOT_SENT = frozenset({"ConnectionFailed", "NoLeader", "NoProducerId"})
"""Errors of a send whose Produce request was not sent: no connection to the leader, no leader in the metadata, or no
answer with a producer id."""

NO_ANSWER = frozenset({"ConnectionLost", "MalformedMessage", "RequestTimedOut"})
"""Errors of a send whose Produce request was sent, but has no readable answer."""

_REFUSALS = frozenset(
    {
        "CLUSTER_AUTHORIZATION_FAILED",
        "CORRUPT_MESSAGE",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_RECORD",
        "INVALID_REQUIRED_ACKS",
        "INVALID_TIMESTAMP",
        "INVALID_TOPIC_EXCEPTION",
        "INVALID_TXN_STATE",
        "MESSAGE_TOO_LARGE",
        "NOT_ENOUGH_REPLICAS",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "RECORD_LIST_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    }
)
"""Errors of Produce that a leader answers instead of appending."""

_MAY_BE_APPENDED = frozenset(
    {"KAFKA_STORAGE_ERROR", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"}
)
"""Errors of Produce that may follow an append. NOT_LEADER_OR_FOLLOWER is also the answer of a leader that was deposed
while it waited for its followers."""

DEFINITE_ERRORS = NOT_SENT | _REFUSALS
"""The errors that show that their attempt has appended nothing."""

PRODUCE_ERRORS = DEFINITE_ERRORS | NO_ANSWER | _MAY_BE_APPENDED
"""Every error that an attempt to produce without a transaction may have. The errors with a code are from Kafka's
`ProduceResponse`, `ProducerStateManager` and `DelayedProduce`; UNKNOWN_SERVER_ERROR is not among them."""


class Send(NamedTuple):
    """One record that a producer has sent.

    Attributes:
        value: unique in the history.
        offset: the record's offset in the acknowledgement; None unless the outcome is OK, and with acks=0.
        errors: every error of its attempts, each once: Kafka's name of the error code in the answer, or what happened
            instead of an answer (`NOT_SENT`, `NO_ANSWER`).
        key: the record's key; None if it has none.
    """

    producer: SendingProducer
    partition: Partition
    value: str
    outcome: SendOutcome
    offset: int | None = None
    errors: tuple[str, ...] = ()
    key: str | None = None


class Poll(NamedTuple):
    """The records of one partition that a consumer got in one poll.

    Attributes:
        consumer: its name.
        assignment: counts how often the consumer was assigned to the partition or has sought an offset. In one
            assignment each poll continues after the one before.
        is_final: whether it was made after the last fault, when the cluster had recovered.
    """

    consumer: str
    assignment: int
    partition: Partition
    records: tuple[Read, ...]
    is_final: bool = False


@dataclass(slots=True)
class ClientHistory:
    """All sends and polls of a run.

    Attributes:
        sends: in the order in which each producer sent them.
        polls: in the order in which each consumer made them.
        read_to_the_end: the partitions that a consumer has read up to their log end offset in the final phase.
        without_leader: the partitions that could not be read to the end because they had no leader in the final phase.
        without_end: the partitions whose leader, alone in the ISR, did not return their end in the final phase, because
            its high watermark had not caught up with the previous leader's (KIP-207).
        may_have_lost: the partitions that had an unclean election or a loss of power; acknowledged records of these
            may be gone or replaced.
        compacted: the partitions of topics with `cleanup.policy=compact`; of each key the newest record is kept.
    """

    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    read_to_the_end: set[Partition] = field(default_factory=set)
    without_leader: set[Partition] = field(default_factory=set)
    without_end: set[Partition] = field(default_factory=set)
    may_have_lost: set[Partition] = field(default_factory=set)
    compacted: set[Partition] = field(default_factory=set)

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged records."""
        return sum(send.outcome is SendOutcome.OK for send in self.sends)

    def lost(self) -> list[Send]:
        """Return the records that were acknowledged, and that their partition does not have, read to its end at last.

        Compacted topics, which keep the newest record of a key, are left out.
        """
        kept = {(poll.partition, value) for poll in self.polls if poll.is_final for _, value in poll.records}
        known = self.read_to_the_end - self.compacted
        return [
            send
            for send in self.sends
            if send.outcome is SendOutcome.OK and send.partition in known and (send.partition, send.value) not in kept
        ]


class AcknowledgedRecordsAreRead(HistoryCheck[ClientHistory]):
    id = "H1"
    sentence = (
        "the final phase reads every record of a partition that was acknowledged with acks=all, up to the highest "
        "offset that it reads there, and all of them if it reads to the end; older records of a key in a compacted "
        "topic are excepted"
    )
    refuted_by = RefutedBy.BROKERS

    def contradictions(self, history: ClientHistory) -> Iterator[Witness]:
        final: dict[Partition, dict[int, str]] = {}
        for poll in history.polls:
            if poll.is_final:
                final.setdefault(poll.partition, {}).update(poll.records)
        newest = _newest_of_keys(history, final)
        for number, send in enumerate(history.sends):
            partition = send.partition
            if send.offset is None or not send.producer.waits_for_all or partition in history.may_have_lost:
                continue
            if partition in history.compacted and send.offset < newest.get((partition, send.key), 0):
                continue
            read = final.get(partition, {})
            if partition in history.read_to_the_end or (read and send.offset <= max(read)):
                self.times_tested += 1
                if send.offset not in read:
                    yield Witness(f"send {number}", f"{_record(send)} was acknowledged, and was not read")


def _newest_of_keys(
    history: ClientHistory, final: Mapping[Partition, Mapping[int, str]]
) -> dict[tuple[Partition, str | None], int]:
    """Return the largest offset at which a record of each key was read in the final phase, of compacted partitions."""
    keys = {(send.partition, send.value): send.key for send in history.sends if send.key is not None}
    newest: dict[tuple[Partition, str | None], int] = {}
    for partition in history.compacted:
        for offset, value in final.get(partition, {}).items():
            if (key := keys.get((partition, value))) is not None:
                newest[partition, key] = max(newest.get((partition, key), 0), offset)
    return newest


class OffsetsHaveOneValue(HistoryCheck[ClientHistory]):
    id = "H2"
    sentence = (
        "all polls, and all sends that were acknowledged with acks=all, have the same value for an offset of a "
        "partition"
    )
    refuted_by = RefutedBy.BROKERS

    def contradictions(self, history: ClientHistory) -> Iterator[Witness]:
        values: dict[tuple[Partition, int], tuple[str, str]] = {}
        for where, partition, offset, value in _seen(history, with_acks_1=False):
            if partition in history.may_have_lost:
                continue
            known, known_where = values.setdefault((partition, offset), (value, where))
            self.times_tested += known_where != where
            if known != value:
                what = f"{name_of(partition)} has {value} at offset {offset}, and {known} in {known_where}"
                yield Witness(where, what)


class ValuesHaveOneOffset(HistoryCheck[ClientHistory]):
    id = "H3"
    sentence = "a value is at one offset, if its producer is idempotent or does not retry"
    refuted_by = RefutedBy.BROKERS

    def contradictions(self, history: ClientHistory) -> Iterator[Witness]:
        may_repeat = {send.value for send in history.sends if not send.producer.never_repeats}
        offsets: dict[tuple[Partition, str], int] = {}
        for where, partition, offset, value in _seen(history):
            if value in may_repeat or partition in history.may_have_lost:
                continue
            known = offsets.setdefault((partition, value), offset)
            self.times_tested += 1
            if known != offset:
                yield Witness(where, f"{name_of(partition)} has {value} at offset {offset}, and at {known}")


class OnlySentRecordsAreRead(HistoryCheck[ClientHistory]):
    id = "H4"
    sentence = "a consumer reads only values that were sent to the partition, and none whose send has definitely failed"
    refuted_by = RefutedBy.NOTHING

    def contradictions(self, history: ClientHistory) -> Iterator[Witness]:
        outcomes: Mapping[tuple[Partition, str], SendOutcome] = {
            (send.partition, send.value): send.outcome for send in history.sends
        }
        for number, poll in enumerate(history.polls):
            for offset, value in poll.records:
                self.times_tested += 1
                outcome = outcomes.get((poll.partition, value))
                at = f"{name_of(poll.partition)} has {value} at offset {offset}"
                if outcome is None:
                    yield Witness(f"poll {number}", f"{at}, which was never sent")
                elif outcome is SendOutcome.FAIL:
                    yield Witness(f"poll {number}", f"{at}, although its send has failed")


class PollsReadOn(HistoryCheck[ClientHistory]):
    id = "H5"
    sentence = (
        "a consumer reads each partition offset by offset between two assignments or seeks, in a compacted topic at "
        "increasing offsets"
    )
    refuted_by = RefutedBy.NOTHING

    def contradictions(self, history: ClientHistory) -> Iterator[Witness]:
        last: dict[tuple[str, Partition, int], int] = {}
        for number, poll in enumerate(history.polls):
            key = poll.consumer, poll.partition, poll.assignment
            for offset, _ in poll.records:
                if (before := last.get(key)) is not None:
                    self.times_tested += 1
                    has_gap = offset > before + 1 and poll.partition not in history.compacted
                    if has_gap or offset <= before:
                        what = f"{poll.consumer} read offset {offset} of {name_of(poll.partition)} after {before}"
                        yield Witness(f"poll {number}", what)
                last[key] = offset


class SendsKeepTheirOrder(HistoryCheck[ClientHistory]):
    id = "H6"
    sentence = (
        "the records that a producer has sent to a partition with acks=all were acknowledged at increasing offsets, if "
        "it is idempotent or has one request in flight"
    )
    refuted_by = RefutedBy.BROKERS

    def contradictions(self, history: ClientHistory) -> Iterator[Witness]:
        last: dict[tuple[str, Partition], Send] = {}
        for number, send in enumerate(history.sends):
            promises_order = send.producer.keeps_order and send.producer.waits_for_all
            if send.offset is None or not promises_order or send.partition in history.may_have_lost:
                continue
            before = last.get((send.producer.name, send.partition))
            last[send.producer.name, send.partition] = send
            if before is None or before.offset is None:
                continue
            self.times_tested += 1
            if send.offset <= before.offset:
                yield Witness(f"send {number}", f"{_record(send)} was sent after {before.value} at {before.offset}")


class PartitionsAreReadToTheEnd(HistoryCheck[ClientHistory]):
    id = "H7"
    sentence = (
        "every partition to which records were sent was read to its end in the final phase, unless it had no leader "
        "then, or a loss of power kept its followers out of the ISR and so its high watermark behind"
    )
    refuted_by = RefutedBy.BROKERS

    def contradictions(self, history: ClientHistory) -> Iterator[Witness]:
        unread: set[Partition] = set()
        for number, send in enumerate(history.sends):
            partition = send.partition
            if partition in history.without_leader or partition in history.without_end & history.may_have_lost:
                continue
            self.times_tested += 1
            if partition not in history.read_to_the_end and partition not in unread:
                unread.add(partition)
                yield Witness(f"send {number}", f"{name_of(partition)} was not read to its end in the final phase")


class ErrorsAreThoseOfProduce(HistoryCheck[ClientHistory]):
    id = "H8"
    sentence = (
        "every error of a send is one that Produce may have, and a send has only failed definitely if each of its "
        "errors shows that nothing was appended"
    )
    refuted_by = RefutedBy.NOTHING

    def contradictions(self, history: ClientHistory) -> Iterator[Witness]:
        for number, send in enumerate(history.sends):
            self.times_tested += 1
            what = f"{send.value} to {name_of(send.partition)}"
            if unknown := [error for error in send.errors if error not in PRODUCE_ERRORS]:
                yield Witness(f"send {number}", f"{what} got {unknown[0]}, which is no error of Produce")
            elif send.outcome is SendOutcome.FAIL:
                if unclear := [error for error in send.errors if error not in DEFINITE_ERRORS]:
                    yield Witness(f"send {number}", f"{what} has failed, but after {unclear[0]} it may be appended")
                elif not send.errors:
                    yield Witness(f"send {number}", f"{what} has failed without an error")


CLIENT_CHECKS: tuple[type[HistoryCheck[ClientHistory]], ...] = (
    AcknowledgedRecordsAreRead,
    OffsetsHaveOneValue,
    ValuesHaveOneOffset,
    OnlySentRecordsAreRead,
    PollsReadOn,
    SendsKeepTheirOrder,
    PartitionsAreReadToTheEnd,
    ErrorsAreThoseOfProduce,
)


def check_clients(history: ClientHistory, missing: MissingEvidence = NOTHING_MISSING) -> Judgement:
    """Check a history; records of brokers may be `missing` from the run."""
    return judge(CLIENT_CHECKS, history, missing)


def _seen(history: ClientHistory, *, with_acks_1: bool = True) -> Iterator[tuple[str, Partition, int, str]]:
    """Yield place, partition, offset and value of each record that was acknowledged or read.

    Args:
        with_acks_1: whether to yield also records sent with acks=1, which may be lost and replaced at their offset.
    """
    for number, send in enumerate(history.sends):
        if send.offset is not None and (with_acks_1 or send.producer.waits_for_all):
            yield f"send {number}", send.partition, send.offset, send.value
    for number, poll in enumerate(history.polls):
        for offset, value in poll.records:
            yield f"poll {number}", poll.partition, offset, value


def _record(send: Send) -> str:
    return f"{send.value} at offset {send.offset} of {name_of(send.partition)}"
