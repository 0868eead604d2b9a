"""A producer, idempotent by default, with one batch in flight to each partition."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Sequence
from typing import NamedTuple

from understudy.clusters.clients.client_events import NOT_ANSWERED
from understudy.clusters.clients.connections import NO_ANSWER, NOT_SENT, Connections, NoLeader
from understudy.clusters.clients.record_requests import INIT_PRODUCER_ID_VERSION, NOT_THE_LEADER, produce_request
from understudy.foundation.cluster.errors import Errors, error_for_code, error_name
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.records.batch import NO_SEQUENCE
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import Record, encode_records
from understudy.foundation.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from understudy.foundation.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)

PRODUCE_VERSION = 11
ALL_ACKS = -1
NO_ACKS = 0

PRODUCE_AGAIN = NOT_THE_LEADER | {
    Errors.REQUEST_TIMED_OUT,
    Errors.NOT_ENOUGH_REPLICAS,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
"""Errors after which a batch is sent again."""
_NOT_APPENDED = frozenset({Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.LEADER_NOT_AVAILABLE, Errors.NOT_ENOUGH_REPLICAS})
"""Errors that state that this attempt has appended nothing. NOT_LEADER_OR_FOLLOWER is not among them: it is also the
answer of a leader that was deposed while it waited for its followers."""


class DeliveryOutcome(enum.Enum):
    """The outcome of a send, or of a commit of the offset of a partition."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    """It was not appended, and will not be."""
    UNKNOWN = "unknown"
    """It may have been appended, or may be later."""


class Delivery(NamedTuple):
    """The end of one send.

    Attributes:
        offset: the offset of the first record; -1 unless acknowledged, and with acks=0.
        reason: the last error.
        errors: every error of its attempts, each once: Kafka's name of the error code in the answer, or the class of
            the exception; `NoProducerId` for one because of which the producer did not get its producer id.
    """

    outcome: DeliveryOutcome
    offset: int = -1
    reason: str = ""
    errors: tuple[str, ...] = ()


class Producer:
    """Sends batches. After a batch whose outcome stays unknown it uses a new producer id.

    Args:
        acks: 0, 1, or −1 for all in-sync replicas. With 1 a record that is acknowledged may be lost. With 0 there is no
            answer: what the connection has accepted counts as acknowledged, without an offset.
        delivery_timeout_ms: the time for which a batch is sent again before its outcome counts as unknown or refused.
        is_idempotent: Kafka's `enable.idempotence`. Without it the producer needs no producer id, and a batch that is
            sent again may be in the log twice. A producer with acks=0 never is.
    """

    def __init__(
        self,
        connections: Connections,
        clock: Clock,
        *,
        acks: int = ALL_ACKS,
        request_timeout_ms: int = 3_000,
        delivery_timeout_ms: int = 20_000,
        backoff_ms: int = 100,
        is_idempotent: bool = True,
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._acks = acks
        self._request_timeout_ms = request_timeout_ms
        self._delivery_timeout_ms = delivery_timeout_ms
        self._backoff_ms = backoff_ms
        self._is_idempotent = is_idempotent and acks != NO_ACKS
        self._producer_id = -1
        self._producer_epoch = -1
        self._sequences: dict[TopicPartition, int] = {}

    async def send(
        self, topic_partition: TopicPartition, values: Sequence[bytes], *, keys: Sequence[bytes] | None = None
    ) -> Delivery:
        """Send values as one batch, again and again until it is acknowledged or `delivery_timeout_ms` is over.

        Only one call at a time.

        Args:
            keys: as many as values; None for records without keys.
        """
        now_ms = int(self._clock.wall_ms())
        return await self.send_records(
            topic_partition,
            [Record(place, now_ms, None if keys is None else keys[place], value) for place, value in enumerate(values)],
        )

    async def send_records(
        self, topic_partition: TopicPartition, records: Sequence[Record], *, compression: Compression = Compression.NONE
    ) -> Delivery:
        """Send records as one batch, as `send` does.

        Args:
            records: at least one, with the offsets 0, 1, 2 …
        """
        deadline_ms = self._clock.monotonic_ms() + self._delivery_timeout_ms
        may_be_appended, reason = False, ""
        errors: dict[str, None] = {}
        request: ProduceRequest | None = None
        sending = self._connections.events.sending(topic_partition, len(records))
        if self._needs_producer_id or self._connections.known_leader(topic_partition) is None:
            sending.waits()
        while self._clock.monotonic_ms() < deadline_ms:
            leader: int | None = None
            try:
                if request is None:
                    await self._ensure_producer_id()
                    request = self._request(topic_partition, records, compression)
                leader = await self._connections.leader_of(topic_partition)
                sending.begins(leader)
                answer = await self._append(leader, request)
            except (NoLeader, *NOT_SENT, *NO_ANSWER) as failure:
                if leader is None:
                    sending.waits()
                else:
                    sending.ended(NOT_ANSWERED, is_sent_again=True)
                reason = str(failure)
                errors[_error_of(failure, request)] = None
                may_be_appended |= request is not None and isinstance(failure, NO_ANSWER)
            else:
                error = error_for_code(answer.error_code)
                if error is Errors.NONE:
                    sending.ended(error.name, offset=answer.base_offset)
                    self._sequences[topic_partition] = self._sequences.get(topic_partition, 0) + len(records)
                    return Delivery(DeliveryOutcome.ACKNOWLEDGED, answer.base_offset, errors=tuple(errors))
                reason = error_name(answer.error_code)
                errors[reason] = None
                may_be_appended |= error not in _NOT_APPENDED
                sending.ended(reason, is_sent_again=error in PRODUCE_AGAIN)
                if error not in PRODUCE_AGAIN:
                    break
            self._connections.forget_leader(topic_partition)
            await asyncio.sleep(self._backoff_ms / 1000)
        else:
            sending.given_up()
        if may_be_appended:
            # The next sequence number is not known: another producer id begins with 0.
            self._producer_id = -1
            self._sequences.clear()
            return Delivery(DeliveryOutcome.UNKNOWN, reason=reason, errors=tuple(errors))
        return Delivery(DeliveryOutcome.REFUSED, reason=reason, errors=tuple(errors))

    async def _append(self, leader: int, request: ProduceRequest) -> PartitionProduceResponse:
        """Send a batch, and return the answer; raises as `Connections.ask`."""
        if self._acks == NO_ACKS:
            await self._connections.send(leader, request, PRODUCE_VERSION)
            return PartitionProduceResponse(base_offset=-1)
        response = await self._connections.ask(
            leader, request, PRODUCE_VERSION, ProduceResponse, wait_ms=self._request_timeout_ms
        )
        return response.responses[0].partition_responses[0]

    @property
    def _needs_producer_id(self) -> bool:
        return self._is_idempotent and self._producer_id < 0

    async def _ensure_producer_id(self) -> None:
        """Get the producer id that is needed; raises as `Connections.ask`, and NoLeader while none is given out."""
        if not self._needs_producer_id:
            return
        broker = await self._connections.any_broker()
        answer = await self._connections.ask(
            broker, InitProducerIdRequest(), INIT_PRODUCER_ID_VERSION, InitProducerIdResponse
        )
        if answer.error_code != Errors.NONE:
            raise NoLeader(f"no producer id: {error_name(answer.error_code)}")
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch

    def _request(
        self, topic_partition: TopicPartition, records: Sequence[Record], compression: Compression
    ) -> ProduceRequest:
        batch = encode_records(
            records,
            compression=compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._sequences.get(topic_partition, 0) if self._is_idempotent else NO_SEQUENCE,
        )
        return produce_request({topic_partition: batch}, acks=self._acks, timeout_ms=self._request_timeout_ms)


def _error_of(failure: Exception, request: ProduceRequest | None) -> str:
    """Return the name of an exception in `Delivery.errors`."""
    return "NoProducerId" if request is None else type(failure).__name__
