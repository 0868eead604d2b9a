"""Elections in the lines of every version of Kafka with ZooKeeper-mode controllers and state machines, from 1.1 on.

The lines are from Kafka 1.1.1, 2.0.1, 2.1.1, 2.4.1, 2.7.2 and 3.9.1, whose controller was killed; the versions
between them print the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.understudy.history.kafka_logs.cluster_logs import imported, payloads
from understudy.foundation.eventlog.records import (
    BrokersChanged,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    Leadership,
    LeadershipWritten,
    ResponseSent,
    SessionOpened,
)
from understudy.history.kafka_logs.survey import EntryKind

CONTROLLER, STATE_CHANGE, SERVER = EntryKind.CONTROLLER, EntryKind.STATE_CHANGE, EntryKind.SERVER


class Version(NamedTuple):
    """The lines of one version."""

    session: str
    """The line about the ZooKeeper session."""
    first: Sequence[str]
    """The first election in a cluster."""
    elected: Sequence[str]
    """The second election."""
    brokers: str
    """The line about a broker that came."""
    epochs: Sequence[str] = ()
    """The line about broker epochs."""
    machine: str = "ZkPartitionStateMachine"
    """The class that counts the partitions."""


_OLD_SESSION = "Session establishment complete on server localhost/127.0.0.1:44257, sessionid = 0xa, negotiated"
_SESSION = "Session establishment complete on server localhost/127.0.0.1:44257, session id = 0xa, negotiated"
_TWO_LINES = Version(
    session=_OLD_SESSION,
    first=("1 successfully elected as the controller", "Epoch incremented to 1"),
    elected=(
        "1 successfully elected as the controller",
        "Reading controller epoch from ZooKeeper",
        "Initialized controller epoch to 1 and zk version 0",
        "Incrementing controller epoch in ZooKeeper",
        "Epoch incremented to 2",
    ),
    brokers="Newly added brokers: 2, deleted brokers: , all live brokers: 1,2",
    machine="PartitionStateMachine",
)
_ONE_LINE = Version(
    session=_OLD_SESSION,
    first=("1 successfully elected as the controller. Epoch incremented to 1 and epoch zk version is now 1",),
    elected=("1 successfully elected as the controller. Epoch incremented to 2 and epoch zk version is now 2",),
    brokers="Newly added brokers: 2, deleted brokers: , bounced brokers: , all live brokers: 1,2",
    epochs=("Initialized broker epochs cache: Map(1 -> 64, 2 -> 65)",),
)
VERSIONS = {
    "1.1 and 2.0": _TWO_LINES,
    "2.1": _ONE_LINE._replace(brokers=_TWO_LINES.brokers, epochs=(), machine="PartitionStateMachine"),
    "2.2 to 2.7": _ONE_LINE,
    "2.8 to 3.9": _ONE_LINE._replace(
        session=_SESSION, epochs=("Initialized broker epochs cache: HashMap(1 -> 64, 2 -> 65)",)
    ),
}


def at(ms: int, messages: Sequence[str]) -> list[str]:
    return [f"00,{ms + number:03} INFO [Controller id=1] {message}" for number, message in enumerate(messages)]


@pytest.mark.parametrize("name", VERSIONS)
def test_an_election_and_its_failover_are_read_in_every_version(name: str, tmp_path: Path) -> None:
    version = VERSIONS[name]
    lines = [
        *at(100, version.elected),
        *at(200, ("Initializing controller context", *version.epochs)),
        *at(
            300,
            (
                "Currently active brokers in the cluster: Set(1, 2)",
                "Currently shutting brokers in the cluster: Set()",
                "Current list of topics in the cluster: Set(orders)",
            ),
        ),
        "00,400 INFO [PartitionStateMachine controllerId=1] Started partition state machine with initial state -> "
        f"Map(orders-0 -> OnlinePartition) (kafka.controller.{version.machine})",
        *at(450, ("Ready to serve as the new controller with epoch 2", version.brokers, "Resigned")),
    ]
    session = f"00,050 INFO {version.session} timeout = 6000 (org.apache.zookeeper.ClientCnxn)"
    records, report = imported(tmp_path, {(1, SERVER): [session], (1, CONTROLLER): lines})
    assert payloads(records, SessionOpened) == [SessionOpened(session_id=10, timeout_ms=6_000)]
    (elected,) = (record for record in records if isinstance(record.data, ControllerElected))
    epoch_zk_version = 1 if name == "1.1 and 2.0" else 2
    assert elected.data == ControllerElected(broker_id=1, epoch=2, epoch_zk_version=epoch_zk_version, session_id=10)
    (ready,) = payloads(records, ControllerReady)
    assert isinstance(ready, ControllerReady)
    assert (ready.epoch, ready.brokers, ready.topics, ready.partitions) == (2, (1, 2), 1, 1)
    assert payloads(records, BrokersChanged) == [BrokersChanged(new=(2,), dead=(), bounced=(), live=(1, 2))]
    assert payloads(records, ControllerResigned) == [ControllerResigned(epoch=2, why="")]
    assert report.not_understood == {}


@pytest.mark.parametrize("name", VERSIONS)
def test_the_first_election_of_a_cluster_is_read_in_every_version(name: str, tmp_path: Path) -> None:
    """Until Kafka 2.0 the first controller creates `/controller_epoch`, so its version is 0."""
    records, _ = imported(tmp_path, {(1, CONTROLLER): at(100, VERSIONS[name].first)})
    version = 0 if name == "1.1 and 2.0" else 1
    assert payloads(records, ControllerElected) == [
        ControllerElected(broker_id=1, epoch=1, epoch_zk_version=version, session_id=0)
    ]


def test_a_controller_that_is_elected_again_has_the_version_that_it_has_read(tmp_path: Path) -> None:
    first, again = (
        _TWO_LINES.elected,
        [line.replace("1 and zk version 0", "4 and zk version 3") for line in _TWO_LINES.elected],
    )
    again[-1] = "Epoch incremented to 5"
    records, _ = imported(tmp_path, {(1, CONTROLLER): [*at(100, first), *at(200, ("Resigned",)), *at(300, again)]})
    elected = [found for found in payloads(records, ControllerElected) if isinstance(found, ControllerElected)]
    assert [(found.epoch, found.epoch_zk_version) for found in elected] == [(2, 1), (5, 4)]


@pytest.mark.parametrize("logger", ["ControllerEventManager$ControllerEventThread", "KafkaController"])
def test_a_controller_that_was_moved_says_so_when_it_resigns(logger: str, tmp_path: Path) -> None:
    """In Kafka 2.1 and 2.2 its event thread logs the reason."""
    moved = "00,200 INFO [Controller id=1] Controller moved to another broker when processing BrokerChange."
    lines = [*at(100, _ONE_LINE.first), f"{moved} (kafka.controller.{logger})", *at(300, ("Resigned",))]
    records, _ = imported(tmp_path, {(1, CONTROLLER): lines})
    assert payloads(records, ControllerResigned) == [
        ControllerResigned(epoch=1, why="Controller moved to another broker when processing BrokerChange")
    ]


def test_a_leader_and_isr_without_a_line_about_its_end_ends_before_the_next_request(tmp_path: Path) -> None:
    """In Kafka 2.6."""
    broker = [
        "00,200 INFO [Broker id=2] Handling LeaderAndIsr request correlationId 3 from controller 1 for 1 partitions",
        "00,250 INFO [Broker id=2] Add 1 partitions and deleted 0 partitions from metadata cache in response to "
        "UpdateMetadata request sent by controller 1 epoch 1 with correlation id 4",
        "00,300 INFO [Broker id=2] Handling LeaderAndIsr request correlationId 5 from controller 1 for 1 partitions",
        "00,400 INFO [Broker id=2] Handling LeaderAndIsr request correlationId 1 from controller 3 for 1 partitions",
    ]
    records, _ = imported(tmp_path, {(2, STATE_CHANGE): broker})
    sent = [(record.wall_ms % 1_000, record.data) for record in records if isinstance(record.data, ResponseSent)]
    assert sent == [
        (250.0, ResponseSent(api="LeaderAndIsr", client_id="1", correlation_id=3, error="NONE")),
        (250.0, ResponseSent(api="UpdateMetadata", client_id="1", correlation_id=4, error="NONE")),
    ]


# -- partition states


def state(leader: int, leader_epoch: int, isr: Sequence[int], version: int) -> str:
    found = f"LeaderAndIsr(leader={leader}, leaderEpoch={leader_epoch}, isr=List({', '.join(map(str, isr))}), "
    return f"{found}zkVersion={version})"


NEW = f"00,100 TRACE [Controller id=1 epoch=1] Changed partition orders-0 from NewPartition to OnlinePartition with \
state {state(2, 0, (2, 3), 0)}"


def leaderships(
    tmp_path: Path, *lines: str, server: Sequence[str] = ()
) -> tuple[list[tuple[str, Leadership]], dict[str, int]]:
    """Import a state-change.log of broker 1 and a server.log of broker 2."""
    controller = [line for line in lines if "(kafka.controller" in line or "[Controller id=1] " in line]
    logs = {(1, STATE_CHANGE): [line for line in lines if line not in controller]}
    if controller:
        logs[1, CONTROLLER] = controller
    records, report = imported(tmp_path, {**logs, **({(2, SERVER): list(server)} if server else {})})
    found = [
        (record.node, one.why, state)
        for record in records
        for one in [record.data]
        if isinstance(one, LeadershipWritten)
        for state in one.partitions
    ]
    return [(f"{node} {why}", state) for node, why, state in found], dict(report.left_out)


def test_an_isr_that_a_leader_has_written_itself_is_recorded(tmp_path: Path) -> None:
    """Kafka 2.4 to 2.6, and 2.7 with an older `inter.broker.protocol.version`."""
    updated = "00,200 INFO [Partition orders-0 broker=2] ISR updated to [2,3,1] and zkVersion updated to [1] "
    states, left_out = leaderships(tmp_path, NEW, server=[f"{updated}(kafka.cluster.Partition)"])
    assert states == [
        ("broker-1 initialise", Leadership("orders", 0, 2, 0, (2, 3), 0, 1)),
        ("broker-2 alter-partition", Leadership("orders", 0, 2, 0, (2, 3, 1), 1, 1)),
    ]
    assert left_out == {}


def test_an_isr_of_an_alter_isr_is_recorded(tmp_path: Path) -> None:
    """Kafka 2.7 and 2.8."""
    updated = "00,200 DEBUG [Controller id=1] ISR for partition orders-0 updated to [2] and zkVersion updated to [1]"
    states, _ = leaderships(tmp_path, NEW, updated, updated.replace("00,200", "00,201"))
    assert states[1:] == [("broker-1 alter-partition", Leadership("orders", 0, 2, 0, (2,), 1, 1))]


def test_an_isr_whose_leader_is_not_known_is_left_out(tmp_path: Path) -> None:
    updated = "00,200 INFO [Partition orders-0 broker=2] ISR updated to [2,3,1] and zkVersion updated to [2] "
    states, left_out = leaderships(tmp_path, NEW, server=[f"{updated}(kafka.cluster.Partition)"])
    assert len(states) == 1
    assert left_out == {"states of LeadershipWritten: the line lacks the leader, as do the lines before": 1}


@pytest.mark.parametrize(("version", "why"), [(1, "unclean"), (2, "offline")])
def test_an_election_is_unclean_only_if_the_log_has_the_state_before_it(version: int, why: str, tmp_path: Path) -> None:
    """Until Kafka 2.3 the logs lack the ISRs that leaders write, so replica 1 may have joined the ISR meanwhile."""
    elected = f"00,300 TRACE [Controller id=1 epoch=1] Changed partition orders-0 from OfflinePartition to \
OnlinePartition with state {state(1, 1, (1,), version)}"
    states, _ = leaderships(tmp_path, NEW, elected)
    assert [one for one, _ in states] == ["broker-1 initialise", f"broker-1 {why}"]


@pytest.mark.parametrize(
    "line",
    [
        "Starting preferred replica leader election for partitions orders-0",
        "Starting replica leader election (PREFERRED) for partitions orders-0 triggered by ZkTriggered",
    ],
)
def test_a_preferred_election_is_the_reason_in_every_version(line: str, tmp_path: Path) -> None:
    preferred = f"00,300 TRACE [Controller id=1 epoch=1] Changed partition orders-0 from OnlinePartition to \
OnlinePartition with state {state(3, 1, (2, 3), 1)}"
    states, _ = leaderships(tmp_path, NEW, f"00,200 INFO [Controller id=1] {line}", preferred)
    assert [one for one, _ in states] == ["broker-1 initialise", "broker-1 preferred"]
