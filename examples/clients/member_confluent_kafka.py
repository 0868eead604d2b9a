"""Be a member of a group with confluent-kafka as README.md says, until stdin is closed.

pip install confluent-kafka
python member_confluent_kafka.py localhost:9092 orders readers
"""

import json
import sys
import threading

import confluent_kafka


class Member:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.stopping = threading.Event()
        self.topic = topic
        self.consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        )

    def emit(self, event: str, **fields: object) -> None:
        print(json.dumps({"event": event, **fields}), flush=True)

    def assigned(self, consumer: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.emit("assigned", partitions=sorted(each.partition for each in partitions))

    def revoked(self, consumer: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self.emit("revoked", partitions=sorted(each.partition for each in partitions))

    def run(self) -> None:
        threading.Thread(target=self.wait_for_the_end, daemon=True).start()
        self.consumer.subscribe([self.topic], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.revoked)
        librdkafka, _ = confluent_kafka.libversion()
        version = f"{confluent_kafka.version()} (librdkafka {librdkafka})"
        self.emit("ready", client="confluent-kafka", version=version)
        while not self.stopping.is_set():
            message = self.consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is not None:
                self.emit("error", error=message.error().name())
                continue
            value, offset, partition = int(message.value()), message.offset(), message.partition()
            self.emit("read", value=value, offset=offset, partition=partition)
        self.consumer.close()
        self.emit("end")

    def wait_for_the_end(self) -> None:
        sys.stdin.read()
        self.stopping.set()


if __name__ == "__main__":
    Member(*sys.argv[1:4]).run()
