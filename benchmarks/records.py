"""Measures how fast records of 1,000 bytes are produced, replicated and fetched: three brokers, six partitions.

The clients are stock ones, and the same beside both clusters: confluent-kafka (librdkafka), and the producer perf test
of Apache Kafka. The reference is Apache Kafka 3.9 in the same run if `KAFKA_LIBS` names its jars and its tools'
jars; otherwise there is none. Both have their defaults, Kafka with the heap of its own start script.

UNDERSTUDY_BENCH_RECORDS_MB (256) sets how much each load produces, UNDERSTUDY_BENCH_RECORDS_SINGLE (1000) how many
records are produced one at a time.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from benchmarks.arrangement import processor_seconds, resident_mb
from benchmarks.kafka_beside import kafka_libs
from benchmarks.rows import Row
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.history.metrics.metrics import nearest_rank

MEGABYTES = int(os.environ.get("UNDERSTUDY_BENCH_RECORDS_MB", "256"))
SINGLE = int(os.environ.get("UNDERSTUDY_BENCH_RECORDS_SINGLE", "1000"))

BROKERS: Final = 3
PARTITIONS: Final = 6
RECORD: Final = os.urandom(1000)
RECORDS_PER_MB: Final = 1_000_000 // len(RECORD)
WARM_UP: Final = 0.4
"""The part of a load that is produced and fetched before anything is measured: Java compiles then."""
LINGER_MS: Final = 5
PERF_TEST_BATCH_BYTES: Final = 64 * 1024
SESSION_TIMEOUT_MS: Final = 6_000
PATIENCE_S: Final = 600.0
START_SCRIPT_HEAP: Final = ("-Xmx1G", "-Xms1G")

_PERF_TEST: Final = "org.apache.kafka.tools.ProducerPerformance"


class _Load(NamedTuple):
    """Time that a load took for each megabyte: milliseconds, and milliseconds of processor time of all brokers."""

    milliseconds: float
    processor_milliseconds: float


class _Figures(NamedTuple):
    """What was measured of one cluster."""

    produced: _Load
    perf_test: _Load | None
    fetched: _Load
    p50_ms: float
    p99_ms: float
    memory_mb: float
    recovery_ms: float


def run() -> list[Row]:
    libs = kafka_libs()
    ours = _measure(libs, is_kafka=False)
    kafkas = None if libs is None else _measure(libs, is_kafka=True)
    rows: list[Row] = []

    def add(what: str, figure: Callable[[_Figures], float], target: float | None) -> None:
        rows.append(Row(what, figure(ours), None if kafkas is None else figure(kafkas), target))

    def add_load(what: str, load: Callable[[_Figures], _Load], target: float | None) -> None:
        add(f"{what}, ms a MB", lambda figures: load(figures).milliseconds, target)
        add("  processor time of the brokers, ms a MB", lambda figures: load(figures).processor_milliseconds, None)

    add_load(f"confluent-kafka, acks=all, linger {LINGER_MS} ms", lambda figures: figures.produced, 1 / 1.5)
    if ours.perf_test is not None:
        add_load("Apache's producer perf test, acks=all, 64 KB batches", _perf_test, 1 / 2)
    add_load("fetch by assignment, confluent-kafka", lambda figures: figures.fetched, 1.0)
    add("one record at a time, acks=all, p50, ms", lambda figures: figures.p50_ms, 0.5)
    add("  p99, ms", lambda figures: figures.p99_ms, 0.5)
    add("memory of the three brokers after the load, MB", lambda figures: figures.memory_mb, 0.2)
    add("start of a broker after kill -9 under load, ms a MB of its log", lambda figures: figures.recovery_ms, 1.0)
    return rows


def _perf_test(figures: _Figures) -> _Load:
    assert figures.perf_test is not None, "both clusters are measured with the same jars"
    return figures.perf_test


def _measure(libs: Path | None, *, is_kafka: bool) -> _Figures:
    """Run every load against a new cluster."""
    kafka = None if libs is None else ApacheKafka.at(libs, jvm_options=START_SCRIPT_HEAP)
    kafka_brokers = dict.fromkeys(range(1, BROKERS + 1), kafka) if is_kafka and kafka else {}
    with LocalCluster(BROKERS, session_timeout_ms=SESSION_TIMEOUT_MS, kafka_brokers=kafka_brokers) as cluster:
        create_topic(cluster, "warm-up")
        produce(cluster, "warm-up", count_of(WARM_UP))
        _fetch(cluster, "warm-up", count_of(WARM_UP))
        create_topic(cluster, "produced")
        with _loaded(cluster, MEGABYTES) as produced:
            produce(cluster, "produced", count_of())
        with _loaded(cluster, MEGABYTES) as fetched:
            _fetch(cluster, "produced", count_of())
        perf_test = None if libs is None else run_perf_test(cluster, libs)
        latencies = _produce_singly(cluster)
        memory = sum(map(resident_mb, _pids(cluster)))
        recovery = _restart(cluster)
    p50, p99 = (nearest_rank(latencies, percent) or 0 for percent in (50, 99))
    return _Figures(produced[0], perf_test, fetched[0], p50 / 1000, p99 / 1000, memory, recovery)


def count_of(part: float = 1.0) -> int:
    """The records of a part of a load."""
    return int(MEGABYTES * part) * RECORDS_PER_MB


def create_topic(cluster: LocalCluster, name: str) -> None:
    """Create a topic, and wait until every replica is in sync."""
    cluster.create_topic(name, partitions=PARTITIONS, replication_factor=BROKERS)
    cluster.wait_until(
        lambda: all(len(cluster.isr(name, partition)) == BROKERS for partition in range(PARTITIONS)),
        f"every replica of {name} is in sync",
    )


# ------------------------------------------------------------------ loads


def produce(cluster: LocalCluster, topic: str, records: int) -> None:
    """Produce records with librdkafka, and wait until all are acknowledged."""
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": LINGER_MS})
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, RECORD, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    left = producer.flush(PATIENCE_S)
    if left or failures:
        raise SystemExit(f"{left} of {records} records were not sent, and {len(failures)} failed: {failures[:1]}")


def _fetch(cluster: LocalCluster, topic: str, records: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "benchmark", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    left, deadline = records, time.monotonic() + PATIENCE_S
    while left > 0:
        found: list[Any] = consumer.consume(10_000, timeout=1.0)
        left -= sum(message.error() is None for message in found)
        if time.monotonic() > deadline:
            raise SystemExit(f"{left} of {records} records of {topic} were not fetched within {PATIENCE_S:.0f} s")
    consumer.close()


def run_perf_test(cluster: LocalCluster, libs: Path) -> _Load:
    """Produce with Apache's tool. Its own figure counts, because it leaves out the start of Java."""
    create_topic(cluster, "perf-test")
    settings = [
        f"bootstrap.servers={cluster.bootstrap}",
        "acks=all",
        f"linger.ms={LINGER_MS}",
        f"batch.size={PERF_TEST_BATCH_BYTES}",
    ]
    options = ["--topic", "perf-test", "--num-records", str(count_of()), "--record-size", str(len(RECORD))]
    command = ApacheKafka.at(libs).command(_PERF_TEST, *options, "--throughput", "-1", "--producer-props", *settings)
    with _loaded(cluster, MEGABYTES) as loaded:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode:
        raise SystemExit(f"the producer perf test exited with {done.returncode}: {done.stderr[-2000:]}")
    # "256000 records sent, 21043.2 records/sec (20.07 MB/sec), …"
    records_per_s = float(done.stdout.splitlines()[-1].split(" records/sec")[0].split()[-1])
    return _Load(1000 * RECORDS_PER_MB / records_per_s, loaded[0].processor_milliseconds)


