"""Producers and consumers of kafka-python, librdkafka and aiokafka behind one interface: what they send and read."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

import aiokafka
import aiokafka.errors
import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer

from tests.durability.ledger import read_topic

with warnings.catch_warnings():
    # kafka-python reads its message definitions by a function of importlib that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.errors import KafkaError

T = TypeVar("T")

LIBRDKAFKA = "librdkafka"
LOGGER = logging.getLogger(LIBRDKAFKA)
REQUEST_TIMEOUT_MS = 3_000
DELIVERY_TIMEOUT_MS = 60_000
AIOKAFKAS_TIMEOUT_MS = 5_000
"""aiokafka's timeout of a request; a batch that is older when a request fails is not sent again."""
READ_TIMEOUT_S = 60.0
PAUSE_S = 0.005
_END_TIMEOUT_S = 90.0


class Variant(NamedTuple):
    """A way to produce.

    Attributes:
        client: `kafka-python`, `librdkafka` or `aiokafka`.
        acks: 0, 1 or -1 (all).
    """

    client: str
    acks: int
    is_idempotent: bool = False
    compression: str = "none"

    def __str__(self) -> str:
        kind = "idempotent" if self.is_idempotent else f"acks{'all' if self.acks < 0 else self.acks}"
        return f"{self.client}-{kind}-{self.compression}"


class Sent(NamedTuple):
    """A record that was acknowledged, with its offset; -1 if acks=0 leaves it unknown."""

    offset: int
    value: bytes


class StockProducer(Protocol):
    def send(self, value: bytes, acknowledged: Callable[[Sent], None], failed: Callable[[str], None]) -> None: ...

    def close(self) -> None:
        """Wait for the outstanding answers."""


class Librdkafka:
    """confluent-kafka's producer for one topic with one partition.

    It writes its errors into the log named `librdkafka`, and also what brokers refuse if that log is at DEBUG.
    """

    def __init__(self, bootstrap: str, variant: Variant, topic: str) -> None:
        self._topic = topic
        with_log = LOGGER.isEnabledFor(logging.DEBUG)
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": variant.acks,
                "enable.idempotence": variant.is_idempotent,
                "compression.type": variant.compression,
                "linger.ms": 5,
                "request.timeout.ms": REQUEST_TIMEOUT_MS,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS + 2_000,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 500,
                "error_cb": lambda error: LOGGER.warning(error.name()),
                **({"logger": LOGGER, "log_level": 7, "debug": "msg"} if with_log else {"log_level": 0}),
            }
        )

    def send(self, value: bytes, acknowledged: Callable[[Sent], None], failed: Callable[[str], None]) -> None:
        def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            offset = message.offset()
            if error is not None:
                failed(error.name())
            else:
                acknowledged(Sent(-1 if offset is None else offset, value))

        self._producer.produce(self._topic, value, partition=0, on_delivery=delivered)
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(_END_TIMEOUT_S)


class KafkaPython:
    """kafka-python's producer for one topic with one partition."""

    def __init__(self, bootstrap: str, variant: Variant, topic: str) -> None:
        self._topic = topic
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all" if variant.acks < 0 else variant.acks,
            enable_idempotence=variant.is_idempotent,
            compression_type=None if variant.compression == "none" else variant.compression,
            linger_ms=5,
            max_block_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            reconnect_backoff_max_ms=500,
        )

    def send(self, value: bytes, acknowledged: Callable[[Sent], None], failed: Callable[[str], None]) -> None:
        sending = self._producer.send(self._topic, value, partition=0)
        sending.add_callback(lambda metadata: acknowledged(Sent(metadata.offset, value)))
        sending.add_errback(lambda error: failed(type(error).__name__))

    def close(self) -> None:
        self._producer.close(_END_TIMEOUT_S)


class AioKafka:
    """aiokafka's producer for one topic with one partition, on an event loop in a thread of its own.

    If a connection is reset under acks=0, the producer ends for good and refuses every later record
    (aio-libs/aiokafka#907): it takes no ConnectionResetError while it writes. Another producer replaces it, as in an
    application.
    """

    def __init__(self, bootstrap: str, variant: Variant, topic: str) -> None:
        self._bootstrap, self._variant, self._topic = bootstrap, variant, topic
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"{topic}-loop", daemon=True)
        self._thread.start()
        self._waiting: asyncio.Queue[_Sending | None] = asyncio.Queue()
        self._deliveries: set[asyncio.Task[None]] = set()
        self._producer = self._wait_for(self._started())
        self._sender = asyncio.run_coroutine_threadsafe(self._send_in_order(), self._loop)

    def send(self, value: bytes, acknowledged: Callable[[Sent], None], failed: Callable[[str], None]) -> None:
        self._loop.call_soon_threadsafe(self._waiting.put_nowait, _Sending(value, acknowledged, failed))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._waiting.put_nowait, None)
        try:
            self._sender.result(_END_TIMEOUT_S)
        finally:
            self._wait_for(self._producer.stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _wait_for(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_END_TIMEOUT_S)

    async def _started(self) -> aiokafka.AIOKafkaProducer:
        variant = self._variant
        created = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks="all" if variant.acks < 0 else variant.acks,
            enable_idempotence=variant.is_idempotent,
            compression_type=None if variant.compression == "none" else variant.compression,
            linger_ms=5,
            request_timeout_ms=AIOKAFKAS_TIMEOUT_MS,
        )
        await created.start()
        return created

    async def _send_in_order(self) -> None:
        """Put one record after the other into the producer's batches, and wait for all their answers at the end."""
        while (sending := await self._waiting.get()) is not None:
            try:
                delivery = await self._producer.send(self._topic, sending.value, partition=0)
            except aiokafka.errors.KafkaError as error:
                sending.failed(type(error).__name__)
                if self._variant.acks == 0 and type(error) is aiokafka.errors.KafkaError:
                    await self._producer.stop()
                    self._producer = await self._started()
                continue
            answered = self._loop.create_task(self._answered(delivery, sending))
            self._deliveries.add(answered)
            answered.add_done_callback(self._deliveries.discard)
        await asyncio.gather(*self._deliveries)

    async def _answered(self, delivery: Awaitable[Any], sending: _Sending) -> None:
        try:
            metadata = await delivery
        except aiokafka.errors.KafkaError as error:
            sending.failed(type(error).__name__)
        else:
            sending.acknowledged(Sent(-1 if metadata is None else metadata.offset, sending.value))


