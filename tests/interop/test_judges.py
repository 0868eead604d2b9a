"""What judges the interop tests can tell good from bad; needs no Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.identifiers import TopicPartition
from foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from foundation.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.interop.maven import NotFetched, kafka_libs
from tests.interop.mixed import alarming, disagreements
from tests.interop.scene import Line, Printed, differences, parse
from understudy.testbed.picture import ClusterPicture, PartitionPicture

ORDERS = TopicPartition("orders", 0)
BROKER = MetadataResponseBroker(node_id=9, host="localhost", port=9092)


def picture(*, leader_epoch: int = 4) -> ClusterPicture:
    leadership = LeaderAndIsr(leader=1, leader_epoch=leader_epoch, isr=(1, 2), partition_epoch=7)
    state = LeaderIsrAndControllerEpoch(leader_and_isr=leadership, controller_epoch=2)
    partition = PartitionPicture(assignment=ReplicaAssignment(replicas=(1, 2)), state=state)
    return ClusterPicture(controller=1, controller_epoch=2, brokers={}, partitions={ORDERS: partition})


def metadata(*, controller: int = 1, isr: tuple[int, ...] = (1, 2)) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=4, replica_nodes=(1, 2), isr_nodes=isr)
    topic = MetadataResponseTopic(name="orders", partitions=(partition,))
    return MetadataResponse(brokers=(), controller_id=controller, topics=(topic,))


def test_a_broker_that_knows_everything_is_not_blamed() -> None:
    assert list(disagreements(picture(), 1, metadata())) == []


@pytest.mark.parametrize(
    ("seen", "said", "about"),
    [
        (picture(), metadata(controller=2), "the controller"),
        (picture(), metadata(isr=(1,)), "orders-0"),
        (picture(leader_epoch=5), metadata(), "orders-0"),
        (picture(), MetadataResponse(brokers=(), controller_id=1, topics=()), "orders-0"),
        (picture(), MetadataResponse(brokers=(BROKER,), controller_id=1, topics=metadata().topics), "the brokers"),
        (picture(), None, "no answer"),
    ],
)
def test_whatever_a_broker_has_not_heard_is_found(seen: ClusterPicture, said: MetadataResponse | None, about: str) -> None:
    [complaint] = disagreements(seen, 1, said)
    assert about in complaint


def test_what_kafka_complains_about_is_found_with_its_stack_trace() -> None:
    log = "[t] INFO fine\n[t] ERROR bad (C)\njava.lang.Oh\n\tat home\n[t] INFO fine\n  and so on\n[t] WARN odd (D)\n"
    assert list(alarming(log)) == ["[t] ERROR bad (C)\njava.lang.Oh\n\tat home", "[t] WARN odd (D)"]


def test_scenes_are_read_with_their_known_differences() -> None:
    text = "# a remark\n\nkafka-topics --list\ndiffers ours is shorter\nkafka-topics --describe\nkill 3\n"
    assert parse(text) == (
        Line("kafka-topics", "--list", ""),
        Line("kafka-topics", "--describe", "ours is shorter"),
        Line("kill", "3", ""),
    )


def test_a_difference_is_shown_once_it_is_one() -> None:
    [plain, excused] = parse("kafka-topics --list\ndiffers we are new\nkafka-topics --describe")
    same = [Printed(plain, "a\nb")]
    assert list(differences(same, same)) == []
    [shown] = differences(same, [Printed(plain, "a\nc")])
    assert "-b" in shown
    assert "+c" in shown
    assert list(differences([Printed(excused, "a")], [Printed(excused, "b")])) == []
    [stale] = differences([Printed(excused, "a")], [Printed(excused, "a")])
    assert "we are new" in stale


def test_a_machine_without_kafka_is_told_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFetched, match=r"holds no kafka-tools-3\.9"):
        kafka_libs({"KAFKA_LIBS": str(tmp_path)})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFetched, match="no mvn on the PATH"):
        kafka_libs({"XDG_CACHE_HOME": str(tmp_path)})
