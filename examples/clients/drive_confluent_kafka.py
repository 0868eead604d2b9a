"""Drive confluent-kafka as README.md says: an admin client, a producer and a consumer, open until stdin is closed.

pip install confluent-kafka
python drive_confluent_kafka.py localhost:9092 orders
"""

import json
import sys
import threading
import time
from concurrent.futures import TimeoutError as NotInTime

import confluent_kafka
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

SEND_EVERY_S = 0.05
CREATE_EVERY_S = 1.0
CREATE_TIMEOUT_S = 5.0
READ_TO_THE_END_S = 10.0


class Driver:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.stopping = threading.Event()
        self.has_read_all = threading.Event()
        self.lock = threading.Lock()
        self.last_sent = -1
        self.last_read = -1
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "delivery.timeout.ms": 60_000,
            }
        )
        # The consumer needs the name of a group, and does not join it: its partition is assigned.
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "not-joined",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )

    def emit(self, event: str, **fields: object) -> None:
        with self.lock:
            print(json.dumps({"event": event, **fields}), flush=True)

    def run(self) -> None:
        self.consumer.assign([confluent_kafka.TopicPartition(self.topic, 0, confluent_kafka.OFFSET_BEGINNING)])
        librdkafka, _ = confluent_kafka.libversion()
        version = f"{confluent_kafka.version()} (librdkafka {librdkafka})"
        self.emit("ready", client="confluent-kafka", version=version)
        producing = threading.Thread(target=self.produce)
        creating = threading.Thread(target=self.create_topics, daemon=True)
        reading = threading.Thread(target=self.read)
        for thread in (producing, creating, reading):
            thread.start()
        sys.stdin.read()
        self.stopping.set()
        producing.join()
        self.producer.flush(60)
        deadline = time.monotonic() + READ_TO_THE_END_S
        while self.last_read < self.last_sent and time.monotonic() < deadline:
            time.sleep(0.05)
        self.has_read_all.set()
        reading.join()
        self.consumer.close()
        creating.join(CREATE_TIMEOUT_S)
        self.emit("end")

    def produce(self) -> None:
        value = 0
        while not self.stopping.wait(SEND_EVERY_S):
            try:
                self.producer.produce(self.topic, str(value).encode(), partition=0, on_delivery=self.delivered)
            except (BufferError, KafkaException) as error:
                self.emit("failed", value=value, error=str(error))
            self.producer.poll(0)
            value += 1

    def delivered(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        value, offset = int(message.value()), message.offset()
        if error is not None:
            self.emit("failed", value=value, error=error.name())
            return
        # A record is acknowledged without an offset if a request timed out and the next one shows that it arrived.
        offset = -1 if offset is None or offset < 0 else offset
        self.last_sent = max(self.last_sent, offset)
        self.emit("sent", value=value, offset=offset)

    def read(self) -> None:
        while not self.has_read_all.is_set():
            message = self.consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            self.last_read = message.offset()
            self.emit("read", value=int(message.value()), offset=message.offset())

    def create_topics(self) -> None:
        number = 0
        while not self.stopping.wait(CREATE_EVERY_S):
            begun = time.monotonic()
            topic, error = NewTopic(f"{self.topic}-admin-{number}", num_partitions=1, replication_factor=1), None
            try:
                (creation,) = self.admin.create_topics(
                    [topic], operation_timeout=CREATE_TIMEOUT_S, request_timeout=CREATE_TIMEOUT_S
                ).values()
                creation.result(CREATE_TIMEOUT_S + 1)
            except KafkaException as raised:
                error = raised.args[0].name()
            except NotInTime:
                error = "no answer"
            took_ms = round((time.monotonic() - begun) * 1000)
            self.emit("admin", ok=error is None, error=error, took_ms=took_ms)
            number += 1


if __name__ == "__main__":
    Driver(*sys.argv[1:3]).run()
