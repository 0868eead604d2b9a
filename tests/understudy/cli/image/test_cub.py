"""`cub` waits for brokers and ZooKeeper as Confluent's utility belt does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.brokers.peers import ScriptedPeer
from understudy.cli.image import cub
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.foundation.cluster.broker import Broker, EndPoint, SecurityProtocol
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.wire.headers import RequestHeader
from understudy.foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from understudy.foundation.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from understudy.foundation.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from understudy.foundation.wire.registry import APIS
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.znodes import BrokerIdZNode

TOPIC = """\
topics:
  - name: orders
    partitions: 2
    replicationFactor: 1
    config: {cleanup.policy: compact, unclean.leader.election.enable: false}
"""


class Cluster(ScriptedPeer):
    """A cluster to which a broker is added with each look at its metadata, with at most one topic."""

    def __init__(self, *, most_brokers: int = 3, topic_partitions: int = 0) -> None:
        super().__init__(self._respond)
        self.brokers = 0
        self.created: list[str] = []
        self._most_brokers = most_brokers
        self._topic_partitions = topic_partitions

    def _respond(self, _: RequestHeader, request: Message) -> Message:
        match request:
            case ApiVersionsRequest():
                served = (ApiVersion(api_key=api.key, max_version=api.max_version) for api in APIS)
                return ApiVersionsResponse(api_keys=tuple(served))
            case MetadataRequest():
                self.brokers = min(self.brokers + 1, self._most_brokers)
                brokers = (MetadataResponseBroker(node_id=each, host="h", port=1) for each in range(self.brokers))
                return MetadataResponse(brokers=tuple(brokers), controller_id=0, topics=self._topics())
            case DescribeConfigsRequest():
                configs = {"cleanup.policy": "compact", "unclean.leader.election.enable": "false", "retention.ms": "1"}
                results = (DescribeConfigsResourceResult(name=name, value=value) for name, value in configs.items())
                result = DescribeConfigsResult(resource_type=2, resource_name="orders", configs=tuple(results))
                return DescribeConfigsResponse(results=(result,))
            case CreateTopicsRequest():
                self.created += [topic.name for topic in request.topics]
                return CreateTopicsResponse(topics=tuple(CreatableTopicResult(name=name) for name in self.created))
        raise AssertionError(f"not expected: {request}")

    def _topics(self) -> tuple[MetadataResponseTopic, ...]:
        numbers = range(self._topic_partitions)
        partitions = tuple(MetadataResponsePartition(partition_index=each, replica_nodes=(0,)) for each in numbers)
        return (MetadataResponseTopic(name="orders", partitions=partitions),) if partitions else ()


def use(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(cub, "SocketNetwork", lambda: cluster)
    monkeypatch.setattr(cub, "PAUSE_S", 0.0)
    return cluster


def test_kafka_is_ready_when_enough_brokers_are_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(Cluster(), monkeypatch)
    assert cub.main(["kafka-ready", "-b", "h:1", "3", "60"]) == 0
    assert [line.split(". ")[0] for line in capsys.readouterr().err.splitlines()] == [
        "Expected 3 brokers but found only 1",
        "Expected 3 brokers but found only 2",
    ]


def test_kafka_is_not_ready_with_too_few_brokers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(Cluster(most_brokers=2), monkeypatch)
    monkeypatch.setattr(cub, "PAUSE_S", 0.2)
    assert cub.main(["kafka-ready", "-b", "PLAINTEXT://h:1", "3", "1"]) == 1
    assert capsys.readouterr().err.endswith("Expected 3 brokers but found only 2.\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-b", "h"], "Bootstrap servers 'h': expected HOST:PORT,HOST:PORT"),
        (["-b", "h:1", "-s", "SASL_SSL"], "config is required for all protocols except PLAINTEXT"),
        (["-b", "h:1", "-c", "none.properties"], "none.properties cannot be read"),
    ],
)
def test_what_cannot_be_waited_for_is_named(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cub.main(["kafka-ready", *words, "1", "1"]) == 1
    assert message in capsys.readouterr().err


def test_a_client_with_security_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    assert cub.main(["kafka-ready", "-b", "h:1", "-c", str(config), "1", "1"]) == 1
    assert "security.protocol=SSL is not supported; expected PLAINTEXT" in capsys.readouterr().err


@contextmanager
def registered(zookeeper: EmbeddedZooKeeper, chroot: str) -> Iterator[str]:
    """A chroot with a registered broker that has two listeners."""
    endpoints = (
        EndPoint("INSIDE", SecurityProtocol.PLAINTEXT, "h", 1),
        EndPoint("OUTSIDE", SecurityProtocol.SASL_PLAINTEXT, "outside", 2),
    )
    client = KazooClient(zookeeper.connect_string)
    client.start()
    try:
        broker = Broker(id=BrokerId(1), endpoints=endpoints)
        client.create(f"{chroot}/brokers/ids/1", BrokerIdZNode.encode(broker, timestamp_ms=0), makepath=True)
        yield zookeeper.connect_string + chroot
    finally:
        client.stop()
        client.close()


def test_zookeeper_names_a_broker_of_the_protocol(
    zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cluster = use(Cluster(), monkeypatch)
    config = tmp_path / "client.properties"
    config.write_text("client.id=me\n")
    with registered(zookeeper, "/cub-ready") as connect:
        assert cub.main(["kafka-ready", "-z", connect, "1", "60"]) == 0
        assert {address for address, _, _ in cluster.received} == {"h:1"}
        assert cub.main(["kafka-ready", "-z", connect, "-s", "SSL", "-c", str(config), "1", "60"]) == 1
    assert "No endpoints found for security protocol [SSL]." in capsys.readouterr().err


def test_zookeeper_is_ready_when_it_answers(zookeeper: EmbeddedZooKeeper, capsys: pytest.CaptureFixture[str]) -> None:
    assert cub.main(["zk-ready", zookeeper.connect_string, "60"]) == 0
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        assert cub.main(["zk-ready", f"127.0.0.1:{bound.getsockname()[1]}", "1"]) == 1
    assert "Timed out waiting for connection to Zookeeper server" in capsys.readouterr().err


def test_listeners_follow_from_advertised_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert cub.main(["listeners", "PLAINTEXT://foo:9999,SSL://bar:9098"]) == 0
    assert capsys.readouterr().out == "PLAINTEXT://0.0.0.0:9999,SSL://0.0.0.0:9098\n"
    assert cub.main(["listeners", ""]) == 1


@pytest.mark.parametrize(
    ("partitions", "flags", "code", "message"),
    [
        (2, [], 0, "valid ? true"),
        (3, [], 1, "Invalid topic [ orders ] ! Expected TopicSpec={name='orders', partitions='2', replicationFactor=1"),
        (0, [], 1, "Topic [ orders ] does not exist"),
        (0, ["--create_if_not_exists"], 0, "Topic [ orders ] created with spec: [ TopicSpec={name='orders'"),
    ],
)
def test_a_topic_is_checked_or_created(
    partitions: int,
    flags: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = use(Cluster(topic_partitions=partitions), monkeypatch)
    config, topics = tmp_path / "client.properties", tmp_path / "topics.yaml"
    config.write_text("bootstrap.servers=h:1\n")
    topics.write_text(TOPIC)
    assert cub.main(["ensure-topic", str(config), str(topics), "30", *flags]) == code
    assert message in capsys.readouterr().err
    assert cluster.created == (["orders"] if flags else [])


def test_a_file_of_topics_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, topics = tmp_path / "client.properties", tmp_path / "topics.yaml"
    config.write_text("bootstrap.servers=h:1\n")
    topics.write_text("topics: [{name: orders}]\n")
    assert cub.main(["ensure-topic", str(config), str(topics), "30"]) == 1
    assert "expected topics, each with name, partitions, replicationFactor and config" in capsys.readouterr().err


def test_a_wrong_command_line_exits_with_2_and_none_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert cub.main(["kafka-ready", "1", "2"]) == 2
    assert cub.main(["sr-ready", "host"]) == 2
    assert cub.main([]) == 1
    assert cub.main(["--help"]) == 0
    assert "zk-ready" in capsys.readouterr().out
