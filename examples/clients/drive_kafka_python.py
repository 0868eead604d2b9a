"""Drive kafka-python as README.md says: an admin client, a producer and a consumer, held open until stdin is closed.

pip install kafka-python
python drive_kafka_python.py localhost:9092 orders
"""

import json
import sys
import threading
import time

import kafka
from kafka.errors import KafkaError

SEND_EVERY_S = 0.05
CREATE_EVERY_S = 1.0
CREATE_TIMEOUT_MS = 5_000
READ_TO_THE_END_S = 10.0


class Driver:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.partition = kafka.TopicPartition(topic, 0)
        self.stopping = threading.Event()
        self.has_read_all = threading.Event()
        self.lock = threading.Lock()
        self.last_sent = -1
        self.last_read = -1
        self.admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=CREATE_TIMEOUT_MS)
        self.producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, delivery_timeout_ms=60_000
        )
        self.consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)

    def emit(self, event: str, **fields: object) -> None:
        with self.lock:
            print(json.dumps({"event": event, **fields}), flush=True)

    def run(self) -> None:
        self.consumer.assign([self.partition])
        self.consumer.seek_to_beginning(self.partition)
        self.emit("ready", client="kafka-python", version=kafka.__version__)
        producing = threading.Thread(target=self.produce)
        creating = threading.Thread(target=self.create_topics, daemon=True)
        reading = threading.Thread(target=self.read)
        for thread in (producing, creating, reading):
            thread.start()
        sys.stdin.read()
        self.stopping.set()
        producing.join()
        self.producer.close(timeout=60)
        deadline = time.monotonic() + READ_TO_THE_END_S
        while self.last_read < self.last_sent and time.monotonic() < deadline:
            time.sleep(0.05)
        self.has_read_all.set()
        reading.join()
        self.consumer.close()
        creating.join(CREATE_TIMEOUT_MS / 1000)
        self.emit("end")

    def produce(self) -> None:
        value = 0
        while not self.stopping.wait(SEND_EVERY_S):
            try:
                sending = self.producer.send(self.topic, str(value).encode(), partition=0)
                sending.add_callback(self.sent, value)
                sending.add_errback(self.failed, value)
            except Exception as error:  # noqa: BLE001
                self.failed(value, error)
            value += 1

    def sent(self, value: int, metadata: object) -> None:
        self.last_sent = max(self.last_sent, metadata.offset)
        self.emit("sent", value=value, offset=metadata.offset)

    def failed(self, value: int, error: Exception) -> None:
        self.emit("failed", value=value, error=type(error).__name__)

    def read(self) -> None:
        while not self.has_read_all.is_set():
            try:
                polled = self.consumer.poll(timeout_ms=200)
            except KafkaError:
                continue
            for record in polled.get(self.partition, ()):
                self.last_read = record.offset
                self.emit("read", value=int(record.value), offset=record.offset)

    def create_topics(self) -> None:
        number = 0
        while not self.stopping.wait(CREATE_EVERY_S):
            begun = time.monotonic()
            name, error = f"{self.topic}-admin-{number}", None
            try:
                self.admin.create_topics(
                    {name: {"num_partitions": 1, "replication_factor": 1}}, timeout_ms=CREATE_TIMEOUT_MS
                )
            except Exception as raised:  # noqa: BLE001  # whatever a client raises is its answer; RuntimeError is among it
                error = type(raised).__name__
            took_ms = round((time.monotonic() - begun) * 1000)
            self.emit("admin", ok=error is None, error=error, took_ms=took_ms)
            number += 1


if __name__ == "__main__":
    Driver(*sys.argv[1:3]).run()
