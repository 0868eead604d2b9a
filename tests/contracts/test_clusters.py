"""Tests of the `Cluster` protocol: the same scenarios on brokers in virtual time and on processes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import BrokerHandle, Cluster, ClusterError, Unsettled, Unsupported, WaitTimedOut
from understudy.clusters.findings import FindingKind
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import (
    AnswerInjected,
    FaultInjected,
    PointReached,
    RunDescribed,
    StepReached,
)
from understudy.history.reading.lines import decode_record
from understudy.history.reading.reader import read

SESSION_MS = 3_000


class Simulated:
    """A cluster in virtual time."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(
            29,
            brokers=3,
            settings={"zookeeper.session.timeout.ms": str(SESSION_MS), "auto.leader.rebalance.enable": "false"},
        )

    def records(self) -> list[object]:
        """The payloads of all records, in the order in which they were written."""
        return [decode_record(line).data for line in self.cluster.log_lines]


class Processes:
    """A cluster of processes, whose traffic may go through a proxy."""

    def __init__(self, zookeeper: EmbeddedZooKeeper, directory: Path, *, proxied: bool) -> None:
        self.cluster = LocalCluster(
            3,
            zookeeper=zookeeper,
            directory=directory,
            session_timeout_ms=SESSION_MS,
            properties={"auto.leader.rebalance.enable": "false"},
            proxied=proxied,
        )

    def records(self) -> list[object]:
        return [record.data for record in sorted(read([self.cluster.directory]).records, key=lambda r: r.wall_ms)]


Subject = Simulated | Processes

SUBJECTS = ["simulated", "processes"]
PROXIED = "proxied"


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    if request.param == "simulated":
        subject: Subject = Simulated()
    else:
        zookeeper = request.getfixturevalue("zookeeper")
        subject = Processes(zookeeper, tmp_path, proxied=request.param == "proxied")
    try:
        subject.cluster.start()
        subject.cluster.start()  # harmless: the cluster has been started
        yield subject
    finally:
        subject.cluster.close()


def test_a_run_is_described_once_with_what_the_cluster_knows_of_its_settings(subject: Subject) -> None:
    (described,) = (record for record in subject.records() if isinstance(record, RunDescribed))
    assert described.world == {Simulated: "simulator", Processes: "processes"}[type(subject)]
    assert (described.brokers, described.session_timeout_ms) == (3, SESSION_MS)
    assert described.seed == (29 if isinstance(subject, Simulated) else None)
    assert described.software_version


def another_controller(cluster: Cluster, fallen: BrokerHandle) -> None:
    cluster.wait_until(
        lambda: cluster.controller_id() not in (None, fallen.id), f"another broker than {fallen.id} is controller"
    )


def faults(subject: Subject, since: str) -> list[tuple[str, str, str]]:
    """The faults recorded after the step `since`."""
    records = subject.records()
    begin = records.index(StepReached(step=since))
    return [(r.fault, r.target, r.role) for r in records[begin:] if isinstance(r, FaultInjected)]


@pytest.mark.parametrize("subject", [*SUBJECTS, PROXIED], indirect=True)
def test_a_controller_is_killed_paused_deposed_and_stopped(subject: Subject) -> None:
    cluster: Cluster = subject.cluster
    cluster.create_topic("orders", partitions=3, replication_factor=3)
    cluster.settle()
    assert sorted(cluster.isr("orders", 0)) == list(cluster.broker_ids)
    epoch = cluster.picture().controller_epoch
    cluster.record_step("scenario")

    killed = cluster.controller()
    killed.kill()
    assert (killed.is_running, killed.is_paused) == (False, False)
    another_controller(cluster, killed)
    cluster.wait_until(
        lambda: all(cluster.leader_id("orders", partition) not in (None, killed.id) for partition in range(3)),
        "live brokers lead all partitions",
    )
    assert FindingKind.LEADERLESS not in {finding.kind for finding in cluster.findings().found}
    killed.restart()
    assert killed.is_running
    cluster.settle()
    assert sorted(cluster.isr("orders", 0)) == list(cluster.broker_ids)

    paused = cluster.controller()
    paused.pause()
    assert (paused.is_running, paused.is_paused) == (True, True)
    another_controller(cluster, paused)
    paused.resume()
    cluster.settle()
    assert not paused.is_paused

    deposed = cluster.controller()
    before = cluster.picture().controller_epoch
    deposed.depose()
    cluster.wait_until(lambda: cluster.picture().controller_epoch > before, "a controller is elected")
    cluster.settle()
    assert deposed.is_running

    stopped = cluster.leader("orders", 0)
    stopped.stop()
    assert not stopped.is_running
    assert stopped.id not in cluster.picture().brokers
    stopped.start()
    cluster.settle()
    assert cluster.picture().controller_epoch >= epoch + 3
    assert set(cluster.ask(cluster.admin.elect_leaders([TopicPartition("orders", 0)])).values()) <= {
        Errors.NONE,
        Errors.ELECTION_NOT_NEEDED,
    }

    injected = [(fault, target) for fault, target, _ in faults(subject, "scenario")]
    assert injected == [
        ("kill", killed.name),
        ("start", killed.name),
        ("pause", paused.name),
        ("resume", paused.name),
        ("depose", deposed.name),
        ("stop", stopped.name),
        ("start", stopped.name),
    ]
    assert faults(subject, "scenario")[0] == ("kill", killed.name, "controller")


