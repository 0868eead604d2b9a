"""A cluster of ours and Kafka's brokers: who has the role, whether everybody knows the same, what Kafka complains
about."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from brokers.machine.socket_network import SocketNetwork
from foundation.wire.messages.metadata import MetadataResponse
from understudy.admin_client import AdminClient, NoBrokerAnswers
from understudy.cluster import WaitTimedOut
from understudy.findings import findings
from understudy.picture import ClusterPicture
from understudy.testbed.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.testbed.local_cluster import LocalCluster

OURS = (1, 2)
KAFKAS = (3, 4)
EVERYBODY = (*OURS, *KAFKAS)
PATIENCE_S = 120.0
SESSION_TIMEOUT_MS = 10_000
"""Long enough for a JVM on a busy machine to be heard of: a session that ends by itself moves leaders nobody has
struck."""
DELETIONS = 20
"""So often at most is `/controller` deleted until the right kind of broker wins the race."""
RACE_S = 4.0
"""For so long at most do the others stand still for it; far less than their sessions last."""

HARMLESS = {
    r"Received UNKNOWN_TOPIC_(ID|OR_PARTITION) from the leader": "a follower hears of a topic before its leader",
    r"marked as failed": "a follower fenced by a newer leader epoch waits for the LeaderAndIsr that brings it",
    r"the new leader -1 is unavailable": "a takeover tells of dead leaders before it elects others, Kafka's own too",
    r"[Cc]onnection to .* (failed|could not be established|was disconnected|was unsuccessful)": (
        "the peer was killed or left"
    ),
    r"send response via channel for which there is no open connection": "whoever asked was killed meanwhile",
    r"Received error STALE_BROKER_EPOCH": "the broker was killed and is back before its controller knows",
    r"Broker had a stale broker epoch": "a leader has registered anew and asks for an ISR; it asks again",
    r"AllocateProducerIds due to|broker ID is not yet known by the controller|currentBlockCount was stale": (
        "as before, of a broker that asks for producer ids"
    ),
    r"from an old controller|its controller epoch \d+ is old|ControllerMovedException|"
    r"Received error STALE_CONTROLLER_EPOCH": (
        "a controller that is deposed in the middle of something hears so; to hand the role over is to depose"
    ),
    r"\(org\.apache\.zookeeper\.ClientCnxn\)": "it was paused, or the machine was too busy for a heartbeat",
    r"fails to send (a )?request[^\n]*\n"
    r"[^\n]*(InterruptedException|was shutdown before|was disconnected before|CLOSING)": (
        "a controller stops sending to a broker that is gone"
    ),
}
"""Patterns of log entries that brokers of Kafka print just so in a cluster of their own, and when they do."""

_READY = re.compile(
    r'Ready to serve as the new controller with epoch (\d+)|"epoch": (\d+),.*"ready to serve as the new controller"'
)
_ENTRY = re.compile(r"^\[[^]]+\] (ERROR|WARN|FATAL) ")


def mixed_cluster(kafka: ApacheKafka, directory: Path, properties: Mapping[str, str] | None = None) -> LocalCluster:
    """Two brokers of ours, and two of Kafka's that start after them; nothing moves leaders by itself."""
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
    """A session of somebody who edits znodes by hand."""
    client = KazooClient(cluster.zookeeper_connect)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


# -- the role


def controller_epoch(cluster: LocalCluster) -> int:
    return cluster.view.picture().controller_epoch


def new_controller(cluster: LocalCluster, after_epoch: int) -> int:
    """Who won the election that came after the one of `after_epoch`."""

    def elected() -> tuple[int] | None:
        picture = cluster.view.picture()
        found = picture.controller if picture.controller_epoch > after_epoch else None
        return None if found is None else (found,)

    return cluster.wait_until(elected, f"a controller with an epoch above {after_epoch}")[0]


def hand_over(cluster: LocalCluster, to: Iterable[int]) -> int:
    """Delete `/controller` until one of `to` has it and has taken over; who that is.

    Each controller may finish its takeover: Kafka's, deposed in the middle of one, keeps half a batch of requests and
    fails at each of its later elections ("batch is not empty while creating a new one").
    """
    wanted = tuple(to)
    for _ in range(DELETIONS):
        controller = cluster.wait_until(lambda: in_office(cluster), "a controller has taken over", PATIENCE_S)
        if controller in wanted:
            return controller
        with _standing_still(cluster, all_but=wanted), suppress(WaitTimedOut):
            _win(cluster, wanted)
    raise AssertionError(f"none of brokers {wanted} won {DELETIONS} elections")


