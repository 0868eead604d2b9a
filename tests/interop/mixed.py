"""Clusters of our and Kafka's brokers: their controller, the metadata of all brokers, and errors in Kafka's logs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import WaitTimedOut
from understudy.clusters.findings import findings
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.foundation.wire.messages.metadata import MetadataResponse

OURS = (1, 2)
KAFKAS = (3, 4)
ALL_BROKERS = (*OURS, *KAFKAS)
PATIENCE_S = 120.0
SESSION_TIMEOUT_MS = 10_000
"""Long enough for the heartbeats of a JVM on a busy machine: an expired session would move leaders."""
OUR_SESSION_TIMEOUT_MS = 4_000
"""Enough for brokers that are all ours. A script waits until the sessions of the brokers that it kills have expired."""
DELETIONS = 20
"""The maximal number of deletions of `/controller` until a broker of the wanted kind is elected."""
RACE_S = 4.0
"""The maximal time for which the other brokers are paused for an election; far less than their session timeout."""

HARMLESS = {
    r"Received UNKNOWN_TOPIC_(ID|OR_PARTITION) from the leader": "a follower received the topic before its leader",
    r"marked as failed": "a follower fenced by a newer leader epoch waits for the LeaderAndIsr that brings it",
    r"the new leader -1 is unavailable": "a new controller sends dead leaders before it elects others",
    r"[Cc]onnection to .* (failed|could not be established|was disconnected|was unsuccessful)": (
        "the peer was killed or left"
    ),
    r"send response via channel for which there is no open connection": "the client was killed meanwhile",
    r"Received error STALE_BROKER_EPOCH": "the broker registered again before its death was noticed",
    r"Broker had a stale broker epoch": "a leader has registered again; it sends the AlterPartition again",
    r"AllocateProducerIds due to|broker ID is not yet known by the controller|currentBlockCount was stale": (
        "a broker that requests producer ids has registered again"
    ),
    r"from an old controller|its controller epoch \d+ is old|ControllerMovedException|"
    r"Received error STALE_CONTROLLER_EPOCH": (
        "a controller is deposed while it processes an event, as whenever another is elected"
    ),
    r"\(org\.apache\.zookeeper\.ClientCnxn\)": "the broker was paused, or too slow for a heartbeat",
    r"fails to send (a )?request[^\n]*\n"
    r"[^\n]*(InterruptedException|was shutdown before|was disconnected before|CLOSING)": (
        "a controller stops sending to a broker that is gone"
    ),
}
"""Patterns of log entries that Kafka's brokers write in a cluster of their own too, and when they do."""

_READY = re.compile(
    r"Ready to serve as the new controller with epoch (\d+)"
    r'|"event": "ready to serve as the new controller".*"controller_epoch": (\d+)'
)
_ENTRY = re.compile(r"^\[[^]]+\] (ERROR|WARN|FATAL) ")


def mixed_cluster(kafka: ApacheKafka, directory: Path, properties: Mapping[str, str] | None = None) -> LocalCluster:
    """Two brokers of ours, and two of Kafka's that start after them, without automatic rebalancing."""
    settings = {
        "inter.broker.protocol.version": "3.9",
        "auto.leader.rebalance.enable": "false",
        "auto.create.topics.enable": "false",
        **SMALL_BROKER,
        **(properties or {}),
    }
    kafkas = dict.fromkeys(KAFKAS, kafka)
    return LocalCluster(
        4, kafka_brokers=kafkas, directory=directory, session_timeout_ms=SESSION_TIMEOUT_MS, properties=settings
    )


@contextmanager
def operator(cluster: LocalCluster) -> Iterator[KazooClient]:
    """A ZooKeeper session of an operator."""
    client = KazooClient(cluster.zookeeper_connect)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


# -- the controller


def controller_epoch(cluster: LocalCluster) -> int:
    return cluster.view.picture().controller_epoch


def new_controller(cluster: LocalCluster, after_epoch: int) -> int:
    """Wait for a controller with a newer epoch than `after_epoch`; its id."""

    def elected() -> tuple[int] | None:
        picture = cluster.view.picture()
        found = picture.controller if picture.controller_epoch > after_epoch else None
        return None if found is None else (found,)

    return cluster.wait_until(elected, f"a controller with an epoch above {after_epoch}")[0]


def hand_over(cluster: LocalCluster, to: Iterable[int]) -> int:
    """Delete `/controller` until one of the brokers `to` is controller and has completed its failover; its id.

    Each controller is given the time to complete its failover. One of Kafka's that is deposed before keeps half a batch
    of requests and fails at each of its later elections ("batch is not empty while creating a new one").
    """
    wanted = tuple(to)
    for _ in range(DELETIONS):
        controller = cluster.wait_until(
            lambda: ready_controller(cluster), "a controller has completed its failover", PATIENCE_S
        )
        if controller in wanted:
            return controller
        with _paused(cluster, all_but=wanted), suppress(WaitTimedOut):
            _elect_one_of(cluster, wanted)
    raise AssertionError(f"none of brokers {wanted} won {DELETIONS} elections")


def _elect_one_of(cluster: LocalCluster, wanted: Collection[int]) -> None:
    """Delete `/controller` and wait until one of `wanted` is elected.

    Raises:
        WaitTimedOut: none of them was elected in time.
    """
    # If the znode has been deleted already, the election is under way.
    with operator(cluster) as zookeeper, suppress(NoNodeError):
        zookeeper.delete("/controller")
    cluster.wait_until(lambda: cluster.view.controller_id() in wanted, f"one of {wanted} is controller", RACE_S)


