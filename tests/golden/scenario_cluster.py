"""The interface of the cluster on which a scenario runs, and the requests that Apache's tools make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tests.golden.recording import Json
from understudy.checks.history import Znode, ZnodeTransaction, tree_after
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.config_requests import BROKER, TOPIC
from understudy.clusters.clients.connections import Connections
from understudy.clusters.clients.producer import DeliveryOutcome, Producer
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.network import Network
from understudy.foundation.zk.client import Op

ACK_TIMEOUT_MS = 60_000

Tree = Mapping[str, Znode]


class Refused(NamedTuple):
    """The refusal of a tool's request."""

    reason: str


class ScenarioCluster(Protocol):
    """The brokers of a scenario, none of which runs at first, and an empty ZooKeeper."""

    def start(self, broker: int) -> None: ...

    def start_and_expect_exit(self, broker: int) -> None:
        """Start a broker that cannot register; returns once its process has ended by itself."""

    def kill(self, broker: int) -> None: ...

    def stop(self, broker: int) -> None:
        """SIGTERM; returns once the process has ended."""

    def pause(self, broker: int) -> None:
        """SIGSTOP, as in a long pause for garbage collection."""

    def resume(self, broker: int) -> None: ...

    def ask(self, request: Request) -> Refused | None:
        """Send a tool's request; returns once it is answered."""

    def produce(self, topic_partition: TopicPartition, values: Sequence[bytes]) -> None:
        """Send records with acks=all; returns once they are acknowledged."""

    def edit(self, *ops: Op) -> None:
        """Apply an operator's transaction, in a session that belongs to no broker."""

    def wait_until(self, condition: Callable[[Tree], bool], what: str) -> None:
        """Wait until `condition` holds of the znodes, and then until no request and no write follows."""

    def transactions(self) -> Sequence[ZnodeTransaction]: ...

    def requests(self) -> Mapping[int, Sequence[Json]]:
        """The requests that each broker has answered so far (`requests.py`)."""


def tree_of(cluster: ScenarioCluster) -> Tree:
    return tree_after(cluster.transactions())


async def send_records(
    network: Network, bootstrap: Sequence[str], clock: Clock, topic_partition: TopicPartition, values: Sequence[bytes]
) -> None:
    """Send a batch with acks=all by a producer that is not idempotent, as the one of the recordings was not: Kafka's
    controller wrote no block of producer ids. The broker has the time to acknowledge it before it is sent again."""
    connections = Connections(network, bootstrap, client_id="golden-producer")
    producer = Producer(
        connections, clock, is_idempotent=False, request_timeout_ms=ACK_TIMEOUT_MS, delivery_timeout_ms=ACK_TIMEOUT_MS
    )
    try:
        delivery = await producer.send(topic_partition, values)
    finally:
        connections.close()
    assert delivery.outcome is DeliveryOutcome.ACKNOWLEDGED, f"{topic_partition}: {delivery}"


# -- the requests of tools


class AdminClients(Protocol):
    """Creates the admin clients of a cluster."""

    def __call__(self, broker: int | None = None) -> AdminClient:
        """A client of all brokers, or of `broker` only. Raises NoBrokerAnswers if it is not registered."""


class Request(Protocol):
    """The request of one run of one of Apache's tools."""

    async def send(self, admin_clients: AdminClients) -> None:
        """Send the request without the tool. Raises ApiError or NoBrokerAnswers if the tool would have failed."""


class TopicCreation(NamedTuple):
    """The request of `kafka-topics --create`."""

    topic: str
    assignment: Mapping[int, Sequence[int]]
    configs: Mapping[str, str] = {}

    async def send(self, admin_clients: AdminClients) -> None:
        await admin_clients().create_topic(self.topic, assignment=self.assignment, configs=self.configs)


