"""Unmodified Kafka clients against broker processes: topics, configs, features, and a controller failover."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.clients.clients import Confluent, Described, KafkaPython, Refused, StockClient
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.foundation.wire.messages.metadata import MetadataResponse

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

Connect = Callable[[str], StockClient]
CLIENTS = pytest.mark.parametrize(
    "connect", [pytest.param(KafkaPython, id="kafka-python"), pytest.param(Confluent, id="confluent-kafka")]
)


@pytest.fixture(scope="module")
def cluster(zookeeper: EmbeddedZooKeeper) -> Iterator[LocalCluster]:
    """A cluster of three brokers; none is killed, so sessions are long enough for a busy machine."""
    with LocalCluster(brokers=3, zookeeper=zookeeper, session_timeout_ms=30_000) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster, connect: Connect) -> Iterator[StockClient]:
    client = connect(cluster.bootstrap)
    yield client
    client.close()


def name(kind: str, connect: Connect) -> str:
    return f"{kind}-{getattr(connect, '__name__', 'client').lower()}"


@CLIENTS
@pytest.mark.spec("IO-16")
def test_a_topic_is_created_listed_and_described(client: StockClient, connect: Connect, cluster: LocalCluster) -> None:
    orders = name("orders", connect)
    client.create_topic(orders, 6, 3, {"retention.ms": "60000"})
    described = described_with(cluster, client, orders, partitions=6)
    cluster.wait_until(lambda: orders in client.topics(), "the topic is listed")
    assert set(described.leaders) == {1, 2, 3}, "of six partitions each of three brokers leads some"
    assert all(set(replicas) == {1, 2, 3} for replicas in described.replicas)
    assert all(set(isr) == {1, 2, 3} for isr in described.isr)
    assert tuple(replicas[0] for replicas in described.replicas) == described.leaders


@CLIENTS
@pytest.mark.spec("TP-1", "TP-2")
def test_partitions_are_added_to_a_topic(client: StockClient, connect: Connect, cluster: LocalCluster) -> None:
    growing = name("growing", connect)
    client.create_topic(growing, 1, 2)
    client.create_partitions(growing, 4)
    assert set(described_with(cluster, client, growing, partitions=4).leaders) <= {1, 2, 3}


@CLIENTS
@pytest.mark.spec("CF-8", "IO-17")
def test_a_topics_config_is_altered_and_described(client: StockClient, connect: Connect, cluster: LocalCluster) -> None:
    topic = name("altered", connect)
    client.create_topic(topic, 1, 2, {"retention.ms": "60000", "flush.ms": "7"})
    described_with(cluster, client, topic, partitions=1)
    client.alter_config("topic", topic, {"retention.ms": "5", "flush.ms": None, "cleanup.policy": "compact,delete"})
    keys = ("retention.ms", "flush.ms", "cleanup.policy")
    shown = client.topic_config(topic)
    assert [shown[key] for key in keys] == ["5", str(2**63 - 1), "compact,delete"]
    with pytest.raises(Refused, match=r"(?i)invalid_?config"):
        client.alter_config("topic", topic, {"retention.ms": "soon"})


@CLIENTS
@pytest.mark.spec("CF-6")
def test_a_brokers_config_is_altered_and_described(
    client: StockClient, connect: Connect, cluster: LocalCluster
) -> None:
    key, mine = "min.insync.replicas", str(len(name("", connect)))
    for broker in ("1", "2", "3"):
        assert len(client.broker_config(broker)) > 300
    client.alter_config("broker", "2", {key: mine})
    cluster.wait_until(lambda: client.broker_config("2")[key] == (mine, False), "broker 2 uses its new config")
    assert client.broker_config("1")[key] == ("1", False)
    client.alter_config("broker", "2", {key: None})
    cluster.wait_until(lambda: client.broker_config("2")[key] == ("1", False), "broker 2 uses the default again")
    assert client.broker_config("1")["broker.id"] == ("1", True)
    with pytest.raises(Refused, match=r"(?i)invalid_?request"):
        client.alter_config("broker", "1", {"num.io.threads": "100"})


def test_the_log_directories_of_all_brokers_are_described(cluster: LocalCluster) -> None:
    """kafka-python only, because librdkafka has no API for log directories."""
    client = KafkaPython(cluster.bootstrap)
    client.create_topic("stored", 2, 3)

    def of_brokers() -> list[int]:
        return [str(directories).count("'stored'") for directories in client.log_dirs()]

    cluster.wait_until(lambda: of_brokers() == [1, 1, 1], "each broker lists its replicas")
    client.close()


@CLIENTS
def test_the_cluster_is_described_with_the_controller_in_zookeeper(client: StockClient, cluster: LocalCluster) -> None:
    assert client.brokers() == ({1, 2, 3}, cluster.controller_id())


@pytest.mark.spec("AP-2", "ZN-7")
@pytest.mark.parametrize("validate_only", [False, True])
def test_no_feature_is_supported_and_none_can_be_finalized(cluster: LocalCluster, validate_only: bool) -> None:
    """kafka-python only, because librdkafka has no API for features: version 0 of the request, and 1 to validate."""
    client = KafkaPython(cluster.bootstrap)
    assert client.features() == {}
    asked = {
        "metadata.version": ("UPGRADE", 7),
        "transaction.version": ("SAFE_DOWNGRADE", 0),
        "kraft.version": ("UPGRADE", 0),
    }
    answers = client.update_features(asked, validate_only=validate_only)
    client.close()
    refusals = {
        "metadata.version": "Could not apply finalized feature update because the provided feature is not supported.",
        "transaction.version": "Can not delete non-existing finalized feature.",
        "kraft.version": (
            "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the request."
        ),
    }
    assert list(answers) == list(refusals)
    assert {feature: answer[-len(refusals[feature]) :] for feature, answer in answers.items()} == refusals


@CLIENTS
@pytest.mark.spec("TC-4", "TC-5")
@pytest.mark.parametrize(
    ("topic", "replication_factor", "configs", "error"),
    [
        ("not/a/name", 1, {}, ("TOPIC_EXCEPTION", "INVALID_TOPIC")),
        ("too-many", 4, {}, ("INVALID_REPLICATION_FACTOR",)),
        ("coloured", 1, {"colour": "red"}, ("INVALID_CONFIG", "INVALID_CONFIGURATION")),
    ],
)
def test_a_refused_topic_creation_raises_the_clients_own_error(
    client: StockClient, topic: str, replication_factor: int, configs: dict[str, str], error: tuple[str, ...]
) -> None:
    with pytest.raises(Refused) as raised:
        client.create_topic(topic, 1, replication_factor, configs)
    assert any(part in str(raised.value) for part in error), str(raised.value)
    assert topic not in client.topics()


@CLIENTS
@pytest.mark.spec("IO-17")
def test_a_topic_is_created_with_a_config(client: StockClient, connect: Connect, cluster: LocalCluster) -> None:
    configured = name("configured", connect)
    client.create_topic(configured, 1, 1, {"retention.ms": "60000"})
    described_with(cluster, client, configured, partitions=1)
    config = cluster.wait_until(lambda: client.topic_config(configured), "every broker has the topic")
    assert (config["retention.ms"], config["cleanup.policy"]) == ("60000", "delete")


@CLIENTS
@pytest.mark.spec("TC-1")
def test_a_topic_is_created_once(client: StockClient, connect: Connect) -> None:
    once = name("once", connect)
    client.create_topic(once, 1, 1)
    with pytest.raises(Refused, match="TOPIC_ALREADY_EXISTS"):
        client.create_topic(once, 1, 1)


@CLIENTS
@pytest.mark.spec("TX-1", "TD-10")
def test_a_topic_is_deleted_and_created_again(client: StockClient, connect: Connect, cluster: LocalCluster) -> None:
    deleted = name("deleted", connect)
    client.create_topic(deleted, 3, 3)
    described_with(cluster, client, deleted, partitions=3)
    client.delete_topic(deleted)
    cluster.wait_until(
        lambda: not any(topic.name == deleted for each in metadata_of_each(cluster) for topic in each.topics),
        "no broker lists the topic",
    )
    assert deleted not in client.topics()
    with pytest.raises(Refused, match="UNKNOWN_TOPIC"):
        client.delete_topic(deleted)
    cluster.wait_until(lambda: _create_again(client, deleted), "the topic is created again")
    described_with(cluster, client, deleted, partitions=1)


def _create_again(client: StockClient, topic: str) -> bool:
    """Create a topic; False while znodes of the deleted topic of that name exist."""
    try:
        client.create_topic(topic, 1, 1)
    except Refused as refused:
        if "TOPIC_ALREADY_EXISTS" not in str(refused):
            raise
        return False
    return True


@CLIENTS
@pytest.mark.spec("EL-4", "IO-16", "TC-1")
def test_a_new_client_works_after_a_controller_failover(connect: Connect, zookeeper: EmbeddedZooKeeper) -> None:
    with LocalCluster(brokers=3, zookeeper=zookeeper, session_timeout_ms=6_000) as cluster:
        _fail_over(connect, cluster)


def _fail_over(connect: Connect, cluster: LocalCluster) -> None:
    before, after = "before-failover", "after-failover"
    first = connect(cluster.bootstrap)
    first.create_topic(before, 3, 3)
    first.close()

    dead = cluster.controller()
    dead.kill()
    cluster.wait_until(lambda: cluster.controller_id() not in (None, dead.id), "another broker is controller")
    live_brokers = [broker for broker in cluster.brokers if broker.is_running]
    cluster.wait_until(
        lambda: know_the_new_controller(cluster, live_brokers), "the live brokers list the new controller"
    )

    second = connect(",".join(broker.address for broker in live_brokers))
    second.create_topic(after, 2, 2)
    cluster.wait_until(lambda: {before, after} <= second.topics(), "both topics are listed")
    alive = {1, 2, 3} - {dead.id}
    # The dead broker is removed from every ISR, last from the ISRs of partitions that it did not lead.
    survived = described_with(cluster, second, before, partitions=3, isr=alive)
    assert set(survived.leaders) <= alive
    assert set(described_with(cluster, second, after, partitions=2).leaders) <= alive
    second.close()

    dead.restart()
    third = connect(cluster.bootstrap)
    cluster.wait_until(lambda: [len(isr) for isr in third.describe(before).isr] == [3, 3, 3], "it is back in every ISR")
    third.close()


def described_with(
    cluster: LocalCluster, client: StockClient, topic: str, *, partitions: int, isr: set[int] | None = None
) -> Described:
    """Wait until every broker lists all partitions of `topic` with a leader, and with `isr` if given; describe it.

    When CreateTopics is answered, only the controller has the topic for certain; other brokers receive it later.
    """

    def is_listed(metadata: MetadataResponse) -> bool:
        [known] = [each.partitions for each in metadata.topics if each.name == topic] or [()]
        found = [each for each in known if each.leader_id >= 0 and isr in (None, set(each.isr_nodes))]
        return len(found) == len(known) == partitions

    what = f"every broker lists {topic} with {partitions} partitions that have a leader"
    cluster.wait_until(lambda: all(map(is_listed, metadata_of_each(cluster))), what)
    return client.describe(topic)


def metadata_of_each(cluster: LocalCluster) -> list[MetadataResponse]:
    """The metadata of all topics that each running broker returns to our own client."""

    async def ask() -> list[MetadataResponse]:
        running = [broker.address for broker in cluster.brokers if broker.is_running]
        return [await AdminClient(SocketNetwork(), [address]).metadata() for address in running]

    return asyncio.run(ask())


def know_the_new_controller(cluster: LocalCluster, live_brokers: Sequence[LocalBroker]) -> bool:
    """Whether the metadata of every live broker names the new controller, and no broker that is dead.

    Our own client asks, because a stock client would connect to the dead broker that is still listed.
    """

    async def all_list_them() -> bool:
        for broker in live_brokers:
            metadata = await AdminClient(SocketNetwork(), [broker.address]).metadata(())
            listed = {broker.node_id for broker in metadata.brokers}
            if listed != {broker.id for broker in live_brokers} or metadata.controller_id != cluster.controller_id():
                return False
        return True

    return asyncio.run(all_list_them())