class _Sending(NamedTuple):
    """A record that is to be sent, and the functions that receive how that ended."""

    value: bytes
    acknowledged: Callable[[Sent], None]
    failed: Callable[[str], None]


PRODUCERS: Mapping[str, Callable[[str, Variant, str], StockProducer]] = {
    "librdkafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
}


def producer(bootstrap: str, variant: Variant, topic: str) -> StockProducer:
    return PRODUCERS[variant.client](bootstrap, variant, topic)


class Journal:
    """Sends numbered records with one producer from a thread of its own, and notes which were acknowledged.

    Args:
        pause_s: the time between two records.
    """

    def __init__(self, bootstrap: str, variant: Variant, topic: str, pause_s: float = PAUSE_S) -> None:
        self.variant = variant
        self.topic = topic
        self.acknowledged: list[Sent] = []
        self.failed: Counter[str] = Counter()
        """The errors of records that were not acknowledged; such a record may be in the log or not."""
        self.sent = 0
        self._pause_s = pause_s
        self._producer = producer(bootstrap, variant, topic)
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=topic)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait for the outstanding answers."""
        self._is_stopping.set()
        self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self._producer.send(b"%d" % self.sent, self.acknowledged.append, self._fail)
                self.sent += 1
            except (KafkaError, BufferError, confluent_kafka.KafkaException) as error:
                self._fail(type(error).__name__)
            time.sleep(self._pause_s)

    def _fail(self, error: str) -> None:
        self.failed[error] += 1


def read_with_kafka_python(bootstrap: str, topic: str, *, offset: int) -> list[Sent]:
    """Seek to `offset` of partition 0 and return the records from there to the end."""
    partition = kafka.TopicPartition(topic, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, group_id=None)
    try:
        consumer.assign([partition])
        [end] = consumer.end_offsets([partition]).values()
        consumer.seek(partition, offset)
        read: list[Sent] = []
        deadline = time.monotonic() + READ_TIMEOUT_S
        while consumer.position(partition) < end:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} was read to {consumer.position(partition)}, and ends at {end}")
            for records in consumer.poll(timeout_ms=500).values():
                read.extend(Sent(record.offset, record.value) for record in records)
        return read
    finally:
        consumer.close()


def offset_of_time_with_kafka_python(bootstrap: str, topic: str, timestamp_ms: int) -> int:
    partition = kafka.TopicPartition(topic, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, group_id=None)
    try:
        found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
        return -1 if found is None else int(found.offset)
    finally:
        consumer.close()


def read_with_aiokafka(bootstrap: str, topic: str, *, offset: int) -> list[Sent]:
    """Seek to `offset` of partition 0 and return the records from there to the end."""

    async def read() -> list[Sent]:
        partition = aiokafka.TopicPartition(topic, 0)
        async with aiokafka_consumer(bootstrap) as consumer, asyncio.timeout(READ_TIMEOUT_S):
            consumer.assign([partition])
            [end] = (await consumer.end_offsets([partition])).values()
            consumer.seek(partition, offset)
            found: list[Sent] = []
            while await consumer.position(partition) < end:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found.extend(Sent(record.offset, record.value) for record in records)
            return found

    return asyncio.run(read())


def offset_of_time_with_aiokafka(bootstrap: str, topic: str, timestamp_ms: int) -> int:
    async def find() -> int:
        partition = aiokafka.TopicPartition(topic, 0)
        async with aiokafka_consumer(bootstrap) as consumer, asyncio.timeout(READ_TIMEOUT_S):
            found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
            return -1 if found is None else int(found.offset)

    return asyncio.run(find())


@asynccontextmanager
async def aiokafka_consumer(bootstrap: str) -> AsyncIterator[aiokafka.AIOKafkaConsumer]:
    """A consumer without a group."""
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, group_id=None)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


class WithTime(NamedTuple):
    offset: int
    timestamp_ms: int


def read_with_librdkafka(bootstrap: str, topic: str) -> list[Sent]:
    """Return the records of partition 0 from its beginning to its end."""
    return [Sent(offset, value) for (_, offset), value in sorted(read_topic(bootstrap, topic).items())]


def times_with_librdkafka(bootstrap: str, topic: str, *, offset: int) -> tuple[WithTime, int]:
    """Seek to `offset`; return the record there with its time, and the offset that is found for that time."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "not-joined", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, OFFSET_BEGINNING)])
        deadline = time.monotonic() + READ_TIMEOUT_S
        message = consumer.poll(READ_TIMEOUT_S)
        consumer.seek(confluent_kafka.TopicPartition(topic, 0, offset))
        while message is None or message.error() is not None or message.offset() != offset:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} could not be read at {offset}")
            message = consumer.poll(1.0)
        _, timestamp_ms = message.timestamp()
        asked = confluent_kafka.TopicPartition(topic, 0, timestamp_ms)
        [found] = consumer.offsets_for_times([asked], timeout=READ_TIMEOUT_S)
        return WithTime(offset, timestamp_ms), found.offset
    finally:
        consumer.close()
