"""Be a member of a group with kafka-python as README.md says, until stdin is closed.

pip install kafka-python
python member_kafka_python.py localhost:9092 orders readers
"""

import json
import sys
import threading

import kafka
from kafka.errors import KafkaError


class Member(kafka.ConsumerRebalanceListener):
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.stopping = threading.Event()
        self.topic = topic
        self.consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest")

    def emit(self, event: str, **fields: object) -> None:
        print(json.dumps({"event": event, **fields}), flush=True)

    def on_partitions_assigned(self, assigned: object) -> None:
        self.emit("assigned", partitions=sorted(each.partition for each in assigned))

    def on_partitions_revoked(self, revoked: object) -> None:
        self.emit("revoked", partitions=sorted(each.partition for each in revoked))

    def run(self) -> None:
        threading.Thread(target=self.wait_for_the_end, daemon=True).start()
        self.consumer.subscribe([self.topic], listener=self)
        self.emit("ready", client="kafka-python", version=kafka.__version__)
        while not self.stopping.is_set():
            try:
                polled = self.consumer.poll(timeout_ms=200)
            except KafkaError as error:
                self.emit("error", error=type(error).__name__)
                continue
            for records in polled.values():
                for record in records:
                    self.emit("read", value=int(record.value), offset=record.offset, partition=record.partition)
        self.consumer.close()
        self.emit("end")

    def wait_for_the_end(self) -> None:
        sys.stdin.read()
        self.stopping.set()


if __name__ == "__main__":
    Member(*sys.argv[1:4]).run()