class MorePartitions(NamedTuple):
    """The request of `kafka-topics --alter --partitions`."""

    topic: str
    partitions: int
    assignment: Sequence[Sequence[int]] | None
    """The brokers of each new partition; None leaves the choice to the controller."""

    async def send(self, admin_clients: AdminClients) -> None:
        await admin_clients().create_partitions(self.topic, self.partitions, self.assignment)


class TopicDeletion(NamedTuple):
    """The request of `kafka-topics --delete`."""

    topic: str

    async def send(self, admin_clients: AdminClients) -> None:
        await admin_clients().delete_topics(self.topic)


class Election(NamedTuple):
    """The request of `kafka-leader-election`."""

    election_type: int
    partitions: tuple[TopicPartition, ...] | None
    """None means all partitions."""

    async def send(self, admin_clients: AdminClients) -> None:
        for partition, error in (
            await admin_clients().elect_leaders(self.partitions, election_type=self.election_type)
        ).items():
            if error not in (Errors.NONE, Errors.ELECTION_NOT_NEEDED):
                raise ApiError(error, str(partition))


class ConfigChange(NamedTuple):
    """The requests of `kafka-configs`: None deletes a key; without changes the config is only described."""

    resource_type: int
    name: str
    changes: Mapping[str, str | None]
    asked: int
    """The broker that Kafka's tool chose; any could have answered, except for a config of one broker."""

    async def send(self, admin_clients: AdminClients) -> None:
        """Describe the config and then alter it, as the tool does."""
        admin = admin_clients(self.asked)
        await admin.describe_config(self.resource_type, self.name)
        if self.changes:
            await admin.alter_config(self.resource_type, self.name, self.changes)


class Reassignment(NamedTuple):
    """The request of `kafka-reassign-partitions --execute`; None cancels a reassignment."""

    moves: Mapping[TopicPartition, Sequence[int] | None]

    async def send(self, admin_clients: AdminClients) -> None:
        for error in (await admin_clients().alter_partition_reassignments(self.moves)).values():
            if error is not None:
                raise error


class ReassignmentList(NamedTuple):
    """The request of `kafka-reassign-partitions --list`."""

    async def send(self, admin_clients: AdminClients) -> None:
        await admin_clients().list_partition_reassignments()


class Verification(NamedTuple):
    """The requests of `kafka-reassign-partitions --verify`, for a completed reassignment."""

    reassignment: Reassignment
    throttles: Sequence[ConfigChange]
    """The throttles it removes, in the order of the recording. The tool sends to all brokers at the same time."""

    async def send(self, admin_clients: AdminClients) -> None:
        moving = await admin_clients().list_partition_reassignments()
        assert not moving.keys() & self.reassignment.moves.keys(), f"still on the move: {moving}"
        await _remove_throttles(self.throttles, admin_clients)


class Cancellation(NamedTuple):
    """The requests of `kafka-reassign-partitions --cancel`."""

    reassignment: Reassignment
    throttles: Sequence[ConfigChange]
    """As in `Verification`."""

    async def send(self, admin_clients: AdminClients) -> None:
        moving = (await admin_clients().list_partition_reassignments(self.reassignment.moves)).keys()
        if moving:
            await admin_clients().alter_partition_reassignments(dict.fromkeys(sorted(moving)))
        await _remove_throttles(self.throttles, admin_clients)


def throttle_removal(resource_type: int, name: str, *, asked: int) -> ConfigChange:
    """The removal of all throttles, which the tool requests even if there are none."""
    of_topics = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
    of_brokers = (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
    return ConfigChange(resource_type, name, dict.fromkeys(of_topics if resource_type == TOPIC else of_brokers), asked)


def throttle_removals_of_brokers(*brokers: int) -> list[ConfigChange]:
    return [throttle_removal(BROKER, str(broker), asked=broker) for broker in brokers]


async def _remove_throttles(throttles: Iterable[ConfigChange], admin_clients: AdminClients) -> None:
    for change in throttles:
        await admin_clients(change.asked).alter_config(change.resource_type, change.name, change.changes)
