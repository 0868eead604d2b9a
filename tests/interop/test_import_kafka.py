"""Our event logs, Kafka's own logs and ZooKeeper's agree on the failovers of one mixed cluster."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.mixed import (
    ALL_BROKERS,
    KAFKAS,
    OURS,
    SESSION_TIMEOUT_MS,
    controller_epoch,
    hand_over,
    is_whole,
    new_controller,
    ready_controller,
    settle,
)
from tests.understudy.history.kafka_logs.recorded import Recorded, both, largest_difference, recorded
from understudy.cli.main import main
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.clusters.processes.logging_kafka import LoggingCluster
from understudy.foundation.eventlog.records import FaultInjected, MetadataUpdated, WatchFiredRecord, ZkWrite

pytestmark = pytest.mark.xdist_group("import-kafka")

RESOLUTION_MS = 1.0
"""The resolution of a log line and of a transaction."""


class Sources(NamedTuple):
    """The same cluster in three kinds of logs."""

    ours: Recorded
    """The event logs of our brokers."""
    kafkas: Recorded
    """Imported from the logs of Kafka's brokers alone."""
    zookeepers: Recorded
    """Imported from ZooKeeper's transaction log alone."""
    stopped_ms: float
    """The time at which the cluster was stopped, by the wall clock."""