def test_an_armed_point_crashes_the_controller_once(subject: Subject) -> None:
    cluster: Cluster = subject.cluster
    armed = cluster.controller()
    armed.arm("partition.after_write", "crash")
    # The client sends its request again to the next controller, which finds the topic created or creates it.
    with contextlib.suppress(ApiError, NoBrokerAnswers):
        cluster.create_topic("orders", partitions=1, replication_factor=3)
    cluster.wait_until(lambda: not armed.is_running, f"{armed.name} has crashed")
    another_controller(cluster, armed)
    armed.start()
    cluster.settle()
    assert subject.records().count(PointReached(point="partition.after_write", action="crash")) == 1


def test_an_armed_answer_is_given_as_often_as_it_is_armed_for(subject: Subject) -> None:
    cluster: Cluster = subject.cluster
    controller = cluster.controller()
    answer = controller.answer("CreateTopics", "INVALID_REPLICATION_FACTOR", times=2, topic="orders")
    cluster.create_topic("letters", partitions=1, replication_factor=3)
    for _ in range(2):
        with pytest.raises(ApiError, match="INVALID_REPLICATION_FACTOR: orders: This answer was armed"):
            cluster.create_topic("orders", partitions=1, replication_factor=3)
    assert answer.wait() == answer.hits == 2
    cluster.create_topic("orders", partitions=1, replication_factor=3)
    assert answer.hits == 2
    note = f"{controller.name}: answer-1: 2 × CreateTopics about orders answered with INVALID_REPLICATION_FACTOR"
    assert StepReached(step="armed", note=note) in subject.records()
    given = [record for record in subject.records() if isinstance(record, AnswerInjected)]
    assert [(each.answer, each.hit, each.partitions) for each in given] == [
        ("answer-1", number, (("orders", -1),)) for number in (1, 2)
    ]


def test_an_armed_answer_outlives_the_process_of_its_broker(subject: Subject) -> None:
    cluster: Cluster = subject.cluster
    broker = next(each for each in cluster.brokers if each.id != cluster.controller_id())
    answer = broker.answer("ApiVersions", "INVALID_REQUEST", client_id="none")
    broker.restart()
    second = broker.answer("ApiVersions", "INVALID_REQUEST", client_id="none")
    assert (answer.name, second.name, answer.hits) == ("answer-1", "answer-2", 0)
    with pytest.raises(WaitTimedOut, match=f"{broker.name} has given 1 times the answer answer-1"):
        answer.wait(timeout_s=0)


def test_both_refuse_the_same_calls_with_the_same_words(subject: Subject) -> None:
    cluster: Cluster = subject.cluster
    other = next(broker for broker in cluster.brokers if broker.id != cluster.controller_id())
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: cluster.broker(9), "there is no broker 9; this cluster has 1, 2, 3"),
        (lambda: cluster.leader("nothing", 7), "no broker is leader of nothing-7 at this moment"),
        (other.depose, f"{other.name} cannot be deposed: it is not the controller"),
        (other.start, f"{other.name} cannot be started: it is running"),
        (
            lambda: other.arm("partition.befor_write", "pause"),
            "there is no point 'partition.befor_write'; the points are",
        ),
        (lambda: other.arm("partition.before_write", "explode"), "a point can pause or crash a broker, not 'explode'"),
    ]
    for call, message in refused:
        with pytest.raises(ClusterError, match=message):
            call()
    assert cluster.leader_id("nothing", 7) is None
    assert cluster.isr("nothing", 7) == ()
    with pytest.raises(WaitTimedOut, match="not within 0 s: rain"):
        cluster.wait_until(lambda: False, "rain", timeout_s=0)
    cluster.record_step("down")
    other.stop()
    for fault in (other.kill, other.pause, other.resume, other.stop):
        with pytest.raises(ClusterError, match=f"was not injected: {other.name} is not running"):
            fault()
    assert [fault for fault, _, _ in faults(subject, "down")] == ["stop"]
    with pytest.raises(ApiError):
        cluster.create_topic("too-many", partitions=1, replication_factor=3)


def test_settling_in_no_time_names_what_is_left(subject: Subject) -> None:
    cluster: Cluster = subject.cluster
    cluster.create_topic("orders", partitions=1, replication_factor=3)
    cluster.settle()
    killed = cluster.leader("orders", 0)
    killed.kill()
    with pytest.raises(Unsettled, match=f"broker {killed.id} is registered but does not run"):
        cluster.settle(timeout_s=0)


@pytest.mark.parametrize("subject", [*SUBJECTS, PROXIED], indirect=True)
def test_an_isolated_controller_is_replaced_or_isolation_is_unsupported(subject: Subject) -> None:
    cluster: Cluster = subject.cluster
    isolated = cluster.controller()
    if isinstance(subject, Processes) and not subject.cluster.is_proxied:
        for fault in (isolated.isolate, isolated.heal):
            with pytest.raises(Unsupported, match=rf"{isolated.name} cannot be .*no proxy"):
                fault()
        return
    cluster.record_step("isolation")
    isolated.isolate()
    another_controller(cluster, isolated)
    assert isolated.is_running
    isolated.heal()
    isolated.heal()  # harmless: it is not isolated any more
    cluster.settle()
    assert faults(subject, "isolation")[0] == ("isolate", isolated.name, "controller")


def test_healing_one_isolated_broker_leaves_the_other_isolated() -> None:
    with SimulatedCluster(3, brokers=3) as cluster:
        cluster.start()
        controller = cluster.controller()
        one, other = (broker for broker in cluster.brokers if broker is not controller)
        for broker in (one, other):
            broker.isolate()
        cluster.run_for(10_000)
        one.heal()
        with pytest.raises(Unsettled, match=f"broker {other.id} runs but is not registered"):
            cluster.settle(timeout_s=20)
        assert cluster.network.is_cut(one.name, other.name)
        assert not cluster.network.is_cut(one.name, controller.name)
        other.heal()
        cluster.settle()
