"""`understudy mirror` between two clusters of processes, whose leaders and whose mirror are killed in the middle."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.shares import at_night
from understudy.clusters.processes.local_cluster import LocalCluster

TOPIC, PARTITIONS = "orders", 3
SESSION_TIMEOUT_MS = 2_000


def _produce(cluster: LocalCluster, first: int, count: int) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "compression.type": "zstd", "linger.ms": 5}
    )
    for number in range(first, first + count):
        producer.produce(
            TOPIC,
            b"value %d" % number * 20,
            b"key %d" % number,
            partition=number % PARTITIONS,
            headers=[("number", b"%d" % number)],
            timestamp=1_700_000_000_000 + number,
        )
        producer.poll(0)
    assert producer.flush(60) == 0


def _read(cluster: LocalCluster, topic: str) -> list[list[tuple[object, ...]]]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "check", "enable.partition.eof": False})
    found: list[list[tuple[object, ...]]] = []
    for number in range(PARTITIONS):
        partition = TopicPartition(topic, number, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([partition])
        contents: list[tuple[object, ...]] = []
        while len(contents) < end:
            for message in consumer.consume(5_000, timeout=5):
                assert message.error() is None
                contents.append((message.key(), message.value(), message.timestamp(), message.headers()))
        found.append(contents)
    consumer.close()
    return found


@contextmanager
def _mirror(source: LocalCluster, target: LocalCluster, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "understudy.cli.main", "mirror", "--from", source.bootstrap]
    command += ["--to", target.bootstrap, "--include", TOPIC, "--prefix", "copy.", "--interval", "0.5", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _wait_for_line(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    pytest.fail(f"the mirror ended without a line that has {words!r}")


@at_night("the simulator ends leaders and mirrors in the middle")
def test_a_copy_between_clusters_has_each_record_once_after_kills_on_both_sides() -> None:
    properties = {"log.retention.ms": "-1"}
    with (
        LocalCluster(3, session_timeout_ms=SESSION_TIMEOUT_MS, properties=properties) as source,
        LocalCluster(3, session_timeout_ms=SESSION_TIMEOUT_MS, properties=properties) as target,
    ):
        source.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        total = 0
        for fallen in (source, target, None):
            _produce(source, total, 6_000)
            total += 6_000
            with _mirror(source, target) as process:
                _wait_for_line(process, "MB/s")
                if fallen is not None:
                    topic = TOPIC if fallen is source else f"copy.{TOPIC}"
                    leader = fallen.leader(topic, 0)
                    leader.kill()
                    _produce(source, total, 3_000)
                    total += 3_000
                    _wait_for_line(process, "MB/s")
                    leader.start()
            # The mirror was killed by SIGKILL; another one continues.
        with _mirror(source, target, "--once") as process:
            output, _ = process.communicate(timeout=120)
            assert process.returncode == 0, output
        originals, copies = _read(source, TOPIC), _read(target, f"copy.{TOPIC}")
        assert copies == originals
        assert sum(map(len, copies)) == total


def test_a_dry_run_prints_what_would_be_done_and_bad_input_is_refused() -> None:
    with LocalCluster(1) as cluster:
        cluster.create_topic(TOPIC, partitions=2, replication_factor=1)
        with _mirror(cluster, cluster, "--dry-run") as process:
            output, _ = process.communicate(timeout=60)
            assert (output, process.returncode) == (f"{TOPIC} as copy.{TOPIC}: create 2 partitions × 1 replicas\n", 0)
        with _mirror(cluster, cluster, "--once", "--include", "none.*") as process:
            output, _ = process.communicate(timeout=60)
            assert "the source has no topic that --include none.* names" in output
            assert process.returncode == 1
