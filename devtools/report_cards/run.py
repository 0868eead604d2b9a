"""Runs all drivers together through one scene in a new cluster, and judges each."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from devtools.report_cards.drivers import Driver, end_all, now_ms
from devtools.report_cards.judge import RECOVERY_LIMIT_S, Card, Observed, Record, has_recovered, is_steady, judge
from devtools.report_cards.scenes import SESSION_TIMEOUT_MS, Scene
from tests.durability.stock_clients import read_with_librdkafka
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster

BROKERS = (1, 2, 3)
PROPERTIES = {"min.insync.replicas": "2", "auto.leader.rebalance.enable": "false", **SMALL_BROKER}
STEADY_TIMEOUT_S = 90.0
SETTLE_TIMEOUT_S = 180.0
AFTERWARDS_S = 3.0
"""Time for which every driver continues after all have recovered."""
_POLL_S = 0.1


def run_scene(
    scene: Scene, commands: Mapping[str, list[str]], folder: Path, kafka: ApacheKafka | None = None
) -> dict[str, Card]:
    """Play a scene beside all drivers, each on a topic of its own, and judge them by client.

    Args:
        commands: by client, the command of its driver.
        folder: an empty one, for the run folder of the cluster and the drivers' standard error.
        kafka: for brokers of Apache Kafka; None for ours.

    Raises:
        ClusterError: the cluster did not do what the scene asks for; nothing can be said about the clients.
    """
    marks: list[int] = []
    with new_cluster(scene, folder, kafka) as cluster, ExitStack() as stack:
        topics = {client: topic_of(client) for client in commands}
        create_topics(cluster, list(topics.values()))
        drivers = [
            stack.enter_context(
                Driver(client, command, cluster.bootstrap, topics[client], folder / f"{topics[client]}.log")
            )
            for client, command in commands.items()
        ]
        wait(drivers, lambda driver: is_steady(driver.lines), STEADY_TIMEOUT_S)
        scene.play(cluster, next(iter(topics.values())), lambda: marks.append(now_ms()))
        wait(drivers, lambda driver: has_recovered(driver.lines, marks), RECOVERY_LIMIT_S)
        cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
        time.sleep(AFTERWARDS_S)
        end_all(drivers)
        cluster.check()
        return {
            driver.client: judge(
                Observed(driver.lines, tuple(marks), read_log(cluster, driver.topic), tuple(driver.trouble)),
                driver.client,
            )
            for driver in drivers
        }


def new_cluster(
    scene: Scene, folder: Path, kafka: ApacheKafka | None, properties: Mapping[str, str] = PROPERTIES
) -> LocalCluster:
    """Return the cluster for a scene, whose run folder is in `folder`."""
    return LocalCluster(
        len(BROKERS),
        kafka_brokers=None if kafka is None else dict.fromkeys(BROKERS, kafka),
        directory=folder / "cluster",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        properties=properties,
        proxied=scene.needs_proxy,
    )


def create_topics(cluster: LocalCluster, topics: list[str]) -> None:
    """Create topics that a broker leads which is not the controller, so that the faults differ."""
    controller = cluster.controller().id
    first, second = (broker for broker in BROKERS if broker != controller)
    for topic in topics:
        cluster.create_topic(topic, assignment={0: [first, second, controller]})
    cluster.settle(timeout_s=SETTLE_TIMEOUT_S)


def wait(drivers: list[Driver], condition: Callable[[Driver], bool], timeout_s: float) -> None:
    """Wait until the condition holds for every driver that runs, or the time is over: the judge says which it is."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and not all(driver.has_ended or condition(driver) for driver in drivers):
        time.sleep(_POLL_S)


def read_log(cluster: LocalCluster, topic: str) -> tuple[Record, ...]:
    """The records of partition 0, read with librdkafka by a consumer that has seen no fault."""
    return tuple(Record(sent.offset, int(sent.value)) for sent in read_with_librdkafka(cluster.bootstrap, topic))


def topic_of(client: str) -> str:
    """A legal name of a topic."""
    return re.sub(r"[^a-z0-9]+", "-", client.lower())
