"""The checks of the interop tests find what they should find; needs no Kafka."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from devtools.judges.maven import kafka_libs
from tests.interop.mixed import disagreements, unexpected_entries
from tests.interop.tool_script import Line, Printed, ScriptRunner, differences, parse, recorded, without_chance
from tests.interop.tools import Outcome
from understudy.clusters.picture import ClusterPicture, PartitionPicture
from understudy.clusters.processes.kafka_jars import NotFetched
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.processes import ChildProcess
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ONE, TWO = BrokerId(1), BrokerId(2)
ORDERS = TopicPartition("orders", 0)
BROKER = MetadataResponseBroker(node_id=9, host="localhost", port=9092)


def picture(*, leader_epoch: int = 4) -> ClusterPicture:
    leadership = LeaderAndIsr(leader=ONE, leader_epoch=leader_epoch, isr=(ONE, TWO), partition_epoch=7)
    state = LeaderIsrAndControllerEpoch(leader_and_isr=leadership, controller_epoch=2)
    partition = PartitionPicture(assignment=ReplicaAssignment(replicas=(ONE, TWO)), state=state)
    return ClusterPicture(controller=ONE, controller_epoch=2, brokers={}, partitions={ORDERS: partition})


def metadata(*, controller: int = 1, isr: tuple[int, ...] = (1, 2)) -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=1, leader_epoch=4, replica_nodes=(1, 2), isr_nodes=isr
    )
    topic = MetadataResponseTopic(name="orders", partitions=(partition,))
    return MetadataResponse(brokers=(), controller_id=controller, topics=(topic,))


def test_metadata_equal_to_zookeeper_is_no_disagreement() -> None:
    assert list(disagreements(picture(), 1, metadata())) == []


@pytest.mark.parametrize(
    ("seen", "response", "about"),
    [
        (picture(), metadata(controller=2), "the controller"),
        (picture(), metadata(isr=(1,)), "orders-0"),
        (picture(leader_epoch=5), metadata(), "orders-0"),
        (picture(), MetadataResponse(brokers=(), controller_id=1, topics=()), "orders-0"),
        (picture(), MetadataResponse(brokers=(BROKER,), controller_id=1, topics=metadata().topics), "the brokers"),
        (picture(), None, "no answer"),
    ],
)
def test_metadata_that_differs_from_zookeeper_is_a_disagreement(
    seen: ClusterPicture, response: MetadataResponse | None, about: str
) -> None:
    [disagreement] = disagreements(seen, 1, response)
    assert about in disagreement


def test_errors_and_warnings_of_kafka_are_found_with_their_stack_traces() -> None:
    log = "[t] INFO fine\n[t] ERROR bad (C)\njava.lang.Oh\n\tat home\n[t] INFO fine\n  and so on\n[t] WARN odd (D)\n"
    assert list(unexpected_entries(log)) == ["[t] ERROR bad (C)\njava.lang.Oh\n\tat home", "[t] WARN odd (D)"]


@pytest.mark.parametrize(
    "entry",
    [
        "WARN [RequestSendThread controllerId=4] Controller 4's connection to broker 127.0.0.1:1 (id: 1 rack: null) was"
        " unsuccessful (kafka.controller.RequestSendThread)\n"
        "org.apache.kafka.common.errors.DisconnectException: NetworkClient is no longer active, state is CLOSING",
        "WARN [RequestSendThread controllerId=3] Controller 3 epoch 8 fails to send request"
        " (type: UpdateMetadataRequest=) to broker 127.0.0.1:1 (id: 1 rack: null). Reconnecting to broker."
        " (kafka.controller.RequestSendThread)\n"
        "java.io.IOException: Client was shutdown before response was read",
        "ERROR [RequestSendThread controllerId=3] Controller 3 fails to send a request to broker 127.0.0.1:1"
        " (id: 1 rack: null) (kafka.controller.RequestSendThread)\njava.lang.InterruptedException",
        "WARN [Broker id=3] Received update metadata request with correlation id 5 from an old controller 1"
        " with epoch 7. Latest known controller epoch is 8 (state.change.logger)",
        "WARN Client session timed out, have not heard from server in 6822ms for session id 0x1"
        " (org.apache.zookeeper.ClientCnxn)",
        "WARN [AlterPartitionManager id=4] Broker had a stale broker epoch (88), retrying."
        " (kafka.server.DefaultAlterPartitionManager)",
        "WARN [RPC ProducerId Manager 3]: Our broker ID is not yet known by the controller, trying again."
        " (kafka.coordinator.transaction.RPCProducerIdManager)",
    ],
)
def test_log_entries_of_kafka_about_leaving_brokers_are_harmless(entry: str) -> None:
    answered = "ERROR Received error INCONSISTENT_TOPIC_ID in LeaderAndIsr response from broker 1 (state.change.logger)"
    unread = (
        "WARN [RequestSendThread controllerId=3] Controller 3 epoch 8 fails to send request to broker 127.0.0.1:1"
        " (id: 1 rack: null).\norg.apache.kafka.common.protocol.types.SchemaException: Buffer underflow"
    )
    assert list(unexpected_entries(f"[t] {entry}\n[t] {answered}\n[t] {unread}\n")) == [
        f"[t] {answered}",
        f"[t] {unread}",
    ]


@pytest.mark.parametrize("listed", ["{}[a, b]", "[{}a, b]", "[a, {}b]", "[a, b{}]"])
def test_the_connection_report_of_zookeeper_shell_is_removed_from_any_line(listed: str) -> None:
    connected = "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n"
    assert (
        without_chance(f"Connecting to <zookeeper>\n{listed.format(connected)}\n")
        == "Connecting to <zookeeper>\n[a, b]"
    )


SCRIPT = """\
# a remark

