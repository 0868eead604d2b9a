"""Measures what 100 to 3,000 replicas, with a record each, cost a broker: memory, open files and memory maps.

It starts one broker of ours and then, if `KAFKA_LIBS` names its jars, one of Apache Kafka 3.9 with the heap of its own
start script. With both, the curves in `understudy/kafka_tools/planning/partition_costs.json` are written again, from
which `understudy plan partitions` answers.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from benchmarks.arrangement import resident_mb
from benchmarks.kafka_beside import kafka_libs
from benchmarks.records import START_SCRIPT_HEAP
from benchmarks.rows import Row
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster

SIZES = tuple(int(size) for size in os.environ.get("UNDERSTUDY_BENCH_REPLICAS", "100,1000,3000").split(","))
AT_ONCE = 100
SETTLE_S = 10.0
CURVES = Path(__file__).parent.parent / "understudy/kafka_tools/planning/partition_costs.json"
SOURCE = "`make bench ARGS=replicas`: one broker with one record in each replica, on a 2-core Linux machine"


class _Cost(NamedTuple):
    memory_mb: float
    files: int
    maps: int


def run() -> list[Row]:
    libs = kafka_libs()
    ours = _measure(None)
    kafkas = None if libs is None else _measure(ApacheKafka.at(libs, jvm_options=START_SCRIPT_HEAP))
    if kafkas is not None:
        _write({"Understudy": ours, "Apache Kafka 3.9.1": kafkas})
    rows = []
    for place, size in enumerate(SIZES):
        kafka = None if kafkas is None else kafkas[place]
        for what, number in (("memory, MB", 0), ("open files", 1), ("memory maps", 2)):
            reference = None if kafka is None else float(kafka[number])
            rows.append(Row(f"a broker with {size:,} replicas: {what}", float(ours[place][number]), reference, 1.0))
    return rows


def _measure(kafka: ApacheKafka | None) -> list[_Cost]:
    costs = []
    with LocalCluster(1, session_timeout_ms=18_000, kafka_brokers={} if kafka is None else {1: kafka}) as cluster:
        made = 0
        for size in SIZES:
            for first in range(made, size, AT_ONCE):
                _add_topic(cluster, f"topic-{first}", min(AT_ONCE, size - first))
            made = size
            time.sleep(SETTLE_S)
            [broker] = cluster.brokers
            assert broker.process.process is not None
            pid = broker.process.process.pid
            files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            maps = Path(f"/proc/{pid}/maps").read_text().count("\n")
            costs.append(_Cost(round(resident_mb(pid), 1), files, maps))
    return costs


def _add_topic(cluster: LocalCluster, name: str, partitions: int) -> None:
    """Create a topic and append a record to each partition."""
    cluster.create_topic(name, partitions=partitions, replication_factor=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(partitions):
        producer.produce(name, b"record", partition=number)
    if producer.flush(120):
        raise SystemExit(f"{name} has not taken its records")


def _write(measured: dict[str, list[_Cost]]) -> None:
    """Replace the curves of a broker's costs; the others in the file stay."""
    data = json.loads(CURVES.read_text(encoding="utf-8"))
    kept = [curve for curve in data["curves"] if curve["of"] != "replicas of a broker"]
    new = [
        {
            "what": what,
            "unit": unit,
            "of": "replicas of a broker",
            "software": software,
            "source": SOURCE,
            "points": [[size, cost[number]] for size, cost in zip(SIZES, costs, strict=True)],
        }
        for number, (what, unit) in enumerate((("memory", "MB"), ("open files", ""), ("memory maps", "")))
        for software, costs in measured.items()
    ]
    CURVES.write_text(json.dumps({**data, "curves": new + kept}, indent=1) + "\n", encoding="utf-8")
