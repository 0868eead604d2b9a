"""`ApacheKafka` and `KafkaProcess`: the folder with the jars, the command line, and the configuration of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.brokers.config.properties import parse_properties
from understudy.clusters.cluster import ClusterError
from understudy.clusters.java import JavaRuntime
from understudy.clusters.processes.apache_kafka import ApacheKafka, KafkaNotFound, KafkaProcess
from understudy.clusters.processes.local_cluster import LocalCluster


@pytest.fixture
def kafka(tmp_path: Path) -> ApacheKafka:
    """A folder with the jar that `ApacheKafka` looks for, and a Java that exits at once."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin/java").symlink_to("/bin/true")
    libs = tmp_path / "libs"
    libs.mkdir()
    (libs / "kafka_2.13-3.9.1.jar").touch()
    return ApacheKafka(libs, JavaRuntime(home=home, version=17, why="made up"), ("-Xmx256m",))


def test_a_folder_without_kafkas_jar_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KafkaNotFound, match=f"{tmp_path} holds no kafka_2.13-3.9"):
        ApacheKafka.at(tmp_path)


def test_a_command_line_has_the_jars_the_jvm_options_and_the_log4j_configuration(
    kafka: ApacheKafka, tmp_path: Path
) -> None:
    command = kafka.command("kafka.Kafka", "server.properties", logging=tmp_path / "log4j.properties")
    logging = f"-Dlog4j.configuration=file://{tmp_path}/log4j.properties"
    assert command[1:] == ["-Xmx256m", logging, "-cp", f"{kafka.libs}/*", "kafka.Kafka", "server.properties"]


def test_the_configuration_of_a_kafka_broker_lacks_understudys_own_keys(kafka: ApacheKafka, tmp_path: Path) -> None:
    properties = {
        "zookeeper.connect": "127.0.0.1:1",
        "understudy.run.id": "run",
        "offsets.topic.replication.factor": "2",
    }
    broker = KafkaProcess(kafka, 7, tmp_path / "broker-7", rack="a", properties=properties)
    broker.launch()
    assert broker.process is not None
    assert broker.process.wait(10)
    written = parse_properties(broker.config.read_text())
    assert {key for key in written if key.startswith("understudy.")} == set()
    expected = {
        "broker.id": "7",
        "broker.rack": "a",
        "zookeeper.connect": "127.0.0.1:1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
    }
    assert written.items() >= expected.items()
    assert written["offsets.topic.replication.factor"] == "2"


def test_a_cluster_refuses_the_id_of_a_kafka_broker_that_it_does_not_have(kafka: ApacheKafka) -> None:
    with pytest.raises(ClusterError, match=r"brokers \[4\] cannot be Kafka's: this cluster has brokers 1 to 3"):
        LocalCluster(3, kafka_brokers={4: kafka})