@contextmanager
def _paused(cluster: LocalCluster, *, all_but: Collection[int]) -> Iterator[None]:
    """Pause all running brokers but `all_but`: otherwise a JVM on a busy machine loses nearly every election."""
    paused = [broker for broker in cluster.brokers if broker.is_running and broker.id not in all_but]
    for broker in paused:
        broker.pause()
    try:
        yield
    finally:
        for broker in paused:
            broker.resume()


def ready_controller(cluster: LocalCluster) -> int | None:
    """The controller, once it has logged that its failover is complete; else None."""
    picture = cluster.view.picture()
    if picture.controller is None:
        return None
    log = cluster.broker(picture.controller).process.log.read_text(errors="replace")
    epochs = {epoch for found in _READY.findall(log) for epoch in found}
    return picture.controller if str(picture.controller_epoch) in epochs else None


# -- the metadata of all brokers


def restored(cluster: LocalCluster, under: Iterable[int]) -> LocalCluster:
    """Restore a cluster after a test: all brokers run, one of `under` is controller, and all replicas are in sync.

    Otherwise the state that one test leaves would decide which brokers lead partitions in the next one.
    """
    for broker in cluster.brokers:
        if not broker.is_running:
            broker.start()
    hand_over(cluster, to=under)
    cluster.wait_until(lambda: is_whole(cluster.view.picture()), "all replicas are in sync again", PATIENCE_S)
    settle(cluster, ALL_BROKERS)
    return cluster


def is_whole(picture: ClusterPicture) -> bool:
    """Whether each partition has a live leader and all its replicas in sync."""
    found = findings(picture)
    return not found.leaderless and not found.under_replicated


def settle(cluster: LocalCluster, brokers: Iterable[int]) -> ClusterPicture:
    """Wait until the metadata of `brokers` is ZooKeeper's: controller, registered brokers, leaders, epochs, ISRs."""
    asked = tuple(brokers)
    seen: list[str] = []

    def agreed() -> ClusterPicture | None:
        picture = cluster.view.picture()
        seen[:] = [line for broker in asked for line in disagreements(picture, broker, _metadata(cluster, broker))]
        return None if seen or set(picture.brokers) != set(asked) else picture

    try:
        return cluster.wait_until(agreed, f"brokers {asked} have the metadata in ZooKeeper", PATIENCE_S)
    except Exception as error:
        error.add_note("\n".join(seen))
        raise


def disagreements(picture: ClusterPicture, broker: int, metadata: MetadataResponse | None) -> Iterator[str]:
    """The differences between the Metadata response of `broker` and ZooKeeper, as sentences."""
    if metadata is None:
        yield f"broker {broker} gives no answer"
        return
    facts: list[tuple[str, object, object]] = [
        ("the controller", metadata.controller_id, picture.controller),
        ("the brokers", {known.node_id for known in metadata.brokers}, set(picture.brokers)),
    ]
    in_zookeeper: dict[tuple[str | None, int], object] = {
        (partition.topic, partition.partition): (
            (seen.state.leader_and_isr.leader, seen.state.leader_and_isr.leader_epoch, seen.state.leader_and_isr.isr)
            if seen.state
            else None,
            seen.assignment.replicas,
        )
        for partition, seen in picture.partitions.items()
    }
    known_here: dict[tuple[str | None, int], object] = {
        (topic.name, partition.partition_index): (
            (partition.leader_id, partition.leader_epoch, tuple(partition.isr_nodes)),
            tuple(partition.replica_nodes),
        )
        for topic in metadata.topics
        for partition in topic.partitions
    }
    facts += [
        (f"{topic}-{partition}", known_here.get((topic, partition)), in_zookeeper.get((topic, partition)))
        for topic, partition in sorted({*in_zookeeper, *known_here}, key=str)
    ]
    for what, here, there in facts:
        if here != there:
            yield f"{what} in the metadata of broker {broker}: {here}, in ZooKeeper: {there}"


def _metadata(cluster: LocalCluster, broker: int) -> MetadataResponse | None:
    client = AdminClient(SocketNetwork(), [cluster.broker(broker).address], timeout_ms=5_000)
    try:
        return cluster.view.run(client.metadata())
    except NoBrokerAnswers:
        return None


# -- errors in Kafka's logs


class Complaints:
    """Finds errors, warnings and stack traces in the logs of Kafka's brokers from now on, except harmless ones."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._harmless = list(HARMLESS)
        self._read = {broker: len(self._log(broker)) for broker in KAFKAS}

    def expect(self, pattern: str) -> None:
        """Take entries of this pattern for harmless too, because the test causes them."""
        self._harmless.append(pattern)

    def check(self) -> None:
        """Raise AssertionError with all that were found."""
        found = [
            f"broker {broker}: {entry}"
            for broker in KAFKAS
            for entry in unexpected_entries(self._log(broker)[self._read[broker] :], self._harmless)
        ]
        assert not found, "errors in the logs of Kafka's brokers:\n" + "\n".join(found)

    def _log(self, broker: int) -> str:
        return self._cluster.broker(broker).process.log.read_text(errors="replace")


def unexpected_entries(log: str, harmless: Iterable[str] = HARMLESS) -> Iterator[str]:
    """Log entries above INFO that match no pattern of `harmless`, each with the lines that belong to it."""
    expected = re.compile("|".join(harmless))
    entry: list[str] = []
    for line in [*log.splitlines(), "["]:
        if line.startswith("["):
            if entry and not expected.search(text := "\n".join(entry)):
                yield text
            entry = [line] if _ENTRY.match(line) else []
        elif entry:
            entry.append(line)
