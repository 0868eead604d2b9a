"""The cluster on which recordings are made: brokers of Apache Kafka 3.9.1, read through their request logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.golden.process_cluster import ProcessCluster
from tests.golden.recording import Json
from tests.golden.requests import of_request_log
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, ApacheKafka, KafkaProcess


class KafkaProcessCluster(ProcessCluster):
    """Brokers of Apache Kafka as processes. Their requests hold no zxids, because Kafka does not log them."""

    def __init__(
        self, directory: Path, brokers: Sequence[int], settings: Mapping[str, str], kafka: ApacheKafka
    ) -> None:
        super().__init__(directory, brokers, {**SMALL_BROKER, **settings})
        self._kafka = kafka
        self._answered_at_start: dict[int, int] = {}
        """How many requests each broker had answered when it was last started."""

    def start(self, broker: int) -> None:
        self._answered_at_start[broker] = len(self.requests().get(broker, ()))
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
        """Whether each broker has answered a request since it was started: Kafka's register before they serve."""
        requests = self.requests()
        running = [broker for broker in sorted(self._answered_at_start) if self._brokers[broker].should_run]
        return all(len(requests.get(broker, ())) > self._answered_at_start[broker] for broker in running)
