"""Tests of `KafkaController` in a simulated cluster: elections, failover, requests, controlled shutdown, crashes."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tests.controller.harness import (
    ControllerHarness,
    HarnessBroker,
    answer_leader_and_isr,
    answer_none,
    answer_stop_replica,
)
from tests.controller.requests import (
    LeaderAndIsrSent,
    ReplicaStopped,
    StateSent,
    StopReplicaSent,
    UpdateMetadataSent,
    partitions_of,
)
from tests.controller.values import led, tp
from understudy.checks.history import OpKind
from understudy.controller.events import ControllerEvent, ElectionType, ForcedResignation
from understudy.controller.points import POINTS
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderIsrAndControllerEpoch
from understudy.foundation.eventlog.records import (
    ContextAtIdle,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    ElectionLost,
    EventEnded,
    EventStarted,
    RequestSent,
    TopicsChanged,
)
from understudy.foundation.wire.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.client import Create, Delete, SetData, WatchFired, WatchKind

SIX = {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1], 3: [0, 2, 1], 4: [1, 0, 2], 5: [2, 1, 0]}


REGISTRATION = b'{"version":5,"endpoints":["PLAINTEXT://elsewhere:9092"],"jmx_port":-1,"port":9092,"host":"elsewhere"}'
MALFORMED = b"{"
"""Malformed data of a registration, with which no controller can take over."""


def elect(
    broker: HarnessBroker, *names: str, election_type: ElectionType = ElectionType.PREFERRED
) -> dict[str, object]:
    asked = [tp(name) for name in names] or None
    results = broker.run(broker.controller.elect_leaders(asked, election_type))
    broker.harness.settle()
    return {str(p): result.error.name if isinstance(result, ApiError) else result for p, result in results.items()}


def writes_to(harness: ControllerHarness, path: str) -> list[OpKind]:
    return [op.kind for txn in harness.zookeeper.transactions for op in txn.writes if op.path == path]


# ------------------------------------------------------------------ the role


@pytest.mark.spec("EL-1", "EL-2", "EL-5", "C1", "C2")
def test_first_broker_is_elected_controller_and_others_read_its_id() -> None:
    with ControllerHarness(electable=(0, 1, 2), brokers=()) as harness:
        harness.start()
        assert [broker.controller.is_active for broker in harness.brokers.values()] == [True, False, False]
        assert {broker.controller.active_controller_id for broker in harness.brokers.values()} == {0}
        assert [broker.controller.epoch for broker in harness.brokers.values()] == [1, 0, 0]
        (elected,) = harness.broker(0).records(ControllerElected)
        assert (elected.epoch, elected.epoch_zk_version) == (1, 1)
        assert elected.session_id == harness.broker(0).client.session_id


@pytest.mark.spec("EL-7", "EL-11", "C1")
def test_next_election_has_one_winner_and_the_loser_records_its_id() -> None:
    with ControllerHarness(electable=(0, 1, 2), brokers=()) as harness:
        harness.start()
        harness.broker(0).crash()
        winners = [broker for broker in (harness.broker(1), harness.broker(2)) if broker.controller.is_active]
        (winner,) = winners
        loser = harness.broker(3 - winner.id)
        assert winner.controller.epoch == 2
        assert loser.controller.active_controller_id == winner.id
        assert [record.winner for record in loser.records(ElectionLost)] in ([], [winner.id])
        assert json.loads(harness.znodes()["/controller"] or b"")["brokerid"] == winner.id


@pytest.mark.spec("EL-9", "EL-11", "RS-1", "C5")
def test_controller_resigns_when_controller_znode_names_another_broker() -> None:
    with ControllerHarness() as harness:
        harness.start()
        other = b'{"version":2,"brokerid":7,"timestamp":"1","kraftControllerEpoch":-1}'
        harness.operator.run(harness.operator.client.write(SetData("/controller", other)))
        harness.settle()
        controller = harness.broker(0)
        assert not controller.controller.is_active
        assert controller.controller.active_controller_id == 7
        assert controller.controller.epoch == 0
        (resigned,) = controller.records(ControllerResigned)
        assert (resigned.epoch, resigned.why) == (1, "/controller changed: the controller is now 7")
        harness.clear_history()
        harness.create_topic("orders", SIX)
        assert controller.records(RequestSent) == []
        assert [record.outcome for record in controller.records(EventEnded)] == ["inactive"]


@pytest.mark.spec("EL-11")
def test_deleted_controller_znode_starts_an_election() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.operator.run(harness.operator.client.write(Delete("/controller")))
        harness.settle()
        assert harness.broker(0).controller.epoch == 2
        assert [record.epoch for record in harness.broker(0).records(ControllerResigned)] == [1]
        assert [record.epoch for record in harness.broker(0).records(ControllerElected)] == [1, 2]


@pytest.mark.spec("EL-12", "C8", "GT-9", "BR-4")
def test_expired_session_ends_the_term_before_the_next_session() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        epoch_before = harness.broker(0).epoch
        harness.broker(0).expire()
        harness.settle(2_000)
        assert not harness.broker(0).controller.is_active
        assert harness.broker(1).controller.is_active
        assert harness.broker(0).epoch > epoch_before, "it has registered again"
        assert harness.broker(0).controller.active_controller_id == 1
        names = [record.event for record in harness.broker(0).records(EventStarted)]
        assert names.index("Expire") < names.index("RegisterBrokerAndReelect")
        assert harness.broker(2).requests()[-1] == UpdateMetadataSent([], live_brokers=[0, 1, 2], controller_epoch=2)


@pytest.mark.spec("EL-14")
def test_raised_controller_epoch_stops_writes_but_not_the_term() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.depose()
        harness.create_topic("orders", SIX)
        controller = harness.broker(0)
        assert "moved" in [record.outcome for record in controller.records(EventEnded)]
        assert controller.controller.is_active, "/controller still names it"
        assert not any(isinstance(received.message, LeaderAndIsrRequest) for received in harness.broker(1).received)


@pytest.mark.spec("EL-9", "EQ-4")
def test_malformed_controller_znode_does_not_stop_the_event_task() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        garbage = SetData("/controller", b"what an operator's script left")
        harness.operator.run(harness.operator.client.write(garbage))
        harness.settle()
        controller = harness.broker(0).controller
        # The next election starts while /controller cannot be decoded.
        for broker in (harness.broker(0), harness.broker(1)):
            broker.run(notify(broker, WatchFired("/controller", WatchKind.DELETED)))
        harness.settle()
        assert (controller.is_active, controller.active_controller_id) == (False, -1)
        assert [record.epoch for record in harness.broker(0).records(ControllerResigned)] == [1]
        harness.operator.run(harness.operator.client.write(Delete("/controller")))
        harness.settle(5_000)
        assert [broker.controller.is_active for broker in (harness.broker(0), harness.broker(1))].count(True) == 1


@pytest.mark.spec("EL-10", "EL-14", "BUG-3")
def test_controller_znode_that_could_not_be_deleted_is_deleted_before_the_next_election() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.depose()
        controller = harness.broker(0)
        controller.run(force(controller, ForcedResignation("test")))
        harness.settle(5_000)
        (active,) = (broker for broker in (harness.broker(0), harness.broker(1)) if broker.controller.is_active)
        assert active.controller.epoch == 78
        assert json.loads(harness.znodes()["/controller"] or b"")["brokerid"] == active.id


def test_forced_resignation_of_an_earlier_term_is_ignored() -> None:
    with ControllerHarness() as harness:
        harness.start()
        controller = harness.broker(0)
        controller.run(force(controller, ForcedResignation("of this term", 1)))
        harness.settle(2_000)
        assert (controller.controller.is_active, controller.controller.epoch) == (True, 2)
        controller.run(force(controller, ForcedResignation("of the last term", 1)))
        harness.settle(2_000)
        assert (controller.controller.is_active, controller.controller.epoch) == (True, 2)


@pytest.mark.spec("BUG-3", "EL-2")
def test_controller_znode_of_an_earlier_process_is_waited_for() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.operator.run(harness.operator.client.write(Delete("/controller")))
        harness.settle()
        ours = b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}'
        (winner,) = (broker for broker in (harness.broker(0), harness.broker(1)) if broker.controller.is_active)
        other = harness.broker(1 - winner.id)
        named = ours.replace(b'"brokerid":1', b'"brokerid":%d' % other.id)
        # The znode belongs to the winner's session; it names the other, like one left over from an earlier process.
        harness.operator.run(harness.operator.client.write(SetData("/controller", named)))
        harness.settle(3_000)
        assert not other.controller.is_active
        assert harness.znodes()["/controller"] == named, "it belongs to another session"
        harness.operator.run(harness.operator.client.write(Delete("/controller")))
        harness.settle()
        assert [broker.controller.is_active for broker in (winner, other)].count(True) == 1


@pytest.mark.spec("EL-8", "EL-10")
def test_controller_that_cannot_take_over_resigns() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.write_znode("/brokers/ids/9", MALFORMED)
        assert harness.broker(0).controller.is_active, "to the controller in harness it is but a failed event"
        harness.broker(0).crash()
        harness.settle(5_000)
        outcomes = {record.outcome for record in harness.broker(1).records(EventEnded)}
        assert "MalformedZNode" in outcomes
        resigned = harness.broker(1).records(ControllerResigned)
        assert resigned
        assert "MalformedZNode" in resigned[0].why
        assert harness.broker(1).records(ControllerReady) == []
        tries = harness.broker(1).records(ControllerElected)
        assert 4 <= len(tries) <= 7, "it tries again once a second"
        # An operator repairs the cause.
        harness.operator.run(harness.operator.client.write(Delete("/brokers/ids/9")))
        harness.settle(2_000)
        assert harness.broker(1).controller.is_active


@pytest.mark.spec("BUG-5", "EL-12")
def test_broker_that_could_not_register_is_not_electable_until_its_next_session() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        unregistered = harness.broker(1)
        # Another session has its registration between its two sessions.
        harness.zookeeper.expire(unregistered.client.session_id)
        assert harness.zookeeper.operate([Create("/brokers/ids/1", REGISTRATION)])
        harness.settle(8_000)
        harness.broker(0).crash()
        harness.settle(5_000)
        assert "/controller" not in harness.znodes(), "the znode is deleted"
        assert not unregistered.controller.is_active
        assert harness.zookeeper.operate([Delete("/brokers/ids/1")])
        unregistered.expire()
        assert unregistered.controller.is_active


@pytest.mark.spec("EL-8", "EL-11")
def test_repeated_elections_do_not_multiply() -> None:
    with ControllerHarness(electable=(0, 1, 2, 3), brokers=()) as harness:
        harness.start()
        harness.write_znode("/brokers/ids/9", MALFORMED)
        harness.broker(0).crash()
        races = []
        for _ in range(3):
            harness.clear_history()
            harness.settle(5_000)
            started = [record.event for n in (1, 2, 3) for record in harness.broker(n).records(EventStarted)]
            races.append(started.count("Reelect"))
        assert max(races) <= 75, "one's own timer, its own failed term and those of the two others: four, once a second"


@pytest.mark.spec("D14", "EL-10")
def test_overflow_of_the_event_queue_makes_the_controller_resign() -> None:
    with ControllerHarness() as harness:
        harness.start()
        controller = harness.broker(0)

        async def flood() -> None:
            for _ in range(harness.settings.event_queue_bound + 1):
                controller.controller.notified(WatchFired("/brokers/ids", WatchKind.CHILDREN))

        controller.run(flood())
        harness.settle()
        (resigned,) = controller.records(ControllerResigned)
        assert resigned.why == "more than 10000 events were waiting"
        assert controller.controller.is_active
        assert controller.controller.epoch == 2


def test_shutdown_resigns_responds_and_leaves_the_znode_to_the_session() -> None:
    with ControllerHarness() as harness:
        harness.start()
        controller = harness.broker(0)
        controller.run(controller.controller.shutdown())
        assert not controller.controller.is_active
        assert [record.why for record in controller.records(ControllerResigned)] == ["the broker is shutting down"]
        assert "/controller" in harness.znodes()
        answer = controller.run(controller.controller.controlled_shutdown(BrokerId(1), harness.broker(1).epoch))
        assert answer == (Errors.STALE_CONTROLLER_EPOCH, ())


# ------------------------------------------------------------------ failover


@pytest.mark.spec("FO-4", "FO-8", "FO-9", "FO-10", "FO-13", "C10")
def test_failover_steps_are_in_order() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [0, 1, 2]})
        before = len(harness.broker(1).points.passed)
        harness.broker(0).crash()
        passed = harness.broker(1).points.passed[before:]
        stations = [
            "election.before_write",
            "election.after_write",
            "failover.after_epoch",
            "notifications.before_write",
            "notifications.after_write",
            "metadata.before_flush",
            "metadata.after_flush",
            "replica.before_flush",
            "replica.after_flush",
            "replica.before_write",
            "replica.after_write",
            "replica.before_flush",
            "replica.after_flush",
            "partition.before_write",
            "partition.after_write",
            "partition.before_flush",
            "partition.after_flush",
            "preferred_election.before_write",
            "preferred_election.after_write",
        ]
        assert passed == stations
        (loaded,) = harness.broker(1).records(ContextLoaded)
        assert [partition.controller_epoch for partition in loaded.partitions] == [1]
        (ready,) = harness.broker(1).records(ControllerReady)
        assert (ready.epoch, ready.brokers, ready.topics, ready.partitions) == (2, (1, 2), 1, 1)


@pytest.mark.spec("FO-5", "ZN-5")
def test_failover_gives_an_id_to_a_topic_without_one() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2]})
        plain = b'{"version":1,"partitions":{"0":[1,2]}}'
        harness.broker(0).process.kill()
        harness.operator.run(harness.operator.client.write(SetData("/brokers/topics/orders", plain)))
        harness.zookeeper.expire(harness.broker(0).client.session_id)
        harness.settle()
        rewritten = json.loads(harness.znodes()["/brokers/topics/orders"] or b"")
        assert (rewritten["version"], rewritten["partitions"]) == (3, {"0": [1, 2]})
        assert len(rewritten["topic_id"]) == 22


@pytest.mark.spec("FO-6", "TD-11")
def test_failover_elects_no_leaders_for_topics_queued_for_deletion() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [0, 2]})
        harness.broker(0).process.kill()
        harness.write_znode("/admin/delete_topics/orders", b"")
        harness.zookeeper.expire(harness.broker(0).client.session_id)
        harness.settle()
        known = harness.state("orders", 0)
        assert isinstance(known, LeaderIsrAndControllerEpoch)
        assert known.leader_and_isr.leader == -1
        assert harness.broker(2).requests()[-1] == UpdateMetadataSent(
            [StateSent(partition="orders-0", leader=-2, isr=(0, 2), offline=(0,))],
            live_brokers=[1, 2],
            controller_epoch=2,
        )


@pytest.mark.spec("FO-13", "BUG-12")
def test_failover_runs_pending_preferred_elections_and_skips_impossible_ones() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [2, 1]})
        harness.create_topic("dead", {0: [9]})
        harness.broker(2).crash()
        harness.broker(2).start()
        harness.settle()
        assert harness.state("orders", 0) == led(1, (1,), epoch=1, version=1, by=1)
        # 2 is back in sync
        harness.operator.run(
            harness.operator.client.write(
                SetData(
                    "/brokers/topics/orders/partitions/0/state",
                    b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":[1,2]}',
                )
            )
        )
        harness.broker(0).process.kill()
        asked = [{"topic": name, "partition": 0} for name in ("orders", "dead", "unknown")]
        harness.write_znode(
            "/admin/preferred_replica_election", json.dumps({"version": 1, "partitions": asked}).encode()
        )
        harness.zookeeper.expire(harness.broker(0).client.session_id)
        harness.settle()
        assert harness.broker(1).controller.is_active
        assert harness.state("orders", 0) == led(2, (1, 2), epoch=2, version=3, by=2)
        assert "/admin/preferred_replica_election" not in harness.znodes()


@pytest.mark.spec("C6")
def test_context_is_recorded_at_idle_after_a_change() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", SIX)
        at_idle = harness.broker(0).records(ContextAtIdle)
        assert len(at_idle) >= 2
        assert [broker for broker, _ in at_idle[-1].live_brokers] == [0, 1, 2]
        assert at_idle[-1].leadership_digest != at_idle[0].leadership_digest
        harness.clear_history()
        harness.settle(5_000)
        assert harness.broker(0).records(ContextAtIdle) == []


# ------------------------------------------------------------------ brokers


@pytest.mark.spec("BR-10", "BR-14", "KAFKA-13225")
def test_failed_broker_without_replicas_is_removed_from_metadata() -> None:
    with ControllerHarness(brokers=(1, 2, 3)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2]})
        harness.clear_history()
        harness.broker(3).crash()
        assert harness.broker(1).requests() == [UpdateMetadataSent([], live_brokers=[0, 1, 2])]


@pytest.mark.spec("BR-6", "BR-9", "BUG-2", "GT-9", "RB-10")
def test_bounced_broker_is_a_failure_and_a_startup() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2]})
        harness.clear_history()
        harness.zookeeper.hold("broker-0")
        harness.broker(1).crash()
        harness.broker(1).start()
        harness.zookeeper.heal("broker-0")
        harness.settle()
        assert harness.broker(0).controller.is_active
        assert harness.state("orders", 0) == led(2, (2,), epoch=1, version=1, by=1)
        assert harness.broker(2).requests()[0] == LeaderAndIsrSent(
            [StateSent(partition="orders-0", leader=2, isr=(2,), epoch=1, version=1)], live_leaders=[2]
        )
        assert harness.broker(1).requests() == [
            UpdateMetadataSent(
                [StateSent(partition="orders-0", leader=2, isr=(2,), epoch=1, version=1)], live_brokers=[0, 1, 2]
            ),
            LeaderAndIsrSent(
                [StateSent(partition="orders-0", leader=2, isr=(2,), epoch=1, version=1)], live_leaders=[2]
            ),
            UpdateMetadataSent(
                [StateSent(partition="orders-0", leader=2, isr=(2,), epoch=1, version=1)], live_brokers=[0, 1, 2]
            ),
        ]


@pytest.mark.spec("BR-16")
def test_new_endpoints_are_sent_to_all_brokers() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.clear_history()
        before = json.loads(harness.znodes()["/brokers/ids/1"] or b"")
        moved = before | {"endpoints": ["PLAINTEXT://elsewhere:9093"], "host": "elsewhere", "port": 9093}
        write = SetData("/brokers/ids/1", json.dumps(moved).encode())
        harness.operator.run(harness.operator.client.write(write))
        harness.settle()
        assert harness.broker(2).requests() == [UpdateMetadataSent([], live_brokers=[0, 1, 2])]
        named = harness.broker(2).received[0].message.live_brokers  # type: ignore[union-attr]  # it is an UpdateMetadata
        assert [endpoint.host for broker in named for endpoint in broker.endpoints] == [
            "broker-0",
            "elsewhere",
            "broker-2",
        ]
        harness.clear_history()
        harness.operator.run(harness.operator.client.write(write))
        harness.settle()
        assert harness.broker(2).requests() == [], "nothing has changed"


@pytest.mark.spec("SN-6", "CX-1", "LD-3")
def test_replica_on_a_failed_log_directory_is_offline() -> None:
    def storage_error(message: Message) -> Message:
        return answer_leader_and_isr(message, 56) if isinstance(message, LeaderAndIsrRequest) else answer_none(message)

    with ControllerHarness() as harness:
        harness.start()
        harness.broker(1).answer = storage_error
        harness.create_topic("orders", {0: [1, 2]})
        assert harness.state("orders", 0) == led(2, (2,), epoch=1, version=1, by=1)
        assert harness.broker(2).requests()[-1] == UpdateMetadataSent(
            [StateSent(partition="orders-0", leader=2, isr=(2,), epoch=1, version=1, offline=(1,))],
            live_brokers=[0, 1, 2],
        )
        harness.broker(1).answer = answer_none
        harness.clear_history()
        harness.broker(1).crash()
        harness.broker(1).start()
        harness.settle()
        assert harness.broker(2).requests()[-1] == UpdateMetadataSent(
            [StateSent(partition="orders-0", leader=2, isr=(2,), epoch=1, version=1)], live_brokers=[0, 1, 2]
        )


@pytest.mark.spec("LD-2", "SN-6")
def test_log_dir_notification_sends_leader_and_isr_of_all_replicas() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2], 1: [1, 2]})
        harness.clear_history()

        def fail_directory_of_partition_0(message: Message) -> Message:
            """Respond that the log directory of partition 0 has failed."""
            answer = answer_none(message)
            if isinstance(answer, LeaderAndIsrResponse):
                (topic,) = answer.topics
                errors = tuple(
                    replace(partition, error_code=56 if partition.partition_index == 0 else 11)
                    for partition in topic.partition_errors
                )
                return replace(answer, topics=(replace(topic, partition_errors=errors),))
            return answer

        harness.broker(1).answer = fail_directory_of_partition_0
        harness.write_znode(
            "/log_dir_event_notification/log_dir_event_0000000000", b'{"version":1,"broker":1,"event":1}'
        )
        assert harness.broker(1).requests()[0] == LeaderAndIsrSent(
            [
                StateSent(partition="orders-0", leader=1, isr=(1, 2)),
                StateSent(partition="orders-1", leader=1, isr=(1, 2)),
            ],
            live_leaders=[1],
        )
        assert harness.broker(1).requests()[-1] == StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=1)])
        assert harness.state("orders", 0) == led(2, (2,), epoch=1, version=1, by=1)
        assert harness.state("orders", 1) == led(1, (1, 2), by=1)
        assert harness.broker(2).requests()[-1] == UpdateMetadataSent(
            [StateSent(partition="orders-0", leader=2, isr=(2,), epoch=1, version=1, offline=(1,))],
            live_brokers=[0, 1, 2],
        )
        assert not any(path.startswith("/log_dir_event_notification/") for path in harness.znodes())
        # The watch is armed again; impossible entries are removed.
        harness.clear_history()
        harness.write_znode("/log_dir_event_notification/log_dir_event_0000000001", b"?")
        harness.write_znode(
            "/log_dir_event_notification/log_dir_event_0000000002", b'{"version":1,"broker":9,"event":1}'
        )
        assert not any(path.startswith("/log_dir_event_notification/") for path in harness.znodes())
        assert [broker.requests() for broker in harness.brokers.values()] == [[], [], []]


# ------------------------------------------------------------------ topics


@pytest.mark.spec("TC-11", "BUG-11")
def test_topic_deleted_by_hand_is_removed_and_can_be_created_again() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2]})
        for path in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
            harness.operator.run(harness.operator.client.write(Delete(f"/brokers/topics/orders{path}")))
        harness.settle()
        harness.clear_history()
        harness.create_topic("orders", {0: [2, 1]})
        assert harness.state("orders", 0) == led(2, (2, 1), by=1)
        assert [record.new for record in harness.broker(0).records(TopicsChanged)] == [("orders",)]


@pytest.mark.spec("TC-12")
def test_changed_assignment_of_an_existing_partition_is_ignored() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2]})
        harness.clear_history()
        harness.add_partitions("orders", {0: [2, 1]})
        assert [broker.requests() for broker in harness.brokers.values()] == [[], [], []]


# ------------------------------------------------------------------ requests


@pytest.mark.spec("PE-2", "PE-4", "PE-5", "BUG-12")
def test_elect_leaders_responds_for_each_partition() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2], 1: [2, 1]})
        harness.create_topic("lonely", {0: [9]})
        harness.broker(1).crash()
        harness.broker(1).start()
        harness.settle()
        controller = harness.broker(0)
        assert elect(controller, "orders-0", "orders-1", "lonely-0", "unknown-3") == {
            "orders-0": "PREFERRED_LEADER_NOT_AVAILABLE",
            "orders-1": "ELECTION_NOT_NEEDED",
            "lonely-0": "PREFERRED_LEADER_NOT_AVAILABLE",
            "unknown-3": "UNKNOWN_TOPIC_OR_PARTITION",
        }
        assert elect(controller)["orders-1"] == "ELECTION_NOT_NEEDED", "no list asks for all"
        assert elect(controller, "orders-0", "lonely-0", election_type=ElectionType.UNCLEAN) == {
            "orders-0": "ELECTION_NOT_NEEDED",
            "lonely-0": "ELIGIBLE_LEADERS_NOT_AVAILABLE",
        }
        # Kafka's tool prints this to the administrator.
        refused = controller.run(controller.controller.elect_leaders([tp("orders-0")], ElectionType.PREFERRED))[
            tp("orders-0")
        ]
        assert isinstance(refused, ApiError)
        strategy = "PreferredReplicaPartitionLeaderElectionStrategy"
        reason = f"Failed to elect leader for partition orders-0 under strategy {strategy}"
        assert refused.message == reason


@pytest.mark.spec("PE-3", "PSM-18")
def test_elect_leaders_may_elect_an_unclean_leader() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2]})
        harness.broker(2).crash()
        harness.broker(1).crash()
        harness.broker(2).start()
        harness.settle()
        controller = harness.broker(0)
        assert elect(controller, "orders-0") == {"orders-0": "PREFERRED_LEADER_NOT_AVAILABLE"}
        assert elect(controller, "orders-0", election_type=ElectionType.UNCLEAN) == {"orders-0": 2}
        known = harness.state("orders", 0)
        assert isinstance(known, LeaderIsrAndControllerEpoch)
        assert (known.leader_and_isr.isr, known.leader_and_isr.leader_recovery_state) == ((2,), 1)


@pytest.mark.spec("PE-6")
def test_preferred_election_znode_is_handled_each_time_it_is_created() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2]})
        for _ in range(2):
            harness.write_znode(
                "/admin/preferred_replica_election", b'{"version":1,"partitions":[{"topic":"orders","partition":0}]}'
            )
            assert "/admin/preferred_replica_election" not in harness.znodes()
        deletions = writes_to(harness, "/admin/preferred_replica_election").count(OpKind.DELETE)
        assert deletions == 2


@pytest.mark.spec("PE-1", "EQ-6")
def test_elect_leaders_on_an_inactive_controller_is_refused() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        assert elect(harness.broker(1), "orders-0") == {"orders-0": "NOT_CONTROLLER"}
        assert elect(harness.broker(1)) == {}


@pytest.mark.spec("CS-5", "CS-6", "CS-7", "BUG-13")
def test_controlled_shutdown_is_refused_with_a_reason() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        controller, other = harness.broker(0), harness.broker(1)

        def leave(member: HarnessBroker, broker: int, epoch: int) -> Errors:
            return member.run(member.controller.controlled_shutdown(BrokerId(broker), epoch))[0]

        assert leave(other, 2, harness.broker(2).epoch) is Errors.STALE_CONTROLLER_EPOCH
        assert leave(controller, 2, harness.broker(2).epoch - 1) is Errors.STALE_BROKER_EPOCH
        assert leave(controller, 9, 5) is Errors.UNKNOWN_SERVER_ERROR
        assert leave(controller, 9, -1) is Errors.BROKER_NOT_AVAILABLE
        assert leave(controller, 2, -1) is Errors.NONE
        assert controller.controller.is_active


@pytest.mark.spec("CS-5", "EL-14")
def test_controlled_shutdown_on_a_deposed_controller_is_refused() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2]})
        harness.depose()
        controller = harness.broker(0)
        leaving = controller.controller.controlled_shutdown(BrokerId(1), harness.broker(1).epoch)
        assert controller.run(leaving) == (Errors.STALE_CONTROLLER_EPOCH, ())


@pytest.mark.spec("PSM-9", "PE-4")
def test_election_of_a_partition_whose_state_was_deleted_by_hand() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2]})
        harness.broker(1).crash()
        harness.broker(1).start()
        harness.operator.run(harness.operator.client.write(Delete("/brokers/topics/orders/partitions/0/state")))
        assert elect(harness.broker(0), "orders-0") == {"orders-0": "PREFERRED_LEADER_NOT_AVAILABLE"}


@pytest.mark.spec("CS-11")
def test_controlled_shutdown_lists_remaining_leaderships() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2], 1: [1]})
        harness.broker(2).crash()
        controller = harness.broker(0)
        leaving = controller.controller.controlled_shutdown(BrokerId(1), harness.broker(1).epoch)
        assert controller.run(leaving) == (Errors.NONE, (TopicPartition("orders", 0),))


# ------------------------------------------------------------------ interruptions


def leaders(harness: ControllerHarness, assignment: Mapping[int, object]) -> dict[int, LeaderIsrAndControllerEpoch]:
    found = {}
    for partition in assignment:
        known = harness.state("orders", partition)
        assert isinstance(known, LeaderIsrAndControllerEpoch)
        found[partition] = known
    return found


def fail_a_broker_and_the_controller(kill_at: int, *, after: bool) -> int:
    """Fail broker 1, then the controller: before its nth request to ZooKeeper after that, or after the response to it.

    Returns the number of requests of an uninterrupted controller if `kill_at` is 0.
    """
    with ControllerHarness(electable=(0, 2), brokers=(1, 3)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [1, 2, 3], 1: [0, 1, 3], 2: [3, 1, 2], 3: [1, 0, 2]})
        link, controller = harness.zookeeper.link("broker-0"), harness.broker(0)
        first = link.requests
        session = controller.client.session_id

        def kill(_: int) -> None:
            if link.requests - first >= kill_at and controller.node.alive:
                controller.process.kill()
                harness.loop.call_later(
                    0.05, lambda: harness.zookeeper.expire(session), context=harness.zookeeper.context
                )

        if kill_at:
            if after:
                link.after_answer = kill
            else:
                link.before_request = kill
        harness.broker(1).crash()
        harness.settle(3_000)
        took = link.requests - first
        for partition, known in leaders(harness, {0: 0, 1: 1, 2: 2, 3: 3}).items():
            state = known.leader_and_isr
            assert state.leader in state.isr, f"orders-{partition} interrupted at {kill_at}: {known}"
            assert harness.broker(state.leader).node.alive
            assert BrokerId(1) not in state.isr
            name = f"orders-{partition}"
            requests = harness.broker(state.leader).requests()
            last = [request for request in requests if name in partitions_of(request)][-1]
            assert not isinstance(last, StopReplicaSent)
            (received,) = (received for received in last.states if received.partition == name)
            assert (received.leader, received.epoch) == (state.leader, state.leader_epoch)
        return took


@pytest.mark.spec("RA-12", "EL-12", "P1", "P5")
def test_successor_reaches_a_safe_state_wherever_the_controller_crashed() -> None:
    requests = fail_a_broker_and_the_controller(0, after=False)
    assert requests >= 3
    for number in range(1, requests + 1):
        for after in (False, True):
            fail_a_broker_and_the_controller(number, after=after)


@pytest.mark.spec("D18")
def test_every_point_is_reached() -> None:
    with ControllerHarness(electable=(0, 2), brokers=(1,)) as harness:
        harness.start()
        harness.create_topic("orders", SIX)
        harness.write_znode("/brokers/topics/direct", b'{"version":1,"partitions":{"0":[1,2]}}')
        controller = harness.broker(0)
        topic_id = harness.operator.run(harness.operator.zk.topics.assignments(["orders"]))["orders"].topic_id
        assert topic_id is not None
        alone = AlterPartitionRequestPartitionData(
            partition_index=0,
            new_isr_with_epochs=(AlterPartitionBrokerState(broker_id=0), AlterPartitionBrokerState(broker_id=1)),
        )
        topic = AlterPartitionRequestTopicData(topic_id=topic_id, partitions=(alone,))
        request = AlterPartitionRequest(broker_id=0, broker_epoch=controller.epoch, topics=(topic,))
        controller.run(controller.controller.alter_partition(request, 3))
        harness.write_znode(
            "/admin/reassign_partitions",
            b'{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[0,1,2]}]}',
        )
        delete_two_topics_one_of_which_is_ineligible(harness)
        controller.run(controller.controller.allocate_producer_ids(BrokerId(1), harness.broker(1).epoch))
        controller.run(controller.controller.controlled_shutdown(BrokerId(1), harness.broker(1).epoch))
        controller.run(force(controller, ForcedResignation("test")))
        harness.settle()
        passed = {name for broker in harness.brokers.values() for name in broker.points.passed}
        assert passed == set(POINTS)


def delete_two_topics_one_of_which_is_ineligible(harness: ControllerHarness) -> None:
    """Delete `gone` and `deleted`; broker 2 refuses to delete the latter, whose added partitions are not created."""

    def refuse(message: Message) -> Message:
        return answer_stop_replica(message, 56) if isinstance(message, StopReplicaRequest) else answer_none(message)

    harness.create_topic("gone", {0: [2]})
    harness.write_znode("/admin/delete_topics/gone", b"")
    assert [path for path in harness.znodes() if "gone" in path] == []
    harness.broker(2).answer = refuse
    harness.create_topic("deleted", {0: [2]})
    harness.write_znode("/admin/delete_topics/deleted", b"")
    harness.add_partitions("deleted", {0: [2], 1: [2]})
    assert b'"1"' not in (harness.znodes()["/brokers/topics/deleted"] or b"")
    harness.broker(2).answer = answer_none


async def notify(broker: HarnessBroker, notification: WatchFired) -> None:
    broker.controller.notified(notification)


async def force(broker: HarnessBroker, event: ControllerEvent) -> None:
    """Queue `event`, as a failure does."""
    broker.controller._event_manager.put(event)
