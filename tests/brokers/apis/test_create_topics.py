"""Tests of CreateTopics and CreatePartitions: the checks alone, and requests to a simulated cluster."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Mapping

import pytest

from tests.brokers.harness import BrokerHarness
from tests.controller.harness import ControllerHarness
from understudy.brokers.apis import create_topics
from understudy.brokers.apis.create_topics import prohibited_names, replicas_for, validated
from understudy.brokers.config.description import topic_defaults
from understudy.brokers.config.reading import read_config
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import ZkWrite
from understudy.foundation.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from understudy.foundation.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from understudy.foundation.zk.client import Notification, WatchFired, WatchKind
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient
from understudy.history.reading.lines import decode_record

DEFAULTS = topic_defaults(read_config({"zookeeper.connect": "z"}))


def placed(*replicas: tuple[int, ...]) -> dict[int, tuple[BrokerId, ...]]:
    return {index: tuple(map(BrokerId, brokers)) for index, brokers in enumerate(replicas)}


def refusal(
    name: str = "orders",
    assignment: dict[int, tuple[BrokerId, ...]] | None = None,
    config: Mapping[str, str] | None = None,
) -> tuple[str, str]:
    configs = tuple(CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items())
    topic = CreatableTopic(name=name, configs=configs)
    with pytest.raises(ApiError) as raised:
        validated(topic, assignment or placed((1, 2)), ("taken", "with.dot"), DEFAULTS)
    return raised.value.error.name, raised.value.message


@pytest.mark.spec("TC-5")
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, "is longer than the max allowed length 249"),
        ("a/b", "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("../../etc/passwd", "contains one or more characters"),
        ("nul\x00", "contains one or more characters"),
        ("über", "contains one or more characters"),
        ("line\n", "contains one or more characters"),
        ("with_dot", "collides with existing topics: with.dot"),
    ],
)
def test_invalid_topic_names_are_refused(name: str, part: str) -> None:
    error, message = refusal(name)
    assert error == "INVALID_TOPIC_EXCEPTION"
    assert part in message


@pytest.mark.spec("TC-5")
def test_valid_topic_names_are_accepted() -> None:
    for name in ("a" * 249, "A.b_c-9", "__consumer_offsets"):
        assert validated(CreatableTopic(name=name), placed((1,)), ("withXdot",), DEFAULTS) == {}


@pytest.mark.spec("TC-4")
@pytest.mark.parametrize(
    ("assignment", "part"),
    [
        (placed((1, 2), (1,)), "All partitions should have the same number of replicas"),
        (
            placed((2, 3), (1, 1)),
            "Duplicate replica assignment found: HashMap(0 -> ArrayBuffer(2, 3), 1 -> ArrayBuffer(1, 1))",
        ),
        (placed((), ()), "Cannot have replication factor of 0 for partition id 0."),
        ({1: (BrokerId(1),)}, "partitions should be a consecutive 0-based integer sequence"),
    ],
)
def test_invalid_assignments_are_refused(assignment: dict[int, tuple[BrokerId, ...]], part: str) -> None:
    error, message = refusal(assignment=assignment)
    assert error == "INVALID_REPLICA_ASSIGNMENT"
    assert part in message


@pytest.mark.spec("TC-4")
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("colour", "red", "Unknown topic config name: colour"),
        ("retention.ms", "soon", "Invalid value soon for configuration retention.ms: Not a number of type LONG"),
        ("min.insync.replicas", "0", "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"),
        ("cleanup.policy", "shred", "Invalid value shred for configuration cleanup.policy: "
         "String must be one of: compact, delete"),
        ("min.cleanable.dirty.ratio", "1.5", "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: "
         "Value must be no more than 1"),
        ("remote.storage.enable", "true", "Tiered Storage functionality is disabled in the broker. "
         "Topic cannot be configured with remote log storage."),
    ],
)  # fmt: skip
def test_configurations_that_are_refused(key: str, value: str, message: str) -> None:
    assert refusal(config={key: value}) == ("INVALID_CONFIG", message)


@pytest.mark.spec("TC-4")
def test_unknown_config_is_reported_first_then_the_first_invalid_value_in_kafkas_order() -> None:
    assert refusal(config={"cleanup.policy": "shred", "colour": "red"}) == (
        "INVALID_CONFIG",
        "Unknown topic config name: colour",
    )
    error, message = refusal(config={"cleanup.policy": "shred", "retention.ms": " soon "})
    assert (error, message) == (
        "INVALID_CONFIG",
        "Invalid value  soon  for configuration retention.ms: Not a number of type LONG",
    )


def test_configurations_that_contradict_each_other() -> None:
    error, message = refusal(config={"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})
    assert error == "INVALID_CONFIG"
    assert "min.compaction.lag.ms (10) > max.compaction.lag.ms (5)" in message


@pytest.mark.spec("TC-4")
@pytest.mark.parametrize(
    ("topic", "error", "part"),
    [
        (CreatableTopic(num_partitions=0, replication_factor=1), Errors.INVALID_PARTITIONS, "larger than 0"),
        (
            CreatableTopic(num_partitions=2**31 - 1, replication_factor=1),
            Errors.INVALID_PARTITIONS,
            "do not fit into the topic",
        ),
        (CreatableTopic(num_partitions=1, replication_factor=0), Errors.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (
            CreatableTopic(num_partitions=1, replication_factor=4),
            Errors.INVALID_REPLICATION_FACTOR,
            "Replication factor: 4 larger than available brokers: 3.",
        ),
        (
            CreatableTopic(
                num_partitions=1, replication_factor=-1, assignments=(CreatableReplicaAssignment(broker_ids=(1,)),)
            ),
            Errors.INVALID_REQUEST,
            "Both cannot be used at the same time.",
        ),
        (
            CreatableTopic(num_partitions=1, replication_factor=1, configs=(CreatableTopicConfig(name="a.b"),)),
            Errors.INVALID_CONFIG,
            "Null value not supported for topic configs: a.b",
        ),
    ],
)
def test_impossible_placements_are_refused(topic: CreatableTopic, error: Errors, part: str) -> None:
    async def scenario() -> None:
        harness = BrokerHarness()
        with pytest.raises(ApiError) as raised:
            replicas_for(harness.services, harness.metadata.snapshot, topic)
        assert raised.value.error is error
        assert part in raised.value.message

    asyncio.run(scenario())


@pytest.mark.spec("TC-4")
def test_defaults_come_from_the_brokers_configuration() -> None:
    async def scenario() -> dict[int, tuple[BrokerId, ...]]:
        config = {"zookeeper.connect": "z", "num.partitions": "4", "default.replication.factor": "2"}
        harness = BrokerHarness(read_config(config))
        return replicas_for(
            harness.services, harness.metadata.snapshot, CreatableTopic(num_partitions=-1, replication_factor=-1)
        )

    assignment = asyncio.run(scenario())
    assert sorted(assignment) == [0, 1, 2, 3]
    assert {len(set(replicas)) for replicas in assignment.values()} == {2}


@pytest.mark.spec("TC-3")
def test_prohibited_and_duplicate_names_are_refused() -> None:
    topics = [CreatableTopic(name=name) for name in ("a", "b", "a", "__cluster_metadata")]
    prohibited = {name: (error.error.name, error.message) for name, error in prohibited_names(topics).items()}
    assert prohibited == {
        "a": ("INVALID_REQUEST", "Found multiple entries for this topic."),
        "__cluster_metadata": ("INVALID_REQUEST", "Creation of internal topic __cluster_metadata is prohibited."),
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=1, brokers=3) as cluster:
        cluster.start()
        yield cluster


def create(
    cluster: SimulatedCluster, request: CreateTopicsRequest, *, version: int = 7, broker: int | None = None
) -> dict[str, tuple[str, str | None]]:
    """Send `request` to the controller or to `broker`; return topic → (error, message)."""
    number = cluster.controller_id() if broker is None else broker
    response = cluster.ask(cluster.admin.ask(f"broker-{number}", 9092, request, version=version))
    assert isinstance(response, CreateTopicsResponse)
    return {topic.name: (Errors(topic.error_code).name, topic.error_message) for topic in response.topics}


def topic(name: str, partitions: int = 2, replication_factor: int = 2, *brokers: int) -> CreatableTopic:
    if brokers:
        assignment = CreatableReplicaAssignment(broker_ids=brokers)
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=(assignment,))
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)


@pytest.mark.spec("TC-3", "TC-4", "TC-7", "TC-8")
@pytest.mark.parametrize("version", range(8))
def test_valid_topics_are_created_beside_invalid_ones(cluster: SimulatedCluster, version: int) -> None:
    good, bad = f"good-{version}", topic("bad/name")
    request = CreateTopicsRequest(topics=(topic(good), bad, topic(good + "-too", 3, 3)), timeout_ms=5_000)
    answers = create(cluster, request, version=version)
    assert {name: error for name, (error, _) in answers.items()} == {
        good: "NONE",
        "bad/name": "INVALID_TOPIC_EXCEPTION",
        good + "-too": "NONE",
    }
    assert cluster.leader_id(good, 1) is not None


@pytest.mark.spec("TC-3")
def test_a_topic_that_is_named_twice_is_refused_each_time(cluster: SimulatedCluster) -> None:
    request = CreateTopicsRequest(topics=(topic("twice"), topic("alone"), topic("twice")), timeout_ms=5_000)
    response = cluster.ask(cluster.admin.ask(f"broker-{cluster.controller_id()}", 9092, request))
    assert isinstance(response, CreateTopicsResponse)
    assert [(answered.name, Errors(answered.error_code).name) for answered in response.topics] == [
        ("twice", "INVALID_REQUEST"),
        ("alone", "NONE"),
        ("twice", "INVALID_REQUEST"),
    ]
    assert cluster.leader_id("twice", 0) is None


@pytest.mark.spec("TC-4", "TC-8")
def test_response_shows_config_values_without_the_blanks_around_them(cluster: SimulatedCluster) -> None:
    configs = (
        CreatableTopicConfig(name="retention.ms", value=" 7 "),
        CreatableTopicConfig(name="preallocate", value="TRUE "),
    )
    asked = CreatableTopic(name="blanks", num_partitions=1, replication_factor=1, configs=configs)
    response = cluster.ask(
        cluster.admin.ask(
            f"broker-{cluster.controller_id()}", 9092, CreateTopicsRequest(topics=(asked,), timeout_ms=5_000)
        )
    )
    assert isinstance(response, CreateTopicsResponse)
    shown = {config.name: config.value for config in response.topics[0].configs or ()}
    assert (shown["retention.ms"], shown["preallocate"]) == ("7", "true")


@pytest.mark.spec("TC-1", "TC-3")
def test_only_the_controller_creates_topics(cluster: SimulatedCluster) -> None:
    other = next(number for number in cluster.broker_ids if number != cluster.controller_id())
    assert create(cluster, CreateTopicsRequest(topics=(topic("elsewhere"),)), broker=other) == {
        "elsewhere": ("NOT_CONTROLLER", "")
    }


@pytest.mark.spec("TC-2")
def test_writes_of_a_topic_are_caused_by_the_request_not_by_a_controller_event(
    cluster: SimulatedCluster,
) -> None:
    assert create(cluster, CreateTopicsRequest(topics=(topic("aside"),), timeout_ms=5_000)) == {"aside": ("NONE", None)}
    node = f"broker-{cluster.controller_id()}"
    records = {record.seq: record for record in map(decode_record, cluster.log_lines) if record.node == node}

    def causes(path: str) -> list[str]:
        """The types of the records that caused the first write of `path`, the last cause first."""
        record = next(r for r in records.values() if isinstance(r.data, ZkWrite) and path in r.data.paths)
        chain = []
        while record.cause is not None:
            record = records[record.cause]
            chain.append(record.type)
        return chain

    assert causes("/config/topics/aside") == causes("/brokers/topics/aside") == ["RequestReceived"]
    assert causes("/brokers/topics/aside/partitions/0/state") == ["EventStarted", "EventQueued", "WatchFired"]


@pytest.mark.spec("ZC-4", "KAFKA-9498")
def test_looking_for_colliding_names_arms_no_watch() -> None:
    """Otherwise the controller would be notified of a new topic more than once."""
    notifications: list[Notification] = []
    with ControllerHarness() as below:
        below.start()
        world = below.operator.world

        async def scenario() -> None:
            services = BrokerHarness().services
            client = await world.zookeeper.connect(notifications.append)
            zk = KafkaZkClient(client, events=world.events, fences=world.fences)
            services = dataclasses.replace(services, zk=lambda: zk)
            await zk.topics.names(watch=True)
            for name in ("one.topic", "another_topic", "third.topic"):
                await create_topics.create(services, topic(name, 1, 1, 1), validate_only=False)

        below.operator.run(scenario())
        below.settle()
        assert {"one.topic", "another_topic", "third.topic"} <= {path.rpartition("/")[2] for path in below.znodes()}
    assert notifications == [WatchFired("/brokers/topics", WatchKind.CHILDREN)]


@pytest.mark.spec("TC-4")
def test_an_existing_topic_is_not_created_again(cluster: SimulatedCluster) -> None:
    cluster.create_topic("existing")
    answers = create(cluster, CreateTopicsRequest(topics=(topic("existing"),)))
    assert answers == {"existing": ("TOPIC_ALREADY_EXISTS", "Topic 'existing' already exists.")}


def test_a_topic_larger_than_a_znode_is_refused_with_the_reason(cluster: SimulatedCluster) -> None:
    answers = create(cluster, CreateTopicsRequest(topics=(topic("vast", 100_000, 3),)))
    error, message = answers["vast"]
    assert error == "INVALID_PARTITIONS"
    assert "100000 partitions with their replicas do not fit into the topic's znode" in str(message)


def test_refused_topics_send_nothing_to_zookeeper_and_delay_no_other_request() -> None:
    async def scenario() -> tuple[int, int]:
        harness, turns = BrokerHarness(), 0

        async def other_request() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(other_request())
        topics = tuple(
            CreatableTopic(name=f"bad!{number}", num_partitions=1, replication_factor=1) for number in range(1_000)
        )
        response = await create_topics.handle(harness.services, CreateTopicsRequest(topics=topics), harness.context(7))
        other.cancel()
        return turns, sum(answered.error_code == Errors.INVALID_TOPIC_EXCEPTION for answered in response.topics)

    assert asyncio.run(scenario()) == (10, 1_000)


@pytest.mark.spec("TC-7")
def test_validate_only_writes_nothing(cluster: SimulatedCluster) -> None:
    request = CreateTopicsRequest(topics=(topic("dry"), topic("wet.", 0)), validate_only=True)
    answers = create(cluster, request)
    assert {name: error for name, (error, _) in answers.items()} == {"dry": "NONE", "wet.": "INVALID_PARTITIONS"}
    cluster.run_for(1_000)
    assert cluster.leader_id("dry", 0) is None


@pytest.mark.spec("TC-7")
@pytest.mark.parametrize(("name", "timeout_ms", "brokers"), [("hasty", 0, (1,)), ("leaderless", 500, (77,))])
def test_a_created_topic_without_leaders_in_time_is_answered_with_a_timeout(
    cluster: SimulatedCluster, name: str, timeout_ms: int, brokers: tuple[int, ...]
) -> None:
    request = CreateTopicsRequest(topics=(topic(name, 1, 1, *brokers),), timeout_ms=timeout_ms)
    assert create(cluster, request) == {name: ("REQUEST_TIMED_OUT", None)}
    again = create(cluster, CreateTopicsRequest(topics=(topic(name),), timeout_ms=timeout_ms))
    assert again[name][0] == "TOPIC_ALREADY_EXISTS"


@pytest.mark.spec("TC-8")
def test_the_response_describes_the_created_topic(cluster: SimulatedCluster) -> None:
    configured = CreatableTopic(
        name="described",
        num_partitions=2,
        replication_factor=3,
        configs=(CreatableTopicConfig(name="retention.ms", value="7"),),
    )
    request = CreateTopicsRequest(topics=(configured,))
    response = cluster.ask(cluster.admin.ask(f"broker-{cluster.controller_id()}", 9092, request))
    assert isinstance(response, CreateTopicsResponse)
    [described] = response.topics
    metadata = cluster.ask(cluster.admin.metadata(["described"]))
    assert (described.num_partitions, described.replication_factor, described.topic_id) == (
        2,
        3,
        metadata.topics[0].topic_id,
    )
    shown = {config.name: (config.value, config.config_source) for config in described.configs or ()}
    assert shown["retention.ms"] == ("7", 1)
    assert shown["segment.bytes"] == ("1073741824", 5)


def grow(
    cluster: SimulatedCluster, *topics: CreatePartitionsTopic, validate_only: bool = False
) -> dict[str, tuple[str, str | None]]:
    request = CreatePartitionsRequest(topics=topics, timeout_ms=5_000, validate_only=validate_only)
    response = cluster.ask(cluster.admin.ask(f"broker-{cluster.controller_id()}", 9092, request))
    assert isinstance(response, CreatePartitionsResponse)
    return {result.name: (Errors(result.error_code).name, result.error_message) for result in response.results}


def manual(*lists: tuple[int, ...]) -> tuple[CreatePartitionsAssignment, ...]:
    return tuple(CreatePartitionsAssignment(broker_ids=brokers) for brokers in lists)


@pytest.mark.spec("TP-1", "TP-2")
def test_partitions_are_added_to_a_topic(cluster: SimulatedCluster) -> None:
    cluster.create_topic("grows", partitions=1, replication_factor=2)
    assert grow(cluster, CreatePartitionsTopic(name="grows", count=3), validate_only=True)["grows"] == ("NONE", None)
    assert cluster.leader_id("grows", 2) is None
    assert grow(cluster, CreatePartitionsTopic(name="grows", count=3))["grows"] == ("NONE", None)
    assert cluster.leader_id("grows", 2) is not None
    assert grow(cluster, CreatePartitionsTopic(name="grows", count=4, assignments=manual((3, 1))))["grows"][0] == "NONE"
    assert cluster.leader_id("grows", 3) == 3


@pytest.mark.spec("TP-1")
@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (CreatePartitionsTopic(name="nope", count=3), "UNKNOWN_TOPIC_OR_PARTITION", "The topic 'nope' does not exist."),
        (
            CreatePartitionsTopic(name="a/../two", count=3),
            "UNKNOWN_TOPIC_OR_PARTITION",
            "The topic 'a/../two' does not exist.",
        ),
        (CreatePartitionsTopic(name="", count=3), "UNKNOWN_TOPIC_OR_PARTITION", "The topic '' does not exist."),
        (
            CreatePartitionsTopic(name="two", count=2**31 - 1),
            "INVALID_PARTITIONS",
            "2147483647 partitions with their replicas do not fit into the topic's znode; "
            "a request to ZooKeeper may have 1000000 bytes",
        ),
        (
            CreatePartitionsTopic(name="two", count=100_000),
            "INVALID_PARTITIONS",
            "100000 partitions with their replicas do not fit into the topic's znode; "
            "a request to ZooKeeper may have 1000000 bytes",
        ),
        (CreatePartitionsTopic(name="two", count=2), "INVALID_PARTITIONS", "Topic already has 2 partitions."),
        (
            CreatePartitionsTopic(name="two", count=1),
            "INVALID_PARTITIONS",
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        (
            CreatePartitionsTopic(name="two", count=4, assignments=manual((1, 9), (9, 8))),
            "INVALID_REPLICA_ASSIGNMENT",
            "Unknown broker(s) in replica assignment: 9, 8.",
        ),
        (
            CreatePartitionsTopic(name="two", count=4, assignments=manual((1, 2))),
            "INVALID_REPLICA_ASSIGNMENT",
            "Increasing the number of partitions by 2 but 1 assignments provided.",
        ),
        (
            CreatePartitionsTopic(name="two", count=3, assignments=manual(())),
            "INVALID_REPLICA_ASSIGNMENT",
            "Cannot have replication factor of 0 for partition id 2.",
        ),
        (
            CreatePartitionsTopic(name="two", count=3, assignments=manual((1, 1))),
            "INVALID_REPLICA_ASSIGNMENT",
            "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 2.",
        ),
        (
            CreatePartitionsTopic(name="two", count=3, assignments=manual((1,))),
            "INVALID_REPLICA_ASSIGNMENT",
            "Inconsistent replication factor between partitions, partition 0 has 2 while partitions [2] have "
            "replication factors [1], respectively.",
        ),
    ],
)
def test_refused_create_partitions(
    cluster: SimulatedCluster, asked: CreatePartitionsTopic, error: str, message: str
) -> None:
    if cluster.leader_id("two", 0) is None:
        cluster.create_topic("two", partitions=2, replication_factor=2)
    assert grow(cluster, asked) == {asked.name: (error, message)}


@pytest.mark.spec("TP-1")
def test_a_topic_named_twice(cluster: SimulatedCluster) -> None:
    twice = CreatePartitionsTopic(name="two", count=9)
    assert grow(cluster, twice, twice) == {"two": ("INVALID_REQUEST", "Duplicate topic in request.")}
