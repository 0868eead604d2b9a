"""Every record type has its sentence, in words that fit into a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.foundation.eventlog.lines import Logs
from understudy.foundation.eventlog.records import (
    PAYLOAD_BY_TYPE,
    AssignedMember,
    Assignment,
    BecameCandidate,
    Envelope,
    EventEnded,
    FenceHit,
    GroupAssigned,
    GroupOffset,
    HighWatermarkChanged,
    LeadershipWritten,
    OffsetsCommitted,
    PartitionsAssigned,
    Payload,
    ProcessStarted,
    RecordsAcknowledged,
    ReplicasMoved,
    RequestReceived,
    ResponseReceived,
    RunDescribed,
    TopicsChanged,
    Transition,
    ZkWrite,
    ZkWriteDone,
)
from understudy.foundation.eventlog.records import Leadership as State
from understudy.history.narrator import MOST_NAMED, Narrator, describe
from understudy.history.reading.lines import decode_record
from understudy.history.reading.reader import read_lines

SAMPLES = [
    decode_record(line)
    for path in sorted((Path(__file__).parents[2] / "foundation" / "eventlog" / "samples").glob("version-*.jsonl"))
    for line in path.read_bytes().splitlines()
]
LEFT_OUT = {"ContextAtIdle", "RequestDetail"}


def sentence(payload: Payload) -> str | None:
    logs = Logs()
    logs.at(1000, "broker-1", payload)
    [[line]] = logs.lines.values()
    return describe(decode_record(line))


def test_every_record_type_but_those_left_out_has_a_sentence() -> None:
    described = {record.type for record in SAMPLES if describe(record) is not None}
    assert set(PAYLOAD_BY_TYPE) - described == LEFT_OUT


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: record.type)
def test_a_sentence_has_no_full_stop_and_no_loose_ends(record: Envelope) -> None:
    words = describe(record)
    if words is not None:
        assert words == words.strip()
        assert not words.endswith((".", ",", ":"))
        assert "None" not in words


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (ProcessStarted(role="broker", broker_id=1, pid=17), "starts as broker, pid 17"),
        (
            ZkWrite(purpose="election", paths=("/controller",), operations=2, fenced=True, epoch_zk_version=6),
            "writes to ZooKeeper (election): /controller and 1 more, if /controller_epoch still has version 6",
        ),
        (ZkWriteDone(outcome="Ok", zxid=41), "has its write to ZooKeeper confirmed, zxid 41"),
        (ZkWriteDone(outcome="BadVersion"), "has its write to ZooKeeper refused: BadVersion"),
        (ZkWriteDone(outcome="NoNode"), "finds that a znode of its write does not exist: NoNode"),
        (ZkWriteDone(outcome="NodeExists"), "finds that a znode of its write exists already: NodeExists"),
        (
            FenceHit(fence="broker.controller-epoch", what="LeaderAndIsr from 1", offered=1, known=2),
            "fence broker.controller-epoch refuses LeaderAndIsr from 1 (offered 1, known 2)",
        ),
        (
            FenceHit(fence="broker.fetch-leader-epoch", what="Fetch orders-3", offered=0, known=1),
            "answers Fetch orders-3 with FENCED_LEADER_EPOCH: leader epoch 0 is over, 1 is current",
        ),
        (
            FenceHit(fence="broker.fetch-leader-epoch", what="Fetch orders-3", offered=0, known=1, switched_off=True),
            "fence broker.fetch-leader-epoch is switched off and lets pass Fetch orders-3 (offered 0, known 1)",
        ),
        (ZkWriteDone(outcome="Unknown"), "cannot tell whether a write was applied"),
        (
            EventEnded(event_id=1, event="BrokerChange", took_ms=12.34, outcome="moved"),
            "has processed BrokerChange in 12.3 ms: moved",
        ),
        (
            ReplicasMoved(
                target="OfflineReplica",
                replicas=(Transition("orders", 0, 2, "OnlineReplica"), Transition("orders", 1, 2, "OnlineReplica")),
            ),
            "moves orders-0 on 2, orders-1 on 2 to OfflineReplica",
        ),
        (
            RequestReceived(
                api="LeaderAndIsr", api_version=7, client_id="1", correlation_id=3, controller_epoch=4, broker_epoch=9
            ),
            "receives LeaderAndIsr from 1, controller epoch 4",
        ),
        (
            ResponseReceived(sender=2, api="StopReplica", client_id="1", correlation_id=3, refused_count=1),
            "receives NONE from broker 2 (StopReplica), 1 partition refused",
        ),
        (
            HighWatermarkChanged(
                topic="orders",
                topic_id="x",
                partition=0,
                role="leader",
                leader_epoch=1,
                high_watermark=7,
                log_end_offset=9,
            ),
            "moves the high watermark of orders-0 as leader to 7",
        ),
        (
            RecordsAcknowledged(
                topic="orders", topic_id="x", partition=0, leader_epoch=1, base_offset=3, last_offset=5, acks=-1
            ),
            "acknowledges offsets 3 to 5 of orders-0, acks=all",
        ),
        (
            GroupAssigned(
                group="readers",
                partition=7,
                generation=2,
                protocol_type="consumer",
                protocol="range",
                leader="a",
                members=(
                    AssignedMember("a", "", "client", (("orders", 0), ("orders", 1))),
                    AssignedMember("b", "", "client", ()),
                ),
            ),
            "assigns group readers in generation 2: a orders-0, orders-1, b nothing",
        ),
        (
            OffsetsCommitted(
                group="readers", partition=7, generation=2, appended_at=9, offsets=(GroupOffset("orders", 0, 5),)
            ),
            "commits offsets of group readers: orders-0 at 5",
        ),
    ],
)
def test_sentences(payload: Payload, words: str) -> None:
    assert sentence(payload) == words


@pytest.mark.parametrize(
    ("purpose", "paths", "outcome", "words"),
    [
        (
            "preferred-election",
            ("/admin/preferred_replica_election",),
            "NoNode",
            "finds no /admin/preferred_replica_election to delete: no leader election was requested",
        ),
        (
            "top-level-paths",
            ("/brokers/ids",),
            "NoNode",
            "finds that the parent of /brokers/ids does not exist yet, and creates it next",
        ),
        (
            "config",
            ("/controller", "/config/topics/orders"),
            "NoNode",
            "finds that /config/topics/orders does not exist yet, and creates it next",
        ),
        ("cluster-id", ("/cluster/id",), "NodeExists", "finds that /cluster/id exists already"),
        ("election", ("/controller", "/controller_epoch"), "NodeExists", "finds that /controller exists already"),
        ("leader-and-isr", ("/x",), "NoNode", "finds that a znode of its write does not exist: NoNode"),
        ("leader-and-isr", ("/x",), "BadVersion", "has its write to ZooKeeper refused: BadVersion"),
    ],
)
def test_a_failed_write_that_is_part_of_normal_operation_says_what_it_means(
    purpose: str, paths: tuple[str, ...], outcome: str, words: str
) -> None:
    logs = Logs()
    logs.at(1000, "broker-1", ZkWrite(purpose=purpose, paths=paths, operations=len(paths), fenced=False))
    logs.at(1001, "broker-1", ZkWriteDone(outcome=outcome), cause=1)
    narrator = Narrator()
    assert [narrator.describe(record) for record in read_lines(logs.lines).records][1] == words


def test_a_failover_of_many_partitions_is_one_line() -> None:
    states = tuple(State("orders", number, 2, 1, (2, 3), 1, 2) for number in range(100_000))
    words = sentence(LeadershipWritten(why="offline", partitions=states))
    assert words is not None
    assert words.endswith(f" and {100_000 - MOST_NAMED} more")
    assert len(words) < 1_000
    assert sentence(TopicsChanged(new=("b", "a"), deleted=())) == "finds new topics b, a"


def test_a_kraft_cluster_is_described_by_its_quorum() -> None:
    assert sentence(RunDescribed(is_kraft=True)) == (
        "has the records of a KRaft cluster, imported from the log of its quorum"
    )
    assert sentence(RunDescribed(session_timeout_ms=9_000)) == "has a session timeout of 9 s"
    assert sentence(RunDescribed(world="simulator", session_timeout_ms=9_000)) == "describes the run: simulator"
    assigned = PartitionsAssigned(
        partitions=(Assignment("orders", 0, (1, 2), ()), Assignment("orders", 1, (2, 3), (1,)))
    )
    assert sentence(assigned) == "assigns orders-0 to 1 2, orders-1 to 2 3"
    assert sentence(BecameCandidate(why="fetch timeout")) == "seeks election: fetch timeout"
