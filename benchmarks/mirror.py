"""Measures how fast `understudy mirror` copies records of 1,000 bytes, against the producers whose records they are.

Two clusters of three brokers; six partitions, three replicas each. The reference is the rate at which a producer wrote
the same records into the source, in the same run: confluent-kafka (librdkafka), whose batches are large, and, if
`KAFKA_LIBS` names the jars of Apache Kafka 3.9 and its tools, the producer perf test with batches of 64 KB. The mirror
has to reach 0.8 of that rate, so its milliseconds a MB may be 1.25 times the producer's. The mirror's rate counts
from the first record that it has read to the last one acknowledged, as with the perf test.

UNDERSTUDY_BENCH_MIRROR_MB (256) sets how much is copied.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import records
from benchmarks.kafka_beside import kafka_libs
from benchmarks.rows import Row
from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.kafka_tools.mirror.mirror import Mirror, MirrorSettings
from understudy.kafka_tools.mirror.topics import Selection

MEGABYTES = int(os.environ.get("UNDERSTUDY_BENCH_MIRROR_MB", "256"))
MOST: Final = 1 / 0.8


def run() -> list[Row]:
    """Rows for our brokers on both sides and, with Kafka's jars, for Kafka's on both sides."""
    records.MEGABYTES = MEGABYTES
    libs = kafka_libs()
    rows = _measure(libs, is_kafka=False)
    return rows if libs is None else [*rows, *_measure(libs, is_kafka=True)]


def _measure(libs: Path | None, *, is_kafka: bool) -> list[Row]:
    kafka = None if libs is None or not is_kafka else ApacheKafka.at(libs, jvm_options=records.START_SCRIPT_HEAP)
    kafka_brokers = {} if kafka is None else dict.fromkeys(range(1, records.BROKERS + 1), kafka)
    name = "ours" if kafka is None else "Kafka's"
    rows = []
    with (
        LocalCluster(records.BROKERS, session_timeout_ms=6_000, kafka_brokers=kafka_brokers) as source,
        LocalCluster(records.BROKERS, session_timeout_ms=6_000, kafka_brokers=kafka_brokers) as target,
    ):
        loads: list[tuple[str, str, Callable[[], float]]] = [
            ("confluent-kafka's batches", "produced", lambda: _timed_ms(source))
        ]
        if libs is not None:
            loads.append(("the perf test's batches", "perf-test", lambda: _perf_test_ms(source, libs)))
        records.create_topic(source, "warm-up")
        records.produce(source, "warm-up", records.count_of(records.WARM_UP))
        _copy_ms(source, target, "warm-up")
        for what, topic, produce in loads:
            produced = produce()
            rows.append(Row(f"{name}: mirror of {what}, ms a MB", _copy_ms(source, target, topic), produced, MOST))
    return rows


def _timed_ms(source: LocalCluster) -> float:
    """Produce with librdkafka; return milliseconds a MB."""
    records.create_topic(source, "produced")
    began = time.monotonic()
    records.produce(source, "produced", records.count_of())
    return 1000 * (time.monotonic() - began) / MEGABYTES


def _perf_test_ms(source: LocalCluster, libs: Path) -> float:
    return records.run_perf_test(source, libs).milliseconds


def _copy_ms(source: LocalCluster, target: LocalCluster, topic: str) -> float:
    """Copy a topic; return milliseconds a MB, without creating the topic."""
    settings = MirrorSettings(
        source=source.bootstrap.split(","),
        target=target.bootstrap.split(","),
        selection=Selection(re.compile(topic)),
        is_once=True,
    )
    mirror = Mirror(SocketNetwork(), MachineClock(), settings, lambda line: None)
    if not asyncio.run(mirror.run()):
        raise SystemExit(f"the mirror of {topic} has failed")
    copied = sum(copy.copied for copy in mirror.copies.values()) / records.RECORDS_PER_MB
    return mirror.copying_ms / copied