def _produce_singly(cluster: LocalCluster) -> list[int]:
    """Produce records, each after the one before was acknowledged; return what each took in µs, sorted."""
    create_topic(cluster, "single")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0})
    took = []
    for number in range(SINGLE + SINGLE // 5):
        began = time.perf_counter_ns()
        producer.produce("single", RECORD, partition=number % PARTITIONS)
        if producer.flush(PATIENCE_S):
            raise SystemExit("a record was not acknowledged")
        took.append((time.perf_counter_ns() - began) // 1000)
    return sorted(took[SINGLE // 5 :])


def _restart(cluster: LocalCluster) -> float:
    """Kill a broker and start it again; return the milliseconds until it serves requests, for each MB of its log."""
    broker = cluster.broker(BROKERS)
    broker.kill()
    cluster.wait_until(lambda: broker.id not in cluster.view.brokers(), f"{broker.name} is not registered")
    folder = broker.process.directory
    megabytes = sum(file.stat().st_size for file in folder.rglob("*.log") if file.parent.name[-1].isdigit()) / 1e6
    began = time.monotonic()
    broker.start()
    return 1000 * (time.monotonic() - began) / megabytes


# ------------------------------------------------------------------ measuring


@contextmanager
def _loaded(cluster: LocalCluster, megabytes: int) -> Iterator[list[_Load]]:
    """Measure a block; its load is in the list afterwards."""
    loads: list[_Load] = []
    processor, began = _processor_seconds(cluster), time.monotonic()
    yield loads
    seconds, used = time.monotonic() - began, _processor_seconds(cluster) - processor
    loads.append(_Load(1000 * seconds / megabytes, 1000 * used / megabytes))


def _processor_seconds(cluster: LocalCluster) -> float:
    """The user and system time of all brokers so far."""
    return sum(map(processor_seconds, _pids(cluster)))


def _pids(cluster: LocalCluster) -> list[int]:
    return [broker.process.process.pid for broker in cluster.brokers if broker.process.process is not None]
