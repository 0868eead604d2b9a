"""`ClientEvents`: what one client of a load records of its requests and connections in its event log.

`EventsOfClient` writes; its base class writes nothing, for clients whose run has no event log of clients. Records cost
no time of the client: nothing here waits, and no answer depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple, TypeAlias

from understudy.clusters.clients.member_states import MemberMoved
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import (
    ClientConnection,
    ClientRequestBegan,
    ClientRequestEnded,
    MemberTransition,
    ProcessExiting,
)


class ClientLog(NamedTuple):
    """The event log of a client, begun, and what closes it after the last record."""

    events: EventLog
    close: Callable[[], None] = lambda: None


OpenClientLog: TypeAlias = Callable[[str], ClientLog]
"""Begins the event log of a client; the name of the client is its node."""

NOT_ANSWERED: Final = ""
"""The error of a request whose connection has ended without an answer."""
_OK: Final = "NONE"
_LEFT_OUT_MS: Final = 1_000.0
"""Time after the beginning of an attempt in which one that repeats it is left out."""


class Sending:
    """What a client records of one batch, or of one offset that it commits, from its first attempt to its end.

    This one records nothing.
    """

    def waits(self) -> None:
        """Note that there is no leader or coordinator to which it can be sent, or no producer id yet."""

    def begins(self, broker: int) -> None:
        """Note that an attempt to send it begins."""

    def ended(self, error: str, *, offset: int = -1, is_sent_again: bool = False) -> None:
        """Note the end of an attempt.

        Args:
            error: Kafka's name of the error; empty if there is no answer.
            offset: the offset of the first record if a batch is acknowledged.
        """

    def given_up(self) -> None:
        """Note that the time for its delivery is over."""


class ClientEvents:
    """What a client records. This one records nothing."""

    def sending(self, topic_partition: TopicPartition, records: int) -> Sending:
        """Return what records one batch."""
        return _NO_SENDING

    def committing(self, group: str, topic_partition: TopicPartition, offset: int) -> Sending:
        """Return what records one offset that is committed."""
        return _NO_SENDING

    def connecting(self, broker: int) -> None:
        """Note that the client begins to connect to a broker."""

    def connected(self, broker: int, reason: str = "") -> None:
        """Note that it is connected; or not, for a reason in words."""

    def asks(self, address: str) -> None:
        """Note that it asks a broker for metadata."""

    def asked(self, address: str, error: str = _OK) -> None:
        """Note the answer. The error is as in `Sending.ended`."""

    def reads(self, topic_partition: TopicPartition, offset: int, broker: int | None) -> None:
        """Note that it reads from an offset at a leader; None if it knows no leader."""

    def has_read(
        self, topic_partition: TopicPartition, first: int, records: int, next_offset: int, error: str = _OK
    ) -> None:
        """Note an answer to a Fetch.

        Args:
            first: the offset of the first record.
            next_offset: the offset from which it reads next.
            error: as in `Sending.ended`.
        """

    def member(self, group: str) -> Callable[[MemberMoved], None]:
        """Return what notes its states as a member of a group."""
        return _ignore

    def close(self) -> None:
        """Note that the client ends."""


NO_EVENTS: Final[ClientEvents] = ClientEvents()
_NO_SENDING: Final[Sending] = Sending()


def _ignore(moved: MemberMoved) -> None:
    """Note nothing."""


# ------------------------------------------------------------------ the client that records


class _Attempts:
    """Says which attempts are written: those that repeat an earlier one at once are left out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ms: dict[Hashable, float] = {}
        self._outcomes: dict[Hashable, Hashable] = {}
        self._written: set[Hashable] = set()

    def begins(self, key: Hashable, *, is_other: bool = False) -> bool:
        """Return whether the beginning of an attempt is to be written.

        Args:
            is_other: whether another attempt was written since.
        """
        now_ms = self._clock.monotonic_ms()
        if not is_other and key in self._began_ms and now_ms - self._began_ms[key] < _LEFT_OUT_MS:
            self._written.discard(key)
            return False
        self._began_ms[key] = now_ms
        self._written.add(key)
        return True

    def ends(self, key: Hashable, outcome: Hashable) -> bool:
        """Return whether the end of an attempt is to be written: its beginning was, or it has another outcome."""
        is_new = key in self._written or self._outcomes.get(key) != outcome
        self._outcomes[key] = outcome
        return is_new


