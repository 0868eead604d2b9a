"""Single lines of Kafka's logs and the records that they become."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.understudy.history.kafka_logs.cluster_logs import imported, payloads
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    BrokersChanged,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    ElectionLost,
    FenceHit,
    InvalidTransition,
    Leadership,
    LeadershipNotWritten,
    LeadershipWritten,
    PartitionsMoved,
    ProcessExiting,
    ProcessStarted,
    Refused,
    ReplicasMoved,
    RequestFailed,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    ResponseSent,
    SessionExpiredRecord,
    SessionOpened,
    SessionResumedRecord,
    SessionSuspendedRecord,
    StillRunning,
    TopicsChanged,
    Transition,
    WatchFiredRecord,
)
from understudy.history.kafka_logs.survey import EntryKind

CONTROLLER, STATE_CHANGE, SERVER = EntryKind.CONTROLLER, EntryKind.STATE_CHANGE, EntryKind.SERVER
ELECTED = (
    "00,000 INFO [Controller id=1] 1 successfully elected as the controller. Epoch incremented to 5 "
    "and epoch zk version is now 7"
)
CONTEXT = (
    "00,100 INFO [Controller id=1] Currently active brokers in the cluster: Set(1, 2)",
    "00,100 INFO [Controller id=1] Currently shutting brokers in the cluster: HashSet(3)",
    "00,100 INFO [Controller id=1] Current list of topics in the cluster: HashSet(orders, __consumer_offsets)",
)
STATES = (
    "00,200 DEBUG [PartitionStateMachine controllerId=1] Started partition state machine with initial "
    "state -> HashMap(orders-0 -> OnlinePartition, orders-1 -> OfflinePartition) "
    "(kafka.controller.ZkPartitionStateMachine)"
)
READY = "00,300 INFO [Controller id=1] Ready to serve as the new controller with epoch 5"
STATE = (
    "LeaderAndIsr(leader={0}, leaderEpoch={1}, isrWithBrokerEpoch=List({2}), "
    "leaderRecoveryState=RECOVERED, partitionEpoch={3})"
)


def state(leader: int, leader_epoch: int, isr: tuple[int, ...], partition_epoch: int) -> str:
    brokers = ", ".join(f"BrokerState(brokerId={replica}, brokerEpoch=-1)" for replica in isr)
    return STATE.format(leader, leader_epoch, brokers, partition_epoch)


# -- the controller


def test_an_election_and_its_failover(tmp_path: Path) -> None:
    records, _ = imported(tmp_path, {(1, CONTROLLER): [ELECTED, *CONTEXT, STATES, READY]})
    assert payloads(records, ControllerElected) == [
        ControllerElected(broker_id=1, epoch=5, epoch_zk_version=7, session_id=0)
    ]
    assert payloads(records, ControllerReady) == [
        ControllerReady(epoch=5, brokers=(1, 2, 3), topics=2, partitions=2, took_ms=300.0)
    ]
    assert [record.node for record in records] == ["broker-1"] * len(records)
    assert records[-1].controller_epoch == 5


def test_the_state_that_a_new_controller_has_read(tmp_path: Path) -> None:
    reading = (
        "00,040 INFO [Controller id=1] Initializing controller context",
        "00,050 INFO [Controller id=1] Initialized broker epochs cache: HashMap(2 -> 65, 1 -> 64)",
    )
    led = f"59,000 INFO [Controller id=2 epoch=4] Changed partition orders-1 from NewPartition to OnlinePartition with \
state {state(2, 0, (2, 1), 0)}"
    logs = {(1, CONTROLLER): [ELECTED, *reading, *CONTEXT, READY]}
    earlier = [led.replace("59,000", "00,000", 1)]
    records, report = imported(tmp_path, {(2, STATE_CHANGE): earlier, **logs})
    (loaded,) = (record for record in records if isinstance(record.data, ContextLoaded))
    (ready,) = (record for record in records if isinstance(record.data, ControllerReady))
    assert loaded.data == ContextLoaded(
        epoch=5,
        live_brokers=((1, 64), (2, 65)),
        partitions=(Leadership("orders", 1, 2, 0, (2, 1), 0, 4),),
        took_ms=60.0,
    )
    assert (loaded.node, loaded.seq) == (ready.node, ready.seq - 1)
    assert report.left_out == {}


def test_a_state_whose_reading_has_no_lines_is_left_out(tmp_path: Path) -> None:
    records, report = imported(tmp_path, {(1, CONTROLLER): [ELECTED, *CONTEXT, READY]})
    assert payloads(records, ContextLoaded) == []
    assert report.left_out == {"ContextLoaded: the log lacks the broker epochs, or when reading began": 1}


def test_partitions_that_no_line_counts_are_not_zero(tmp_path: Path) -> None:
    """At INFO the state machine does not log its states."""
    records, _ = imported(tmp_path, {(1, CONTROLLER): [ELECTED, *CONTEXT, READY]})
    (ready,) = payloads(records, ControllerReady)
    assert isinstance(ready, ControllerReady)
    assert ready.partitions == -1


def test_a_failover_without_its_election_has_no_record(tmp_path: Path) -> None:
    records, report = imported(tmp_path, {(1, CONTROLLER): [*CONTEXT, READY]})
    assert payloads(records, ControllerReady) == []
    assert report.left_out == {"ControllerReady: the log begins after the election": 1}


@pytest.mark.parametrize(
    "lines",
    [
        ["01,000 DEBUG [Controller id=1] Resigning", "02,000 INFO [Controller id=1] Resigned"],
        ["02,000 INFO [Controller id=1] Resigned"],
    ],
)
def test_a_resignation_is_recorded_once(tmp_path: Path, lines: list[str]) -> None:
    why = "00,900 INFO [Controller id=1] Controller moved to another broker when processing BrokerChange."
    records, _ = imported(tmp_path, {(1, CONTROLLER): [ELECTED, why, *lines]})
    (resigned,) = payloads(records, ControllerResigned)
    assert resigned == ControllerResigned(
        epoch=5, why="Controller moved to another broker when processing BrokerChange"
    )


def test_a_broker_that_shuts_down_without_being_controller_does_not_resign(tmp_path: Path) -> None:
    records, _ = imported(tmp_path, {(1, CONTROLLER): ["02,000 INFO [Controller id=1] Resigned"]})
    assert payloads(records, ControllerResigned) == []


def test_lost_elections(tmp_path: Path) -> None:
    lines = [
        "01,000 DEBUG [Controller id=1] Broker 3 has been elected as the controller, so stopping the election process.",
        "02,000 DEBUG [Controller id=1] Broker 2 was elected as controller instead of broker 1",
        "03,000 WARN [Controller id=1] A controller has been elected but just resigned, this will result in another "
        "round of election",
    ]
    records, _ = imported(tmp_path, {(1, CONTROLLER): lines})
    assert payloads(records, ElectionLost) == [ElectionLost(winner=winner) for winner in (3, 2, -1)]


def test_brokers_and_topics(tmp_path: Path) -> None:
    lines = [
        "01,000 INFO [Controller id=1] Newly added brokers: 3,4, deleted brokers: , bounced brokers: 2, "
        "all live brokers: 1,2,3,4",
        "02,000 INFO [Controller id=1] New topics: [Set(orders, a.b-c_d)], deleted topics: [HashSet()], new partition "
        "replica assignment [Set(TopicIdReplicaAssignment(orders,None,Map()))]",
        "03,000 INFO [Controller id=1] New topics: [Set()], deleted topics: [HashSet()], new partition replica "
        "assignment [Set()]",
        "04,000 INFO [Topic Deletion Manager 1] Deletion of topic orders successfully completed "
        "(kafka.controller.TopicDeletionManager)",
    ]
    records, _ = imported(tmp_path, {(1, CONTROLLER): lines})
    assert payloads(records, BrokersChanged) == [BrokersChanged(new=(3, 4), dead=(), bounced=(2,), live=(1, 2, 3, 4))]
    assert payloads(records, TopicsChanged) == [
        TopicsChanged(new=("a.b-c_d", "orders"), deleted=()),
        TopicsChanged(new=(), deleted=("orders",)),
    ]


# -- partition states


def test_states_of_one_millisecond_are_one_record(tmp_path: Path) -> None:
    lines = [
        "01,000 INFO [Controller id=1 epoch=5] Changed partition orders-0 state from NonExistentPartition to "
        "NewPartition with assigned replicas 1,2",
        *(
            f"01,{ms} INFO [Controller id=1 epoch=5] Changed partition orders-{partition} from NewPartition to "
            f"OnlinePartition with state {state(1, 0, (1, 2), 0)}"
            for ms, partition in ((100, 0), (100, 1), (101, 2))
        ),
    ]
    records, _ = imported(tmp_path, {(1, STATE_CHANGE): lines})
    written = [Leadership("orders", partition, 1, 0, (1, 2), 0, 5) for partition in range(3)]
    assert payloads(records, LeadershipWritten) == [
        LeadershipWritten(why="initialise", partitions=tuple(written[:2])),
        LeadershipWritten(why="initialise", partitions=tuple(written[2:])),
    ]
    new, *online = payloads(records, PartitionsMoved)
    assert new == PartitionsMoved(
        target="NewPartition", partitions=(Transition("orders", 0, -1, "NonExistentPartition"),)
    )
    assert [len(moved.partitions) for moved in online if isinstance(moved, PartitionsMoved)] == [2, 1]


def online(second: int, source: str, leader: int, isr: tuple[int, ...], epoch: int) -> str:
    return (
        f"{second:02},000 INFO [Controller id=1 epoch=5] Changed partition orders-0 from {source} to OnlinePartition "
        f"with state {state(leader, epoch, isr, epoch)}"
    )


def test_reasons_of_elections(tmp_path: Path) -> None:
    """A leader from outside the former ISR is an unclean election; other reasons are in controller.log."""
    state_changes = [
        online(1, "NewPartition", 1, (1, 2), 0),
        online(2, "OfflinePartition", 2, (2,), 1),
        online(3, "OfflinePartition", 3, (3,), 2),
        online(5, "OnlinePartition", 1, (1, 3), 3),
        online(7, "OnlinePartition", 3, (3,), 4),
        online(9, "OnlinePartition", 2, (2, 3), 5),
    ]
    controller = [
        "04,000 INFO [Controller id=1] Starting replica leader election (PREFERRED) for partitions orders-0 triggered "
        "by AutoTriggered",
        "06,000 INFO [Controller id=1] Shutting down broker 1",
        "08,000 INFO [Controller id=1] Leader 3 for partition orders-0 being reassigned, is not in the new list",
    ]
    records, _ = imported(tmp_path, {(1, STATE_CHANGE): state_changes, (1, CONTROLLER): controller})
    written = [record.why for record in payloads(records, LeadershipWritten) if isinstance(record, LeadershipWritten)]
    assert written == ["initialise", "offline", "unclean", "preferred", "controlled-shutdown", "reassignment"]


def test_a_reason_that_no_line_names_is_empty(tmp_path: Path) -> None:
    lines = [online(1, "OnlinePartition", 1, (1, 2), 3)]
    records, _ = imported(tmp_path, {(1, STATE_CHANGE): lines})
    (written,) = payloads(records, LeadershipWritten)
    assert isinstance(written, LeadershipWritten)
    assert written.why == ""


def test_states_of_former_versions(tmp_path: Path) -> None:
    lines = [
        "01,000 INFO [Controller id=1 epoch=5] Changed partition orders-0 from NewPartition to OnlinePartition with "
        "state LeaderAndIsr(leader=1, leaderEpoch=0, isr=List(1, 2), zkVersion=0)",
        "02,000 INFO [Controller id=1 epoch=5] Partition orders-0 state changed to (Leader:1,ISR:1,LeaderEpoch:1,"
        "ZkVersion:1,ControllerEpoch:5) after removing replica 2 from the ISR as part of transition to OfflineReplica",
    ]
    records, _ = imported(tmp_path, {(1, STATE_CHANGE): lines})
    assert payloads(records, LeadershipWritten) == [
        LeadershipWritten(why="initialise", partitions=(Leadership("orders", 0, 1, 0, (1, 2), 0, 5),)),
        LeadershipWritten(why="isr-removal", partitions=(Leadership("orders", 0, 1, 1, (1,), 1, 5),)),
    ]


def test_a_removal_from_an_isr_that_had_happened_before_is_no_write(tmp_path: Path) -> None:
    removal = (
        "{} INFO [Controller id=1 epoch=5] Partition orders-0 state changed to (Leader:1,ISR:1,"
        "LeaderRecoveryState:RECOVERED,LeaderEpoch:1,ZkVersion:1,ControllerEpoch:5) after removing replica 2 from the "
        "ISR as part of transition to OfflineReplica"
    )
    lines = [online(0, "NewPartition", 1, (1, 2), 0), removal.format("01,000"), removal.format("02,000")]
    records, report = imported(tmp_path, {(1, STATE_CHANGE): lines})
    assert len(payloads(records, LeadershipWritten)) == 2
    assert report.left_out == {"states of LeadershipWritten: recorded already": 1}


def test_an_isr_that_its_leader_changed(tmp_path: Path) -> None:
    line = f"01,000 DEBUG [Controller id=1] ISR for partition orders-0 updated to {state(1, 3, (1, 2, 3), 9)}."
    records, _ = imported(tmp_path, {(1, CONTROLLER): [ELECTED, line]})
    assert payloads(records, LeadershipWritten) == [
        LeadershipWritten(why="alter-partition", partitions=(Leadership("orders", 0, 1, 3, (1, 2, 3), 9, 5),))
    ]


def test_elections_that_found_no_leader_and_transitions_that_are_not_allowed(tmp_path: Path) -> None:
    failed = (
        "{} ERROR [Controller id=1 epoch=5] Controller 1 epoch 5 failed to change state for partition orders-0 from "
        "OfflinePartition to OnlinePartition"
    )
    lines = [
        failed.format("01,000"),
        "kafka.common.StateChangeFailedException: Failed to elect leader for partition orders-0 under strategy "
        "OfflinePartitionLeaderElectionStrategy(false)",
        "\tat kafka.controller.ZkPartitionStateMachine.b(C.scala:1)",
        failed.format("02,000"),
        "java.lang.IllegalStateException: Partition orders-0 should be in one of NewPartition states before moving",
        "03,000 ERROR [Controller id=1 epoch=5] Controller 1 epoch 5 initiated state change of replica 2 for partition "
        "orders-0 from NonExistentReplica to OfflineReplica failed",
        "java.lang.IllegalStateException: Replica [Topic=orders,Partition=0,Replica=2] should be in the NewReplica "
        "states",
    ]
    records, _ = imported(tmp_path, {(1, STATE_CHANGE): lines})
    assert payloads(records, LeadershipNotWritten) == [
        LeadershipNotWritten(why="offline", partitions=(Refused("orders", 0, "StateChangeFailed"),))
    ]
    assert payloads(records, InvalidTransition) == [
        InvalidTransition(target="OnlinePartition", source="OfflinePartition", topic="orders", partition=0),
        InvalidTransition(target="OfflineReplica", source="NonExistentReplica", topic="orders", partition=0, replica=2),
    ]


def test_replicas_that_trace_lines_name(tmp_path: Path) -> None:
    line = (
        "01,000 TRACE [Controller id=1 epoch=5] Changed state of replica 2 for partition orders-0 from NewReplica to "
        "OnlineReplica"
    )
    records, _ = imported(tmp_path, {(1, STATE_CHANGE): [line]})
    assert payloads(records, ReplicasMoved) == [
        ReplicasMoved(target="OnlineReplica", replicas=(Transition("orders", 0, 2, "NewReplica"),))
    ]


# -- requests

SENT = (
    "01,000 INFO [Controller id=1 epoch=5] Sending LeaderAndIsr request to broker 2 with 3 "
    "become-leader and 4 become-follower partitions"
)
HANDLING = "01,200 INFO [Broker id=2] Handling LeaderAndIsr request correlationId 9 from controller 1 for 7 partitions"
FINISHED = (
    "01,250 INFO [Broker id=2] Finished LeaderAndIsr request in 50ms correlationId 9 from controller 1 for 7 partitions"
)
ALIVE = "01,900 INFO [Controller id=1 epoch=5] Sending UpdateMetadata request to brokers HashSet(2) for 0 partitions"


def test_a_request_is_answered_when_its_receiver_has_finished(tmp_path: Path) -> None:
    logs = {(1, STATE_CHANGE): [SENT, ALIVE], (2, STATE_CHANGE): [HANDLING, FINISHED]}
    records, report = imported(tmp_path, logs)
    (sent,) = payloads(records, RequestSent)
    assert sent == RequestSent(
        to=2,
        api="LeaderAndIsr",
        api_version=-1,
        client_id="1",
        correlation_id=-1,
        controller_epoch=5,
        partitions=7,
    )
    (received,) = (record for record in records if isinstance(record.data, ResponseReceived))
    assert received.data == ResponseReceived(
        sender=2, api="LeaderAndIsr", client_id="1", correlation_id=9, took_ms=250.0
    )
    assert received.cause == next(record.seq for record in records if isinstance(record.data, RequestSent))
    assert payloads(records, RequestReceived) == [
        RequestReceived(api="LeaderAndIsr", api_version=-1, client_id="1", correlation_id=9)
    ]
    assert payloads(records, ResponseSent) == [ResponseSent(api="LeaderAndIsr", client_id="1", correlation_id=9)]
    assert report.left_out == {"RequestSent of UpdateMetadata: no log would have its answer": 1}


def test_a_controller_that_logs_nothing_more_has_received_no_answer(tmp_path: Path) -> None:
    """A killed controller must not seem to run until the end of its last request."""
    records, report = imported(tmp_path, {(1, STATE_CHANGE): [SENT], (2, STATE_CHANGE): [HANDLING, FINISHED]})
    assert payloads(records, ResponseReceived) == []
    assert max(record.wall_ms for record in records if record.node == "broker-1") % 60_000 == 1_000
    assert report.left_out == {"ResponseReceived: its controller logged nothing after it": 1}


def test_a_request_whose_answer_is_in_no_log_has_no_record(tmp_path: Path) -> None:
    """It would look unanswered."""
    records, report = imported(tmp_path, {(1, STATE_CHANGE): [SENT]})
    assert payloads(records, RequestSent) == []
    assert report.left_out == {"RequestSent of LeaderAndIsr: no log would have its answer": 1}


def test_answers_in_trace_lines(tmp_path: Path) -> None:
    answer = (
        "{} TRACE [Controller id=1 epoch=5] Received response LeaderAndIsrResponseData(errorCode={}, topics=[]) for "
        "request LEADER_AND_ISR with correlation id {} sent to broker host:9092 (id: 2 rack: null)"
    )
    lines = [answer.format("00,500", 0, 1), SENT, answer.format("01,300", 11, 2)]
    records, _ = imported(tmp_path, {(1, STATE_CHANGE): lines, (2, STATE_CHANGE): [HANDLING, FINISHED]})
    (received,) = payloads(records, ResponseReceived)
    assert received == ResponseReceived(
        sender=2,
        api="LeaderAndIsr",
        client_id="1",
        correlation_id=2,
        error="STALE_CONTROLLER_EPOCH",
        took_ms=300.0,
    )


def test_an_update_metadata_that_a_broker_applied(tmp_path: Path) -> None:
    lines = [
        "01,000 INFO [Controller id=1 epoch=5] Sending UpdateMetadata request to brokers HashSet(1, 2) for 3 "
        "partitions",
        "01,900 INFO [Broker id=1] anything",
    ]
    handled = [
        "01,100 INFO [Broker id=2] Add 3 partitions and deleted 0 partitions from metadata cache in response to "
        "UpdateMetadata request sent by controller 1 epoch 5 with correlation id 4"
    ]
    records, _ = imported(tmp_path, {(1, STATE_CHANGE): lines, (2, STATE_CHANGE): handled})
    assert [sent.to for sent in payloads(records, RequestSent) if isinstance(sent, RequestSent)] == [1, 2]
    (answer,) = payloads(records, ResponseReceived)
    assert isinstance(answer, ResponseReceived)
    assert (answer.sender, answer.took_ms) == (2, 100.0)
    (received,) = payloads(records, RequestReceived)
    assert isinstance(received, RequestReceived)
    assert received.controller_epoch == 5


def test_a_request_that_fails(tmp_path: Path) -> None:
    failure = [
        "01,300 WARN [RequestSendThread controllerId=1] Controller 1 epoch 5 fails to send request (type: "
        "LeaderAndIsRequest=, controllerId=1) to broker host:9092 (id: 2 rack: null). Reconnecting to broker. "
        "(kafka.controller.RequestSendThread)",
        "java.io.IOException: Connection to 2 was disconnected before the response was read",
    ]
    logs = {(1, STATE_CHANGE): [SENT], (1, CONTROLLER): failure, (2, STATE_CHANGE): [HANDLING]}
    records, _ = imported(tmp_path, logs)
    assert payloads(records, RequestFailed) == [
        RequestFailed(
            to=2,
            api="LeaderAndIsr",
            client_id="1",
            correlation_id=-1,
            why="java.io.IOException: Connection to 2 was disconnected before the response was read",
        )
    ]


def test_requests_that_a_broker_refuses(tmp_path: Path) -> None:
    lines = [
        HANDLING,
        "01,210 WARN [Broker id=2] Ignoring LeaderAndIsr request from controller 1 with correlation id 9 since its "
        "controller epoch 5 is old. Latest known controller epoch is 6",
        FINISHED,
        "02,000 WARN [Broker id=2] Received update metadata request with correlation id 10 from an old controller 1 "
        "with epoch 5. Latest known controller epoch is 6",
    ]
    stale = [
        "03,000 INFO [KafkaApi-2] Received StopReplica request with broker epoch 7 smaller than the current broker "
        "epoch 8 from controller 1 with epoch 6. (kafka.server.KafkaApis)"
    ]
    records, _ = imported(tmp_path, {(2, STATE_CHANGE): lines, (2, SERVER): stale})
    assert payloads(records, FenceHit) == [
        FenceHit(fence="broker.controller-epoch", what="LeaderAndIsr from 1", offered=5, known=6),
        FenceHit(fence="broker.controller-epoch", what="UpdateMetadata from 1", offered=5, known=6),
        FenceHit(fence="broker.broker-epoch", what="StopReplica from 1", offered=7, known=8),
    ]
    errors = [answer.error for answer in payloads(records, ResponseSent) if isinstance(answer, ResponseSent)]
    assert errors == ["STALE_CONTROLLER_EPOCH"] * 2


# -- processes and sessions

CLIENT = "(org.apache.zookeeper.ClientCnxn)"


def test_processes_are_incarnations(tmp_path: Path) -> None:
    lines = [
        "01,000 INFO Registered kafka:type=kafka.Log4jController MBean (kafka.utils.Log4jControllerRegistration$)",
        "01,500 INFO starting",
        "02,000 INFO [KafkaServer id=1] shutting down",
        "03,000 INFO [KafkaServer id=1] shut down completed",
        "09,000 INFO starting",
    ]
    thread = (
        "{} INFO [ControllerEventThread controllerId=1] Starting "
        "(kafka.controller.ControllerEventManager$ControllerEventThread)"
    )
    logs = {(1, SERVER): lines, (1, CONTROLLER): [thread.format("01,700"), thread.format("09,500")]}
    records, _ = imported(tmp_path, logs)
    started = [record for record in records if isinstance(record.data, ProcessStarted)]
    assert [(record.incarnation, record.wall_ms % 60_000) for record in started] == [(1, 1_000), (2, 9_000)]
    assert payloads(records, ProcessExiting) == [ProcessExiting(reason="the broker shuts down")]


def test_without_a_server_log_each_event_thread_is_an_incarnation(tmp_path: Path) -> None:
    thread = (
        "{} INFO [ControllerEventThread controllerId=1] Starting "
        "(kafka.controller.ControllerEventManager$ControllerEventThread)"
    )
    lines = [thread.format("01,000"), ELECTED.replace("00,000", "02,000"), thread.format("09,000")]
    records, _ = imported(tmp_path, {(1, CONTROLLER): lines})
    assert [(r.incarnation, r.wall_ms % 60_000) for r in records if isinstance(r.data, ProcessStarted)] == [(2, 9_000)]


def test_sessions(tmp_path: Path) -> None:
    established = (
        "{} INFO Session establishment complete on server zk/10.0.0.1:2181, session id = 0x{}, negotiated "
        "timeout = 18000 "
    )
    lines = [
        established.format("01,000", "f00019399140002") + CLIENT,
        "02,000 INFO Registered broker 1 at path /brokers/ids/1 with addresses: PLAINTEXT://h:9092, czxid "
        "(broker epoch): 63 (kafka.zk.KafkaZkClient)",
        "03,000 WARN Client session timed out, have not heard from server in 12000ms for session id 0xf00019399140002 "
        + CLIENT,
        established.format("04,000", "f00019399140002") + CLIENT,
        f"05,000 WARN Unable to reconnect to ZooKeeper service, session 0xf00019399140002 has expired {CLIENT}",
        established.format("06,000", "ff00019399140003") + CLIENT,
    ]
    records, _ = imported(tmp_path, {(1, SERVER): lines})
    first, second = 0xF00019399140002, 0xFF00019399140003 - 2**64
    assert [record.data for record in records] == [
        SessionOpened(session_id=first, timeout_ms=18_000),
        BrokerRegistered(broker_id=1, broker_epoch=63, session_id=first),
        SessionSuspendedRecord(session_id=first),
        SessionResumedRecord(session_id=first),
        SessionExpiredRecord(session_id=first),
        SessionOpened(session_id=second, timeout_ms=18_000),
    ]


def test_watches_that_debug_lines_name(tmp_path: Path) -> None:
    line = (
        "01,000 DEBUG [ZooKeeperClient Kafka server] Received event: WatchedEvent state:SyncConnected type:NodeDeleted "
        "path:/controller zxid: 99 (kafka.zookeeper.ZooKeeperClient)"
    )
    records, _ = imported(tmp_path, {(1, SERVER): [line], (1, CONTROLLER): [ELECTED.replace("00,000", "01,010")]})
    watch, elected = records
    assert watch.data == WatchFiredRecord(path="/controller", kind="deleted")
    assert elected.cause == watch.seq


def test_the_last_line_before_a_silence_is_a_sign_of_the_broker(tmp_path: Path) -> None:
    lines = [f"{time} INFO [KafkaServer id=1] anything" for time in ("01,000", "01,500", "04,000", "04,100", "30,000")]
    records, report = imported(tmp_path, {(1, SERVER): lines})
    assert [(record.data, record.wall_ms % 60_000) for record in records] == [
        (StillRunning(source="server.log"), 1_500),
        (StillRunning(source="server.log"), 4_100),
        (StillRunning(source="server.log"), 30_000),
    ]
    assert report.not_understood == {"kafka.server.KafkaServer": 5}


def test_lines_that_are_not_understood_are_counted_by_class(tmp_path: Path) -> None:
    lines = ["01,000 INFO [Controller id=1] Something new", "02,000 INFO [Controller id=1] Registering handlers"]
    _, report = imported(tmp_path, {(1, CONTROLLER): lines})
    assert report.not_understood == {"kafka.controller.KafkaController": 1}
    assert report.without_record == {"kafka.controller.KafkaController": 1}
    (sample,) = report.samples["kafka.controller.KafkaController"]
    assert sample.endswith("controller.log:1: [Controller id=1] Something new")