def _win(cluster: LocalCluster, wanted: Collection[int]) -> None:
    """A race that only `wanted` run in: a JVM loses nearly every other on a busy machine.

    Raises:
        WaitTimedOut: none of them has won it in time.
    """
    # It may have gone by itself; the race is on already then.
    with operator(cluster) as zookeeper, suppress(NoNodeError):
        zookeeper.delete("/controller")
    cluster.wait_until(lambda: cluster.view.controller_id() in wanted, f"one of {wanted} is controller", RACE_S)


@contextmanager
def _standing_still(cluster: LocalCluster, *, all_but: Collection[int]) -> Iterator[None]:
    held = [broker for broker in cluster.brokers if broker.is_running and broker.id not in all_but]
    for broker in held:
        broker.pause()
    try:
        yield
    finally:
        for broker in held:
            broker.resume()


def in_office(cluster: LocalCluster) -> int | None:
    """The controller, once it has written into its log that its takeover is over."""
    picture = cluster.view.picture()
    if picture.controller is None:
        return None
    log = cluster.broker(picture.controller).process.log.read_text(errors="replace")
    epochs = {epoch for found in _READY.findall(log) for epoch in found}
    return picture.controller if str(picture.controller_epoch) in epochs else None


# -- what everybody knows


def all_at_work(cluster: LocalCluster, under: Iterable[int]) -> LocalCluster:
    """`cluster`, once everybody runs, one of the brokers `under` is controller, all know it, and no partition lacks a
    replica.

    What another test has left under way would decide who leads, and who can leave, in the next one.
    """
    for broker in cluster.brokers:
        if not broker.is_running:
            broker.start()
    hand_over(cluster, to=under)
    cluster.wait_until(lambda: is_whole(cluster.view.picture()), "all that was killed is in sync again", PATIENCE_S)
    settle(cluster, EVERYBODY)
    return cluster


def is_whole(picture: ClusterPicture) -> bool:
    """Whether each partition has a live leader and all its replicas in sync."""
    found = findings(picture)
    return not found.leaderless and not found.under_replicated


def settle(cluster: LocalCluster, brokers: Iterable[int]) -> ClusterPicture:
    """Wait until `brokers` all know what ZooKeeper says: controller, registered brokers, leaders, epochs, ISRs."""
    asked = tuple(brokers)
    seen: list[str] = []

    def agreed() -> ClusterPicture | None:
        picture = cluster.view.picture()
        seen[:] = [line for broker in asked for line in disagreements(picture, broker, _metadata(cluster, broker))]
        return None if seen or set(picture.brokers) != set(asked) else picture

    try:
        return cluster.wait_until(agreed, f"brokers {asked} know what ZooKeeper says", PATIENCE_S)
    except Exception as error:
        error.add_note("\n".join(seen))
        raise


def disagreements(picture: ClusterPicture, broker: int, metadata: MetadataResponse | None) -> Iterator[str]:
    """In what the Metadata of `broker` differs from ZooKeeper, in words."""
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
            yield f"broker {broker} says of {what}: {here}, ZooKeeper: {there}"


def _metadata(cluster: LocalCluster, broker: int) -> MetadataResponse | None:
    client = AdminClient(SocketNetwork(), [cluster.broker(broker).address], timeout_ms=5_000)
    try:
        return cluster.view.run(client.metadata())
    except NoBrokerAnswers:
        return None


# -- what Kafka complains about


class Complaints:
    """Errors, warnings and stack traces in the logs of Kafka's brokers from now on, but for harmless ones."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._harmless = list(HARMLESS)
        self._read = {broker: len(self._log(broker)) for broker in KAFKAS}

    def expect(self, pattern: str) -> None:
        """What the test does to Kafka's brokers makes them say this."""
        self._harmless.append(pattern)

    def check(self) -> None:
        """Raise AssertionError with all there are."""
        found = [
            f"broker {broker}: {entry}"
            for broker in KAFKAS
            for entry in alarming(self._log(broker)[self._read[broker] :], self._harmless)
        ]
        assert not found, "Kafka complains:\n" + "\n".join(found)

    def _log(self, broker: int) -> str:
        return self._cluster.broker(broker).process.log.read_text(errors="replace")


def alarming(log: str, harmless: Iterable[str] = HARMLESS) -> Iterator[str]:
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
