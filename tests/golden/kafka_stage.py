"""The stage the recordings are made on: brokers of Apache Kafka 3.9.1 itself, and their request logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.golden.real_stage import RealStage
from tests.golden.recording import Json
from tests.golden.requests import of_request_log
from understudy.testbed.apache_kafka import SMALL_BROKER, ApacheKafka, KafkaProcess


class KafkaStage(RealStage):
    """Its requests hold no zxids: Kafka does not say what its controller knew when it sent one."""

    def __init__(
        self, directory: Path, brokers: Sequence[int], settings: Mapping[str, str], kafka: ApacheKafka
    ) -> None:
        super().__init__(directory, brokers, {**SMALL_BROKER, **settings})
        self._kafka = kafka
        self._heard: dict[int, int] = {}
        """How many requests each broker had answered when it was last started."""

    def start(self, broker: int) -> None:
        self._heard[broker] = len(self.requests().get(broker, ()))
        super().start(broker)

    def requests(self) -> Mapping[int, Sequence[Json]]:
        logs = {broker: self._request_log(broker) for broker in sorted(self._brokers)}
        return {broker: list(of_request_log(broker, log)) for broker, log in logs.items() if log.exists()}

    def _request_log(self, broker: int) -> Path:
        process = self._brokers[broker]
        assert isinstance(process, KafkaProcess)
        return process.request_log

    def _broker(self, broker: int, directory: Path, properties: Mapping[str, str]) -> KafkaProcess:
        return KafkaProcess(self._kafka, broker, directory, rack=None, properties=properties, logs_requests=True)

    def _size(self) -> int:
        return sum(map(len, self.requests().values())) + len(self.transactions())

    def _is_settled(self) -> bool:
        """Kafka's brokers register before they serve: until each has answered, requests of the controller are on their
        way."""
        requests = self.requests()
        running = [broker for broker in sorted(self._heard) if self._brokers[broker].should_run]
        return all(len(requests.get(broker, ())) > self._heard[broker] for broker in running)
