"""The clients of a load in a simulated run: their event logs, and that writing them changes nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.cli.main import main
from understudy.clusters.clients.client_events import OpenClientLog
from understudy.clusters.clients.client_load import ClientLoad
from understudy.clusters.clients.group_load import GroupLoad
from understudy.clusters.clients.group_member import MemberSettings
from understudy.clusters.clients.producer import ALL_ACKS
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import (
    ClientConnection,
    ClientRequestBegan,
    ClientRequestEnded,
    Envelope,
    MemberTransition,
    Payload,
    ProcessExiting,
    ProcessStarted,
)
from understudy.history.reading.missing import find_missing
from understudy.history.reading.reader import read
from understudy.history.reading.run_builder import run_records_of

PARTITION = TopicPartition("orders", 0)
LEADER = 1


def run_load(
    seed: int, open_log: Callable[[SimulatedCluster], OpenClientLog | None], folder: Path | None = None
) -> SimulatedCluster:
    """Run a producer, a consumer and a member while the leader of their partition is killed."""
    cluster = SimulatedCluster(seed, brokers=3, settings={"understudy.events.logs": "true"}, reordering=True)
    cluster.start()
    cluster.create_topic("orders", assignment={0: [LEADER, 2, 3]})
    of_cluster = (cluster.client_network, cluster.simulator.clock, lambda: cluster.bootstrap)
    load = ClientLoad(*of_cluster, [PARTITION], open_log=open_log(cluster))
    groups = GroupLoad(*of_cluster, open_log=open_log(cluster))
    settings = MemberSettings(group_id="readers", topics=("orders",), session_timeout_ms=6_000)
    cluster.begin(load.produce("producer-1", ALL_ACKS, random.Random(seed), gap_s=(0.1, 0.3)))
    cluster.begin(load.consume("consumer-1"))
    cluster.begin(groups.run("member-1", settings))
    cluster.begin(groups.watch("readers", [PARTITION]))
    cluster.run_for(5_000)
    cluster.broker(LEADER).kill()
    cluster.run_for(15_000)
    cluster.heal()
    cluster.settle()
    load.is_stopping = groups.is_stopping = True
    cluster.wait_until(lambda: not load.running + groups.running, "the clients have ended")
    cluster.close()
    if folder is not None:
        cluster.dump(folder)
    return cluster


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    run_load(7, lambda cluster: cluster.open_client_log, folder)
    return folder


@pytest.fixture(scope="module")
def records(folder: Path) -> tuple[Envelope, ...]:
    reading = read([folder])
    assert reading.findings == ()
    assert find_missing(run_records_of(reading.records, reading.sequences)) == ()
    return reading.records


def of_client(records: tuple[Envelope, ...], name: str) -> list[Payload]:
    return [record.data for record in records if record.node == name]


def test_each_client_but_the_watcher_has_a_log_from_its_start_to_its_end(records: tuple[Envelope, ...]) -> None:
    clients = {each.node for each in records if isinstance(each.data, ProcessStarted) and each.data.role == "client"}
    assert clients == {"producer-1", "consumer-1", "member-1"}
    for name in clients:
        found = of_client(records, name)
        assert isinstance(found[0], ProcessStarted)
        assert isinstance(found[-1], ProcessExiting)


def test_producer_records_what_waits_while_its_leader_is_dead(records: tuple[Envelope, ...]) -> None:
    found = of_client(records, "producer-1")
    ended = [each for each in found if isinstance(each, ClientRequestEnded) and each.api == "Produce"]
    retried = next(place for place, each in enumerate(ended) if each.is_sent_again)
    assert ended[0].error == "NONE"
    assert (ended[retried].broker, ended[retried].error) == (f"broker-{LEADER}", "")
    acknowledged = next(each for each in ended[retried:] if each.error == "NONE")
    assert acknowledged.broker != f"broker-{LEADER}"
    assert acknowledged.attempt > 1
    failed = [each for each in found if isinstance(each, ClientConnection) and each.state == "failed"]
    assert {each.broker for each in failed} == {f"broker-{LEADER}"}


def test_consumer_records_the_position_after_each_answer(records: tuple[Envelope, ...]) -> None:
    found = of_client(records, "consumer-1")
    begun = [each for each in found if isinstance(each, ClientRequestBegan) and each.api == "Fetch"]
    assert (begun[0].offset, begun[0].broker) == (0, f"broker-{LEADER}")
    assert begun[-1].broker != f"broker-{LEADER}"
    position = 0
    for each in found:
        if isinstance(each, ClientRequestEnded) and each.api == "Fetch" and each.records:
            assert each.offset == position
            position = each.next_offset
    sent = sum(
        each.records
        for each in of_client(records, "producer-1")
        if isinstance(each, ClientRequestEnded) and each.api == "Produce" and each.error == "NONE"
    )
    assert 0 < position <= sent


def test_member_records_its_states(records: tuple[Envelope, ...]) -> None:
    states = [each for each in of_client(records, "member-1") if isinstance(each, MemberTransition)]
    targets = [each.target for each in states]
    assert targets[0] == "PREPARING_REBALANCE"
    assert targets.index("COMPLETING_REBALANCE") < targets.index("STABLE")
    stable = states[targets.index("STABLE")]
    assert (stable.generation, stable.partitions) == (1, (("orders", 0),))
    assert stable.coordinator > 0


def test_member_records_its_commits(records: tuple[Envelope, ...]) -> None:
    found = of_client(records, "member-1")
    begun = [each for each in found if isinstance(each, ClientRequestBegan) and each.api == "OffsetCommit"]
    ended = [each for each in found if isinstance(each, ClientRequestEnded) and each.api == "OffsetCommit"]
    assert {each.offset for each in begun if each.broker} == {each.offset for each in ended if each.error == "NONE"}
    assert {(each.group, each.topic, each.partition) for each in ended} == {("readers", "orders", 0)}


def test_check_takes_the_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(folder)]) == 0
    assert "no violations" in capsys.readouterr().out


@pytest.mark.parametrize("seed", [1, 2])
def test_writing_the_logs_of_clients_changes_nothing_else(seed: int) -> None:
    recorded = run_load(seed, lambda cluster: cluster.open_client_log)
    others = run_load(seed, lambda _: None)
    assert recorded.client_logs
    assert not others.client_logs
    for one, other in zip(recorded.brokers, others.brokers, strict=True):
        assert one.node.log.lines == other.node.log.lines
    assert (recorded.network.messages, recorded.loop.executed) == (others.network.messages, others.loop.executed)