class _Reading:
    """What was written last of the reading of a partition."""

    def __init__(self, broker: str, position: int) -> None:
        self.broker = broker
        self.position = position
        self.error = _OK
        self.began_ms = 0.0


class EventsOfClient(ClientEvents):
    """What a client of a load writes into its event log.

    Args:
        client_id: the name that the client gives itself, also the node's.
    """

    def __init__(self, client_id: str, log: ClientLog, clock: Clock) -> None:
        self.client_id = client_id
        self.clock = clock
        self.append = log.events.append
        self._log = log
        self._group = ""
        self._attempts = _Attempts(clock)
        self._asked_ms: dict[str, float] = {}
        self._readings: dict[TopicPartition, _Reading] = {}

    def sending(self, topic_partition: TopicPartition, records: int) -> Sending:
        topic, partition = topic_partition
        sent = _Sent("Produce", topic, partition, Errors.LEADER_NOT_AVAILABLE, records=records)
        return _SendingOfClient(self, sent)

    def committing(self, group: str, topic_partition: TopicPartition, offset: int) -> Sending:
        topic, partition = topic_partition
        sent = _Sent("OffsetCommit", topic, partition, Errors.COORDINATOR_NOT_AVAILABLE, offset=offset, group=group)
        return _SendingOfClient(self, sent)

    def connecting(self, broker: int) -> None:
        if self._attempts.begins(("connection", broker)):
            self.append(ClientConnection(client_id=self.client_id, broker=node(broker), state="connecting"))

    def connected(self, broker: int, reason: str = "") -> None:
        if self._attempts.ends(("connection", broker), reason):
            state = "failed" if reason else "connected"
            self.append(ClientConnection(client_id=self.client_id, broker=node(broker), state=state, reason=reason))

    def asks(self, address: str) -> None:
        self._asked_ms[address] = self.clock.monotonic_ms()
        if self._attempts.begins(("metadata", address)):
            self.append(ClientRequestBegan(api="Metadata", client_id=self.client_id, broker=address))

    def asked(self, address: str, error: str = _OK) -> None:
        if self._attempts.ends(("metadata", address), error):
            self.append(
                ClientRequestEnded(
                    api="Metadata",
                    client_id=self.client_id,
                    broker=address,
                    topic="",
                    partition=-1,
                    error=error,
                    took_ms=self.since(self._asked_ms[address]),
                )
            )

    def reads(self, topic_partition: TopicPartition, offset: int, broker: int | None) -> None:
        name = "" if broker is None else node(broker)
        reading = self._readings.get(topic_partition)
        if reading is None or (reading.broker, reading.position) != (name, offset):
            error = _OK if reading is None else reading.error
            reading = self._readings[topic_partition] = _Reading(name, offset)
            reading.error = error
            self.append(
                ClientRequestBegan(
                    api="Fetch",
                    client_id=self.client_id,
                    broker=name,
                    topic=topic_partition.topic,
                    partition=topic_partition.partition,
                    offset=offset,
                )
            )
        reading.began_ms = self.clock.monotonic_ms()

    def has_read(
        self, topic_partition: TopicPartition, first: int, records: int, next_offset: int, error: str = _OK
    ) -> None:
        reading = self._readings[topic_partition]
        if not records and (next_offset, error) == (reading.position, reading.error):
            return
        reading.position, reading.error = next_offset, error
        self.append(
            ClientRequestEnded(
                api="Fetch",
                client_id=self.client_id,
                broker=reading.broker,
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                error=error,
                offset=first,
                records=records,
                group=self._group,
                took_ms=self.since(reading.began_ms),
                next_offset=next_offset,
            )
        )

    def member(self, group: str) -> Callable[[MemberMoved], None]:
        self._group = group
        before: MemberTransition | None = None

        def note(event: MemberMoved) -> None:
            nonlocal before
            moved = MemberTransition(
                client_id=self.client_id,
                group=group,
                member_id=event.member_id,
                target=event.state.name,
                generation=event.generation,
                coordinator=-1 if event.coordinator is None else event.coordinator,
                partitions=tuple((each.topic, each.partition) for each in event.partitions),
                reason=event.reason,
            )
            if moved != before:
                before = moved
                self.append(moved)

        return note

    def close(self) -> None:
        self.append(ProcessExiting(reason="the client has ended"))
        self._log.close()

    def since(self, began_ms: float) -> float:
        """Return the time since a moment, as records have it."""
        return round(self.clock.monotonic_ms() - began_ms, 3)