kafka-topics --list
    exit code 0
    \torders
differs ours is shorter
kafka-topics --describe
    exit code 1
beside
kafka-topics --delete
    exit code 0
kill 3
"""


def test_tool_scripts_are_parsed_with_recorded_output_and_known_differences() -> None:
    assert parse(SCRIPT) == (
        Line("kafka-topics", "--list", printed="exit code 0\n\torders"),
        Line("kafka-topics", "--describe", differs="ours is shorter", printed="exit code 1"),
        Line("kafka-topics", "--delete", printed="exit code 0", is_beside=True),
        Line("kill", "3"),
    )


def test_recording_a_tool_script_replaces_only_the_output() -> None:
    tools = [line for line in parse(SCRIPT) if line.is_tool]
    same = [Printed(line, line.printed) for line in tools]
    assert recorded(SCRIPT, same) == SCRIPT
    other = recorded(SCRIPT, [Printed(tools[0], "exit code 0\n\tpayments"), *same[1:]])
    assert other == SCRIPT.replace("orders", "payments")


@dataclass(frozen=True, slots=True)
class FirstEndsAfterSecond:
    """Two tools, of which the first one ends when the second one has run."""

    directory: Path
    second_has_run: threading.Event = field(default_factory=threading.Event)

    def run(self, line: str, stdin: str = "", timeout_s: float = 60.0) -> Outcome:
        if "--list" in line:
            return Outcome(0 if self.second_has_run.wait(timeout_s) else 1, "first", "")
        self.second_has_run.set()
        return Outcome(0, "second", "")

    def start(self, line: str, log: Path) -> ChildProcess:
        raise NotImplementedError


def test_a_tool_runs_beside_the_lines_after_it_and_its_output_keeps_its_place(tmp_path: Path) -> None:
    script = parse("beside\nkafka-topics --list\nkafka-topics --describe\n")
    cluster = SimpleNamespace(brokers=(), directory=tmp_path / "run", zookeeper_connect="127.0.0.1:2181")
    runner = ScriptRunner(cast(LocalCluster, cluster), FirstEndsAfterSecond(tmp_path))
    assert [text for _, text in runner.run(script)] == ["exit code 0\nfirst", "exit code 0\nsecond"]


def test_a_difference_is_shown_and_so_is_a_known_one_that_no_longer_occurs() -> None:
    plain, differing, *_ = parse(SCRIPT)
    assert list(differences([Printed(plain, plain.printed), Printed(differing, "exit code 2")])) == []
    [shown] = differences([Printed(plain, "exit code 0\n\tpayments")])
    assert "-\torders" in shown
    assert "+\tpayments" in shown
    [stale] = differences([Printed(differing, differing.printed)])
    assert "ours is shorter" in stale


def test_a_missing_kafka_is_reported_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFetched, match=r"holds no kafka-tools-3\.9"):
        kafka_libs({"KAFKA_LIBS": str(tmp_path)})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFetched, match="no mvn on the PATH"):
        kafka_libs({"XDG_CACHE_HOME": str(tmp_path)})