@pytest.fixture(scope="module")
def sources(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """Controllers of both kinds are killed and deposed while they lead the cluster."""
    folder = tmp_path_factory.mktemp("import-kafka")
    cluster = LoggingCluster(
        4,
        kafka_brokers=dict.fromkeys(KAFKAS, kafka),
        directory=folder,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        properties={
            "inter.broker.protocol.version": "3.9",
            "auto.leader.rebalance.enable": "false",
            "auto.create.topics.enable": "false",
            **SMALL_BROKER,
        },
    )
    with cluster:
        cluster.start()
        cluster.create_topic("contested", assignment={0: [1, 2, 3], 1: [2, 3, 4], 2: [3, 4, 1], 3: [4, 1, 2]})
        for successors in (KAFKAS, OURS, KAFKAS):
            hand_over(cluster, to=successors)
            settle(cluster, ALL_BROKERS)
            killed = cluster.controller()
            epoch = controller_epoch(cluster)
            killed.kill()
            new_controller(cluster, epoch)
            cluster.wait_until(lambda: ready_controller(cluster), "the next controller has completed its failover")
            killed.start()
            cluster.wait_until(lambda: is_whole(cluster.picture()), "all replicas are in sync again", 120)
        cluster.stop()
    logs = [f"--broker={broker}={cluster.logs(broker)}" for broker in KAFKAS]
    assert main(["import-kafka", *logs, "--dir", str(folder / "kafkas")]) == 0
    zookeeper = ["--zookeeper-log", str(cluster.zookeeper_log)]
    assert main(["import-kafka", *zookeeper, "--dir", str(folder / "zookeepers")]) == 0
    return sources_below(folder)


def sources_below(folder: Path) -> Sources:
    ours = recorded(*(folder / f"broker-{broker}" / "events" for broker in OURS))
    faults = recorded(folder / "testbed" / "events").records
    stopped_ms = next(r.wall_ms for r in faults if isinstance(r.data, FaultInjected) and r.data.fault == "stop")
    return Sources(ours, recorded(folder / "kafkas"), recorded(folder / "zookeepers"), stopped_ms)


def epochs_of(source: Recorded, brokers: tuple[int, ...]) -> set[int]:
    return {epoch for epoch, broker in source.brokers_by_epoch.items() if broker in brokers}


def test_every_reign_is_in_its_brokers_log_and_in_zookeepers(sources: Sources) -> None:
    ours, kafkas, zookeepers = (source.brokers_by_epoch for source in sources[:3])
    assert len(epochs_of(sources.ours, OURS)) >= 2
    assert len(epochs_of(sources.kafkas, KAFKAS)) >= 2
    assert set(ours) & set(kafkas) == set()
    assert {**ours, **kafkas} == zookeepers
    assert sorted(zookeepers) == list(range(1, len(zookeepers) + 1))


def test_our_elections_lie_between_their_request_and_their_record(sources: Sources) -> None:
    """ZooKeeper's time of an election is after our broker sent it, and before our broker recorded the answer."""
    writes = [r for r in sources.ours.records if isinstance(r.data, ZkWrite) and r.data.purpose == "election"]
    for epoch, (broker, recorded_ms) in sources.ours.elections.items():
        sent_ms = max(w.wall_ms for w in writes if w.node == f"broker-{broker}" and w.wall_ms <= recorded_ms)
        assert sent_ms - RESOLUTION_MS <= sources.zookeepers.elections[epoch][1] <= recorded_ms + RESOLUTION_MS


def test_our_brokers_apply_the_metadata_of_kafkas_controllers_after_their_elections(sources: Sources) -> None:
    """The requests that our brokers received name the controllers of Kafka's logs, after the times in them."""
    first_applied: dict[int, tuple[int, float]] = {}
    for record in sources.ours.records:
        if isinstance(record.data, MetadataUpdated) and record.data.controller_id in KAFKAS:
            first_applied.setdefault(record.data.request_controller_epoch, (record.data.controller_id, record.wall_ms))
    assert len(first_applied) >= 2
    for epoch, (controller, applied_ms) in first_applied.items():
        elected_by, logged_ms = sources.kafkas.elections[epoch]
        assert elected_by == controller
        assert sources.zookeepers.elections[epoch][1] <= logged_ms + RESOLUTION_MS
        assert logged_ms <= applied_ms + RESOLUTION_MS


def test_the_imported_watch_is_not_later_than_the_one_that_our_broker_received(sources: Sources) -> None:
    """The import dates the watch of `/controller` with its deletion, which our broker receives a moment later."""
    imported = [(f"broker-{b}", at) for b in OURS for at in deletions(sources.zookeepers, f"broker-{b}")]
    assert imported
    for node, at in imported:
        received = deletions(sources.ours, node)
        notified = min(other for other in received if other >= at - RESOLUTION_MS)
        elected = min(ms for _, ms in sources.zookeepers.elections.values() if ms >= at)
        assert notified <= sources.ours.elections[epoch_at(sources.zookeepers, elected)][1]


def deletions(source: Recorded, node: str) -> list[float]:
    return [
        record.wall_ms
        for record in source.records
        if record.node == node
        and isinstance(record.data, WatchFiredRecord)
        and (record.data.path, record.data.kind) == ("/controller", "deleted")
    ]


def epoch_at(source: Recorded, elected_ms: float) -> int:
    return next(epoch for epoch, (_, ms) in source.elections.items() if ms == elected_ms)


def test_partition_states_and_their_reasons_agree(sources: Sources) -> None:
    """Each state in ZooKeeper is in the log of the controller that wrote it, with the same reason."""
    of_controllers = {**sources.ours.reasons, **sources.kafkas.reasons}
    in_zookeeper = sources.zookeepers.reasons
    assert {"initialise", "offline", "isr-removal", "alter-partition"} <= set(in_zookeeper.values())
    assert {state: of_controllers.get(state) for state in in_zookeeper} == in_zookeeper
    # Kafka logs a removal from an ISR also if another controller has removed the replica before.
    repeated = set(of_controllers) - set(in_zookeeper)
    assert {of_controllers[state] for state in repeated} <= {"isr-removal"}
    epochs_alone = {(state.topic, state.partition, state.partition_epoch) for state in in_zookeeper}
    assert {(state.topic, state.partition, state.partition_epoch) for state in repeated} <= epochs_alone


def test_times_without_a_leader_agree(sources: Sources) -> None:
    """They differ by no more than the time from a transaction to its line, for each state of the partition."""
    of_controllers = both(sources.ours, sources.kafkas)
    controllers = of_controllers.leaderless_ms(sources.stopped_ms)
    zookeepers = sources.zookeepers.leaderless_ms(sources.stopped_ms)
    states = sources.zookeepers.states()
    late_ms = largest_difference(of_controllers, sources.zookeepers, states) + RESOLUTION_MS
    print(f"the times of a state are at most {late_ms:.0f} ms apart; leaderless {controllers} and {zookeepers}")
    assert set(controllers) == set(zookeepers)
    assert sum(zookeepers.values()) > 0
    for partition, leaderless_ms in zookeepers.items():
        of_partition = sum((state.topic, state.partition) == partition for state in states)
        assert abs(controllers[partition] - leaderless_ms) <= late_ms * of_partition