class _Sent(NamedTuple):
    """A batch, or an offset to commit, which is sent again until it is acknowledged, refused or given up.

    Attributes:
        unavailable: the error of one that could not be sent before it was given up.
        records: of a batch; 0 for a commit.
        offset: the one to commit; −1 for a batch.
        group: of a commit; empty for a batch.
    """

    api: str
    topic: str
    partition: int
    unavailable: Errors
    records: int = 0
    offset: int = -1
    group: str = ""


class _SendingOfClient(Sending):
    def __init__(self, events: EventsOfClient, sent: _Sent) -> None:
        self._events = events
        self._sent = sent
        self._attempts = _Attempts(events.clock)
        self._attempt = 0
        self._broker: str | None = None
        """The broker in the last `ClientRequestBegan`, empty for none."""
        self._error = NOT_ANSWERED
        self._sent_ms = 0.0

    def waits(self) -> None:
        self._error = self._sent.unavailable.name
        if self._broker != "":
            self._begin("")

    def begins(self, broker: int) -> None:
        self._attempt += 1
        self._sent_ms = self._events.clock.monotonic_ms()
        if self._attempts.begins(node(broker), is_other=self._broker != node(broker)):
            self._begin(node(broker))

    def ended(self, error: str, *, offset: int = -1, is_sent_again: bool = False) -> None:
        assert self._broker is not None, "an attempt has begun"
        self._error = error
        if self._attempts.ends(self._broker, (error, is_sent_again)):
            self._end(self._broker, offset, is_sent_again)

    def given_up(self) -> None:
        self._end("", -1, False)

    @property
    def _numbered_attempt(self) -> int:
        """The number of the attempt as a record has it; attempts to commit have none."""
        return max(self._attempt, 1) if self._sent.records else 0

    def _begin(self, broker: str) -> None:
        self._broker = broker
        self._events.append(
            ClientRequestBegan(
                api=self._sent.api,
                client_id=self._events.client_id,
                broker=broker,
                topic=self._sent.topic,
                partition=self._sent.partition,
                offset=self._sent.offset,
                records=self._sent.records,
                attempt=self._numbered_attempt,
            )
        )

    def _end(self, broker: str, acknowledged: int, is_sent_again: bool) -> None:
        self._events.append(
            ClientRequestEnded(
                api=self._sent.api,
                client_id=self._events.client_id,
                broker=broker,
                topic=self._sent.topic,
                partition=self._sent.partition,
                error=self._error,
                offset=self._sent.offset if self._sent.group else acknowledged,
                records=self._sent.records,
                group=self._sent.group,
                attempt=self._numbered_attempt,
                took_ms=self._events.since(self._sent_ms) if broker else 0.0,
                is_sent_again=is_sent_again,
            )
        )


def node(broker: int) -> str:
    """Return the name of a broker's node."""
    return f"broker-{broker}"
