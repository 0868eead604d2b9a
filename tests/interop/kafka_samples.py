"""Records the samples of `tests/understudy/history/kafka_logs/samples` again, with `python -m`."""

from __future__ import annotations

import gzip
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from devtools.judges.maven import kafka_libs
from tests.interop.mixed import is_whole, new_controller, ready_controller
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, SMALL_JVM, ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.logging_kafka import LoggingCluster

SAMPLES = Path(__file__).parent.parent / "understudy" / "history" / "kafka_logs" / "samples"


def record_failover(kafka: ApacheKafka, folder: Path) -> LoggingCluster:
    """Three brokers of Kafka: the controller is killed and comes back, a leader and the controller are stopped."""
    properties = {
        "inter.broker.protocol.version": "3.9",
        "auto.leader.rebalance.enable": "false",
        "auto.create.topics.enable": "false",
        **SMALL_BROKER,
    }
    brokers = dict.fromkeys((1, 2, 3), kafka)
    cluster = LoggingCluster(
        3, kafka_brokers=brokers, directory=folder, session_timeout_ms=6_000, properties=properties
    )
    with cluster:
        cluster.start()
        cluster.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        cluster.create_topic("payments", assignment={0: [1, 2], 1: [2, 1], 2: [3, 1]})
        cluster.create_topic("audit", assignment={0: [1], 1: [2], 2: [3]})
        _wait_until_whole(cluster)
        killed = cluster.controller()
        killed.kill()
        new_controller(cluster, cluster.picture().controller_epoch)
        cluster.wait_until(lambda: ready_controller(cluster), "the new controller has completed its failover")
        killed.start()
        _wait_until_whole(cluster)
        follower = next(broker for broker in cluster.brokers if broker.id not in (killed.id, cluster.controller_id()))
        follower.restart()
        _wait_until_whole(cluster)
        cluster.ask(cluster.admin.delete_topics("payments"))
        cluster.wait_until(
            lambda: not any(partition.topic == "payments" for partition in cluster.picture().partitions),
            "payments is deleted",
        )
        cluster.controller().restart()
        _wait_until_whole(cluster)
        cluster.wait_until(lambda: ready_controller(cluster), "the new controller has completed its failover")
        cluster.stop()
    return cluster


def _wait_until_whole(cluster: LocalCluster) -> None:
    cluster.wait_until(lambda: is_whole(cluster.picture()), "all replicas are in sync", 120)


def _shortened(lines: Iterator[str], folder: Path) -> Iterator[str]:
    """Leave out the environment and the listings of configurations, and the paths of this machine."""
    is_listing = False
    for line in lines:
        starts = line.startswith("[20")
        is_listing = (is_listing and not starts) or (
            starts and re.search(r"Config values: $|ConfigValues", line) is not None
        )
        if is_listing and not starts:
            continue
        if "environment:" in line or "(org.apache.kafka.common.config" in line:
            continue
        yield line.replace(str(folder), "/run").replace(str(Path.home()), "/home").replace("/tmp", "/run")


def main() -> None:
    kafka = ApacheKafka.at(kafka_libs(), jvm_options=SMALL_JVM)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cluster = record_failover(kafka, folder)
        shutil.rmtree(SAMPLES, ignore_errors=True)
        for broker in cluster.broker_ids:
            target = SAMPLES / f"broker-{broker}"
            target.mkdir(parents=True)
            for path in sorted(cluster.logs(broker).iterdir()):
                text = path.read_text(encoding="utf-8").splitlines(keepends=True)
                with gzip.GzipFile(target / f"{path.name}.gz", "wb", mtime=0) as packed:
                    packed.write("".join(_shortened(iter(text), folder)).encode())
        faults = sorted((folder / "testbed" / "events").iterdir())
        (SAMPLES / "faults.jsonl").write_bytes(b"".join(path.read_bytes() for path in faults))
        (SAMPLES / "version-2").mkdir()
        for path in sorted(cluster.zookeeper_log.glob("log.*")):
            with gzip.GzipFile(SAMPLES / "version-2" / f"{path.name}.gz", "wb", mtime=0) as packed:
                packed.write(path.read_bytes().rstrip(b"\0"))
    print(
        f"recorded {sum(path.stat().st_size for path in SAMPLES.rglob('*.gz')):,} bytes in {SAMPLES}", file=sys.stderr
    )


if __name__ == "__main__":
    main()
