"""A stock producer that notes which records were acknowledged, and a stock consumer that reads everything back."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

READ_TIMEOUT_S = 120.0
_PAUSE_S = 0.0005
"""Between two records: the producer is to run all the time, not to fill the machine."""


class Found(NamedTuple):
    """What a topic holds, compared with what was acknowledged.

    Attributes:
        lost: acknowledged records that are not at their offsets.
        duplicates: values that are there more than once.
    """

    acknowledged: int
    read: int
    lost: tuple[str, ...]
    duplicates: tuple[bytes, ...]


class Ledger:
    """Sends numbered records with acks=all from a thread of its own, and keeps those that were acknowledged.

    The producer is librdkafka's, idempotent, with timeouts that fit sessions of a few seconds.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "request.timeout.ms": 3_000,
                "socket.timeout.ms": 5_000,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._acknowledged: dict[tuple[int, int], bytes] = {}
        self._without_offset: list[bytes] = []
        """Records whose request timed out, and which librdkafka takes for acknowledged because later ones were."""
        self.failed: Counter[str] = Counter()
        """The errors of records that were not acknowledged; such a record may be in the log or not."""
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger")

    @property
    def acknowledged(self) -> int:
        return len(self._acknowledged) + len(self._without_offset)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait for the outstanding answers."""
        self._is_stopping.set()
        self._thread.join()
        self._producer.flush(120)

    def wait_for(self, acknowledged: int, timeout_s: float) -> None:
        """Wait until this number of records is acknowledged.

        Raises:
            TimeoutError: fewer were acknowledged within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        while self.acknowledged < acknowledged:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.acknowledged} of {acknowledged} records acknowledged within {timeout_s} s")
            time.sleep(0.01)

    def _run(self) -> None:
        number = 0
        while not self._is_stopping.is_set():
            try:
                self._producer.produce(self._topic, b"%d" % number, key=b"%d" % number, on_delivery=self._delivered)
                number += 1
            except BufferError:
                self._producer.poll(0.1)
            self._producer.poll(0)
            time.sleep(_PAUSE_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed[error.name()] += 1
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert value is not None
        if offset is None:
            self._without_offset.append(value)
        else:
            self._acknowledged[partition, offset] = value

    def compare(self) -> Found:
        """Read the topic from its beginning to its end, and compare.

        Raises:
            TimeoutError: it cannot be read within `READ_TIMEOUT_S`.
        """
        read = read_topic(self._bootstrap, self._topic)
        lost = tuple(
            f"{self._topic}-{partition} offset {offset}: {value!r} acknowledged, {read.get((partition, offset))!r} read"
            for (partition, offset), value in sorted(self._acknowledged.items())
            if read.get((partition, offset)) != value
        )
        counted = Counter(read.values())
        lost += tuple(f"{value!r} acknowledged, not read" for value in self._without_offset if value not in counted)
        return Found(self.acknowledged, len(read), lost, tuple(value for value, count in counted.items() if count > 1))


def read_topic(bootstrap: str, topic: str) -> dict[tuple[int, int], bytes]:
    """Return the value of each record by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    deadline = time.monotonic() + READ_TIMEOUT_S
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        read: dict[tuple[int, int], bytes] = {}
        left = set(partitions)
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"partitions {sorted(left)} of {topic} were not read to their ends")
            message = consumer.poll(1.0)
            if message is None:
                continue
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is None:
                value = message.value()
                assert partition is not None
                assert offset is not None
                assert value is not None
                read[partition, offset] = value
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(partition if partition is not None else -1)
            elif not error.retriable():
                raise KafkaException(error)
        return read
    finally:
        consumer.close()
