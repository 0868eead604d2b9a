"""Finds which records in Produce requests are the same record, sent again."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from understudy.foundation.records.record import Header
from understudy.testing.simulated_tests.history.wire_batches import SequencedRecord
from understudy.testing.simulated_tests.history.wire_records import Client, Partition, Sent

_Content: TypeAlias = tuple[Partition, int, bytes | None, bytes | None, tuple[Header, ...]]


class Attempts:
    """Numbers the records that clients send, and the attempts to send each.

    A record is the next attempt of an earlier one with the same timestamp, key, value and headers for the same
    partition, if it has the same producer id, epoch and sequence number, or if the earlier one was sent by the same
    client, and has ended with an error or without an answer.
    """

    def __init__(self) -> None:
        self._attempts: list[int] = []
        """Number of attempts of each record."""
        self._sequences: dict[tuple[_Content, int, int, int], int] = {}
        self._failed: dict[tuple[Client, _Content], deque[tuple[int, int]]] = {}
        """(send, attempt) of those that ended without success."""

    def next(self, client: Client, partition: Partition, each: SequencedRecord) -> tuple[int, int]:
        """Return the number of a record that is sent now, and the number of the attempt."""
        record = each.record
        content = partition, record.timestamp, record.key, record.value, record.headers
        sequence = content, each.producer_id, each.producer_epoch, each.sequence
        send = self._sequences.get(sequence) if each.sequence >= 0 else None
        if send is None:
            send = self._to_be_sent_again(client, content)
        if send is None:
            send = len(self._attempts)
            self._attempts.append(0)
        if each.sequence >= 0:
            self._sequences[sequence] = send
        self._attempts[send] += 1
        return send, self._attempts[send]

    def failed(self, sent: Sent) -> None:
        """Note that an attempt has ended with an error, or without an answer."""
        content = (sent.topic, sent.partition), sent.timestamp, sent.key, sent.value, sent.headers
        self._failed.setdefault((sent.client, content), deque()).append((sent.send, sent.attempt))

    def _to_be_sent_again(self, client: Client, content: _Content) -> int | None:
        waiting = self._failed.get((client, content), ())
        while waiting:
            send, attempt = waiting.popleft()
            if self._attempts[send] == attempt:
                return send
        return None
